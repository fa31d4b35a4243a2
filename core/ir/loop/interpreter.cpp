// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/loop/interpreter.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include "core/ir/loop/indexed.h"
#include "core/ir/loop/interpret_body.h"
#include "core/ir/loop/interpret_primitive.h"
#include "core/ir/loop/scalar.h"
#include "core/ir/loop/verify.h"
#include "core/support/abi/callback.h"
#include "ferrite/counted.hpp"
#include "runtime/bad_index.h"

namespace ferrite::core::loop {
namespace {

using eval::Access;
using eval::Code;
using eval::CompiledBody;
using eval::CompiledStore;
using eval::Instruction;
using eval::lane_count;
using eval::Register;

/// Iterates over the points of some variables, the last one fastest, and writes their values to registers.
class Odometer {
 public:
  Odometer(std::span<const Var> vars, std::span<const uint32_t> registers)
      : vars_(vars), registers_(registers), at_(vars.size()) {
    for (const auto& var : vars) left_ *= var.extent;
  }
  /// Gives the next points, at most `limit`, to lanes 0, 1, ...; returns their number.
  size_t fill(Register* registers, size_t limit) {
    const auto n = static_cast<size_t>(std::min<int64_t>(left_, static_cast<int64_t>(limit)));
    for (size_t lane = 0; lane < n; ++lane) {
      for (size_t v = 0; v < at_.size(); ++v) registers[registers_[v]].i[lane] = at_[v];
      step();
    }
    left_ -= static_cast<int64_t>(n);
    return n;
  }
  /// Gives the next point to all lanes; false after the last one.
  bool broadcast(Register* registers) {
    if (left_ == 0) return false;
    for (size_t v = 0; v < at_.size(); ++v) std::fill_n(registers[registers_[v]].i, lane_count, at_[v]);
    step();
    --left_;
    return true;
  }

 private:
  void step() {
    for (size_t v = at_.size(); v-- > 0;) {
      if (++at_[v] < vars_[v].extent) return;
      at_[v] = 0;
    }
  }
  std::span<const Var> vars_;
  std::span<const uint32_t> registers_;
  std::vector<int64_t> at_;
  int64_t left_ = 1;
};

template <class T>
T read(const std::byte* base, int64_t offset) {
  T value;
  // memcpy: the caller's memory may have any alignment.
  std::memcpy(&value, base + offset * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <class T>
void write(std::byte* base, int64_t offset, T value) {
  std::memcpy(base + offset * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}
/// Calls f with a value of the unsigned type of the element's width, which is no less than 8 bits.
template <class F>
void with_width(DType dtype, F&& f) {
  switch (bits_of(dtype)) {
    case 8: return f(uint8_t{});
    case 16: return f(uint16_t{});
    case 32: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

/// The accumulators of one reduction, one per lane.
struct State {
  Register value{};
  Register index{};
  bool seen[lane_count] = {};
};

/// Executes one statement.
class Runner {
 public:
  Runner(const StatementList& list, size_t number, CompiledBody body, std::span<const Memory> memory)
      : list_(list),
        number_(number),
        s_(*list.statements[number]),
        body_(std::move(body)),
        memory_(memory),
        registers_(body_.registers),
        states_(s_.reductions.size()) {
    for (const auto& [to, value] : body_.constants)
      for (auto& lane : registers_[to].i) lane = static_cast<int64_t>(value);
    parallel_ = s_.parallel_count();
  }

  /// Runs all points of the variables after the first `shared`, whose values are already in the registers.
  Result<void> run(size_t shared) {
    const auto vars = std::span(s_.vars);
    const auto registers = std::span<const uint32_t>(body_.vars);
    Odometer outer(vars.subspan(shared, parallel_ - shared), registers.subspan(shared, parallel_ - shared));
    const int64_t points = s_.points(VarKind::reduction);
    // Vectorise over the points of the reduction if there are many, else over the parallel variables.
    if (!s_.reductions.empty() && points >= 32) {
      while (outer.broadcast(data())) {
        reset();
        Odometer inner(vars.subspan(parallel_), registers.subspan(parallel_));
        // All lanes: the inner loop reads these registers at every lane.
        execute(body_.once, lane_count);
        while (const size_t n = inner.fill(data(), lane_count)) {
          execute(body_.inner, n);
          accumulate(n, true);
          store(body_.inner_stores, n);
          if (fault_) return *fault_;
        }
        finish(1);
        if (fault_) return *fault_;
      }
      return {};
    }
    while (const size_t n = outer.fill(data(), lane_count)) {
      reset();
      Odometer inner(vars.subspan(parallel_), registers.subspan(parallel_));
      execute(body_.once, n);
      while (inner.broadcast(data())) {
        execute(body_.inner, n);
        accumulate(n, false);
        store(body_.inner_stores, n);
        if (fault_) return *fault_;
        carry(n);
      }
      finish(n);
      if (fault_) return *fault_;
    }
    return {};
  }

  void set_shared(size_t var, int64_t value) {
    std::fill_n(registers_[body_.vars[var]].i, lane_count, value);
  }

 private:
  Register* data() { return registers_.data(); }

  template <class... Args>
  void fail(fmt::format_string<Args...> format, Args&&... args) {
    if (!fault_)
      fault_ = at(describe_place(list_, number_),
                  error(FE_EINVALID, "FE-X21", format, std::forward<Args>(args)...));
  }

  void execute(std::span<const Instruction> instructions, size_t n) {
    for (const auto& in : instructions) {
      if (fault_) return;
      Register& to = registers_[in.to];
      switch (in.code) {
        case Code::prim: eval::run_prim(in, data(), n); break;
        case Code::load: load(in, n); break;
        case Code::sum:
          std::fill_n(to.i, n, in.constant);
          for (const auto& term : std::span(body_.terms).subspan(in.first, in.count)) {
            const int64_t* from = registers_[term.from].i;
            if (term.coefficient == 1)
              for (size_t l = 0; l < n; ++l) to.i[l] = scalar::add(to.i[l], from[l]);
            else
              for (size_t l = 0; l < n; ++l)
                to.i[l] = scalar::add(to.i[l], scalar::mul(term.coefficient, from[l]));
          }
          break;
        case Code::multiply: binary(in, n, scalar::mul); break;
        case Code::floor_divide: binary(in, n, index::detail::floor_div); break;
        case Code::floor_modulo: binary(in, n, index::detail::floor_mod); break;
        case Code::minimum: binary(in, n, [](int64_t a, int64_t b) { return std::min(a, b); }); break;
        case Code::maximum: binary(in, n, [](int64_t a, int64_t b) { return std::max(a, b); }); break;
        case Code::indirect: indirect(in, n); break;
      }
    }
  }
  template <class F>
  void binary(const Instruction& in, size_t n, F f) {
    for (size_t l = 0; l < n; ++l) registers_[in.to].i[l] = f(registers_[in.a].i[l], registers_[in.b].i[l]);
  }

  /// The element offset of a lane; none, with the fault recorded, if a coordinate is out of range.
  std::optional<int64_t> offset_of(const Access& access, size_t lane) {
    if (access.proved) return registers_[access.offset].i[lane];
    int64_t offset = access.base;
    for (size_t d = 0; d < access.dims.size(); ++d) {
      const int64_t at = registers_[access.coordinates[d]].i[lane];
      if (at < 0 || at >= access.dims[d]) {
        fail("index {} of dim {} of {} is out of range [0, {})", at, d, buffer_name(list_, access.buffer),
             access.dims[d]);
        return std::nullopt;
      }
      offset += at * access.strides[d];
    }
    return offset;
  }

  void load(const Instruction& in, size_t n) {
    const Access& access = body_.accesses[in.access];
    const std::byte* base = memory_[list_.storage[access.buffer]].data();
    Register& to = registers_[in.to];
    const bool every_lane = access.proved && in.a == none;  // the usual case: no check per lane
    const int64_t* offsets = every_lane ? registers_[access.offset].i : nullptr;
    // Fast path for the most frequent load.
    if (every_lane && in.dtype == DType::f32_) {
      for (size_t l = 0; l < n; ++l) to.f[l] = read<float>(base, offsets[l]);
      return;
    }
    with_width(access.dtype, [&](auto width) {
      using T = decltype(width);
      if (every_lane && is_float(access.dtype) && !is_float(in.dtype)) {
        for (size_t l = 0; l < n; ++l) to.i[l] = static_cast<int64_t>(read<T>(base, offsets[l]));
        return;
      }
      for (size_t l = 0; l < n; ++l) {
        if (in.a != none && registers_[in.a].i[l] == 0) {
          to.i[l] = registers_[in.b].i[l];  // the union's integer member also copies the bits of a double
          continue;
        }
        const auto offset = offset_of(access, l);
        if (!offset) return;
        const T bits = read<T>(base, *offset);
        if (is_float(in.dtype))
          to.f[l] = scalar::float_value(in.dtype, bits);
        else
          to.i[l] = scalar::int_value(in.dtype, bits);
      }
    });
  }

  void indirect(const Instruction& in, size_t n) {
    const int64_t extent = in.constant;
    for (size_t l = 0; l < n; ++l) {
      int64_t value = registers_[in.a].i[l];
      // a u64 that does not fit int64 is above every extent
      const bool beyond = in.from == DType::u64_ && value < 0;
      if (in.mode == FE_INDIRECT_CLAMP)
        value = beyond ? extent - 1 : std::clamp<int64_t>(value, 0, extent - 1);
      else if (in.mode == FE_INDIRECT_WRAP && value < 0 && !beyond)
        value += extent;
      if (value < 0 || value >= extent) {
        std::vector<std::string> dims;
        for (const auto& [buffer, dim] : dims_indexed_by(list_, number_, in.op))
          dims.push_back(describe_dim(dim, indexed_name(list_, buffer), *list_.buffers[buffer]));
        fail("{}{}{}",
             runtime::describe_bad_index(static_cast<uint64_t>(registers_[in.a].i[l]), extent,
                                         in.mode == FE_INDIRECT_WRAP, !is_signed(in.from)),
             dims.empty() ? "" : ": ", fmt::join(dims, ", or "));
        return;
      }
      registers_[in.to].i[l] = value;
    }
  }

  static uint64_t combine_bits(uint32_t mode, DType dtype, uint64_t old_bits, uint64_t new_bits) {
    if (mode == FE_STORE_SET) return new_bits;
    if (is_float(dtype)) {
      const double a = scalar::float_value(dtype, old_bits), b = scalar::float_value(dtype, new_bits);
      const double result = mode == FE_STORE_ADD   ? a + b
                            : mode == FE_STORE_MUL ? a * b
                            : mode == FE_STORE_MAX ? scalar::max(a, b)
                                                   : scalar::min(a, b);
      return scalar::float_bits(dtype, result);
    }
    const int64_t a = scalar::int_value(dtype, old_bits), b = scalar::int_value(dtype, new_bits);
    const bool less = scalar::less(dtype, a, b);
    const int64_t result = mode == FE_STORE_ADD             ? scalar::add(a, b)
                           : mode == FE_STORE_MUL           ? scalar::mul(a, b)
                           : (mode == FE_STORE_MAX) == less ? b
                                                            : a;
    return scalar::int_bits(dtype, result);
  }

  void store(std::span<const CompiledStore> stores, size_t n) {
    for (const auto& store : stores) {
      const Access& access = body_.accesses[store.access];
      std::byte* base = memory_[list_.storage[access.buffer]].data();
      const Register& value = registers_[store.value];
      with_width(access.dtype, [&](auto width) {
        using T = decltype(width);
        for (size_t l = 0; l < n && !fault_; ++l) {
          if (store.mask != none && registers_[store.mask].i[l] == 0) continue;
          const auto offset = offset_of(access, l);
          if (!offset) return;
          const uint64_t bits = store.bits               ? static_cast<uint64_t>(value.i[l])
                                : is_float(access.dtype) ? scalar::float_bits(access.dtype, value.f[l])
                                                         : scalar::int_bits(access.dtype, value.i[l]);
          const uint64_t old_bits = store.mode == FE_STORE_SET ? 0 : read<T>(base, *offset);
          write<T>(base, *offset, static_cast<T>(combine_bits(store.mode, access.dtype, old_bits, bits)));
        }
      });
    }
  }

  /// Resets the accumulators before the first point of the inner loop.
  void reset() {
    for (size_t k = 0; k < states_.size(); ++k) {
      auto& state = states_[k];
      const auto& reduction = s_.reductions[k];
      const DType dtype = reduction.accumulator;
      std::fill_n(state.seen, lane_count, false);
      std::fill_n(state.index.i, lane_count, 0);
      if (is_float(dtype)) {
        const double infinity = std::numeric_limits<double>::infinity();
        std::fill_n(state.value.f, lane_count,
                    reduction.kind == FE_REDUCE_PROD  ? 1.0
                    : reduction.kind == FE_REDUCE_MAX ? -infinity
                    : reduction.kind == FE_REDUCE_MIN ? infinity
                                                      : 0.0);
        continue;
      }
      int64_t identity = 0;
      if (reduction.kind == FE_REDUCE_PROD || reduction.kind == FE_REDUCE_ALL) identity = 1;
      if (reduction.kind == FE_REDUCE_MAX) identity = scalar::lowest_int(dtype);
      if (reduction.kind == FE_REDUCE_MIN) identity = scalar::highest_int(dtype);
      std::fill_n(state.value.i, lane_count, identity);
    }
    for (size_t k = 0; k < s_.carries.size(); ++k)
      for (uint32_t to : body_.carried[k])
        std::fill_n(registers_[to].i, lane_count, static_cast<int64_t>(body_.initial[k]));
  }

  /// Adds n elements: each to its own lane's accumulator or, if `fold`, all of them to the first one.
  void accumulate(size_t n, bool fold) {
    for (size_t k = 0; k < states_.size(); ++k) {
      auto& state = states_[k];
      const auto& reduction = s_.reductions[k];
      const DType dtype = reduction.accumulator;
      const Register& element = registers_[body_.elements[k]];
      auto floats = [&](auto f) {
        for (size_t l = 0; l < n; ++l) {
          double& result = state.value.f[fold ? 0 : l];
          result = f(result, element.f[l]);
        }
      };
      auto ints = [&](auto f) {
        for (size_t l = 0; l < n; ++l) {
          int64_t& result = state.value.i[fold ? 0 : l];
          result = scalar::wrap(dtype, f(result, element.i[l]));
        }
      };
      const bool is_float_ = is_float(dtype);
      switch (reduction.kind) {
        case FE_REDUCE_SUM:
          is_float_ ? floats([](double a, double b) { return a + b; }) : ints(scalar::add);
          break;
        case FE_REDUCE_PROD:
          is_float_ ? floats([](double a, double b) { return a * b; }) : ints(scalar::mul);
          break;
        case FE_REDUCE_MAX:
          is_float_ ? floats(scalar::max)
                    : ints([=](int64_t a, int64_t b) { return scalar::less(dtype, a, b) ? b : a; });
          break;
        case FE_REDUCE_MIN:
          is_float_ ? floats(scalar::min)
                    : ints([=](int64_t a, int64_t b) { return scalar::less(dtype, b, a) ? b : a; });
          break;
        case FE_REDUCE_ANY: ints([](int64_t a, int64_t b) { return a | b; }); break;
        case FE_REDUCE_ALL: ints([](int64_t a, int64_t b) { return a & b; }); break;
        default: arg(state, reduction, element, registers_[body_.indices[k]], n, fold);
      }
    }
  }

  /// The first extremum in the order of the points wins; NaN beats everything.
  static void arg(State& state, const Reduction& reduction, const Register& element, const Register& index,
                  size_t n, bool fold) {
    const DType dtype = reduction.accumulator;
    const bool largest = reduction.kind == FE_REDUCE_ARGMAX;
    for (size_t l = 0; l < n; ++l) {
      const size_t to = fold ? 0 : l;
      bool better = !state.seen[to];
      if (!better && is_float(dtype)) {
        const double best = state.value.f[to], value = element.f[l];
        better = !std::isnan(best) && (std::isnan(value) || (largest ? value > best : value < best));
      } else if (!better) {
        const int64_t best = state.value.i[to], value = element.i[l];
        better = largest ? scalar::less(dtype, best, value) : scalar::less(dtype, value, best);
      }
      if (!better) continue;
      state.seen[to] = true;
      state.value.i[to] = element.i[l];  // the union's integer member also copies the bits of a double
      state.index.i[to] = index.i[l];
    }
  }

  /// Advances all carried states to the next point of the serial variables. All are read before any is
  /// written.
  void carry(size_t n) {
    std::vector<Register> next;
    for (uint32_t from : body_.next) next.push_back(registers_[from]);
    for (size_t k = 0; k < next.size(); ++k)
      for (uint32_t to : body_.carried[k]) std::copy_n(next[k].i, n, registers_[to].i);
  }

  void finish(size_t n) {
    for (size_t k = 0; k < states_.size(); ++k) {
      const bool arg = ferrite::loop::is_arg_reduction(s_.reductions[k].kind);
      for (uint32_t to : body_.reduced[k])
        std::copy_n(arg ? states_[k].index.i : states_[k].value.i, n, registers_[to].i);
    }
    execute(body_.finish, n);
    if (!fault_) store(body_.finish_stores, n);
  }

  const StatementList& list_;
  size_t number_;
  const Statement& s_;
  CompiledBody body_;
  std::span<const Memory> memory_;
  std::vector<Register> registers_;
  std::vector<State> states_;
  size_t parallel_ = 0;
  std::optional<Error> fault_;
};

fe_tensor_type type_of(const Buffer& buffer) {
  fe_tensor_type type{};
  type.size = sizeof type;
  type.dtype = static_cast<fe_dtype>(buffer.dtype);
  type.layout = FE_LAYOUT_STRIDED;
  type.rank = static_cast<uint32_t>(buffer.dims.size());
  type.dims = buffer.dims.data();
  type.strides = buffer.strides.data();
  return type;
}

Result<void> run_call(const StatementList& list, size_t number, std::span<const Memory> memory) {
  const auto* statement = list.provenance[number];
  const std::string place = describe_place(list, number);
  if (!statement || !statement->call.function)
    return at(place, error(FE_EUNSUPPORTED, "FE-X22", "the call has no function; it was read from text"));
  const CallInfo& info = statement->call;
  std::vector<fe_kernel_buffer> buffers;
  for (const auto* ids : {&info.reads, &info.writes}) {
    for (BufferId id : *ids) {
      const Buffer& buffer = *list.buffers[id];
      if (buffer.packing || buffer.offset != 0 ||
          buffer.strides != ferrite::loop::contiguous_strides(buffer.dims))
        return at(place, error(FE_EUNSUPPORTED, "FE-X22", "{} is not contiguous, as a call needs it",
                               buffer_name(list, id)));
      buffers.push_back({memory[list.storage[id]].data(), type_of(buffer)});
    }
  }
  fe_kernel_call_args args{
      sizeof args, {buffers.data(), buffers.size(), sizeof(fe_kernel_buffer)}, info.self};
  fe_none out{sizeof out};
  abi::Call call;
  const int32_t status =
      callback::call({{}, "kernel of a lowering", info.name}, info.function, info.self, call, &args, &out);
  if (status == FE_OK) return {};
  return at(place, call.error(status, "FE-X23",
                              fmt::format("the kernel '{}' failed with status {}", info.name, status)));
}

/// Runs the statements inside one outer loop over the first list.shared variables.
Result<void> run_shared(const StatementList& list, std::vector<Runner>& runners) {
  if (list.statements.empty()) return {};
  const auto vars = std::span(list.statements[0]->vars).first(list.shared);
  int64_t points = 1;
  for (const auto& var : vars) points *= var.extent;
  std::vector<int64_t> at(vars.size());
  for (int64_t point = 0; point < points; ++point) {
    for (auto& runner : runners) {
      for (size_t v = 0; v < at.size(); ++v) runner.set_shared(v, at[v]);
      FE_CHECK(runner.run(list.shared));
    }
    for (size_t v = at.size(); v-- > 0;) {
      if (++at[v] < vars[v].extent) break;
      at[v] = 0;
    }
  }
  return {};
}

}  // namespace

Result<void> evaluate(const StatementList& list, std::span<const Memory> given) {
  FE_CHECK(verify(list));
  if (given.size() != list.buffers.size())
    return error(FE_EINVALID, "FE-X20", "{} for {}", counted(given.size(), "memory block"),
                 counted(list.buffers.size(), "buffer"));
  std::vector<Memory> memory(given.begin(), given.end());
  std::vector<std::vector<std::byte>> owned;
  for (BufferId id = 0; id < list.buffers.size(); ++id) {
    // Versions have no memory of their own.
    if (list.storage[id] != id) continue;
    const auto needed = static_cast<uint64_t>(std::max<int64_t>(list.buffers[id]->bytes(), 0));
    if (memory[id].size() >= needed) continue;
    if (!memory[id].empty() || list.buffers[id]->kind != FE_BUFFER_LOCAL)
      return error(FE_EINVALID, "FE-X20", "{} needs {} bytes and has {}", buffer_name(list, id), needed,
                   memory[id].size());
    memory[id] = owned.emplace_back(needed);
  }
  std::vector<Runner> runners;
  for (size_t k = 0; k < list.statements.size(); ++k) {
    if (list.statements[k]->kind == FE_STATEMENT_CALL) {
      FE_CHECK(run_call(list, k, memory));
      continue;
    }
    FE_TRY(auto body, eval::compile(list, *list.statements[k]));
    Runner runner(list, k, std::move(body), memory);
    if (list.shared == 0)
      FE_CHECK(runner.run(0));
    else
      runners.push_back(std::move(runner));
  }
  return list.shared == 0 ? Result<void>() : run_shared(list, runners);
}

Result<void> evaluate(const LoopProgram& program, std::span<const ConstMemory> inputs,
                      std::span<const Memory> outputs, std::span<const Memory> changed) {
  if (inputs.size() != program.inputs.size() || outputs.size() != program.outputs.size())
    return error(FE_EINVALID, "FE-X20", "the program has {} and {}, not {} and {}",
                 counted(program.inputs.size(), "input"), counted(program.outputs.size(), "output"),
                 inputs.size(), outputs.size());
  FE_CHECK(verify(program));
  const StatementList list = list_of(program);
  std::vector<std::vector<std::byte>> owned;
  std::vector<Memory> memory(list.buffers.size());
  auto bytes_needed = [&](BufferId id) {
    return static_cast<size_t>(std::max<int64_t>(list.buffers[id]->bytes(), 0));
  };
  // Statements may write inputs and constants through versions. Copy those, so that the caller's memory is
  // unchanged.
  std::vector<bool> written(list.buffers.size());
  for (BufferId id = 0; id < list.buffers.size(); ++id)
    if (list.storage[id] != id) written[list.storage[id]] = true;
  for (BufferId id = 0; id < list.buffers.size(); ++id) {
    const auto& buffer = program.buffers[id];
    if (list.storage[id] != id) continue;
    ConstMemory from;
    if (buffer.role == Role::input) from = inputs[buffer.number];
    if (buffer.role == Role::constant) {
      const auto& constant = program.constants[buffer.number];
      if (!constant.data && bytes_needed(id) > 0)
        return error(FE_EINVALID, "FE-X20",
                     "the contents of constant '{}' are not there; the program was read from text",
                     constant.id);
      from = {constant.data, constant.bytes};
    }
    if (from.data() && !written[id]) {
      memory[id] = {const_cast<std::byte*>(from.data()), from.size()};
      continue;
    }
    if (buffer.role == Role::input || buffer.role == Role::constant) {
      if (from.size() < bytes_needed(id))
        return error(FE_EINVALID, "FE-X20", "{} needs {} bytes and has {}", buffer_name(list, id),
                     bytes_needed(id), from.size());
    }
    memory[id] = owned.emplace_back(bytes_needed(id));
    if (from.data()) std::memcpy(memory[id].data(), from.data(), bytes_needed(id));
  }
  FE_CHECK(evaluate(list, memory));
  for (size_t k = 0; k < outputs.size(); ++k) {
    const BufferId id = program.outputs[k];
    if (outputs[k].size() < bytes_needed(id))
      return error(FE_EINVALID, "FE-X20", "output {} needs {} bytes and has {}", k, bytes_needed(id),
                   outputs[k].size());
    if (bytes_needed(id) > 0)
      std::memcpy(outputs[k].data(), memory[list.storage[id]].data(), bytes_needed(id));
  }
  for (size_t k = 0; k < changed.size(); ++k) {
    const BufferId id = program.inputs[k];
    if (written[id] && bytes_needed(id) > 0)
      std::memcpy(changed[k].data(), memory[id].data(), std::min(changed[k].size(), bytes_needed(id)));
  }
  return {};
}

Result<void> evaluate(const Kernel& kernel, std::span<const Memory> memory) {
  return evaluate(list_of(kernel), memory);
}

}  // namespace ferrite::core::loop
