# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Run by `cmake --install` before it copies anything: all that Ferrite's build installs is there, or the installation fails.
# ferrite_build is the build folder; installed.txt there has a line "target file" for each artefact.
file(STRINGS "${ferrite_build}/installed.txt" artefacts)
set(missing_targets "")
set(missing_lines "")
foreach(artefact IN LISTS artefacts)
  string(REGEX MATCH "^([^ ]+) (.+)$" found "${artefact}")
  if(NOT EXISTS "${CMAKE_MATCH_2}")
    list(APPEND missing_targets "${CMAKE_MATCH_1}")
    string(APPEND missing_lines "  ${CMAKE_MATCH_2}\n")
  endif()
endforeach()
if(missing_targets)
  list(JOIN missing_targets " " targets)
  message(FATAL_ERROR "nothing is installed, because the build is not complete; these are missing:\n"
    "${missing_lines}Build them first:\n  cmake --build ${ferrite_build} --target ${targets}")
endif()
