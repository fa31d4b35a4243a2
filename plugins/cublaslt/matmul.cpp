// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "matmul.h"

#include <utility>

#include "ferrite/error.hpp"

namespace ferrite::cublaslt {
namespace {

int type_of(DType type) {
  return type == f16    ? lt::real_16f
         : type == bf16 ? lt::real_16bf
         : type == f64  ? lt::real_64f
                        : lt::real_32f;
}

}  // namespace

void Matmul::check(int status, const char* what) const {
  if (status == lt::success) return;
  const char* name = library_->status_name(status);
  throw Failure(FE_EDEVICE, "ferrite.cublaslt/failed",
                "cuBLASLt: " + std::string(what) + " gives " + (name ? name : "an unknown status") + " (" +
                    std::to_string(status) + ") for a " + product_.text());
}

Owned Matmul::layout(const Matrix& matrix, DType type) const {
  lt::Handle made = nullptr;
  check(library_->layout_create(&made, type_of(type), static_cast<uint64_t>(matrix.rows),
                                static_cast<uint64_t>(matrix.columns), matrix.leading),
        "describing a matrix");
  Owned result(made, {library_->layout_destroy});
  const auto batches = static_cast<int32_t>(product_.batches);
  check(library_->layout_set(made, lt::layout_batches, &batches, sizeof batches), "describing a batch");
  check(library_->layout_set(made, lt::layout_batch_stride, &matrix.batch, sizeof matrix.batch),
        "describing a batch");
  return result;
}

void Matmul::set(const char* what, int attribute, const auto& value) {
  check(library_->product_set(description_.get(), attribute, &value, sizeof value), what);
}

Matmul::Matmul(std::shared_ptr<const Library> library, Product product)
    : library_(std::move(library)), product_(std::move(product)) {
  const auto& p = product_;
  const bool wide = p.type == f64;
  const int compute = wide ? lt::compute_64f : p.tf32 ? lt::compute_32f_tf32 : lt::compute_32f;
  lt::Handle made = nullptr;
  check(library_->product_create(&made, compute, wide ? lt::real_64f : lt::real_32f), "describing a product");
  description_ = Owned(made, {library_->product_destroy});
  set("transposing an operand", lt::product_a_transposed,
      p.a.transposed ? lt::transposed : lt::not_transposed);
  set("transposing an operand", lt::product_b_transposed,
      p.b.transposed ? lt::transposed : lt::not_transposed);
  set("choosing the epilogue", lt::product_epilogue, p.epilogue);
  if (p.bias.argument >= 0) {
    set("describing the bias", lt::product_bias_type, static_cast<int32_t>(type_of(p.result)));
    set("describing the bias", lt::product_bias_stride, p.bias_batch);
    // The pointer is never read here: the library only needs the alignment of the bias.
    set("describing the bias", lt::product_bias,
        reinterpret_cast<void*>(p.alignment(&Product::Offsets::bias, p.result)));
  }
  a_ = layout(p.a, p.type);
  b_ = layout(p.b, p.type);
  c_ = layout(p.c, p.result);
  d_ = layout(p.d, p.result);
}

std::vector<lt::Found> Matmul::search(lt::Handle library, int64_t most_workspace, int most) const {
  lt::Handle preferences = nullptr;
  check(library_->preference_create(&preferences), "describing the preferences");
  const auto set_preference = [&](int attribute, auto value) {
    return library_->preference_set(preferences, attribute, &value, sizeof value);
  };
  const auto& p = product_;
  using Offsets = Product::Offsets;
  const auto alignment = [&](int64_t Offsets::* operand, DType type) {
    return static_cast<uint32_t>(p.alignment(operand, type));
  };
  std::vector<lt::Found> found(static_cast<size_t>(most));
  int status = set_preference(lt::preference_workspace, static_cast<uint64_t>(most_workspace));
  // With split-K, sum the parts in the accumulator type, never in the result's type.
  if (status == lt::success) status = set_preference(lt::preference_reductions, lt::reduce_in_type_of_sums);
  for (const auto& [attribute, value] :
       {std::pair(lt::preference_alignment_a, alignment(&Offsets::a, p.type)),
        std::pair(lt::preference_alignment_b, alignment(&Offsets::b, p.type)),
        std::pair(lt::preference_alignment_c, alignment(&Offsets::c, p.result)),
        std::pair(lt::preference_alignment_d, alignment(&Offsets::d, p.result))})
    if (status == lt::success) status = set_preference(attribute, value);
  int count = 0, searched = lt::success;
  if (status == lt::success)
    searched = library_->search(library, description_.get(), a_.get(), b_.get(), c_.get(), d_.get(),
                                preferences, most, found.data(), &count);
  library_->preference_destroy(preferences);
  check(status, "describing the preferences");
  // There is no algorithm, or none for these types; the library reports that in several ways.
  found.resize(searched == lt::success ? static_cast<size_t>(count) : 0);
  std::erase_if(found, [](const lt::Found& each) { return each.status != lt::success; });
  return found;
}

void Matmul::run(lt::Handle library, const lt::Algorithm& algorithm, void* const* buffers, void* workspace,
                 int64_t workspace_bytes, void* stream) {
  const auto& p = product_;
  const auto at = [&](const contraction::Operand& operand, int64_t offset, DType type) {
    return static_cast<char*>(buffers[operand.argument]) + offset * (bits_of(type) / 8);
  };
  const double alpha64 = 1, beta64 = p.has_c ? 1 : 0;
  const auto alpha32 = static_cast<float>(alpha64), beta32 = static_cast<float>(beta64);
  const bool wide = p.type == f64;
  std::unique_lock<std::mutex> lock;
  if (p.bias.argument >= 0) lock = std::unique_lock(mutex_);
  for (int64_t launch = 0; launch < p.launches(); ++launch) {
    const auto offsets = p.offsets(launch);
    if (p.bias.argument >= 0) set("naming the bias", lt::product_bias, at(p.bias, offsets.bias, p.result));
    check(library_->multiply(
              library, description_.get(), wide ? static_cast<const void*>(&alpha64) : &alpha32,
              at(p.a.operand, offsets.a, p.type), a_.get(), at(p.b.operand, offsets.b, p.type), b_.get(),
              wide ? static_cast<const void*>(&beta64) : &beta32, at(p.c.operand, offsets.c, p.result),
              c_.get(), at(p.d.operand, offsets.d, p.result), d_.get(), &algorithm, workspace,
              static_cast<size_t>(workspace_bytes), stream),
          "the product");
  }
}

}  // namespace ferrite::cublaslt
