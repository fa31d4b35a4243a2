// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recurrent layers and cells: LSTM, GRU and plain ones. A layer is as many cells as the sequence has steps;
// the products of the inputs of all steps are one product.
#include "helpers.h"

namespace ferrite::from_torch {
namespace {

enum class CellKind : uint8_t { lstm, gru, tanh, relu };

/// The weights of one direction of a layer.
struct CellWeights {
  Value input, hidden, input_bias, hidden_bias, projection;
};
struct CellState {
  Value hidden, cell;
};

CellKind cell_kind(const Context& c) {
  const std::string_view name = c.entry.standard;
  if (name == "lstm") return CellKind::lstm;
  return name == "gru" ? CellKind::gru : name == "relu" ? CellKind::relu : CellKind::tanh;
}

Value times_weight(Context& c, Value x, Value weight) {
  return c.make("matmul", {x, swap_dims(c, weight, 0, 1)});
}
Value plus(Context& c, Value x, Value bias) { return bias ? binary(c, "add", x, bias) : x; }
/// Part k of `count` parts of the last dim.
Value gate(Context& c, Value gates, int64_t k, int64_t count) {
  const int64_t size = size_of(c, gates, gates.rank() - 1) / count;
  return slice_dim(c, gates, gates.rank() - 1, k * size, size);
}

/// The part of a step that does not depend on the state before: the input's product with its bias.
Value of_inputs(Context& c, CellKind kind, Value x, const CellWeights& w) {
  const Value sum = plus(c, times_weight(c, x, w.input), w.input_bias);
  // The new state's gate of a GRU scales the hidden state's part with its bias.
  return kind == CellKind::gru ? sum : plus(c, sum, w.hidden_bias);
}

CellState next_state(Context& c, CellKind kind, Value inputs, const CellState& state, const CellWeights& w) {
  const Value product = times_weight(c, state.hidden, w.hidden);
  if (kind == CellKind::gru) {
    const Value hidden = plus(c, product, w.hidden_bias);
    const auto sigmoid = [&](int64_t k) {
      return unary(c, "sigmoid", binary(c, "add", gate(c, inputs, k, 3), gate(c, hidden, k, 3)));
    };
    const Value reset = sigmoid(0), update = sigmoid(1);
    const Value scaled = binary(c, "mul", reset, gate(c, hidden, 2, 3));
    const Value fresh = unary(c, "tanh", binary(c, "add", gate(c, inputs, 2, 3), scaled));
    const Value kept = binary(c, "mul", update, binary(c, "sub", state.hidden, fresh));
    return {binary(c, "add", fresh, kept), {}};
  }
  const Value gates = binary(c, "add", inputs, product);
  if (kind != CellKind::lstm) return {unary(c, kind == CellKind::tanh ? "tanh" : "relu", gates), {}};
  const auto sigmoid = [&](int64_t k) { return unary(c, "sigmoid", gate(c, gates, k, 4)); };
  const Value added = binary(c, "mul", sigmoid(0), unary(c, "tanh", gate(c, gates, 2, 4)));
  const Value cell = binary(c, "add", binary(c, "mul", sigmoid(1), state.cell), added);
  const Value hidden = binary(c, "mul", sigmoid(3), unary(c, "tanh", cell));
  return {w.projection ? times_weight(c, hidden, w.projection) : hidden, cell};
}

/// One direction of a layer over [steps, batch, size]. Returns the hidden states of all steps, and leaves the
/// last state in `state`.
Value one_direction(Context& c, CellKind kind, Value x, CellState& state, const CellWeights& w,
                    bool backwards) {
  const Value inputs = of_inputs(c, kind, x, w);
  const int64_t steps = size_of(c, x, 0);
  std::vector<Value> hidden(static_cast<size_t>(steps));
  const auto without_steps = [](Value value) {
    const Dims dims = value.dims();
    return Dims(dims.begin() + 1, dims.end());
  };
  for (int64_t k = 0; k < steps; ++k) {
    const int64_t step = backwards ? steps - 1 - k : k;
    const Value one = reshape_to(c, slice_dim(c, inputs, 0, step, 1), without_steps(inputs));
    state = next_state(c, kind, one, state, w);
    Dims row = state.hidden.dims();
    row.insert(row.begin(), 1);
    hidden[static_cast<size_t>(step)] = reshape_to(c, state.hidden, row);
  }
  return concat(c, hidden, 0);
}

void recurrent(Context& c) {
  const CellKind kind = cell_kind(c);
  const bool lstm = kind == CellKind::lstm, biased = c.flag("has_biases", true);
  const auto layers = c.integer("num_layers");
  const size_t directions = c.flag("bidirectional", false) ? 2 : 1;
  const auto weights = c.tensors("params");
  const double dropped = c.number("dropout", 0);
  if (c.flag("train", false) && dropped != 0 && layers > 1)
    c.unsupported("dropout between its layers; export the model after eval()");
  const auto states = lstm ? c.tensors("hx") : std::vector<Value>{c.tensor("hx")};
  if (states.size() != (lstm ? 2u : 1u)) c.bad(states.size(), " initial states");
  if (layers < 1 || layers > 1024) c.bad(layers, " layers");
  const size_t cells = static_cast<size_t>(layers) * directions;
  const size_t given = biased ? 4 : 2, each = weights.size() / cells;
  if (weights.size() % cells != 0 || (each != given && !(lstm && each == given + 1)))
    c.bad(weights.size(), " weights for ", cells, " cells");
  Value x = c.tensor("input");
  const bool batch_first = c.flag("batch_first", false);
  if (x.rank() != 3) c.bad("an input of rank ", x.rank());
  if (batch_first) x = swap_dims(c, x, 0, 1);
  if (size_of(c, x, 0) == 0) c.bad("a sequence of no steps");
  for (const auto& state : states)
    if (state.rank() != 3 || size_of(c, state, 0) != static_cast<int64_t>(cells))
      c.bad("an initial state of wrong dims");
  const auto initial = [&](Value all, size_t cell) {
    const Dims dims = all.dims();
    return reshape_to(c, slice_dim(c, all, 0, static_cast<int64_t>(cell), 1), {dims[1], dims[2]});
  };
  std::vector<Value> last_hidden, last_cell;
  const auto keep = [&](std::vector<Value>& all, Value state) {
    all.push_back(reshape_to(c, state, {1, size_of(c, state, 0), size_of(c, state, 1)}));
  };
  for (size_t cell = 0; cell < cells;) {
    std::vector<Value> results;
    for (size_t direction = 0; direction < directions; ++direction, ++cell) {
      const auto* w = weights.data() + cell * each;
      const CellWeights named{w[0], w[1], biased ? w[2] : Value(), biased ? w[3] : Value(),
                              each > given ? w[given] : Value()};
      CellState state{initial(states[0], cell), lstm ? initial(states[1], cell) : Value()};
      results.push_back(one_direction(c, kind, x, state, named, direction == 1));
      keep(last_hidden, state.hidden);
      if (lstm) keep(last_cell, state.cell);
    }
    x = concat(c, results, 2);
  }
  c.give(0, batch_first ? swap_dims(c, x, 0, 1) : x);
  c.give(1, concat(c, last_hidden, 0));
  if (lstm) c.give(2, concat(c, last_cell, 0));
}

void recurrent_cell(Context& c) {
  const CellKind kind = cell_kind(c);
  const bool lstm = kind == CellKind::lstm;
  const auto states = lstm ? c.tensors("hx") : std::vector<Value>{c.tensor("hx")};
  if (states.size() != (lstm ? 2u : 1u)) c.bad(states.size(), " states");
  const CellWeights w{c.tensor("w_ih"), c.tensor("w_hh"), c.optional("b_ih"), c.optional("b_hh"), {}};
  const auto next = next_state(c, kind, of_inputs(c, kind, c.tensor("input"), w),
                               {states[0], lstm ? states[1] : Value()}, w);
  c.give(0, next.hidden);
  if (lstm) c.give(1, next.cell);
}

constexpr const char* layered =
    "input hx params has_biases num_layers dropout train bidirectional batch_first";
constexpr const char* celled = "input hx w_ih w_hh b_ih b_hh";

constexpr OpEntry recurrent_entries[] = {
    {"aten.lstm.input", layered, recurrent, "lstm"},
    {"aten.gru.input", layered, recurrent, "gru"},
    {"aten.rnn_tanh.input", layered, recurrent, "tanh"},
    {"aten.rnn_relu.input", layered, recurrent, "relu"},
    {"aten.lstm_cell.default", celled, recurrent_cell, "lstm"},
    {"aten.gru_cell.default", celled, recurrent_cell, "gru"},
    {"aten.rnn_tanh_cell.default", celled, recurrent_cell, "tanh"},
    {"aten.rnn_relu_cell.default", celled, recurrent_cell, "relu"},
};

}  // namespace

std::span<const OpEntry> recurrent_ops() { return recurrent_entries; }

}  // namespace ferrite::from_torch
