// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lt.h"

namespace ferrite::cublaslt {

std::shared_ptr<const Library> open(const std::string& name) {
  const std::string advice = "install cuBLAS of CUDA 12 or 13, or take the plugin out of the manifest";
  const auto library = name.empty()
                           ? cuda_library::SharedLibrary({"libcublasLt.so.13", "libcublasLt.so.12"}, advice)
                           : cuda_library::SharedLibrary({name}, advice);
  auto result = std::make_shared<Library>();
  auto& f = *result;
  library.find("cublasLtGetVersion", f.version);
  constexpr size_t of_major = 10000, of_minor = 100, least = 12, most = 13;
  const size_t version = f.version();
  f.text = std::to_string(version / of_major) + "." + std::to_string(version % of_major / of_minor) + "." +
           std::to_string(version % of_minor);
  if (version / of_major < least || version / of_major > most)
    throw cuda_library::Unavailable{
        "FE-P86", library.name() + " is version " + f.text + ", and 12 or 13 is needed; " + advice};
  library.find("cublasLtCreate", f.create);
  library.find("cublasLtDestroy", f.destroy);
  library.find("cublasLtGetStatusName", f.status_name);
  library.find("cublasLtMatrixLayoutCreate", f.layout_create);
  library.find("cublasLtMatrixLayoutDestroy", f.layout_destroy);
  library.find("cublasLtMatrixLayoutSetAttribute", f.layout_set);
  library.find("cublasLtMatmulDescCreate", f.product_create);
  library.find("cublasLtMatmulDescDestroy", f.product_destroy);
  library.find("cublasLtMatmulDescSetAttribute", f.product_set);
  library.find("cublasLtMatmulPreferenceCreate", f.wishes_create);
  library.find("cublasLtMatmulPreferenceDestroy", f.wishes_destroy);
  library.find("cublasLtMatmulPreferenceSetAttribute", f.wishes_set);
  library.find("cublasLtMatmulAlgoGetHeuristic", f.search);
  library.find("cublasLtMatmul", f.multiply);
  return result;
}

}  // namespace ferrite::cublaslt
