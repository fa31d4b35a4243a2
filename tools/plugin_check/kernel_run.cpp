// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs one case of the conformance list on a device and compares it with the interpreter.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/ir/loop/interpreter.h"
#include "core/ir/loop/scalar.h"
#include "core/ir/text/print_loops.h"
#include "core/select/placement.h"
#include "tools/plugin_check/backend.h"

namespace ferrite::core::plugin_check {
namespace {

namespace scalar = loop::scalar;

constexpr size_t alignment = 64;  // of kernels' buffers

size_t width_of(DType dtype) { return static_cast<size_t>(bits_of(dtype)) / 8; }

/// The initial contents of memory: NaN in every float type.
constexpr std::byte unwritten{0xFF};

/// Memory that ends at an inaccessible page, as closely as the alignment allows; nothing of it is written.
class Guarded {
 public:
  explicit Guarded(size_t bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    const size_t inner = (rounded + page - 1) / page * page;
    size_ = inner + page;
    void* base = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return;
    base_ = static_cast<std::byte*>(base);
    mprotect(base_ + inner, page, PROT_NONE);
    std::memset(base_, static_cast<int>(unwritten), inner);
    data_ = base_ + inner - rounded;
    after_end_ = {data_ + bytes, rounded - bytes};
  }
  ~Guarded() {
    if (base_) munmap(base_, size_);
  }
  Guarded(const Guarded&) = delete;
  std::byte* data() { return data_; }
  /// Whether the bytes between its end and the page are unchanged.
  bool intact() const {
    for (const auto byte : after_end_)
      if (byte != unwritten) return false;
    return true;
  }

 private:
  std::byte *base_ = nullptr, *data_ = nullptr;
  std::span<const std::byte> after_end_;
  size_t size_ = 0;
};

double random_float(Values values, validate::Random& random) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr std::array special = {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity, 0.0, -0.0};
  switch (values) {
    case Values::special:
      if (random.chance(0.125)) return random.pick(special);
      return 3 * random.normal();
    case Values::positive: return 4 * random.real() + 0x1p-10;
    case Values::fraction: return 1.98 * random.real() - 0.99;
    case Values::above_one: return 1.01 + 7 * random.real();
    case Values::exact: return 0.25 * (static_cast<double>(random.below(17)) - 8);
    case Values::powers:
      return random.chance(0.8) ? (random.chance(0.5) ? 1 : -1) : random.chance(0.5) ? 2 : 0.5;
    case Values::index: return static_cast<double>(random.below(5));
    case Values::signed_index: return static_cast<double>(random.below(10)) - 5;
    default: return 3 * random.normal();
  }
}

int64_t random_integer(DType dtype, Values values, validate::Random& random) {
  const bool sign = is_signed(dtype);
  const std::array ends = {scalar::lowest_int(dtype), scalar::highest_int(dtype), int64_t{0}, int64_t{1}};
  switch (values) {
    case Values::ordinary:
    case Values::special:
      if (random.chance(0.25)) return random.pick(ends);
      return static_cast<int64_t>(random.below(15)) - (sign ? 7 : 0);
    case Values::powers: return random.chance(0.9) ? (sign && random.chance(0.5) ? -1 : 1) : 2;
    case Values::index: return static_cast<int64_t>(random.below(5));
    case Values::signed_index: return static_cast<int64_t>(random.below(10)) - 5;
    case Values::outside: return static_cast<int64_t>(random.below(81)) - 40;
    default: return static_cast<int64_t>(random.below(9)) - (sign ? 4 : 0);
  }
}

/// One element in the form of texts; a bool that is neither 0 nor 1 as its byte.
std::string shown(DType dtype, uint64_t bits) {
  return dtype == boolean && bits > 1 ? fmt::format("the byte {:#04x}", bits)
                                      : loop::format_bits(dtype, bits);
}

}  // namespace

validate::Tensor values_of(DType dtype, int64_t count, Values values, validate::Random& random) {
  const size_t width = width_of(dtype);
  validate::Tensor tensor(static_cast<size_t>(count) * width);
  for (size_t k = 0; k < static_cast<size_t>(count); ++k) {
    const uint64_t bits = dtype == boolean  ? random.below(2)
                          : is_float(dtype) ? scalar::float_bits(dtype, random_float(values, random))
                                            : scalar::int_bits(dtype, random_integer(dtype, values, random));
    std::memcpy(tensor.data() + k * width, &bits, width);
  }
  // Ensures that an out-of-range index occurs, also for unsigned indices, which cannot count from the end.
  const bool beyond = values == Values::signed_index && !is_float(dtype) && !is_signed(dtype);
  if ((values == Values::outside || beyond) && count > 0) {
    const uint64_t bits = scalar::int_bits(dtype, beyond ? -1 : 40);
    std::memcpy(tensor.data(), &bits, width);
  }
  return tensor;
}

double ulp_between(DType dtype, const std::byte* expected, const std::byte* actual) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const size_t width = width_of(dtype);
  if (std::memcmp(expected, actual, width) == 0) return 0;
  if (!is_float(dtype)) return infinity;
  uint64_t bits[2] = {0, 0};
  std::memcpy(&bits[0], expected, width);
  std::memcpy(&bits[1], actual, width);
  const double e = scalar::float_value(dtype, bits[0]), a = scalar::float_value(dtype, bits[1]);
  if (e == a || (std::isnan(e) && std::isnan(a))) return 0;
  if (!std::isfinite(e) || !std::isfinite(a)) return infinity;
  const auto* info = find_dtype(dtype);
  // The exponent of the smallest normal number.
  const int least = is_f8(dtype) ? 1 - f8_format(dtype).bias : 2 - (1 << (info->exponent - 1));
  const int exponent = e == 0 ? least : std::max(std::ilogb(e), least);
  return std::fabs(e - a) / std::ldexp(1.0, exponent - info->mantissa);
}

Result<schedule::Schedule> schedule_of(const KernelCase& kernel, const runtime::Devices& devices) {
  FE_TRY(auto program, loop::parse_program(kernel.text, kernel.name));
  schedule::FusionLimits limits;
  limits.target = runtime::numbers_of(devices);
  if (!kernel.fused) limits.without.add(schedule::Feature::fuse);
  Ledger ledger;
  return schedule::fuse(std::move(program), {}, limits, ledger);
}

Result<CaseResult> run_case(const KernelCase& kernel, const runtime::Devices& devices, uint64_t seed) {
  FE_TRY(const auto schedule, schedule_of(kernel, devices));
  const auto& program = schedule.program;
  validate::Random random(seed);
  std::vector<validate::Tensor> inputs, expected;
  for (size_t k = 0; k < program.inputs.size(); ++k) {
    const auto& buffer = program.buffers[program.inputs[k]];
    inputs.push_back(values_of(buffer.dtype, buffer.elements(), kernel.inputs[k], random));
  }
  for (const auto id : program.outputs)
    expected.emplace_back(static_cast<size_t>(program.buffers[id].bytes()));
  if (!kernel.out_of_range) {
    const std::vector<loop::ConstMemory> in(inputs.begin(), inputs.end());
    const std::vector<loop::Memory> out(expected.begin(), expected.end());
    FE_CHECK(loop::evaluate(program, in, out));
  }

  Ledger ledger;
  select::CandidateBlocklist none;
  const auto placement = select::assign_groups(schedule, devices, none, ledger);
  link::BuildOptions options;
  options.threads = options.jobs = 1;
  options.red_zones = true;
  link::Builder builder(schedule, devices, placement, {}, options, none, ledger);
  CaseResult result;
  for (auto step : {+[](link::Builder& b) { return b.select(); },
                    +[](link::Builder& b) {
                      auto done = b.emit();
                      if (done) done = b.load();
                      if (done) b.plan();
                      return done;
                    }}) {
    auto done = step(builder);
    if (done) continue;
    if (done.error().status != FE_EUNSUPPORTED) return std::move(done.error());
    result.declined = true;
    result.reason = done.error().text;
    return result;
  }
  FE_TRY(const auto executable, builder.link());
  if (!executable || !none.dropped.empty())
    return error(FE_EINVALID, "FE-P52", "{}", none.dropped.begin()->second);
  std::vector<std::unique_ptr<Guarded>> memory;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const auto& input : inputs) {
    auto& guarded = *memory.emplace_back(std::make_unique<Guarded>(input.size()));
    if (!input.empty()) std::memcpy(guarded.data(), input.data(), input.size());
    in.push_back(guarded.data());
  }
  for (const auto& output : expected)
    out.push_back(memory.emplace_back(std::make_unique<Guarded>(output.size()))->data());
  runtime::Executable::Context context(*executable);
  FE_CHECK(context.fill_arenas(unwritten));
  const auto ran = executable->run(context, in, out);
  if (kernel.out_of_range && ran)
    return error(FE_EINVALID, "FE-P52", "an index that is out of range is not reported");
  if (!ran && (!kernel.out_of_range || ran.error().code != "FE-X10")) return ran.error();
  FE_TRY(const auto beside, context.written_beside(unwritten));
  if (!beside.empty()) return error(FE_EINVALID, "FE-P52", "{}", beside);
  for (size_t k = 0; k < memory.size(); ++k)
    if (!memory[k]->intact())
      return error(FE_EINVALID, "FE-P52", "it writes past the end of {} {}",
                   k < inputs.size() ? "input" : "output", k < inputs.size() ? k : k - inputs.size());
  if (kernel.out_of_range) return result;
  for (size_t k = 0; k < inputs.size(); ++k)
    if (!inputs[k].empty() && std::memcmp(in[k], inputs[k].data(), inputs[k].size()) != 0)
      return error(FE_EINVALID, "FE-P52", "it changes input {}", k);
  for (size_t k = 0; k < expected.size(); ++k) {
    const auto dtype = program.buffers[program.outputs[k]].dtype;
    const size_t width = width_of(dtype);
    for (size_t at = 0; at < expected[k].size(); at += width) {
      const double off = ulp_between(dtype, &expected[k][at], static_cast<const std::byte*>(out[k]) + at);
      result.ulp = std::max(result.ulp, off);
      if (off <= kernel.ulp) continue;
      uint64_t bits[2] = {0, 0};
      std::memcpy(&bits[0], &expected[k][at], width);
      std::memcpy(&bits[1], static_cast<const std::byte*>(out[k]) + at, width);
      return error(FE_EINVALID, "FE-P52", "element {} is {}, the interpreter gives {}{}", at / width,
                   shown(dtype, bits[1]), shown(dtype, bits[0]),
                   std::isfinite(off)
                       ? fmt::format(" ({:.1f} units in the last place, {:g} are allowed)", off, kernel.ulp)
                       : "");
    }
  }
  return result;
}

}  // namespace ferrite::core::plugin_check
