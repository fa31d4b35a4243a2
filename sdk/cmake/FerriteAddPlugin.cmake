# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ferrite_add_plugin(NAME SOURCES file... [LIBRARIES target...] [DESCRIPTOR file [RULES file...]] [INSTALL])
#   builds a plugin: a module that exports the one entry symbol and nothing else, against Ferrite::sdk alone.
#   DESCRIPTOR  <id>.plugin.toml, put beside the library with the rule files that it names
#   INSTALL     installs all of them where Ferrite looks for plugins: lib/ferrite/plugins below the prefix
#   FERRITE_PLUGIN_DIRECTORY, where it is set, is the folder that the plugin is built into.
include(GNUInstallDirs)
set(FERRITE_PLUGIN_EXPORTS ${CMAKE_CURRENT_LIST_DIR}/plugin.map)
function(ferrite_add_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "INSTALL" "DESCRIPTOR" "SOURCES;LIBRARIES;RULES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "ferrite_add_plugin(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "ferrite_add_plugin(${name}): SOURCES is empty")
  endif()
  add_library(${name} MODULE ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE Ferrite::sdk ${arg_LIBRARIES})
  if(TARGET ferrite_warnings)
    target_link_libraries(${name} PRIVATE ferrite_warnings)
  endif()
  # A plugin finds its libraries where the system does: nothing of the build tree stays in what is installed.
  set_target_properties(${name} PROPERTIES PREFIX "" CXX_STANDARD 20 CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    INSTALL_RPATH "" LINK_DEPENDS ${FERRITE_PLUGIN_EXPORTS})
  set(directory ${CMAKE_CURRENT_BINARY_DIR})
  if(FERRITE_PLUGIN_DIRECTORY)
    set(directory ${FERRITE_PLUGIN_DIRECTORY})
  endif()
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${directory})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-gnu-unique>)
  endif()
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,--version-script=${FERRITE_PLUGIN_EXPORTS})
  # Sanitizer runtimes are resolved by the program, so a plugin built with one has undefined symbols.
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  foreach(file IN LISTS arg_DESCRIPTOR arg_RULES)
    get_filename_component(file_name ${file} NAME)
    configure_file(${file} ${directory}/${file_name} COPYONLY)
  endforeach()
  if(arg_INSTALL)
    set(destination ${CMAKE_INSTALL_LIBDIR}/ferrite/plugins)
    install(TARGETS ${name} LIBRARY DESTINATION ${destination})
    install(FILES ${arg_DESCRIPTOR} ${arg_RULES} DESTINATION ${destination})
  endif()
endfunction()
