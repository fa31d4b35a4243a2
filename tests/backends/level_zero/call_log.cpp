// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "call_log.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace pocl_driver {

void add(Line& line, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  line += std::string(" ") + text;
}

void write_to_log(const Line& line) {
  if (const char* path = std::getenv("POCL_DRIVER_LOG")) {
    if (FILE* file = std::fopen(path, "a")) {
      std::fprintf(file, "%s\n", line.c_str());
      std::fclose(file);
    }
  }
}

}  // namespace pocl_driver
