# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The library of all backends of a self-contained build. It holds the archives of LLVM, of which nothing is
# visible from outside: it exports the entry of each backend and nothing else.
add_library(ferrite_llvm_archives INTERFACE)
set(ferrite_llvm $<BUILD_INTERFACE:ferrite_llvm_archives>)
# LLVM's targets name the shared library of zstd, the finder has made the archive's.
if(NOT TARGET zstd::libzstd_shared)
  add_library(zstd::libzstd_shared INTERFACE IMPORTED)
  set_target_properties(zstd::libzstd_shared PROPERTIES INTERFACE_LINK_LIBRARIES zstd::libzstd_static)
endif()

set(ferrite_bundle_exports ${CMAKE_CURRENT_SOURCE_DIR}/backends.map)
add_library(ferrite_backends SHARED)
target_compile_options(ferrite_backends PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
target_link_libraries(ferrite_backends PRIVATE ferrite_warnings)
target_link_options(ferrite_backends PRIVATE
  LINKER:--exclude-libs,ALL LINKER:-z,defs LINKER:--version-script=${ferrite_bundle_exports})
set_target_properties(ferrite_backends PROPERTIES LINK_DEPENDS ${ferrite_bundle_exports} INSTALL_RPATH "")
ferrite_install(runtime ferrite_backends LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)

# ferrite_bundle_backend(PLUGIN LLVM_TARGET...): the code of a backend's plugin, and the targets of LLVM that
# it generates code for.
function(ferrite_bundle_backend plugin)
  target_sources(ferrite_backends PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/plugin.cpp)
  # One library has one function of a name: each plugin's entry gets one of its own, which entry.c calls.
  set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/plugin.cpp TARGET_DIRECTORY ferrite_backends
    PROPERTIES COMPILE_DEFINITIONS fe_plugin_entry_v0=${plugin}_entry)
  target_link_libraries(ferrite_backends PRIVATE ${plugin}_backend)
  set_property(GLOBAL APPEND PROPERTY FERRITE_LLVM_TARGETS ${ARGN})
endfunction()

# ferrite_finish_bundle(): called when all backends have said which targets they need.
function(ferrite_finish_bundle)
  get_property(targets GLOBAL PROPERTY FERRITE_LLVM_TARGETS)
  llvm_map_components_to_libnames(archives passes orcjit lto dtlto option mcparser bitwriter object
    ${targets})
  target_link_libraries(ferrite_llvm_archives INTERFACE ${archives})
  # LLVM's linker and `InitializeAll...` name every target that LLVM was built with. Those that no backend
  # needs get empty functions, and their code stays out; asked for such a target, LLVM says that it does not
  # know it.
  set(absent ${LLVM_TARGETS_TO_BUILD})
  list(REMOVE_ITEM absent ${targets})
  set(text "")
  foreach(target ${absent})
    foreach(part TargetInfo Target TargetMC AsmPrinter AsmParser)
      set(name LLVMInitialize${target}${part})
      string(APPEND text "void ${name}(void);\nvoid ${name}(void) {}\n")
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/absent_targets.c CONTENT "${text}" @ONLY)
  target_sources(ferrite_backends PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/absent_targets.c)
endfunction()
