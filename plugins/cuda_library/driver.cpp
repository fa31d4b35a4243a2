// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cuda_library/driver.h"

namespace ferrite::cuda_library {

SharedLibrary::SharedLibrary(const std::vector<std::string>& names, std::string advice)
    : library_(names), advice_(std::move(advice)) {
  if (!library_.is_open()) throw Unavailable{"FE-P85", library_.reasons() + "; " + advice_};
}

std::string SharedLibrary::checked_version(size_t version, size_t least, size_t most) const {
  constexpr size_t of_major = 10000, of_minor = 100;
  const size_t major = version / of_major;
  auto text = std::to_string(major) + "." + std::to_string(version % of_major / of_minor) + "." +
              std::to_string(version % of_minor);
  if (major >= least && major <= most) return text;
  const auto needed = std::to_string(least) + (least < most ? " or " + std::to_string(most) : "");
  throw Unavailable{"FE-P86",
                    library_.name() + " is version " + text + ", and " + needed + " is needed; " + advice_};
}

void* SharedLibrary::address(const char* function) const {
  void* found = library_.symbol(function);
  if (!found)
    throw Unavailable{"FE-P86", library_.name() + " has no function '" + function + "'; " + advice_};
  return found;
}

namespace {
constexpr int attribute_major = 75, attribute_minor = 76;
}

Driver::Driver(const std::string& name) {
  const SharedLibrary library({name}, "install NVIDIA's driver, or take the plugin out of the manifest");
  int (*init)(unsigned) = nullptr;
  library.find("cuInit", init);
  library.find("cuDeviceGetCount", device_count_);
  library.find("cuDeviceGet", device_get_);
  library.find("cuDeviceGetAttribute", attribute_);
  library.find("cuDevicePrimaryCtxRetain", retain_);
  library.find("cuCtxSetCurrent", set_current_);
  check(init(0), "starting the driver");
}

void Driver::check(int result, const char* what) const {
  if (result != 0)
    throw Unavailable{"FE-P85", std::string(what) + " gives the driver's error " + std::to_string(result)};
}

std::optional<uint32_t> Driver::find(int generation) const {
  int count = 0;
  check(device_count_(&count), "counting devices");
  for (uint32_t number = 0; number < static_cast<uint32_t>(count); ++number)
    if (this->generation(number) == generation) return number;
  return {};
}

int Driver::generation(uint32_t number) const {
  int device = 0, major = 0, minor = 0;
  check(device_get_(&device, static_cast<int>(number)), "opening a device");
  check(attribute_(&major, attribute_major, device), "asking a device for its architecture");
  check(attribute_(&minor, attribute_minor, device), "asking a device for its architecture");
  return major * 10 + minor;
}

void* Driver::context(uint32_t number) {
  const std::lock_guard lock(mutex_);
  void*& context = contexts_[number];
  if (context) return context;
  int device = 0;
  check(device_get_(&device, static_cast<int>(number)), "opening a device");
  check(retain_(&context, device), "opening a device's context");
  return context;
}

void Driver::enter(void* context) const { check(set_current_(context), "entering a device's context"); }

}  // namespace ferrite::cuda_library
