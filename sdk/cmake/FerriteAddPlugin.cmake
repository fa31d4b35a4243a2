# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ferrite_add_plugin(NAME [SOURCES file... [LIBRARIES target...]] [DESCRIPTOR file [RULES file...]]
#                    [INSTALL [COMPONENT name]])
#   builds a plugin: a module that exports the one entry symbol and nothing else, against Ferrite::sdk alone.
#   A plugin of rules alone has no SOURCES: its files are put in their place, and no compiler is needed.
#   DESCRIPTOR  <id>.plugin.toml, put beside the library with the rule files that it names. A rule file lies
#               there as <id>.<file>, and the descriptor there says so: plugins that share a folder do not
#               overwrite each other's rules.
#   INSTALL     installs all of them where Ferrite looks for plugins: lib/ferrite/plugins below the prefix
#   COMPONENT   the component of the installation that they belong to; without it CMake's own default
#   FERRITE_PLUGIN_DIRECTORY, where it is set, is the folder that the plugin is built into.
#
# ferrite_add_test(NAME OUTPUT regex COMMAND word...)
#   a test that runs the program `ferrite` with these words, in the folder that the build's plugins lie in. It
#   passes where what is printed matches the regular expression and holds no error. Caches and measured
#   numbers are the build tree's own.
if(CMAKE_SIZEOF_VOID_P)
  include(GNUInstallDirs)
elseif(NOT DEFINED CMAKE_INSTALL_LIBDIR)
  set(CMAKE_INSTALL_LIBDIR lib) # a project without languages
endif()
set(FERRITE_PLUGIN_EXPORTS ${CMAKE_CURRENT_LIST_DIR}/plugin.map)
function(ferrite_add_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "INSTALL" "DESCRIPTOR;COMPONENT" "SOURCES;LIBRARIES;RULES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "ferrite_add_plugin(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(directory ${CMAKE_CURRENT_BINARY_DIR})
  if(FERRITE_PLUGIN_DIRECTORY)
    set(directory ${FERRITE_PLUGIN_DIRECTORY})
  endif()
  set(destination ${CMAKE_INSTALL_LIBDIR}/ferrite/plugins)
  set(component "")
  if(arg_COMPONENT)
    set(component COMPONENT ${arg_COMPONENT})
  endif()
  if(arg_RULES AND NOT arg_DESCRIPTOR)
    message(FATAL_ERROR "ferrite_add_plugin(${name}): RULES need a DESCRIPTOR that names them")
  endif()
  if(arg_DESCRIPTOR)
    get_filename_component(descriptor ${arg_DESCRIPTOR} ABSOLUTE)
    get_filename_component(descriptor_name ${arg_DESCRIPTOR} NAME)
    string(REGEX REPLACE "\\.plugin\\.toml$" "" id ${descriptor_name})
    file(READ ${descriptor} text)
    set(placed ${directory}/${descriptor_name})
    foreach(file IN LISTS arg_RULES)
      get_filename_component(file_name ${file} NAME)
      string(FIND "${text}" "\"${file_name}\"" found)
      if(found EQUAL -1)
        message(FATAL_ERROR
          "ferrite_add_plugin(${name}): ${arg_DESCRIPTOR} does not name \"${file_name}\" in 'rules'")
      endif()
      string(REPLACE "\"${file_name}\"" "\"${id}.${file_name}\"" text "${text}")
      configure_file(${file} ${directory}/${id}.${file_name} COPYONLY)
      list(APPEND placed ${directory}/${id}.${file_name})
    endforeach()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${descriptor})
    set(old "")
    if(EXISTS ${directory}/${descriptor_name})
      file(READ ${directory}/${descriptor_name} old)
    endif()
    if(NOT old STREQUAL text)
      file(WRITE ${directory}/${descriptor_name} "${text}")
    endif()
    if(arg_INSTALL)
      install(FILES ${placed} DESTINATION ${destination} ${component})
    endif()
  endif()
  if(NOT arg_SOURCES)
    if(NOT arg_RULES AND NOT arg_DESCRIPTOR)
      message(FATAL_ERROR "ferrite_add_plugin(${name}): there are neither SOURCES nor RULES nor a DESCRIPTOR")
    endif()
    return()
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
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${directory})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-gnu-unique>)
  endif()
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,--version-script=${FERRITE_PLUGIN_EXPORTS})
  # Sanitizer runtimes are resolved by the program, so a plugin built with one has undefined symbols.
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  if(arg_INSTALL)
    # Ferrite's own build looks whether all of a component is built before it copies anything.
    if(COMMAND ferrite_install)
      ferrite_install(${arg_COMPONENT} ${name} LIBRARY DESTINATION ${destination})
    else()
      install(TARGETS ${name} LIBRARY DESTINATION ${destination} ${component})
    endif()
  endif()
endfunction()

function(ferrite_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT" "COMMAND")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_OUTPUT OR NOT arg_COMMAND)
    message(FATAL_ERROR
      "ferrite_add_test(${name}): it takes OUTPUT regex and COMMAND word..., not '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  set(directory ${CMAKE_CURRENT_BINARY_DIR})
  if(FERRITE_PLUGIN_DIRECTORY)
    set(directory ${FERRITE_PLUGIN_DIRECTORY})
  endif()
  add_test(NAME ${name} COMMAND ${Ferrite_PROGRAM} ${arg_COMMAND} WORKING_DIRECTORY ${directory})
  # No test depends on measurements, caches or settings of the user.
  set_tests_properties(${name} PROPERTIES PASS_REGULAR_EXPRESSION "${arg_OUTPUT}"
    FAIL_REGULAR_EXPRESSION "ferrite: FE-" TIMEOUT 300
    ENVIRONMENT "XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/test-cache"
    ENVIRONMENT_MODIFICATION "FERRITE_CACHE=unset:;FERRITE_LOG=unset:;FERRITE_METRICS=unset:;\
FERRITE_METRICS_DIR=unset:;FERRITE_PLUGIN_PATH=unset:;FERRITE_WATCHDOG=unset:")
endfunction()
