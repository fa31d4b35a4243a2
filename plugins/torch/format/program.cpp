// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "format/program.h"

#include <set>
#include <string_view>

#include "ferrite/error.hpp"

namespace ferrite::from_torch {
namespace {

void check_defined(const Argument& argument, size_t defined, const ProgramNode& node) {
  if (const auto* tensor = argument.tensor(); tensor && tensor->number >= defined)
    fail("FE-I51", "node '", node.name, "' (", node.target, ") uses value ", tensor->number,
         ", which is defined later or never; make the program again");
  if (const auto* list = argument.list())
    for (const auto& element : *list) check_defined(element, defined, node);
}

void check_names(const std::vector<ProgramPort>& ports, std::string_view what) {
  std::set<std::string_view> names;
  for (const auto& port : ports)
    if (port.name.empty() || !names.insert(port.name).second)
      fail("FE-I51", "the name '", port.name, "' of an ", what,
           " is empty or stands twice; make the program again");
}

}  // namespace

std::string where(const ProgramNode& node) {
  std::string text = "node '" + node.name + "' (" + node.target + ")";
  if (!node.place.empty()) text += " at " + node.place;
  return text;
}

TargetParts parts_of(std::string_view target) {
  const auto first = target.find('.'), last = target.rfind('.');
  if (first == std::string_view::npos || first == last) return {"", target, ""};
  return {target.substr(0, first), target.substr(first + 1, last - first - 1), target.substr(last + 1)};
}

DType dtype_of(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  struct Entry {
    std::string_view name;
    DType dtype;
  };
  static constexpr Entry entries[] = {{"float32", f32},
                                      {"float64", f64},
                                      {"float16", f16},
                                      {"bfloat16", bf16},
                                      {"int64", i64},
                                      {"int32", i32},
                                      {"int16", i16},
                                      {"int8", i8},
                                      {"uint8", u8},
                                      {"uint16", u16},
                                      {"uint32", u32},
                                      {"uint64", u64},
                                      {"bool", boolean},
                                      {"float8_e4m3fn", f8e4m3},
                                      {"float8_e5m2", f8e5m2},
                                      {"float8_e4m3fnuz", f8e4m3fnuz},
                                      {"float8_e5m2fnuz", f8e5m2fnuz}};
  for (const auto& entry : entries)
    if (entry.name == name) return entry.dtype;
  return DType::none;
}

void check(const Program& program) {
  check_names(program.inputs, "input");
  check_names(program.outputs, "output");
  size_t defined = program.inputs.size() + program.constants.size();
  for (const auto& node : program.nodes) {
    for (const auto& argument : node.args) check_defined(argument, defined, node);
    for (const auto& [name, argument] : node.kwargs) check_defined(argument, defined, node);
    defined += node.results.size();
  }
  for (const auto& output : program.outputs)
    if (output.value >= defined)
      fail("FE-I51", "output '", output.name, "' is value ", output.value, " of ", defined,
           "; make the program again");
}

}  // namespace ferrite::from_torch
