// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Feeds a model's result back as its input. The state stays in device memory between runs, and host memory
// comes from this program's allocator.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "ferrite/ferrite.hpp"

namespace {

constexpr const char* usage =
    "Usage: resident MODEL [--device NAME] [--steps N]\n"
    "The model has one input and one output of the same shape, f32. Prints the result of N steps.\n";

struct Arguments {
  std::string model, device;
  int steps = 20;
};

/// Throws std::invalid_argument for an invalid command line.
Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int k = 1; k < argc; ++k) {
    const std::string argument = argv[k], value = k + 1 < argc ? argv[k + 1] : "";
    if (argument.rfind("--", 0) != 0) {
      arguments.model = argument;
      continue;
    }
    ++k;
    if (argument == "--device") {
      arguments.device = value;
    } else if (argument == "--steps") {
      const char* end = value.data() + value.size();
      const auto [after, fault] = std::from_chars(value.data(), end, arguments.steps);
      if (fault != std::errc() || after != end || arguments.steps < 1)
        throw std::invalid_argument("--steps takes a number from 1, not '" + value + "'");
    } else {
      throw std::invalid_argument("there is no option '" + argument + "'");
    }
  }
  if (arguments.model.empty()) throw std::invalid_argument("no model is given");
  return arguments;
}

/// A counting allocator for host memory. A program with its own pool connects it here; to serve a device's
/// memory, it sets that device's DLPack type instead of kDLCPU.
struct Memory {
  std::atomic<int> blocks = 0;

  ferrite_allocator allocator() {
    ferrite_allocator table{};
    table.size = sizeof table;
    table.self = this;
    table.device_type = kDLCPU;
    table.alloc = [](void* self, DLDevice, uint64_t bytes, uint64_t alignment, void*) -> void* {
      ++static_cast<Memory*>(self)->blocks;
      return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    };
    table.free = [](void* self, DLDevice, void* data, uint64_t, void*) {
      --static_cast<Memory*>(self)->blocks;
      std::free(data);
    };
    return table;
  }
};

void run(const Arguments& arguments, const ferrite_allocator& allocator) {
  ferrite::SessionOptions options;
  options.device = arguments.device;
  options.allocator = &allocator;
  const ferrite::Session session(options);
  ferrite::Model model(session, arguments.model);
  const auto inputs = model.inputs(), outputs = model.outputs();
  if (inputs.size() != 1 || outputs.size() != 1 || inputs[0].dims != outputs[0].dims ||
      inputs[0].dtype_name != "f32" || outputs[0].dtype_name != "f32")
    throw std::runtime_error("the model's input and output are not of one shape and f32");

  size_t count = 1;
  for (const int64_t dim : inputs[0].dims) count *= static_cast<size_t>(dim);
  std::vector<float> start(count);
  for (size_t k = 0; k < count; ++k) start[k] = static_cast<float>(k + 1) / static_cast<float>(2 * count);
  auto state = ferrite::Tensor::view<const float>(inputs[0].dims, start);
  for (int step = 1; step < arguments.steps; ++step)
    state = model.run({state}, {.outputs_on_device = true})[0];
  // Without outputs_on_device the last result is in host memory, where it can be read.
  const auto result = model.run({state})[0];
  const auto [least, most] = std::ranges::minmax(result.elements<float>());
  std::printf("%zu elements after %d steps: %.3f to %.3f\n", count, arguments.steps, least, most);
}

}  // namespace

int main(int argc, char** argv) try {
  const Arguments arguments = parse(argc, argv);
  Memory memory;
  run(arguments, memory.allocator());
  std::printf("%d blocks of memory are left\n", memory.blocks.load());
  return 0;
} catch (const std::invalid_argument& fault) {
  std::fprintf(stderr, "resident: %s\n%s", fault.what(), usage);
  return 2;
} catch (const std::exception& fault) {
  std::fprintf(stderr, "resident: %s\n", fault.what());
  return 1;
}
