# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Run by `cmake --install` before it copies anything. It refuses, and nothing is installed, if
#   - there is no component of the name that is asked for;
#   - the prefix lacks the component that this one needs: the program without a plugin would fail when it
#     runs;
#   - a part of a component is not built. A component of which nothing is built is left out, unless it is
#     asked for by name or is runtime or compiler, without which there is nothing to install.
# ferrite_build is the build folder: components.txt there has the name of each component, and installed.txt a
# line "component target file" for each artefact. ferrite_library_folder is CMAKE_INSTALL_LIBDIR.
file(STRINGS "${ferrite_build}/components.txt" components)
# Not IN_LIST: an installation runs without the project's policies.
list(FIND components "${CMAKE_INSTALL_COMPONENT}" position)
if(CMAKE_INSTALL_COMPONENT AND position EQUAL -1)
  list(SORT components)
  list(JOIN components ", " names)
  message(FATAL_ERROR "nothing is installed: there is no component '${CMAKE_INSTALL_COMPONENT}'; "
    "the components are ${names}")
endif()

file(STRINGS "${ferrite_build}/installed.txt" artefacts)
set(components "")
foreach(artefact IN LISTS artefacts)
  string(REGEX MATCH "^([^ ]+) ([^ ]+) (.+)$" found "${artefact}")
  set(component ${CMAKE_MATCH_1})
  if(CMAKE_INSTALL_COMPONENT AND NOT CMAKE_INSTALL_COMPONENT STREQUAL component)
    continue()
  endif()
  list(APPEND components ${component})
  list(APPEND ${component}_files "${CMAKE_MATCH_3}")
  if(EXISTS "${CMAKE_MATCH_3}")
    set(${component}_is_there TRUE)
  else()
    list(APPEND ${component}_targets "${CMAKE_MATCH_2}")
    string(APPEND ${component}_lines "  ${CMAKE_MATCH_3}\n")
  endif()
endforeach()
list(REMOVE_DUPLICATES components)

# The component that the one asked for needs, and a file by which a prefix has it. Programs and plugins run
# with the plugin of the CPU, which is part of runtime.
set(needed "")
set(files "${${CMAKE_INSTALL_COMPONENT}_files}")
if(files MATCHES "/ferrite/plugins/" AND NOT files MATCHES "/ferrite_cpu\\.so")
  set(needed runtime)
  set(sign libferrite_runtime.so)
elseif(CMAKE_INSTALL_COMPONENT STREQUAL "emitter")
  set(needed sdk)
  set(sign cmake/Ferrite/FerriteConfig.cmake)
endif()
if(needed)
  cmake_path(ABSOLUTE_PATH ferrite_library_folder BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}"
    OUTPUT_VARIABLE folder)
  if(NOT EXISTS "$ENV{DESTDIR}${folder}/${sign}")
    message(FATAL_ERROR
      "nothing is installed: component '${CMAKE_INSTALL_COMPONENT}' needs component '${needed}', "
      "which this prefix lacks (there is no $ENV{DESTDIR}${folder}/${sign}). Install it first:\n"
      "  cmake --install ${ferrite_build} --component ${needed} --prefix ${CMAKE_INSTALL_PREFIX}")
  endif()
endif()

set(missing_targets "")
set(missing_lines "")
foreach(component IN LISTS components)
  if(NOT ${component}_targets)
    continue()
  endif()
  if(${component}_is_there OR CMAKE_INSTALL_COMPONENT OR component MATCHES "^(runtime|compiler)$")
    list(APPEND missing_targets ${${component}_targets})
    string(APPEND missing_lines "${${component}_lines}")
  else()
    message(STATUS "Not built, so not installed: component ${component}")
  endif()
endforeach()
if(missing_targets)
  list(JOIN missing_targets " " targets)
  message(FATAL_ERROR "nothing is installed, because the build is not complete; these are missing:\n"
    "${missing_lines}Build them first:\n  cmake --build ${ferrite_build} --target ${targets}")
endif()
