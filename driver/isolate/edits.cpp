// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/isolate/edits.h"

#include <algorithm>
#include <deque>

#include "core/ir/graph/infer.h"
#include "core/support/abi/abi.h"
#include "ferrite/abi/kernel.h"

namespace ferrite::core::isolate {
namespace {

enum class Edit : uint8_t {
  make,
  literal,
  weight,
  input,
  output,
  replace_uses,
  erase,
  set_operand,
  set_attr,
  evaluate,
  set_input_memory,
};

constexpr uint32_t unknown_name = FE_NONE32 - 1;
constexpr size_t most_edits = 1 << 20;  // of one callback

}  // namespace

Recorder::Recorder(graph::GraphApi& api, const Names& names) : inner_(api), api_(*api.api()) {
  for (uint32_t k = 0; k < names.nodes.size(); ++k) nodes_.emplace(names.nodes[k].bits, k);
  for (uint32_t k = 0; k < names.values.size(); ++k) values_.emplace(names.values[k].bits, k);
  api_.make = make;
  api_.literal = literal;
  api_.weight = weight;
  api_.input = input;
  api_.output = output;
  api_.replace_uses = replace_uses;
  api_.erase = erase;
  api_.set_operand = set_operand;
  api_.set_attr = set_attr;
  api_.evaluate = evaluate;
  api_.set_input_memory = set_input_memory;
  api_.self = this;
  api_.view = [](void* self, fe_call* call, const fe_none* args, fe_graph_view* out) {
    const fe_graph_api& inner = *static_cast<Recorder*>(self)->inner_.api();
    return inner.view(inner.self, call, args, out);
  };
  api_.node = [](void* self, fe_call* call, const fe_node_args* args, fe_node_view* out) {
    const fe_graph_api& inner = *static_cast<Recorder*>(self)->inner_.api();
    return inner.node(inner.self, call, args, out);
  };
  api_.value = [](void* self, fe_call* call, const fe_value_args* args, fe_value_view* out) {
    const fe_graph_api& inner = *static_cast<Recorder*>(self)->inner_.api();
    return inner.value(inner.self, call, args, out);
  };
  api_.users = [](void* self, fe_call* call, const fe_value_args* args, fe_users_out* out) {
    const fe_graph_api& inner = *static_cast<Recorder*>(self)->inner_.api();
    return inner.users(inner.self, call, args, out);
  };
}

void Recorder::begin(bool may_only_look) {
  for (const uint64_t handle : new_nodes_) nodes_.erase(handle);
  for (const uint64_t handle : new_values_) values_.erase(handle);
  new_nodes_.clear();
  new_values_.clear();
  log_ = Encoder();
  may_only_look_ = may_only_look;
  complete_ = true;
}

void Recorder::put_node(uint64_t handle) {
  const auto found = nodes_.find(handle);
  log_.put(handle == 0 ? FE_NONE32 : found == nodes_.end() ? unknown_name : found->second);
}
void Recorder::put_value(uint64_t handle) {
  const auto found = values_.find(handle);
  log_.put(handle == 0 ? FE_NONE32 : found == values_.end() ? unknown_name : found->second);
}
void Recorder::add_node(uint64_t handle) {
  nodes_.emplace(handle, static_cast<uint32_t>(nodes_.size()));
  new_nodes_.push_back(handle);
}
void Recorder::add_value(uint64_t handle) {
  values_.emplace(handle, static_cast<uint32_t>(values_.size()));
  new_values_.push_back(handle);
}

/// Makes an edit and records it if it succeeds: `write(arguments, answer)`, both with the sizes of this
/// process's structs.
template <class Args, class Out, class Write>
int32_t Recorder::edit(int32_t (*slot)(void*, fe_call*, const Args*, Out*), fe_call* call, const Args* args,
                       Out* out, Write write) noexcept {
  Out answer = abi::read(out);
  const int32_t status = slot(inner_.api()->self, call, args, &answer);
  if (status != FE_OK) return status;
  abi::write(out, answer);
  try {
    write(abi::read(args), answer);
  } catch (const std::bad_alloc&) {
    complete_ = false;
    return abi::report(call, error(FE_ENOMEM, "FE-G24", "out of memory in a slot of the graph"));
  }
  return FE_OK;
}

int32_t Recorder::make(void* self, fe_call* call, const fe_make_args* args, fe_make_out* out) {
  auto& r = *static_cast<Recorder*>(self);
  return r.edit(r.inner_.api()->make, call, args, out,
                [&](const fe_make_args& given, const fe_make_out& made) {
                  r.log_.put(Edit::make);
                  r.log_.put(abi::view(given.op));
                  r.log_.put(uint64_t{given.operands.count});
                  for (uint64_t k = 0; k < given.operands.count; ++k)
                    r.put_value(abi::element<fe_value>(given.operands, k));
                  r.log_.put(uint64_t{given.attrs.count});
                  for (uint64_t k = 0; k < given.attrs.count; ++k)
                    if (const auto attribute = graph::read_attribute(abi::element<fe_attr>(given.attrs, k)))
                      put(r.log_, *attribute);
                  r.put_node(given.before);
                  r.put_node(given.like);
                  r.log_.put(abi::view(given.origin));
                  r.add_node(made.node);
                  for (const graph::ValueId result : r.inner_.graph().node(graph::NodeId{made.node}).results)
                    r.add_value(result.bits);
                });
}

int32_t Recorder::literal(void* self, fe_call* call, const fe_literal_args* args, fe_handle_out* out) {
  auto& r = *static_cast<Recorder*>(self);
  return r.edit(r.inner_.api()->literal, call, args, out,
                [&](const fe_literal_args& given, const fe_handle_out& made) {
                  r.log_.put(Edit::literal);
                  put(r.log_, r.inner_.graph().type(graph::ValueId{made.handle}));
                  r.log_.put(std::span(static_cast<const std::byte*>(given.data), given.bytes));
                  r.add_value(made.handle);
                });
}

int32_t Recorder::weight(void* self, fe_call* call, const fe_weight_args* args, fe_handle_out* out) {
  auto& r = *static_cast<Recorder*>(self);
  return r.edit(r.inner_.api()->weight, call, args, out,
                [&](const fe_weight_args& given, const fe_handle_out& made) {
                  // The parent cannot read memory of this process, so the contents are sent by value.
                  r.log_.put(given.data ? Edit::literal : Edit::weight);
                  put(r.log_, r.inner_.graph().type(graph::ValueId{made.handle}));
                  if (given.data) {
                    r.log_.put(std::span(static_cast<const std::byte*>(given.data), given.bytes));
                  } else {
                    r.log_.put(abi::view(given.name));
                    r.log_.put(abi::view(given.file));
                    r.log_.put(given.offset);
                    r.log_.put(given.bytes);
                  }
                  r.add_value(made.handle);
                });
}

int32_t Recorder::input(void* self, fe_call* call, const fe_input_args* args, fe_handle_out* out) {
  auto& r = *static_cast<Recorder*>(self);
  const fe_tensor_type type = abi::read(args).type;
  for (uint32_t d = 0; type.dims && d < type.rank; ++d)
    if (type.dims[d] < 0)
      return abi::report(call,
                         error(FE_EUNSUPPORTED, "FE-P30",
                               "a plugin in a process of its own cannot add inputs with symbolic dims"));
  return r.edit(r.inner_.api()->input, call, args, out,
                [&](const fe_input_args& given, const fe_handle_out& made) {
                  r.log_.put(Edit::input);
                  put(r.log_, r.inner_.graph().type(graph::ValueId{made.handle}));
                  r.log_.put(abi::view(given.name));
                  r.add_value(made.handle);
                });
}

int32_t Recorder::output(void* self, fe_call* call, const fe_output_args* args, fe_none* out) {
  auto& r = *static_cast<Recorder*>(self);
  return r.edit(r.inner_.api()->output, call, args, out, [&](const fe_output_args& given, const fe_none&) {
    r.log_.put(Edit::output);
    r.log_.put(abi::view(given.name));
    r.put_value(given.value);
  });
}

int32_t Recorder::replace_uses(void* self, fe_call* call, const fe_replace_args* args, fe_none* out) {
  auto& r = *static_cast<Recorder*>(self);
  return r.edit(r.inner_.api()->replace_uses, call, args, out,
                [&](const fe_replace_args& given, const fe_none&) {
                  r.log_.put(Edit::replace_uses);
                  r.put_value(given.from);
                  r.put_value(given.to);
                });
}

int32_t Recorder::erase(void* self, fe_call* call, const fe_node_args* args, fe_none* out) {
  auto& r = *static_cast<Recorder*>(self);
  return r.edit(r.inner_.api()->erase, call, args, out, [&](const fe_node_args& given, const fe_none&) {
    r.log_.put(Edit::erase);
    r.put_node(given.node);
  });
}

int32_t Recorder::set_operand(void* self, fe_call* call, const fe_operand_args* args, fe_none* out) {
  auto& r = *static_cast<Recorder*>(self);
  return r.edit(r.inner_.api()->set_operand, call, args, out,
                [&](const fe_operand_args& given, const fe_none&) {
                  r.log_.put(Edit::set_operand);
                  r.put_node(given.node);
                  r.log_.put(given.index);
                  r.put_value(given.value);
                });
}

int32_t Recorder::set_attr(void* self, fe_call* call, const fe_attr_args* args, fe_none* out) {
  auto& r = *static_cast<Recorder*>(self);
  return r.edit(r.inner_.api()->set_attr, call, args, out, [&](const fe_attr_args& given, const fe_none&) {
    const auto attribute = graph::read_attribute(abi::read(&given.attr));
    if (!attribute) return;
    r.log_.put(Edit::set_attr);
    r.put_node(given.node);
    put(r.log_, *attribute);
  });
}

int32_t Recorder::set_input_memory(void* self, fe_call* call, const fe_input_memory_args* args,
                                   fe_none* out) {
  auto& r = *static_cast<Recorder*>(self);
  return r.edit(r.inner_.api()->set_input_memory, call, args, out,
                [&](const fe_input_memory_args& given, const fe_none&) {
                  r.log_.put(Edit::set_input_memory);
                  r.put_value(given.input);
                  r.put_value(given.mutated_by);
                  r.log_.put(given.flags);
                });
}

int32_t Recorder::evaluate(void* self, fe_call* call, const fe_value_args* args, fe_handle_out* out) {
  auto& r = *static_cast<Recorder*>(self);
  return r.edit(r.inner_.api()->evaluate, call, args, out,
                [&](const fe_value_args& given, const fe_handle_out& made) {
                  if (r.may_only_look_) return;
                  r.log_.put(Edit::evaluate);
                  r.put_value(given.value);
                  const bool known = r.values_.contains(made.handle);
                  r.log_.put(uint8_t{known});
                  if (!known) r.add_value(made.handle);
                });
}

namespace {

/// Makes the edits of a log one by one.
class Replay {
 public:
  Replay(std::span<const std::byte> log, const fe_graph_api& api, Names names)
      : from_(log), api_(api), names_(std::move(names)) {}

  Result<void> run() {
    for (size_t count = 0; from_.more(); ++count) {
      if (count == most_edits)
        return error(FE_EINTERNAL, "FE-P29", "its process gave more than {} edits", most_edits);
      auto done = one();
      if (!from_.ok()) break;
      if (!done)
        return error(FE_EINTERNAL, "FE-P29", "edit {} of those that its process gave is refused: {}", count,
                     done.error().message());
    }
    if (!from_.done()) return error(FE_EINTERNAL, "FE-P29", "the edits that its process gave cannot be read");
    return {};
  }

 private:
  fe_node node() {
    const auto number = from_.get<uint32_t>();
    if (number == FE_NONE32) return 0;
    // No graph has this handle, so the edit fails as any invalid one does.
    return number < names_.nodes.size() ? names_.nodes[number].bits : UINT64_MAX;
  }
  fe_value value() {
    const auto number = from_.get<uint32_t>();
    if (number == FE_NONE32) return 0;
    return number < names_.values.size() ? names_.values[number].bits : UINT64_MAX;
  }

  template <class Args, class Out>
  Result<void> call(int32_t (*slot)(void*, fe_call*, const Args*, Out*), const Args& args, Out& out) {
    if (!from_.ok()) return {};
    abi::Call call;
    return call.check(slot(api_.self, call.get(), &args, &out), "FE-P29", "no reason was given");
  }
  template <class Args>
  Result<void> call(int32_t (*slot)(void*, fe_call*, const Args*, fe_none*), const Args& args) {
    auto out = abi::sized<fe_none>();
    return call(slot, args, out);
  }
  template <class Args>
  Result<void> constant(int32_t (*slot)(void*, fe_call*, const Args*, fe_handle_out*), const Args& args) {
    auto out = abi::sized<fe_handle_out>();
    FE_CHECK(call(slot, args, out));
    names_.values.push_back(graph::ValueId{out.handle});
    return {};
  }

  Result<void> one() {
    switch (from_.get<Edit>()) {
      case Edit::make: return make();
      case Edit::literal: {
        const graph::TensorType type = get_type(from_);
        const auto bytes = from_.bytes();
        auto args = abi::sized<fe_literal_args>();
        args.type = graph::view_of(type);
        args.data = bytes.data();
        args.bytes = bytes.size();
        return constant(api_.literal, args);
      }
      case Edit::weight: {
        const graph::TensorType type = get_type(from_);
        auto args = abi::sized<fe_weight_args>();
        args.type = graph::view_of(type);
        args.name = abi::string(from_.text());
        args.file = abi::string(from_.text());
        args.offset = from_.get<uint64_t>();
        args.bytes = from_.get<uint64_t>();
        return constant(api_.weight, args);
      }
      case Edit::input: {
        const graph::TensorType type = get_type(from_);
        auto args = abi::sized<fe_input_args>();
        args.type = graph::view_of(type);
        args.name = abi::string(from_.text());
        return constant(api_.input, args);
      }
      case Edit::output: {
        auto args = abi::sized<fe_output_args>();
        args.name = abi::string(from_.text());
        args.value = value();
        return call(api_.output, args);
      }
      case Edit::replace_uses: {
        auto args = abi::sized<fe_replace_args>();
        args.from = value();
        args.to = value();
        return call(api_.replace_uses, args);
      }
      case Edit::erase: {
        auto args = abi::sized<fe_node_args>();
        args.node = node();
        return call(api_.erase, args);
      }
      case Edit::set_operand: {
        auto args = abi::sized<fe_operand_args>();
        args.node = node();
        args.index = from_.get<uint32_t>();
        args.value = value();
        return call(api_.set_operand, args);
      }
      case Edit::set_attr: {
        auto args = abi::sized<fe_attr_args>();
        args.node = node();
        const graph::Attribute attribute = get_attribute(from_);
        std::vector<fe_string> strings;
        args.attr = graph::view_of(attribute, strings);
        return call(api_.set_attr, args);
      }
      case Edit::set_input_memory: {
        auto args = abi::sized<fe_input_memory_args>();
        args.input = value();
        args.mutated_by = value();
        args.flags = from_.get<uint32_t>();
        return call(api_.set_input_memory, args);
      }
      case Edit::evaluate: {
        auto args = abi::sized<fe_value_args>();
        args.value = value();
        const bool known = from_.get<uint8_t>() != 0;
        auto out = abi::sized<fe_handle_out>();
        FE_CHECK(call(api_.evaluate, args, out));
        if (!known) names_.values.push_back(graph::ValueId{out.handle});
        return {};
      }
    }
    return error(FE_EINVALID, "FE-P29", "it is of no known kind");
  }

  Result<void> make() {
    auto args = abi::sized<fe_make_args>();
    args.op = abi::string(from_.text());
    std::vector<fe_value> operands;
    for (uint64_t left = from_.count(); left > 0 && from_.ok(); --left) operands.push_back(value());
    std::vector<graph::Attribute> attributes;
    for (uint64_t left = from_.count(); left > 0 && from_.ok(); --left)
      attributes.push_back(get_attribute(from_));
    std::vector<fe_attr> attrs;
    std::deque<std::vector<fe_string>> strings;
    for (const graph::Attribute& attribute : attributes)
      attrs.push_back(graph::view_of(attribute, strings.emplace_back()));
    args.operands = abi::array(operands);
    args.attrs = abi::array(attrs);
    args.before = node();
    args.like = node();
    args.origin = abi::string(from_.text());
    auto out = abi::sized<fe_make_out>();
    std::vector<fe_value> results(16);
    out.results = results.data();
    out.capacity = results.size();
    FE_CHECK(call(api_.make, args, out));
    if (!from_.ok()) return {};
    names_.nodes.push_back(graph::NodeId{out.node});
    if (out.count > out.capacity) {
      auto where = abi::sized<fe_node_args>();
      where.node = out.node;
      auto view = abi::sized<fe_node_view>();
      FE_CHECK(call(api_.node, where, view));
      results.resize(view.results.count);
      for (uint64_t k = 0; k < view.results.count; ++k) results[k] = abi::element<fe_value>(view.results, k);
    }
    for (uint64_t k = 0; k < out.count; ++k) names_.values.push_back(graph::ValueId{results[k]});
    return {};
  }

  Decoder from_;
  const fe_graph_api& api_;
  Names names_;
};

}  // namespace

Result<void> replay(std::span<const std::byte> log, const fe_graph_api& api, Names names) {
  return Replay(log, api, std::move(names)).run();
}

}  // namespace ferrite::core::isolate
