// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lt.h"

namespace ferrite::cublaslt {

std::shared_ptr<const Library> open(const std::string& name) {
  const cuda_library::SharedLibrary library(
      name.empty() ? std::vector<std::string>{"libcublasLt.so.13", "libcublasLt.so.12"} : std::vector{name},
      "install cuBLAS of CUDA 12 or 13, or take the plugin out of the manifest");
  auto result = std::make_shared<Library>();
  auto& f = *result;
  library.find("cublasLtGetVersion", f.version);
  f.text = library.checked_version(f.version(), 12, 13);
  library.find("cublasLtCreate", f.create);
  library.find("cublasLtDestroy", f.destroy);
  library.find("cublasLtGetStatusName", f.status_name);
  library.find("cublasLtMatrixLayoutCreate", f.layout_create);
  library.find("cublasLtMatrixLayoutDestroy", f.layout_destroy);
  library.find("cublasLtMatrixLayoutSetAttribute", f.layout_set);
  library.find("cublasLtMatmulDescCreate", f.product_create);
  library.find("cublasLtMatmulDescDestroy", f.product_destroy);
  library.find("cublasLtMatmulDescSetAttribute", f.product_set);
  library.find("cublasLtMatmulPreferenceCreate", f.preference_create);
  library.find("cublasLtMatmulPreferenceDestroy", f.preference_destroy);
  library.find("cublasLtMatmulPreferenceSetAttribute", f.preference_set);
  library.find("cublasLtMatmulAlgoGetHeuristic", f.search);
  library.find("cublasLtMatmul", f.multiply);
  return result;
}

}  // namespace ferrite::cublaslt
