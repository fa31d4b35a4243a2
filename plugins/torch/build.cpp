// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "build.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <stdexcept>

#include "context.h"
#include "ferrite/counted.hpp"
#include "helpers.h"

namespace ferrite::from_torch {
namespace {

/// Begins the target of each node that is an op of Ferrite: node_stream.h has their form.
constexpr std::string_view ferrite_prefix = "ferrite:";

class Builder {
 public:
  Builder(Graph& graph, const Program& program, const PluginOps& plugins, std::vector<Value> inputs)
      : graph_(graph),
        program_(program),
        plugins_(plugins),
        values_(std::move(inputs)),
        sources_(supported_sources()) {
    for (const auto& source : sources_) known_.push_back(to_abi(source));
  }

  std::vector<Value> run() {
    refuse_unknown();
    for (const auto& node : program_.nodes)
      for (const auto& value : results_of(node)) values_.push_back(value);
    for (size_t k = 0; k < program_.inputs.size(); ++k) {
      const auto& input = program_.inputs[k];
      if (input.mutated_by || input.donated)
        graph_.set_input_memory(values_[k], input.mutated_by ? values_[*input.mutated_by] : Value(),
                                input.donated);
    }
    std::vector<Value> outputs;
    for (const auto& output : program_.outputs) {
      if (!values_[output.value])
        fail("FE-I51", "output '", output.name, "' is no tensor; make the program again");
      outputs.push_back(values_[output.value]);
    }
    return outputs;
  }

  std::string survey() {
    std::string lines;
    for (size_t k = 0; k < program_.nodes.size(); ++k) {
      const auto& node = program_.nodes[k];
      std::vector<Value> results;
      try {
        results = results_of(node);
      } catch (const Failure& failure) {
        std::string reason = failure.what();
        std::ranges::replace(reason, '\n', ' ');
        std::ranges::replace(reason, '\t', ' ');
        lines += std::to_string(k) + '\t' + node.target + '\t' + std::string(failure.code()) + '\t' + reason +
                 '\n';
        results.clear();
        for (size_t r = 0; r < node.results.size(); ++r)
          results.push_back(node.results[r] ? graph_.input("%" + std::to_string(k) + "." + std::to_string(r),
                                                           *node.results[r])
                                            : Value());
      }
      values_.insert(values_.end(), results.begin(), results.end());
    }
    return lines;
  }

 private:
  bool is_known(const ProgramNode& node) const {
    return find_op(node.target) || is_of_ferrite(node) || !why_refused(node.target).empty() ||
           is_of_plugin(node);
  }
  bool is_of_plugin(const ProgramNode& node) const {
    return plugins_.find(source_of(node.target), 0).kind != FE_READER_NONE;
  }

  void refuse_unknown() const {
    std::map<std::string, size_t> uses;
    const ProgramNode* first = nullptr;
    for (const auto& node : program_.nodes) {
      if (is_known(node)) continue;
      if (!first) first = &node;
      ++uses[node.target];
    }
    if (!first) return;
    std::string text = uses.size() == 1 ? "an overload is not supported: "
                                        : counted(uses.size(), "overload") + " are not supported: ";
    const char* separator = "";
    for (const auto& [target, count] : uses) {
      text += separator + target + (count > 1 ? " (" + std::to_string(count) + " nodes)" : "");
      separator = ", ";
    }
    text += "; the first is node '" + first->name + "'";
    if (!first->place.empty()) text += " at " + first->place;
    if (program_.draws)  // an archive
      text +=
          "; where PyTorch composes an overload of others, an export with run_decompositions() has those "
          "instead";
    throw Failure(FE_EUNSUPPORTED, "FE-I50", text);
  }

  /// The node's results; absent where it has none.
  std::vector<Value> results_of(const ProgramNode& node) {
    graph_.set_origin(node.name);
    const OpEntry* entry = find_op(node.target);
    std::vector<Value> given;
    if (entry) {
      Context context(graph_, program_, node, *entry, values_);
      try {
        entry->handler(context);
      } catch (const Failure& failure) {
        const std::string& code = failure.code();
        if (code == "FE-I52" || code == "FE-I53") throw;
        throw Failure(failure.status(), failure.code(), context.where() + ": " + failure.what());
      } catch (const std::logic_error&) {  // a size that was looked up is not there, or is no size
        context.bad("its arguments and the types of its results have sizes that the overload does not take");
      }
      context.check_all_read();
      given = context.given();
      if (node.converts && !given.empty() && given[0] && node.results[0])
        given[0] = cast_to(context, given[0], node.results[0]->dtype);
    } else if (is_of_ferrite(node)) {
      given = of_ferrite(node);
      if (given.size() != node.results.size())
        fail("FE-I51", where(node), ": the op has ", counted(given.size(), "result"), ", and the node ",
             node.results.size());
    } else if (const auto reason = why_refused(node.target); !reason.empty() && !is_of_plugin(node)) {
      throw Failure(FE_EUNSUPPORTED, "FE-I53", detail::concatenate(where(node), ": ", reason));
    } else {
      given = by_plugin(node);
    }
    check_types(node, given);
    return given;
  }

  void check_types(const ProgramNode& node, const std::vector<Value>& given) const {
    for (size_t k = 0; k < node.results.size(); ++k) {
      if (!node.results[k] || !given[k]) continue;
      const auto type = given[k].type();
      if (type != *node.results[k])
        throw Failure(FE_EUNSUPPORTED, "FE-I54",
                      detail::concatenate(where(node), ": result ", k, " is ", to_string(type),
                                          ", and PyTorch says ", to_string(*node.results[k])));
    }
  }

  static bool is_of_ferrite(const ProgramNode& node) { return node.target.starts_with(ferrite_prefix); }

  /// An op of Ferrite with operands and attributes of its own, or a literal.
  std::vector<Value> of_ferrite(const ProgramNode& node) {
    const auto op = std::string_view(node.target).substr(ferrite_prefix.size());
    if (op == "literal") return {literal(node)};
    std::vector<Value> operands;
    for (const auto& argument : node.args)
      operands.push_back(argument.tensor() ? values_[argument.tensor()->number] : Value());
    std::vector<Attr> attrs;
    for (const auto& [name, argument] : node.kwargs) attrs.push_back(attribute(node, name, argument));
    return graph_.make_all(op, operands, attrs);
  }

  /// [FE_ATTR_*, value]
  static Attr attribute(const ProgramNode& node, const std::string& name, const Argument& argument) {
    const auto* pair = argument.list();
    const auto* kind = pair && pair->size() == 2 ? std::get_if<int64_t>(&pair->front().value) : nullptr;
    const auto wrong = [&] { fail("FE-I51", where(node), ": attribute '", name, "' is damaged"); };
    if (!kind) wrong();
    const Argument& value = pair->back();
    const auto one = [&]<class T>(const Argument& from, T*) {
      const auto* found = std::get_if<T>(&from.value);
      if (!found) wrong();
      return *found;
    };
    const auto list = [&]<class T>(T* type) {
      std::vector<T> elements;
      if (!value.list()) wrong();
      for (const auto& element : *value.list()) elements.push_back(one(element, type));
      return elements;
    };
    switch (*kind) {
      case FE_ATTR_INT: return attr(name, one(value, static_cast<int64_t*>(nullptr)));
      case FE_ATTR_FLOAT: return attr(name, one(value, static_cast<double*>(nullptr)));
      case FE_ATTR_STRING: return attr(name, one(value, static_cast<std::string*>(nullptr)));
      case FE_ATTR_DTYPE: return attr(name, one(value, static_cast<DType*>(nullptr)));
      case FE_ATTR_INTS: return attr(name, list(static_cast<int64_t*>(nullptr)));
      case FE_ATTR_FLOATS: return attr(name, list(static_cast<double*>(nullptr)));
      case FE_ATTR_STRINGS: return attr(name, list(static_cast<std::string*>(nullptr)));
      case FE_ATTR_BOOL: return attr(name, one(value, static_cast<bool*>(nullptr)));
      default: wrong();
    }
    return attr(name, 0);
  }

  /// [bytes as hex], of the type of the node's result.
  Value literal(const ProgramNode& node) {
    const auto* hex = node.args.size() == 1 ? std::get_if<std::string>(&node.args[0].value) : nullptr;
    const auto* type = node.results.size() == 1 && node.results[0] ? &*node.results[0] : nullptr;
    if (!hex || !type || static_cast<int64_t>(hex->size()) != 2 * bytes_of(type->dtype, type->elements()))
      fail("FE-I51", where(node), ": the literal is damaged");
    std::vector<uint8_t> bytes(hex->size() / 2);
    for (size_t k = 0; k < bytes.size(); ++k)
      if (std::from_chars(hex->data() + 2 * k, hex->data() + 2 * k + 2, bytes[k], 16).ptr !=
          hex->data() + 2 * k + 2)
        fail("FE-I51", where(node), ": the literal is damaged");
    return graph_.literal(*type, bytes.data());
  }

  /// A custom op: its tensors become operands, all else attributes, named as in the call.
  std::vector<Value> by_plugin(const ProgramNode& node) {
    const std::string source = source_of(node.target);
    const std::string place = where(node);
    if (plugins_.find(source, 0, known_).kind == FE_READER_NONE)
      throw Failure(FE_EUNSUPPORTED, "FE-I50", place + ": the overload is not supported");
    std::vector<fe_value> operands;
    std::vector<Attr> attrs;
    const auto take = [&](const std::string& name, const Argument& argument) {
      if (const auto* tensor = argument.tensor()) {
        operands.push_back(values_[tensor->number].handle());
      } else if (const auto* integer = std::get_if<int64_t>(&argument.value)) {
        attrs.push_back(attr(name, *integer));
      } else if (const auto* number = std::get_if<double>(&argument.value)) {
        attrs.push_back(attr(name, *number));
      } else if (const auto* flag = std::get_if<bool>(&argument.value)) {
        attrs.push_back(attr(name, *flag));
      } else if (const auto* text = std::get_if<std::string>(&argument.value)) {
        attrs.push_back(attr(name, *text));
      } else if (const auto* dtype = std::get_if<DType>(&argument.value)) {
        attrs.push_back(attr(name, *dtype));
      } else if (const auto* list = argument.list()) {
        Dims integers;
        for (const auto& element : *list)
          if (const auto* tensor = element.tensor())
            operands.push_back(values_[tensor->number].handle());
          else if (const auto* one = std::get_if<int64_t>(&element.value))
            integers.push_back(*one);
        if (!integers.empty()) attrs.push_back(attr(name, integers));
      } else {
        operands.push_back(0);
      }
    };
    for (size_t k = 0; k < node.args.size(); ++k) take("arg" + std::to_string(k), node.args[k]);
    for (const auto& [name, argument] : node.kwargs) take(name, argument);
    std::vector<std::vector<fe_string>> strings(attrs.size());
    std::vector<fe_attr> abi_attrs;
    for (size_t k = 0; k < attrs.size(); ++k) abi_attrs.push_back(attrs[k].abi(strings[k]));
    std::vector<std::string> names;
    for (size_t k = 0; k < node.results.size(); ++k)
      names.push_back(node.name + (k ? "." + std::to_string(k) : ""));
    std::vector<fe_string> results;
    for (size_t k = 0; k < names.size(); ++k)
      results.push_back(to_abi(node.results[k] ? names[k] : std::string_view()));
    auto abi = sized<fe_import_node>();
    abi.source = to_abi(source);
    abi.name = to_abi(node.name);
    abi.place = to_abi(place);
    abi.operands = to_array(operands.data(), operands.size());
    abi.attrs = to_array(abi_attrs.data(), abi_attrs.size());
    abi.results = to_array(results.data(), results.size());
    return plugins_.import_node(graph_, abi);
  }

  Graph& graph_;
  const Program& program_;
  const PluginOps& plugins_;
  std::vector<Value> values_;  ///< by number
  std::vector<std::string> sources_;
  std::vector<fe_string> known_;
};

}  // namespace

std::vector<Value> build_graph(Graph& graph, const Program& program, const PluginOps& plugins,
                               std::vector<Value> inputs) {
  return Builder(graph, program, plugins, std::move(inputs)).run();
}

std::string unsupported_nodes(Graph& graph, const Program& program, const PluginOps& plugins,
                              std::vector<Value> inputs) {
  return Builder(graph, program, plugins, std::move(inputs)).survey();
}

}  // namespace ferrite::from_torch
