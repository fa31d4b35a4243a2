// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The form of the constant: Head, then an fe_argument_needs for each argument.
#include "launch_needs.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/GlobalVariable.h>

#include <bit>
#include <cstring>
#include <vector>

#include "ferrite/error.hpp"

namespace ferrite::cpu {

namespace {

constexpr int64_t layout = 1;

struct Head {
  int64_t layout, tasks, grain, workspace_bytes, arguments;
};

}  // namespace

std::string needs_symbol(std::string_view entry) { return std::string(entry) + ".needs"; }

void add_needs(llvm::Module& module, std::string_view entry, const LaunchNeeds& needs) {
  std::vector<uint64_t> words;
  for (const int64_t number : {layout, needs.tasks, needs.grain, needs.workspace_bytes,
                               static_cast<int64_t>(needs.arguments.size())})
    words.push_back(static_cast<uint64_t>(number));
  for (const auto& argument : needs.arguments) {
    words.push_back(static_cast<uint64_t>(argument.bytes));
    words.push_back(argument.written);
  }
  auto* value = llvm::ConstantDataArray::get(module.getContext(), words);
  auto* symbol = new llvm::GlobalVariable(module, value->getType(), true, llvm::GlobalValue::ExternalLinkage,
                                          value, needs_symbol(entry));
  symbol->setAlignment(llvm::Align(alignof(Head)));
}

LaunchNeeds read_needs(const void* data) {
  static_assert(std::endian::native == std::endian::little, "words of the constant are read as two fields");
  Head head;
  std::memcpy(&head, data, sizeof head);
  if (head.layout != layout || head.arguments < 0)
    fail("ferrite.cpu/link", "the code was made by another version; compile it again");
  const auto* arguments =
      reinterpret_cast<const fe_argument_needs*>(static_cast<const std::byte*>(data) + sizeof head);
  return {head.tasks, head.grain, head.workspace_bytes, {arguments, static_cast<size_t>(head.arguments)}};
}

}  // namespace ferrite::cpu
