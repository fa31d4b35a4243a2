// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/package/program.h"

#include <algorithm>

#include "core/support/byte_fields.h"
#include "runtime/launch_bounds.h"

namespace ferrite::core::package {
namespace {

using runtime::BufferSlot;
using runtime::Executable;
using runtime::Launch;
using runtime::PortInfo;

void put(Encoder& to, const std::vector<PortInfo>& ports) {
  to.put(uint64_t{ports.size()});
  for (const PortInfo& port : ports) {
    to.put(std::string_view(port.name));
    to.put(port.dtype);
    to.put(port.dims);
    to.put(port.changed);
    to.put(port.donated);
    to.put(std::string_view(port.indexed));
  }
}

void put(Encoder& to, const std::vector<BufferSlot>& slots) {
  to.put(uint64_t{slots.size()});
  for (const BufferSlot& slot : slots) {
    to.put(slot.kind);
    to.put(slot.device);
    to.put(slot.number);
    to.put(slot.offset);
    to.put(slot.bytes);
  }
}

void put(Encoder& to, const std::vector<Launch>& launches) {
  to.put(uint64_t{launches.size()});
  for (const Launch& launch : launches) {
    to.put(launch.kernel);
    to.put(launch.device);
    to.put(launch.copy);
    to.put(std::string_view(launch.provenance));
    put(to, launch.arguments);
  }
}

/// Limit per kind of memory: no machine has more, and sums stay within int64.
constexpr int64_t most_bytes = int64_t{1} << 40;
bool possible(int64_t bytes) { return bytes >= 0 && bytes <= most_bytes; }

Error impossible_program(std::string_view what) { return error(FE_EINVALID, "FE-K52", "{}", what); }

class Reader {
 public:
  Reader(std::span<const std::byte> program, std::span<const std::byte> weights, uint64_t code_bytes)
      : from_(program), weights_(weights), code_bytes_(code_bytes) {
    result_.executable = std::make_shared<Executable>();
  }

  Result<Read> run() {
    auto& executable = *result_.executable;
    devices();
    if (from_.ok() && result_.needs.empty()) return impossible_program("its program has no device");
    FE_CHECK(ports(executable.inputs));
    FE_CHECK(ports(executable.outputs));
    FE_CHECK(memory());
    FE_CHECK(kernels());
    FE_CHECK(launches(executable.init, false));
    FE_CHECK(launches(executable.steps, true));
    FE_CHECK(slots(executable.output_slots, true));
    if (!from_.done()) return impossible_program("its program is cut short, or bytes follow it");
    if (executable.output_slots.size() != executable.outputs.size())
      return impossible_program("its program has another number of slots than of outputs");
    return std::move(result_);
  }

  /// Reads the devices, with which a program begins.
  const std::vector<runtime::Target>& devices() {
    result_.figures.nodes = from_.get<uint64_t>();
    result_.figures.statements = from_.get<uint64_t>();
    for (uint64_t left = from_.count(); left > 0 && from_.ok(); --left) {
      const auto kind = from_.text(), target = from_.text();
      result_.needs.push_back({std::string(kind), std::string(target)});
    }
    return result_.needs;
  }

 private:
  Result<void> ports(std::vector<PortInfo>& ports) {
    for (uint64_t left = from_.count(); left > 0 && from_.ok(); --left) {
      PortInfo port;
      port.name = from_.text();
      port.dtype = from_.get<DType>();
      port.dims = from_.list<int64_t>();
      port.changed = from_.get<uint8_t>() != 0;
      port.donated = from_.get<uint8_t>() != 0;
      port.indexed = from_.text();
      if (!from_.ok()) break;
      if (!find_dtype(port.dtype)) return impossible_program("a port of its program has no known type");
      int64_t elements = 1;
      for (const int64_t dim : port.dims)
        if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements) || !possible(elements))
          return impossible_program("a port of its program has a size that nothing has");
      port.bytes = bytes_of(port.dtype, elements);
      ports.push_back(std::move(port));
    }
    return {};
  }

  Result<void> memory() {
    auto& executable = *result_.executable;
    for (auto* arenas : {&executable.arena_bytes, &executable.init_arena_bytes}) {
      *arenas = from_.list<int64_t>();
      if (from_.ok() && arenas->size() != result_.needs.size())
        return impossible_program("its program has another number of arenas than of devices");
      if (!std::ranges::all_of(*arenas, possible))
        return impossible_program("its program has an arena that no machine has");
    }
    for (uint64_t left = from_.count(); left > 0 && from_.ok(); --left) {
      const auto device = from_.get<uint32_t>();
      const auto bytes = from_.get<int64_t>();
      if (from_.ok() && (device >= result_.needs.size() || !possible(bytes)))
        return impossible_program("its program has memory that no device has");
      executable.add_persistent(device, bytes);
    }
    for (uint64_t left = from_.count(); left > 0 && from_.ok(); --left) {
      const auto offset = from_.get<uint64_t>(), bytes = from_.get<uint64_t>();
      if (!inside(offset, bytes, weights_.size()))
        return impossible_program("its program reads weights that are not there");
      runtime::Constant constant;
      constant.data = weights_.data() + offset;
      constant.bytes = bytes;
      executable.constants.push_back(std::move(constant));
    }
    return {};
  }

  Result<void> kernels() {
    for (uint64_t left = from_.count(); left > 0 && from_.ok(); --left) {
      runtime::CompiledKernel kernel;
      Part part;
      kernel.entry = from_.text();
      kernel.provenance = from_.text();
      kernel.candidate = from_.text();
      part.library = from_.text();
      kernel.device = from_.get<uint32_t>();
      kernel.tasks = from_.get<int64_t>();
      kernel.grain = from_.get<int64_t>();
      kernel.workspace_bytes = from_.get<int64_t>();
      kernel.registers = from_.get<int64_t>();
      kernel.spills = from_.get<int64_t>();
      kernel.checks_indices = from_.get<uint8_t>() != 0;
      for (uint64_t dims = from_.count(); dims > 0 && from_.ok(); --dims) {
        auto& dim = kernel.checked_dims.emplace_back();
        dim.argument = from_.get<uint32_t>();
        dim.size = from_.get<int64_t>();
        dim.text = from_.text();
      }
      part.offset = from_.get<uint64_t>();
      part.bytes = from_.get<uint64_t>();
      if (!from_.ok()) break;
      if (auto why = runtime::unfit(kernel.tasks, kernel.grain, kernel.workspace_bytes); !why.empty())
        return impossible_program(why);
      if (kernel.device >= result_.needs.size() || !inside(part.offset, part.bytes, code_bytes_))
        return impossible_program("its program has a kernel of a device, or with code, that is not there");
      result_.executable->kernels.push_back(std::move(kernel));
      result_.parts.push_back(std::move(part));
    }
    return {};
  }

  Result<void> launches(std::vector<Launch>& launches, bool in_run) {
    for (uint64_t left = from_.count(); left > 0 && from_.ok(); --left) {
      Launch launch;
      launch.kernel = from_.get<uint32_t>();
      launch.device = from_.get<uint32_t>();
      launch.copy = from_.get<uint32_t>();
      launch.provenance = from_.text();
      FE_CHECK(slots(launch.arguments, in_run));
      if (!from_.ok()) break;
      const auto& arguments = launch.arguments;
      const bool copies = launch.copy != runtime::no_copy;
      if (copies ? launch.device >= result_.needs.size() || launch.copy > FE_COPY_PEER ||
                       arguments.size() != 2 || arguments[0].bytes != arguments[1].bytes
                 : launch.kernel >= result_.executable->kernels.size())
        return impossible_program("its program has a launch of nothing");
      launches.push_back(std::move(launch));
    }
    return {};
  }

  Result<void> slots(std::vector<BufferSlot>& slots, bool in_run) {
    for (uint64_t left = from_.count(); left > 0 && from_.ok(); --left) {
      BufferSlot slot;
      slot.kind = from_.get<BufferSlot::Kind>();
      slot.device = from_.get<uint32_t>();
      slot.number = from_.get<uint32_t>();
      slot.offset = from_.get<int64_t>();
      slot.bytes = from_.get<int64_t>();
      if (!from_.ok()) break;
      if (slot.kind > BufferSlot::Kind::arena || !possible(slot.bytes) || !possible(slot.offset) ||
          !holds(slot, in_run))
        return impossible_program("its program has an argument in no memory");
      slots.push_back(slot);
    }
    return {};
  }

  /// Whether the memory that the slot refers to exists and is large enough.
  bool holds(const BufferSlot& slot, bool in_run) const {
    const auto& executable = *result_.executable;
    const auto in = [&](const auto& list, auto bytes) {
      return slot.number < list.size() && slot.bytes <= static_cast<int64_t>(bytes(list[slot.number]));
    };
    const auto of_port = [](const PortInfo& port) { return port.bytes; };
    switch (slot.kind) {
      case BufferSlot::Kind::input: return in_run && in(executable.inputs, of_port);
      case BufferSlot::Kind::output: return in_run && in(executable.outputs, of_port);
      case BufferSlot::Kind::constant:
        return in(executable.constants, [](const runtime::Constant& constant) { return constant.bytes; });
      case BufferSlot::Kind::persistent:
        return in(executable.persistent(), [](const auto& block) { return block.bytes; }) &&
               executable.persistent()[slot.number].device == slot.device;
      case BufferSlot::Kind::arena: {
        const auto& arenas = in_run ? executable.arena_bytes : executable.init_arena_bytes;
        return slot.device < arenas.size() && slot.offset + slot.bytes <= arenas[slot.device];
      }
    }
    return false;
  }

  static bool inside(uint64_t offset, uint64_t bytes, uint64_t size) {
    return offset <= size && bytes <= size - offset;
  }

  Decoder from_;
  std::span<const std::byte> weights_;
  uint64_t code_bytes_;
  Read result_;
};

}  // namespace

Result<std::vector<std::byte>> write_program(const Executable& executable, std::span<const std::string> blobs,
                                             const Figures& figures,
                                             const std::function<uint64_t(std::span<const std::byte>)>& keep,
                                             std::vector<std::byte>& code) {
  for (const auto* list : {&executable.init, &executable.steps})
    for (const Launch& launch : *list)
      if (launch.call.function)
        return error(FE_EUNSUPPORTED, "FE-K54",
                     "'{}' is a function in a plugin's library; leave out the plugin that gives it",
                     launch.call.name);
  Encoder to;
  to.put(figures.nodes);
  to.put(figures.statements);
  to.put(uint64_t{executable.devices.size()});
  for (const auto& device : executable.devices) {
    to.put(std::string_view(device->kind));
    to.put(std::string_view(device->description));
  }
  put(to, executable.inputs);
  put(to, executable.outputs);
  for (const auto* bytes : {&executable.arena_bytes, &executable.init_arena_bytes}) {
    auto arenas = *bytes;
    arenas.resize(executable.devices.size());
    to.put(arenas);
  }
  to.put(uint64_t{executable.persistent().size()});
  for (const auto& block : executable.persistent()) {
    to.put(block.device);
    to.put(block.bytes);
  }
  to.put(uint64_t{executable.constants.size()});
  for (const auto& constant : executable.constants) {
    to.put(keep({constant.data, constant.bytes}));
    to.put(constant.bytes);
  }
  to.put(uint64_t{executable.kernels.size()});
  for (size_t k = 0; k < executable.kernels.size(); ++k) {
    const auto& kernel = executable.kernels[k];
    const auto blob = std::as_bytes(std::span(blobs[k]));
    to.put(std::string_view(kernel.entry));
    to.put(std::string_view(kernel.provenance));
    to.put(std::string_view(kernel.candidate));
    to.put(kernel.library ? std::string_view(kernel.library->id) : std::string_view());
    to.put(kernel.device);
    to.put(kernel.tasks);
    to.put(kernel.grain);
    to.put(kernel.workspace_bytes);
    to.put(kernel.registers);
    to.put(kernel.spills);
    to.put(kernel.checks_indices);
    to.put(uint64_t{kernel.checked_dims.size()});
    for (const auto& dim : kernel.checked_dims) {
      to.put(dim.argument);
      to.put(dim.size);
      to.put(std::string_view(dim.text));
    }
    to.put(uint64_t{code.size()});
    to.put(uint64_t{blob.size()});
    code.insert(code.end(), blob.begin(), blob.end());
  }
  put(to, executable.init);
  put(to, executable.steps);
  put(to, executable.output_slots);
  return to.take();
}

std::vector<std::string> kinds_in(std::span<const std::byte> program) {
  Reader reader(program, {}, 0);
  std::vector<std::string> kinds;
  for (const auto& device : reader.devices()) kinds.push_back(device.kind);
  return kinds;
}

Result<Read> read_program(std::span<const std::byte> program, std::span<const std::byte> weights,
                          uint64_t code_bytes) {
  return Reader(program, weights, code_bytes).run();
}

}  // namespace ferrite::core::package
