// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library's description of a product, the search for algorithms, and the calls.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "lt.h"
#include "product.h"

namespace ferrite::cublaslt {

struct Destroy {
  int (*function)(lt::Handle) = nullptr;
  void operator()(lt::Handle handle) const { function(handle); }
};
using Owned = std::unique_ptr<void, Destroy>;

/// Callable from any thread.
class Matmul {
 public:
  /// Throws ferrite.cublaslt/failed.
  Matmul(std::shared_ptr<const Library> library, Product product);

  const Product& product() const { return product_; }
  /// Algorithms whose workspace is at most this large, in the library's order of preference; may be empty.
  /// The device's context must be the calling thread's.
  std::vector<lt::Found> search(lt::Handle library, int64_t most_workspace, int most) const;
  /// Launches the product on the stream.
  void run(lt::Handle library, const lt::Algorithm& algorithm, void* const* buffers, void* workspace,
           int64_t workspace_bytes, void* stream);

 private:
  void check(int status, const char* what) const;
  Owned layout(const Matrix& matrix, DType type) const;
  void set(const char* what, int attribute, const auto& value);

  std::shared_ptr<const Library> library_;
  const Product product_;
  Owned description_, a_, b_, c_, d_;
  std::mutex mutex_;  // the description holds the bias pointer of a launch
};

}  // namespace ferrite::cublaslt
