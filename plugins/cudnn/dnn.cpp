// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dnn.h"

namespace ferrite::cudnn {

std::shared_ptr<const Library> open(const std::string& name) {
  const cuda_library::SharedLibrary library(
      name.empty() ? std::vector<std::string>{"libcudnn.so.9", "libcudnn_graph.so.9"} : std::vector{name},
      "install cuDNN 9, or take the plugin out of the manifest");
  auto result = std::make_shared<Library>();
  auto& f = *result;
  library.find("cudnnGetVersion", f.version);
  f.text = library.checked_version(f.version(), 9, 9);
  library.find("cudnnCreate", f.create);
  library.find("cudnnDestroy", f.destroy);
  library.find("cudnnSetStream", f.set_stream);
  library.find("cudnnGetErrorString", f.error_text);
  library.find("cudnnBackendCreateDescriptor", f.descriptor_create);
  library.find("cudnnBackendDestroyDescriptor", f.descriptor_destroy);
  library.find("cudnnBackendFinalize", f.descriptor_finish);
  library.find("cudnnBackendSetAttribute", f.set);
  library.find("cudnnBackendGetAttribute", f.get);
  library.find("cudnnBackendExecute", f.execute);
  return result;
}

}  // namespace ferrite::cudnn
