// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cuBLASLt without a device: it multiplies in the host's memory, which is that of the fake driver's devices,
// by its columns and in f64. FAKE_LIBRARY_EPILOGUE=0: there are no algorithms with epilogues;
// FAKE_LIBRARY_WORKSPACE: bytes that the first algorithm wants; FAKE_LIBRARY_VERSION: the library's.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "fake_library.h"

using fake::called, fake::load, fake::number, fake::setting, fake::store;

namespace {

constexpr int success = 0, not_initialised = 1, invalid_value = 7, execution_failed = 13, not_supported = 15;
constexpr int real_32f = 0, real_64f = 1;

struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t leading, batch = 0;
  int32_t batches = 1;
};
struct Product {
  int compute, scale;
  int32_t a_transposed = 0, b_transposed = 0, bias_type = -1;
  uint32_t epilogue = 1;
  const void* bias = nullptr;
  int64_t bias_batch = 0;
};
struct Preferences {
  uint64_t workspace = 0;
  uint32_t reductions = 7;  // all, as the library has it
  std::map<int, uint32_t> alignment;
};
struct Algorithm {
  uint64_t data[8];
};
struct Found {
  Algorithm algorithm;
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return number("FAKE_LIBRARY_VERSION", "130100"); }
#ifndef FAKE_EMPTY
int cublasLtCreate(void** handle) {
  *handle = new int;
  return called("create", not_initialised, "");
}
int cublasLtDestroy(void* handle) {
  delete static_cast<int*>(handle);
  return called("destroy", invalid_value, "");
}
const char* cublasLtGetStatusName(int status) {
  return status == not_initialised    ? "CUBLAS_STATUS_NOT_INITIALIZED"
         : status == execution_failed ? "CUBLAS_STATUS_EXECUTION_FAILED"
                                      : "CUBLAS_STATUS_INVALID_VALUE";
}
int cublasLtMatrixLayoutCreate(Layout** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  if (leading < static_cast<int64_t>(rows)) return invalid_value;
  *layout = new Layout{type, rows, columns, leading};
  return success;
}
int cublasLtMatrixLayoutDestroy(Layout* layout) {
  delete layout;
  return success;
}
int cublasLtMatrixLayoutSetAttribute(Layout* layout, int attribute, const void* value, size_t bytes) {
  if (attribute == 5 && bytes == 4)
    std::memcpy(&layout->batches, value, bytes);
  else if (attribute == 6 && bytes == 8)
    std::memcpy(&layout->batch, value, bytes);
  else
    return invalid_value;
  return success;
}
int cublasLtMatmulDescCreate(Product** product, int compute, int scale) {
  *product = new Product{compute, scale};
  return called("describe", invalid_value, " compute %d scale %d", compute, scale);
}
int cublasLtMatmulDescDestroy(Product* product) {
  delete product;
  return success;
}
int cublasLtMatmulDescSetAttribute(Product* product, int attribute, const void* value, size_t bytes) {
  const auto take = [&](auto& to) {
    if (bytes != sizeof to) return invalid_value;
    std::memcpy(&to, value, bytes);
    return success;
  };
  switch (attribute) {
    case 3: return take(product->a_transposed);
    case 4: return take(product->b_transposed);
    case 7: return take(product->epilogue);
    case 8: return take(product->bias);
    case 10: return take(product->bias_batch);
    case 26: return take(product->bias_type);
    default: return invalid_value;
  }
}
int cublasLtMatmulPreferenceCreate(Preferences** preferences) {
  *preferences = new Preferences;
  return success;
}
int cublasLtMatmulPreferenceDestroy(Preferences* preferences) {
  delete preferences;
  return success;
}
int cublasLtMatmulPreferenceSetAttribute(Preferences* preferences, int attribute, const void* value,
                                         size_t bytes) {
  if (attribute == 1 && bytes == 8)
    std::memcpy(&preferences->workspace, value, bytes);
  else if (attribute == 3 && bytes == 4)
    std::memcpy(&preferences->reductions, value, bytes);
  else if (attribute >= 5 && attribute <= 8 && bytes == 4)
    std::memcpy(&preferences->alignment[attribute], value, bytes);
  else
    return invalid_value;
  return success;
}
int cublasLtMatmulAlgoGetHeuristic(void*, Product* product, Layout* a, Layout* b, Layout* c, Layout* d,
                                   Preferences* preferences, int most, Found* found, int* count) {
  if (const int failed =
          called("search", not_supported, " %llu of %d, alignments %u %u %u %u",
                 static_cast<unsigned long long>(preferences->workspace), most, preferences->alignment[5],
                 preferences->alignment[6], preferences->alignment[7], preferences->alignment[8]))
    return failed;
  if (product->epilogue != 1 && setting("FAKE_LIBRARY_EPILOGUE", "1") == "0") return not_supported;
  const bool fits =
      (product->a_transposed ? a->rows : a->columns) == (product->b_transposed ? b->columns : b->rows) &&
      d->rows == (product->a_transposed ? a->columns : a->rows) &&
      d->columns == (product->b_transposed ? b->rows : b->columns) && c->rows == d->rows &&
      c->columns == d->columns && a->type == b->type && c->type == d->type;
  // Sums in the result's type are narrower than a kernel's.
  if (!fits || preferences->reductions != 2) return invalid_value;
  *count = 0;
  const size_t wanted = number("FAKE_LIBRARY_WORKSPACE", "0");
  for (uint64_t k = 0; k < 2 && *count < most; ++k) {
    const size_t workspace = k == 0 ? wanted : 0;
    if (workspace > preferences->workspace) continue;
    found[(*count)++] = {{{k + 1}}, workspace, success, 1, {}};
  }
  return success;
}
int cublasLtMatmul(void*, Product* product, const void* alpha, const void* a, Layout* al, const void* b,
                   Layout* bl, const void* beta, const void* c, Layout* cl, void* d, Layout* dl,
                   const Algorithm* algorithm, void* workspace, size_t workspace_bytes, void* stream) {
  const double scale = load(alpha, product->scale, 0), add = load(beta, product->scale, 0);
  if (const int failed = called(
          "multiply", execution_failed,
          " m %llu n %llu k %llu types %d %d transposed %d %d epilogue %u bias %d alpha %g beta %g "
          "batches %d "
          "algorithm %llu workspace %d %zu stream %d",
          dl->rows, dl->columns, product->a_transposed ? al->rows : al->columns, al->type, dl->type,
          product->a_transposed, product->b_transposed, product->epilogue, product->bias_type, scale, add,
          dl->batches, algorithm->data[0], workspace != nullptr, workspace_bytes, stream != nullptr))
    return failed;
  const auto depth = product->a_transposed ? al->rows : al->columns;
  const auto element = [](const void* data, const Layout& layout, bool transposed, uint64_t row,
                          uint64_t column) {
    if (transposed) std::swap(row, column);
    return load(data, layout.type, static_cast<int64_t>(row) + static_cast<int64_t>(column) * layout.leading);
  };
  const auto batch = [](auto* data, const Layout& layout, int k) {
    const int64_t bytes = layout.type == real_64f ? 8 : layout.type == real_32f ? 4 : 2;
    return static_cast<
               std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(data)>>, const char, char>*>(
               data) +
           k * layout.batch * bytes;
  };
  for (int k = 0; k < dl->batches; ++k)
    for (uint64_t column = 0; column < dl->columns; ++column)
      for (uint64_t row = 0; row < dl->rows; ++row) {
        double sum = 0;
        for (uint64_t step = 0; step < depth; ++step)
          sum += element(batch(a, *al, k), *al, product->a_transposed, row, step) *
                 element(batch(b, *bl, k), *bl, product->b_transposed, step, column);
        sum *= scale;
        if (add != 0) sum += add * element(batch(c, *cl, k), *cl, false, row, column);
        if (product->epilogue & 4)
          sum += load(product->bias, product->bias_type, static_cast<int64_t>(row) + k * product->bias_batch);
        if (product->epilogue & 2 && sum < 0) sum = 0;
        if (product->epilogue & 32)
          sum = 0.5 * sum * (1 + std::tanh(std::sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
        store(batch(d, *dl, k), dl->type,
              static_cast<int64_t>(row) + static_cast<int64_t>(column) * dl->leading, sum);
      }
  return success;
}
#endif
}
