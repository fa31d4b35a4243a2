// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dnn.h"

namespace ferrite::cudnn {

std::shared_ptr<const Library> open(const std::string& name) {
  const std::string advice = "install cuDNN 9, or take the plugin out of the manifest";
  const auto library = name.empty()
                           ? cuda_library::SharedLibrary({"libcudnn.so.9", "libcudnn_graph.so.9"}, advice)
                           : cuda_library::SharedLibrary({name}, advice);
  auto result = std::make_shared<Library>();
  auto& f = *result;
  library.find("cudnnGetVersion", f.version);
  constexpr size_t of_major = 10000, of_minor = 100, needed = 9;
  const size_t version = f.version();
  f.text = std::to_string(version / of_major) + "." + std::to_string(version % of_major / of_minor) + "." +
           std::to_string(version % of_minor);
  if (version / of_major != needed)
    throw cuda_library::Unavailable{
        "FE-P86", library.name() + " is version " + f.text + ", and 9 is needed; " + advice};
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
