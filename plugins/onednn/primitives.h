// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// oneDNN's primitives for a problem, divided into tasks that the host's pool distributes; each task runs on
// one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contraction/problem.h"
#include "dnnl.h"
#include "ferrite/provider.hpp"

namespace ferrite::onednn {

using contraction::Activation, contraction::Loop, contraction::Operand, contraction::Problem,
    contraction::Role, contraction::most_addends;

/// Callable from any thread once it is loaded.
class Computation {
 public:
  /// Chooses implementations and layouts. Declines problems that only oneDNN's reference implementation
  /// computes. `pack`: b may have any layout; `packed`: it has this one.
  Computation(std::shared_ptr<const Library> library, const Problem& problem, bool pack,
              const dnnl::MemoryDesc* packed = nullptr);
  ~Computation();

  /// The layout requested for b, if it differs from the kernel's, and the number of column chunks with one
  /// array each.
  const dnnl::MemoryDesc& weights() const { return weights_; }
  std::vector<Role> weight_roles() const;
  int64_t column_chunks() const { return column_chunks_; }

  int64_t tasks() const { return tasks_; }
  int64_t workspace_bytes() const { return workspace_bytes_; }
  std::string text() const;  ///< the choices, for listings
  /// Estimate for one thread with vectors of that many bytes, at the rates of the code generators' estimates.
  double seconds(int64_t vector_bytes) const;

  /// Creates the primitives. Throws ferrite.onednn/failed.
  void load();
  /// Runs a range of tasks; `workspace` belongs to this worker.
  void run(void* const* buffers, int64_t begin, int64_t end, void* workspace) const;

 private:
  struct PrimitivePlan;
  struct Part {  ///< a range of the result's rows
    size_t plan = 0;
    int64_t first = 0, input = 0;
  };
  void plan_product(bool pack, const dnnl::MemoryDesc* packed);
  void plan_convolution(const dnnl::MemoryDesc* packed);
  void run_task(void* const* buffers, int64_t task, char* workspace) const;

  std::shared_ptr<const Library> library_;
  Problem problem_;
  dnnl::MemoryDesc weights_{};
  std::vector<std::unique_ptr<PrimitivePlan>> plans_;
  std::vector<Part> parts_;
  int64_t column_chunks_ = 1, columns_ = 1;  // number of chunks, and columns of each
  int64_t tasks_ = 1, workspace_bytes_ = 0;
};

}  // namespace ferrite::onednn
