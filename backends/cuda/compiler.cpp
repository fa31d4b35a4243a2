// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler.h"

#include <algorithm>

#include "ferrite/emitter/gpu_provider.h"
#include "target.h"

namespace ferrite::cuda {

namespace {

/// PTX does not define the negation and magnitude of the lowest integer, and the driver's compiler assumes
/// that `neg` and `abs` never meet it. It takes the remainder of a magnitude for positive, and in min(a, -b)
/// and min(a, 0 - b) it takes -b for larger than any a. Both instructions are rewritten with
/// -a = ~(a - 1), which wraps.
std::string with_wrapping_negation(std::string_view ptx) {
  std::string result;
  result.reserve(ptx.size());
  while (!ptx.empty()) {
    const auto line = ptx.substr(0, std::min(ptx.find('\n'), ptx.size() - 1) + 1);
    ptx.remove_prefix(line.size());
    const bool negates = line.starts_with("\tneg.s"), magnitude = line.starts_with("\tabs.s");
    const auto comma = line.find(','), end = line.find(';');
    // Scalar forms only: their width is followed by a blank.
    if ((!negates && !magnitude) || end == std::string_view::npos || comma > end || line[8] != ' ') {
      result += line;
      continue;
    }
    // The line has the form "\tneg.s32 \t%r1, %r2;".
    const auto operand = line.find('%');
    const std::string bits(line.substr(6, 2)), to(line.substr(operand, comma - operand)),
        from(line.substr(comma + 2, end - comma - 2));
    result += "\t{ .reg .b" + bits + " %minus; add.s" + bits + " %minus, " + from + ", -1; ";
    if (negates)
      result += "not.b" + bits + " " + to + ", %minus; }\n";
    else
      result += "not.b" + bits + " %minus, %minus; max.s" + bits + " " + to + ", " + from + ", %minus; }\n";
  }
  return result;
}

class Compiler final : public emitter::GpuProvider {
 public:
  std::string id() const override { return "cuda"; }

 protected:
  emitter::Target machine_of(std::string_view description, emitter::GpuNumbers& numbers) const override {
    initialise_llvm();
    const auto device = parse_device(description);
    numbers.bytes_a_second = device.gigabytes_a_second * 1'000'000'000;
    return target_of(device);
  }
  void mark_entry(llvm::Function& entry, unsigned threads) const override {
    entry.addFnAttr("nvvm.maxntid", std::to_string(threads));
  }
  emitter::GpuCode generate(emitter::Machine& machine, llvm::Module& module, bool) const override {
    emitter::GpuCode code;
    code.code = with_wrapping_negation(machine.assembly(module));
    return code;
  }
};

}  // namespace

std::unique_ptr<Provider> make_compiler() { return std::make_unique<Compiler>(); }

}  // namespace ferrite::cuda
