// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dnnl.h"

#include "ferrite/dynamic_library.hpp"

namespace ferrite::onednn {
namespace {

constexpr int major = 2, least_minor = 6;

template <class Function>
void find(const DynamicLibrary& library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(library.symbol(name));
  if (!function)
    throw Unavailable{"FE-P86", std::string("the library has no function '") + name +
                                    "'; install libdnnl 2.6 (Debian: libdnnl2)"};
}

}  // namespace

std::shared_ptr<const Library> open(const std::string& name) {
  const DynamicLibrary library({&name, 1});
  if (!library.is_open())
    throw Unavailable{"FE-P85", library.reasons() +
                                    "; kernels are made without it. Install libdnnl 2.6 (Debian: libdnnl2), "
                                    "or take the plugin out of the manifest"};
  auto result = std::make_shared<Library>();
  auto& f = *result;
  find(library, "dnnl_version", f.version);
  const auto& version = *f.version();
  f.text = std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
           std::to_string(version.patch);
  if (version.major != major || version.minor < least_minor)
    throw Unavailable{"FE-P86", name + " is version " + f.text + ", and 2.6 or a later 2 is needed"};
  find(library, "dnnl_engine_create", f.engine_create);
  find(library, "dnnl_engine_destroy", f.engine_destroy);
  find(library, "dnnl_stream_create", f.stream_create);
  find(library, "dnnl_stream_destroy", f.stream_destroy);
  find(library, "dnnl_memory_desc_init_by_strides", f.memory_desc_init_by_strides);
  find(library, "dnnl_memory_desc_init_by_tag", f.memory_desc_init_by_tag);
  find(library, "dnnl_memory_desc_equal", f.memory_desc_equal);
  find(library, "dnnl_memory_desc_get_size", f.memory_desc_get_size);
  find(library, "dnnl_matmul_desc_init", f.matmul_desc_init);
  find(library, "dnnl_dilated_convolution_forward_desc_init", f.dilated_convolution_forward_desc_init);
  find(library, "dnnl_primitive_desc_create", f.primitive_desc_create);
  find(library, "dnnl_primitive_desc_destroy", f.primitive_desc_destroy);
  find(library, "dnnl_primitive_desc_query_md", f.primitive_desc_query_md);
  find(library, "dnnl_primitive_desc_query", f.primitive_desc_query);
  find(library, "dnnl_reorder_primitive_desc_create", f.reorder_primitive_desc_create);
  find(library, "dnnl_primitive_create", f.primitive_create);
  find(library, "dnnl_primitive_execute", f.primitive_execute);
  find(library, "dnnl_primitive_destroy", f.primitive_destroy);
  find(library, "dnnl_memory_create", f.memory_create);
  find(library, "dnnl_memory_destroy", f.memory_destroy);
  find(library, "dnnl_primitive_attr_create", f.primitive_attr_create);
  find(library, "dnnl_primitive_attr_destroy", f.primitive_attr_destroy);
  find(library, "dnnl_primitive_attr_set_post_ops", f.primitive_attr_set_post_ops);
  find(library, "dnnl_primitive_attr_set_scratchpad_mode", f.primitive_attr_set_scratchpad_mode);
  find(library, "dnnl_post_ops_create", f.post_ops_create);
  find(library, "dnnl_post_ops_destroy", f.post_ops_destroy);
  find(library, "dnnl_post_ops_append_sum", f.post_ops_append_sum);
  find(library, "dnnl_post_ops_append_eltwise", f.post_ops_append_eltwise);
  // Use the OpenMP that the library depends on, not another one of the process.
  f.omp_get_max_threads = reinterpret_cast<int (*)()>(library.symbol("omp_get_max_threads"));
  f.omp_set_num_threads = reinterpret_cast<void (*)(int)>(library.symbol("omp_set_num_threads"));
  if (!f.omp_get_max_threads) f.omp_set_num_threads = nullptr;
  if (f.engine_create(&f.engine, dnnl::cpu_engine, 0) != dnnl::success)
    throw Unavailable{"FE-P86", name + " makes no engine for the CPU"};
  return result;
}

}  // namespace ferrite::onednn
