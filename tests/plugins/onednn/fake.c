// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A library with the name of a function of oneDNN's, and another version than the plugin takes; or the right
// one and nothing else.
typedef struct {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
} version;
const version* dnnl_version(void);
const version* dnnl_version(void) {
  static const version result = {FAKE_MAJOR, FAKE_MINOR, 0, "", 0, 0};
  return &result;
}
