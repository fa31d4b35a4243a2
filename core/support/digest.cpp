// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <new>
#include <stdexcept>

namespace ferrite::core {

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

namespace {

/// The functions of OpenSSL fail if memory runs out or the machine's policy forbids the algorithm. Neither
/// can be handled here.
void require(bool done) {
  if (!done) throw std::runtime_error("SHA-256 is not available from the system's cryptographic library");
}

/// Fetched once: EVP_MD_fetch is slow. The pointer is never freed.
const EVP_MD* algorithm() {
  static const EVP_MD* const found = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  require(found != nullptr);
  return found;
}

}  // namespace

void Digest::prepare() { algorithm(); }

Digest::Digest() : state_(std::make_unique<State>()) {
  if (!state_->context) throw std::bad_alloc();
  require(EVP_DigestInit_ex(state_->context, algorithm(), nullptr) == 1);
}

Digest::~Digest() = default;

void Digest::add(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> value{};
  unsigned int size = 0;
  require(EVP_DigestFinal_ex(state_->context, value.data(), &size) == 1);
  std::string text;
  for (unsigned int k = 0; k < size; ++k) text += fmt::format("{:02x}", value[k]);
  return text;
}

std::string sha256(std::string_view text) {
  Digest digest;
  digest.add(std::as_bytes(std::span(text)));
  return digest.hex();
}

std::string sha256(std::initializer_list<std::string_view> parts) {
  Digest digest;
  for (const auto part : parts) {
    const std::string size = fmt::format("{}:", part.size());
    digest.add(std::as_bytes(std::span(size)));
    digest.add(std::as_bytes(std::span(part)));
  }
  return digest.hex();
}

}  // namespace ferrite::core
