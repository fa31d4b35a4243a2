// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "format/archive.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "ferrite/error.hpp"
#include "format/stored_files.h"

namespace ferrite::from_torch {
namespace {

using Json = nlohmann::json;

[[noreturn]] void unsupported(const std::string& what) { throw Failure(FE_EUNSUPPORTED, "FE-I53", what); }

const Json& member(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (!object.is_object() || found == object.end()) damaged_archive(std::string("'") + name + "' is missing");
  return *found;
}
std::string text(const Json& value) {
  if (!value.is_string()) damaged_archive("a name is no string");
  return value.get<std::string>();
}
int64_t integer(const Json& value) {
  if (!value.is_number_integer()) damaged_archive("a number is no integer");
  return value.get<int64_t>();
}
/// The name and the value of a union's only member.
std::pair<std::string, const Json*> only_member(const Json& object) {
  if (!object.is_object() || object.size() != 1) damaged_archive("a union has not one member");
  const auto item = object.begin();
  return {item.key(), &item.value()};
}

DType dtype_from(const Json& number) {
  switch (integer(number)) {
    case 1: return u8;
    case 2: return i8;
    case 3: return i16;
    case 4: return i32;
    case 5: return i64;
    case 6: return f16;
    case 7: return f32;
    case 8: return f64;
    case 12: return boolean;
    case 13: return bf16;
    case 28: return u16;
    case 29: return f8e4m3;
    case 30: return f8e5m2;
    case 31: return f8e4m3fnuz;
    case 32: return f8e5m2fnuz;
    case 34: return u32;
    case 35: return u64;
    case 9:
    case 10:
    case 11:
      throw Failure(FE_EUNSUPPORTED, "FE-I19", "complex numbers are not supported; compute with their parts");
    default:
      throw Failure(FE_EUNSUPPORTED, "FE-I19",
                    "dtype " + std::to_string(integer(number)) +
                        " of torch.export is not supported; convert the tensor");
  }
}

[[noreturn]] void symbolic_size() {
  unsupported(
      "the program has sizes that depend on values or on dynamic_shapes; leave out operators like nonzero, "
      "and export it without dynamic_shapes, once for each size");
}

/// A size or stride. Symbolic ones are refused.
int64_t fixed(const Json& size) {
  const auto [kind, value] = only_member(size);
  if (kind == "as_expr") symbolic_size();
  return integer(*value);
}
Dims fixed_all(const Json& sizes) {
  if (!sizes.is_array()) damaged_archive("sizes are no list");
  Dims dims;
  for (const auto& size : sizes) dims.push_back(fixed(size));
  return dims;
}

TensorType type_from(const Json& meta) {
  TensorType type{dtype_from(member(meta, "dtype")), fixed_all(member(meta, "sizes"))};
  if (std::ranges::any_of(type.dims, [](int64_t dim) { return dim < 0; }))
    damaged_archive("a size is negative");
  return type;
}
Layout layout_from(const Json& meta) {
  Layout layout{fixed_all(member(meta, "strides")), fixed(member(meta, "storage_offset")), {}};
  if (std::ranges::any_of(layout.strides, [](int64_t stride) { return stride < 0; }) ||
      layout.strides.size() != member(meta, "sizes").size())
    damaged_archive("the strides of a tensor are wrong");
  const auto& device = member(meta, "device");
  layout.device = text(member(device, "type"));
  if (const auto& index = member(device, "index"); index.is_number()) layout.device += ":" + index.dump();
  return layout;
}

class Reader {
 public:
  Reader(std::string_view path, Bytes bytes) : bytes_(bytes), files_(files_of(bytes)) {
    program_.file = std::filesystem::absolute(std::filesystem::path(path)).lexically_normal().string();
    program_.draws = true;
  }

  Program read() {
    const Json model = json("models/model.json");
    if (const int64_t major = integer(member(member(model, "schema_version"), "major")); major != 8)
      fail("FE-I51", "the archive has version ", major,
           " of torch.export's format, and version 8 is supported; save it with PyTorch 2.5 or newer");
    const auto& module = member(model, "graph_module");
    const auto& graph = member(module, "graph");
    scope_ = scope_of(graph);
    read_inputs(member(member(module, "signature"), "input_specs"));
    for (const auto& node : member(graph, "nodes")) read_node(node);
    read_outputs(member(member(module, "signature"), "output_specs"));
    return std::move(program_);
  }

 private:
  /// The names of one graph.
  struct Scope {
    std::unordered_map<std::string, const Json*> metas;
    std::unordered_map<std::string, size_t> numbers;
  };
  static Scope scope_of(const Json& graph) {
    Scope scope;
    for (const auto& [name, meta] : member(graph, "tensor_values").items()) scope.metas[name] = &meta;
    return scope;
  }

  std::string_view contents(const StoredRange& range) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + range.offset, range.bytes};
  }
  Json json(const std::string& name) const {
    const auto found = files_.find(name);
    if (found == files_.end()) damaged_archive("it has no file " + name);
    Json parsed = Json::parse(contents(found->second), nullptr, false);
    if (parsed.is_discarded()) damaged_archive(name + " is no JSON");
    return parsed;
  }

  const Json& meta_of(const std::string& name) const {
    const auto found = scope_.metas.find(name);
    if (found == scope_.metas.end()) damaged_archive("value '" + name + "' has no type");
    return *found->second;
  }
  TensorType type_of(const std::string& name) const { return type_from(meta_of(name)); }
  void name_value(const std::string& name, size_t number) {
    if (!scope_.numbers.emplace(name, number).second)
      damaged_archive("value '" + name + "' is defined twice");
  }
  /// Numbers a new value, which has no name if it is no tensor.
  void define(const std::string& name) {
    if (!name.empty()) name_value(name, program_.layouts.size());
    program_.layouts.push_back(name.empty() ? Layout() : layout_from(meta_of(name)));
    types_.push_back(name.empty() ? TensorType() : type_of(name));
  }

  void read_inputs(const Json& specs) {
    struct Stored {
      std::string value, name;
      bool constant;
    };
    std::vector<Stored> stored;
    for (const auto& spec : specs) {
      const auto [kind, value] = only_member(spec);
      if (kind == "user_input") {
        const auto [form, argument] = only_member(member(*value, "arg"));
        // The program was made for this value of an argument that is no tensor.
        if (form == "as_none" || form == "as_int" || form == "as_float" || form == "as_bool" ||
            form == "as_string")
          continue;
        if (form != "as_tensor")
          unsupported("an input of the program is no tensor (" + form + "); export it with tensors only");
        const auto name = text(member(*argument, "name"));
        program_.inputs.push_back({name, type_of(name)});
        define(name);
      } else if (kind == "parameter") {
        stored.push_back(
            {text(member(member(*value, "arg"), "name")), text(member(*value, "parameter_name")), false});
      } else if (kind == "buffer") {
        const auto& persistent = member(*value, "persistent");
        stored.push_back({text(member(member(*value, "arg"), "name")), text(member(*value, "buffer_name")),
                          persistent == false});
      } else if (kind == "constant_input") {
        continue;
      } else if (kind == "tensor_constant") {
        stored.push_back({text(member(member(*value, "arg"), "name")),
                          text(member(*value, "tensor_constant_name")), true});
      } else {
        unsupported("an input of the program is of the kind '" + kind + "'");
      }
    }
    for (const auto& one : stored) add_constant(one.value, one.name, one.constant);
  }

  void add_constant(const std::string& value, const std::string& name, bool constant) {
    if (configs_.empty()) {
      configs_.push_back(json("data/weights/model_weights_config.json"));
      configs_.push_back(json("data/constants/model_constants_config.json"));
    }
    const auto& entries = member(configs_[constant], "config");
    const auto& entry = member(entries, name.c_str());
    if (member(entry, "use_pickle") != false)
      unsupported("constant '" + name + "' is pickled; save the program with tensors of plain strides");
    const auto found = files_.find(std::string(constant ? "data/constants/" : "data/weights/") +
                                   text(member(entry, "path_name")));
    if (found == files_.end()) damaged_archive("the bytes of '" + name + "' are missing");
    const auto& meta = member(entry, "tensor_meta");
    ProgramConstant made{name, type_from(meta), {}, found->second.offset};
    const Dims strides = fixed_all(member(meta, "strides"));
    if (strides.size() != made.type.rank())
      damaged_archive("constant '" + name + "' has another number of strides than of dims");
    made.order.resize(strides.size());
    std::iota(made.order.begin(), made.order.end(), 0);
    std::ranges::sort(made.order, [&](int64_t a, int64_t b) {
      const int64_t x = strides[static_cast<size_t>(a)], y = strides[static_cast<size_t>(b)];
      return x != y ? x > y : a < b;
    });
    int64_t expected = 1;
    for (size_t k = made.order.size(); k-- > 0;) {
      const auto d = static_cast<size_t>(made.order[k]);
      if (made.type.dims[d] != 1 && strides[d] != expected)
        unsupported("constant '" + name + "' is not dense in memory");
      expected *= made.type.dims[d];
    }
    // Constants may share one file, as views share their base's memory.
    const int64_t before = fixed(member(meta, "storage_offset"));
    const auto most = static_cast<int64_t>(found->second.bytes);
    if (expected < 0 || expected > most || before < 0 || before > most ||
        bytes_of(made.type.dtype, before + expected) > most)
      damaged_archive("the bytes of '" + name + "' are too few");
    made.offset += static_cast<uint64_t>(bytes_of(made.type.dtype, before));
    program_.constants.push_back(std::move(made));
    define(value);
  }

  size_t number(const std::string& name) const {
    const auto found = scope_.numbers.find(name);
    if (found == scope_.numbers.end()) damaged_archive("value '" + name + "' is used and never defined");
    return found->second;
  }
  Argument tensor(const Json& value) const { return {ValueRef{number(text(member(value, "name")))}}; }
  Argument optional_tensor(const Json& value) const {
    const auto [kind, inner] = only_member(value);
    return kind == "as_none" ? Argument() : tensor(*inner);
  }
  Argument float_from(const Json& value) const {
    if (value.is_number()) return {value.get<double>()};
    if (value == "Infinity") return {std::numeric_limits<double>::infinity()};
    if (value == "-Infinity") return {-std::numeric_limits<double>::infinity()};
    if (value == "NaN") return {std::numeric_limits<double>::quiet_NaN()};
    damaged_archive("a float is no number");
  }
  template <class Read>
  Argument list(const Json& values, Read&& read) const {
    if (!values.is_array()) damaged_archive("a list of arguments is no list");
    Argument::List made;
    for (const auto& value : values) made.push_back(read(value));
    return {std::move(made)};
  }

  Argument argument(const Json& json) const {
    const auto [kind, value] = only_member(json);
    const auto int_from = [](const Json& v) -> Argument { return {integer(v)}; };
    const auto bool_from = [](const Json& v) -> Argument {
      if (!v.is_boolean()) damaged_archive("a bool is no bool");
      return {v.get<bool>()};
    };
    const auto size_from = [](const Json& v) -> Argument {
      const auto [form, size] = only_member(v);
      if (form != "as_int") symbolic_size();
      return {integer(*size)};
    };
    if (kind == "as_none") return {};
    if (kind == "as_tensor") return tensor(*value);
    if (kind == "as_optional_tensor") return optional_tensor(*value);
    if (kind == "as_tensors") return list(*value, [&](const Json& v) { return tensor(v); });
    if (kind == "as_optional_tensors") return list(*value, [&](const Json& v) { return optional_tensor(v); });
    if (kind == "as_int") return int_from(*value);
    if (kind == "as_ints") return list(*value, int_from);
    if (kind == "as_float") return float_from(*value);
    if (kind == "as_floats") return list(*value, [&](const Json& v) { return float_from(v); });
    if (kind == "as_bool") return bool_from(*value);
    if (kind == "as_bools") return list(*value, bool_from);
    if (kind == "as_sym_int") return size_from(*value);
    if (kind == "as_sym_ints") return list(*value, size_from);
    if (kind == "as_string") return {text(*value)};
    if (kind == "as_scalar_type") return {dtype_from(*value)};
    // Where and how a tensor lies in memory says nothing about its values.
    if (kind == "as_device" || kind == "as_layout" || kind == "as_memory_format") return {kind};
    unsupported("an argument of the kind '" + kind + "'");
  }

  /// The graphs that a call of a higher-order operator runs; none for other calls.
  static std::vector<const Json*> graphs_called(const Json& json, const std::string& target) {
    constexpr std::string_view known[] = {"cond", "wrap_with_set_grad_enabled", "wrap_with_autocast",
                                          "wrap_activation_checkpoint", "tag_activation_checkpoint"};
    constexpr std::string_view prefix = "torch.ops.higher_order.";
    if (!target.starts_with(prefix) ||
        !std::ranges::count(known, std::string_view(target).substr(prefix.size())))
      return {};
    std::vector<const Json*> graphs;
    for (const auto& input : member(json, "inputs"))
      if (const auto [kind, value] = only_member(member(input, "arg")); kind == "as_graph")
        graphs.push_back(&member(*value, "graph"));
    const bool two = target.ends_with(".cond");
    if (graphs.size() != (two ? 2u : 1u))
      damaged_archive("a call has " + std::to_string(graphs.size()) + " graphs");
    return graphs;
  }

  /// Adds a call that the archive does not have, with the layout of an earlier value. Returns its value.
  size_t add_computed(std::string target, const std::string& name,
                      std::vector<std::pair<std::string, Argument>> kwargs, size_t like,
                      const TensorType& type) {
    program_.nodes.push_back({std::move(target), name, {}, {}, std::move(kwargs), {type}});
    program_.layouts.push_back(program_.layouts[like]);
    types_.push_back(type);
    return types_.size() - 1;
  }

  /// Reads the nodes of a called graph in place of the call, and returns its results. Its values are those of
  /// the call: what it writes to is written outside, too.
  std::vector<size_t> read_called(const std::vector<size_t>& given, const Json& graph) {
    constexpr size_t most_nested = 64;
    if (++depth_ > most_nested) damaged_archive("its graphs are nested too deep");
    Scope inner = scope_of(graph);
    const auto& inputs = member(graph, "inputs");
    if (!inputs.is_array() || inputs.size() != given.size())
      damaged_archive("a graph is called with another number of arguments");
    for (size_t k = 0; k < given.size(); ++k) {
      const auto [form, name] = only_member(inputs[k]);
      if (form != "as_tensor") unsupported("a called graph has an input of the kind '" + form + "'");
      inner.numbers[text(member(*name, "name"))] = given[k];
    }
    std::swap(scope_, inner);
    for (const auto& node : member(graph, "nodes")) read_node(node);
    std::vector<size_t> results;
    for (const auto& output : member(graph, "outputs")) {
      const auto [kind, value] = only_member(output);
      if (kind != "as_tensor") unsupported("a called graph has a result of the kind '" + kind + "'");
      results.push_back(number(text(member(*value, "name"))));
    }
    std::swap(scope_, inner);
    --depth_;
    return results;
  }

  /// A call of a higher-order operator. Of the two graphs of `cond` both are computed, and one's results
  /// taken.
  void read_call(const Json& json, const std::string& target, const std::vector<const Json*>& graphs) {
    std::vector<size_t> before, given;  // the arguments before and after the graphs
    bool passed = false;
    const auto take = [&](const std::string& kind, const Json& value) {
      if (kind == "as_graph")
        passed = true;
      else if (kind == "as_tensor")
        (passed ? given : before).push_back(number(text(member(value, "name"))));
      else if (kind == "as_tensors")
        for (const auto& one : value) (passed ? given : before).push_back(number(text(member(one, "name"))));
      else if (passed)
        unsupported("a graph is called with an argument of the kind '" + kind + "'");
    };
    for (const auto& one : member(json, "inputs")) {
      const auto [kind, value] = only_member(member(one, "arg"));
      take(kind, *value);
    }
    // Branches write to tensors of their own only: PyTorch's own cond refuses others.
    const bool branches = graphs.size() == 2;
    if (branches)
      for (auto& value : given)
        value =
            add_computed("aten.clone.default", target, {{"self", {ValueRef{value}}}}, value, types_[value]);
    auto results = read_called(given, *graphs[0]);
    const auto names = result_names(json, target);
    if (branches) {
      const auto others = read_called(given, *graphs[1]);
      if (before.size() != 1) unsupported("a condition that is no tensor");
      if (others.size() != results.size()) damaged_archive("the graphs of a condition have other results");
      for (size_t k = 0; k < results.size(); ++k)
        results[k] = add_computed("aten.where.self", target,
                                  {{"condition", {ValueRef{before[0]}}},
                                   {"self", {ValueRef{results[k]}}},
                                   {"other", {ValueRef{others[k]}}}},
                                  results[k], types_[results[k]]);
    }
    if (names.size() != results.size()) damaged_archive("a called graph has another number of results");
    for (size_t k = 0; k < names.size(); ++k)
      if (!names[k].empty()) name_value(names[k], results[k]);
  }

  /// Autocast is no part of the graph: it shows in a result of another float than the arguments. PyTorch then
  /// converts all of them; where they are of several floats it does so for products only.
  void convert_arguments(ProgramNode& node) {
    const auto [space, name, overload] = parts_of(node.target);
    constexpr std::string_view products[] = {"addbmm",
                                             "addmm",
                                             "baddbmm",
                                             "bmm",
                                             "conv1d",
                                             "conv2d",
                                             "conv3d",
                                             "conv_transpose1d",
                                             "conv_transpose2d",
                                             "conv_transpose3d",
                                             "linear",
                                             "matmul",
                                             "mm",
                                             "scaled_dot_product_attention"};
    constexpr std::string_view conversions[] = {"_to_copy", "copy_", "to", "type_as", "view"};
    const DType wanted = node.results.empty() || !node.results[0] ? DType::none : node.results[0]->dtype;
    const bool writes = name.ends_with("_");
    if (space != "aten" || !is_float(wanted) || writes || std::ranges::count(conversions, name)) return;
    bool several = false;
    DType given = DType::none;
    const auto each_tensor = [&](const auto& visit) {
      for (auto& [parameter, argument] : node.kwargs) {
        if (auto* tensor = std::get_if<ValueRef>(&argument.value)) visit(*tensor);
        if (auto* list = std::get_if<Argument::List>(&argument.value))
          for (auto& element : *list)
            if (auto* tensor = std::get_if<ValueRef>(&element.value)) visit(*tensor);
      }
    };
    each_tensor([&](const ValueRef& tensor) {
      const DType dtype = types_[tensor.number].dtype;
      if (!is_float(dtype)) return;
      several = several || (given != DType::none && given != dtype);
      given = dtype;
    });
    const bool asks = std::ranges::any_of(node.kwargs, [](const auto& one) {
      return (one.first == "dtype" || one.first == "out_dtype") && !one.second.is_none();
    });
    if (given == DType::none || asks || (several ? !std::ranges::count(products, name) : given == wanted))
      return;
    each_tensor([&](ValueRef& tensor) {
      if (!is_float(types_[tensor.number].dtype) || types_[tensor.number].dtype == wanted) return;
      tensor.number =
          add_computed("aten._to_copy.default", node.name, {{"self", {tensor}}, {"dtype", {wanted}}},
                       tensor.number, {wanted, types_[tensor.number].dims});
    });
  }

  /// The names of a node's results, "" for one that is no tensor.
  static std::vector<std::string> result_names(const Json& json, const std::string& target) {
    std::vector<std::string> names;
    for (const auto& output : member(json, "outputs")) {
      const auto [kind, value] = only_member(output);
      if (kind == "as_tensor") {
        names.push_back(text(member(*value, "name")));
      } else if (kind == "as_tensors") {
        for (const auto& one : *value) names.push_back(text(member(one, "name")));
      } else if (kind == "as_none") {
        names.emplace_back();
      } else {
        unsupported("node " + target + " has a result of the kind '" + kind + "'");
      }
    }
    return names;
  }

  void read_node(const Json& json) {
    ProgramNode node;
    node.target = text(member(json, "target"));
    if (const auto graphs = graphs_called(json, node.target); !graphs.empty())
      return read_call(json, node.target, graphs);
    if (node.target.starts_with("torch.ops.higher_order."))
      throw Failure(FE_EUNSUPPORTED, "FE-I50",
                    "node '" + text(member(json, "name")) + "' (" + node.target.substr(10) + ")" +
                        (place_of(json).empty() ? "" : " at " + place_of(json)) +
                        ": the higher-order operator is not supported; export a model that does not call it");
    constexpr std::string_view prefix = "torch.ops.";
    if (!node.target.starts_with(prefix))
      unsupported(
          "a call of '" + node.target +
          "', which is no overload of an operator; run_decompositions() may leave a program without it");
    node.target.erase(0, prefix.size());
    // All arguments have their parameters' names.
    for (const auto& input : member(json, "inputs")) {
      const auto& given = member(input, "arg");
      node.kwargs.emplace_back(text(member(input, "name")), argument(given));
      // These address the memory of their tensor, and values of a graph have no strides.
      const bool by_address =
          node.target.starts_with("aten.as_strided") || node.target.starts_with("aten.resize.");
      if (by_address && node.kwargs.back().first == "self") check_by_rows(node.target, given);
    }
    const auto names = result_names(json, node.target);
    for (const auto& name : names)
      node.results.push_back(name.empty() ? ResultType() : ResultType(type_of(name)));
    convert_arguments(node);
    for (const auto& name : names) define(name);
    node.name = names.empty() ? node.target : names[0];
    node.place = place_of(json);
    program_.nodes.push_back(std::move(node));
  }

  void check_by_rows(const std::string& target, const Json& given) const {
    const auto& meta = meta_of(text(member(member(given, "as_tensor"), "name")));
    const auto [strides, offset, device] = layout_from(meta);
    const Dims dims = type_from(meta).dims;
    int64_t expected = 1;
    bool by_rows = offset == 0;
    for (size_t k = dims.size(); by_rows && k-- > 0; expected *= dims[k])
      by_rows = dims[k] == 1 || strides[k] == expected;
    if (!by_rows)
      unsupported("a node " + target + " addresses the memory of a tensor that is not stored row by row");
  }

  static std::string place_of(const Json& node) {
    if (const auto meta = node.find("metadata"); meta != node.end() && meta->is_object())
      if (const auto trace = meta->find("stack_trace"); trace != meta->end() && trace->is_string())
        return place_in(trace->get<std::string>());
    return {};
  }
  /// "model.py:12" from the last entry of a Python trace.
  static std::string place_in(const std::string& trace) {
    const auto begin = trace.rfind("File \"");
    if (begin == std::string::npos) return {};
    const auto end = trace.find('"', begin + 6), line = trace.find("line ", begin);
    if (end == std::string::npos || line == std::string::npos) return {};
    const auto stop = trace.find_first_not_of("0123456789", line + 5);
    return trace.substr(begin + 6, end - begin - 6) + ":" + trace.substr(line + 5, stop - line - 5);
  }

  void read_mutation(const Json& spec) {
    const auto name = text(member(spec, "user_input_name"));
    const auto input = std::ranges::find(program_.inputs, name, &ProgramPort::name);
    const size_t by = number(text(member(member(spec, "arg"), "name")));
    if (input == program_.inputs.end() || types_[by] != input->type)
      damaged_archive("the new contents of input '" + name + "' are of another type");
    input->mutated_by = by;
  }

  void read_outputs(const Json& specs) {
    std::set<std::string> names;
    for (const auto& spec : specs) {
      const auto [kind, value] = only_member(spec);
      // Changes of buffers are for training loops; a program here has no state.
      if (kind == "buffer_mutation") continue;
      if (kind == "user_input_mutation") {
        read_mutation(*value);
        continue;
      }
      if (kind != "user_output") unsupported("an output of the program is of the kind '" + kind + "'");
      const auto [form, argument] = only_member(member(*value, "arg"));
      // A number that the model returns is the same in each run.
      if (form == "as_none" || form == "as_int" || form == "as_float" || form == "as_bool" ||
          form == "as_string")
        continue;
      if (form != "as_tensor") unsupported("an output of the program is no tensor (" + form + ")");
      auto name = text(member(*argument, "name"));
      const size_t at = number(name);
      const auto type = type_of(name);
      while (!names.insert(name).second) name += "_";
      program_.outputs.push_back({name, type, at});
    }
  }

  const Bytes bytes_;
  const std::map<std::string, StoredRange> files_;
  std::vector<Json> configs_;  ///< of weights, of constants
  Scope scope_;
  std::vector<TensorType> types_;  ///< by value
  size_t depth_ = 0;               ///< of graphs in graphs
  Program program_;
};

}  // namespace

Program read_archive(std::string_view path, Bytes bytes) { return Reader(path, bytes).read(); }

}  // namespace ferrite::from_torch
