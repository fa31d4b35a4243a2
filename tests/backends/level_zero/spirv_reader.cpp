// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "spirv_reader.h"

#include <bit>
#include <cstring>
#include <utility>

namespace pocl_driver {

namespace {

class SpirVReader {
 public:
  std::optional<SpirV> read(std::span<const uint32_t> words) {
    if (!is_spirv(words)) return std::nullopt;
    each(words, [&](uint32_t op, std::span<const uint32_t> operands) { count_edges(op, operands); });
    module_.words.assign(words.begin(), words.begin() + head_words);
    each(words, [&](uint32_t op, std::span<const uint32_t> operands) {
      note(op, operands);
      write(op, operands);
    });
    for (const auto& [name, function] : names_) {
      EntryPoint& entry = module_.entries[name];
      for (const auto type : parameters_[function_types_[function]])
        entry.arguments.push_back(argument(type));
      if (const auto size = group_sizes_.find(function); size != group_sizes_.end())
        entry.group_size = size->second;
    }
    return std::move(module_);
  }

 private:
  enum Op : uint32_t { OpEntryPoint = 15, OpExecutionMode = 16, OpTypeBool = 20, OpTypeInt = 21 };
  enum Op2 : uint32_t { OpTypeFloat = 22, OpTypeVector = 23, OpTypePointer = 32, OpTypeFunction = 33 };
  enum Op3 : uint32_t { OpConstantFalse = 42, OpConstant = 43, OpConstantNull = 46, OpFunction = 54 };
  enum Op4 : uint32_t { OpPhi = 245, OpLabel = 248, OpSwitch = 251 };
  struct Type {
    uint32_t op = 0, storage = 0;
    size_t bits = 0;
  };

  static constexpr size_t head_words = 5;

  static bool is_spirv(std::span<const uint32_t> words) {
    if (words.size() < head_words || words[0] != 0x07230203) return false;
    for (size_t at = head_words, count = 0; at < words.size(); at += count) {
      count = words[at] >> 16;
      if (count == 0 || count > words.size() - at) return false;
    }
    return true;
  }
  template <class Visit>
  static void each(std::span<const uint32_t> words, Visit visit) {
    for (size_t at = head_words, count = 0; at < words.size(); at += count) {
      count = words[at] >> 16;
      visit(words[at] & 0xffff, words.subspan(at + 1, count - 1));
    }
  }
  static uint32_t at(std::span<const uint32_t> operands, size_t index) {
    return index < operands.size() ? operands[index] : 0;
  }

  /// Counts how often each block's switch goes to another block. The literals of cases must have one word:
  /// switches over 64 bits are counted too low and stay unchanged.
  void count_edges(uint32_t op, std::span<const uint32_t> operands) {
    if (op == OpLabel) block_ = at(operands, 0);
    if (op != OpSwitch) return;
    for (size_t i = 1; i < operands.size(); i += 2) ++edges_[{block_, operands[i]}];
  }

  void note(uint32_t op, std::span<const uint32_t> operands) {
    const uint32_t id = at(operands, 0), second = at(operands, 1);
    if (op == OpLabel) block_ = id;
    if (op == OpEntryPoint) names_[name(operands)] = second;
    if (op == OpExecutionMode && second == 17)
      group_sizes_[id] = {at(operands, 2), at(operands, 3), at(operands, 4)};
    if (op == OpTypeBool) types_[id] = {op, 0, 0};
    if (op == OpTypeInt || op == OpTypeFloat) types_[id] = {op, 0, second};
    // Three elements occupy the space of four.
    if (op == OpTypeVector) types_[id] = {op, 0, types_[second].bits * std::bit_ceil(at(operands, 2))};
    if (op == OpTypePointer) types_[id] = {op, second, 64};
    if (op == OpTypeFunction && operands.size() > 2)
      parameters_[id].assign(operands.begin() + 2, operands.end());
    if (op == OpFunction) function_types_[second] = at(operands, 3);
  }

  void write(uint32_t op, std::span<const uint32_t> operands) {
    Words out(operands.begin(), operands.end());
    if (op == OpConstantNull && operands.size() == 2) {
      const Type& type = types_[operands[0]];
      if (type.op == OpTypeBool) op = OpConstantFalse;
      if (type.op == OpTypeInt || type.op == OpTypeFloat) {
        op = OpConstant;
        out.insert(out.end(), (type.bits + 31) / 32, 0);
      }
    }
    // LLVM requires a phi's value once per edge from a block, SPIR-V once per block.
    for (size_t i = 2; op == OpPhi && i + 1 < operands.size(); i += 2) {
      const auto edges = edges_.find({operands[i + 1], block_});
      for (int more = edges == edges_.end() ? 0 : edges->second - 1; more > 0; --more)
        out.insert(out.end(), {operands[i], operands[i + 1]});
    }
    module_.words.push_back(static_cast<uint32_t>(out.size() + 1) << 16 | op);
    module_.words.insert(module_.words.end(), out.begin(), out.end());
  }

  /// The name after the execution model and the function of an OpEntryPoint; its end may be missing.
  static std::string name(std::span<const uint32_t> operands) {
    if (operands.size() < 3) return "";
    const auto* text = reinterpret_cast<const char*>(operands.data() + 2);
    return {text, strnlen(text, (operands.size() - 2) * 4)};
  }

  Argument argument(uint32_t type_id) {
    const Type& type = types_[type_id];
    if (type.op != OpTypePointer) return {Argument::Value, type.bits / 8};
    if (type.storage == 4) return {Argument::Local, 0};  // storage class Workgroup
    if (type.storage == 7) return {Argument::Value, 0};  // storage class Function: a struct by value
    return {Argument::Pointer, sizeof(void*)};
  }

  SpirV module_;
  uint32_t block_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, int> edges_;
  std::map<std::string, uint32_t> names_;
  std::map<uint32_t, uint32_t> function_types_;
  std::map<uint32_t, Words> parameters_;
  std::map<uint32_t, Type> types_;
  std::map<uint32_t, Size3> group_sizes_;
};

}  // namespace

std::optional<SpirV> read_spirv(std::span<const uint32_t> words) { return SpirVReader().read(words); }

}  // namespace pocl_driver
