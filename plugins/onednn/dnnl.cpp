// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dnnl.h"

#include <dlfcn.h>

namespace ferrite::onednn {
namespace {

constexpr int major = 2, least_minor = 6;

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function)
    throw Unavailable{"FE-P86", std::string("the library has no function '") + name +
                                    "'; install libdnnl 2.6 (Debian: libdnnl2)"};
}

}  // namespace

std::shared_ptr<const Library> open(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = dlerror();
    throw Unavailable{"FE-P85",
                      std::string(reason ? reason : name + " cannot be opened") +
                          "; kernels are made without it. Install libdnnl 2.6 (Debian: libdnnl2), or "
                          "take the plugin out of the manifest"};
  }
  auto result = std::make_shared<Library>();
  auto& f = *result;
  find(handle, "dnnl_version", f.version);
  const auto& version = *f.version();
  f.text = std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
           std::to_string(version.patch);
  if (version.major != major || version.minor < least_minor)
    throw Unavailable{"FE-P86", name + " is version " + f.text + ", and 2.6 or a later 2 is needed"};
  find(handle, "dnnl_engine_create", f.engine_create);
  find(handle, "dnnl_engine_destroy", f.engine_destroy);
  find(handle, "dnnl_stream_create", f.stream_create);
  find(handle, "dnnl_stream_destroy", f.stream_destroy);
  find(handle, "dnnl_memory_desc_init_by_strides", f.memory_desc_init_by_strides);
  find(handle, "dnnl_memory_desc_init_by_tag", f.memory_desc_init_by_tag);
  find(handle, "dnnl_memory_desc_equal", f.memory_desc_equal);
  find(handle, "dnnl_memory_desc_get_size", f.memory_desc_get_size);
  find(handle, "dnnl_matmul_desc_init", f.matmul_desc_init);
  find(handle, "dnnl_dilated_convolution_forward_desc_init", f.dilated_convolution_forward_desc_init);
  find(handle, "dnnl_primitive_desc_create", f.primitive_desc_create);
  find(handle, "dnnl_primitive_desc_destroy", f.primitive_desc_destroy);
  find(handle, "dnnl_primitive_desc_query_md", f.primitive_desc_query_md);
  find(handle, "dnnl_primitive_desc_query", f.primitive_desc_query);
  find(handle, "dnnl_reorder_primitive_desc_create", f.reorder_primitive_desc_create);
  find(handle, "dnnl_primitive_create", f.primitive_create);
  find(handle, "dnnl_primitive_execute", f.primitive_execute);
  find(handle, "dnnl_primitive_destroy", f.primitive_destroy);
  find(handle, "dnnl_memory_create", f.memory_create);
  find(handle, "dnnl_memory_destroy", f.memory_destroy);
  find(handle, "dnnl_primitive_attr_create", f.primitive_attr_create);
  find(handle, "dnnl_primitive_attr_destroy", f.primitive_attr_destroy);
  find(handle, "dnnl_primitive_attr_set_post_ops", f.primitive_attr_set_post_ops);
  find(handle, "dnnl_primitive_attr_set_scratchpad_mode", f.primitive_attr_set_scratchpad_mode);
  find(handle, "dnnl_post_ops_create", f.post_ops_create);
  find(handle, "dnnl_post_ops_destroy", f.post_ops_destroy);
  find(handle, "dnnl_post_ops_append_sum", f.post_ops_append_sum);
  find(handle, "dnnl_post_ops_append_eltwise", f.post_ops_append_eltwise);
  // dlsym looks into what the library depends on, too: another OpenMP of the process is left alone.
  f.omp_get_max_threads = reinterpret_cast<int (*)()>(dlsym(handle, "omp_get_max_threads"));
  f.omp_set_num_threads = reinterpret_cast<void (*)(int)>(dlsym(handle, "omp_set_num_threads"));
  if (!f.omp_get_max_threads) f.omp_set_num_threads = nullptr;
  if (f.engine_create(&f.engine, dnnl::cpu_engine, 0) != dnnl::success)
    throw Unavailable{"FE-P86", name + " makes no engine for the CPU"};
  return result;
}

}  // namespace ferrite::onednn
