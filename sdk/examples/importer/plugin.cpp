// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Imports networks of dense layers from .mlp files:
//   inputs N
//   layer N ACTIVATION       N outputs; ACTIVATION is an op of the operator library, or none
//   numbers                  the weights, one row for each input of the layer, then N biases
#include <ferrite/plugin.hpp>

#include <charconv>
#include <sstream>

namespace {

using namespace ferrite;

constexpr int64_t largest = 1 << 16;  // limit on a layer's inputs or outputs

struct Layer {
  int64_t inputs, outputs;
  std::string activation;
  std::vector<float> numbers;  // weights, then biases
};

class Network final : public Model {
 public:
  Network(std::string path, std::string_view text) : path_(std::move(path)) {
    std::string cleaned;
    bool comment = false;
    for (char c : text) {
      comment = c == '#' || (comment && c != '\n');
      cleaned += comment ? ' ' : c;
    }
    std::istringstream words(cleaned);
    std::string word;
    if (!(words >> word) || word != "inputs")
      fail("acme.importer/syntax", path_, ": it does not begin with 'inputs'");
    inputs_ = size(words);
    while (words >> word) {
      if (word == "layer") {
        const int64_t before = layers_.empty() ? inputs_ : layers_.back().outputs;
        check_last();
        auto& layer = layers_.emplace_back(Layer{before, size(words), {}, {}});
        if (!(words >> layer.activation))
          fail("acme.importer/syntax", path_, ": the last layer has no activation");
      } else {
        float number = 0;
        const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), number);
        if (fault != std::errc() || end != word.data() + word.size() || layers_.empty())
          fail("acme.importer/syntax", path_, ": '", word, "' is neither 'layer' nor a number of one");
        layers_.back().numbers.push_back(number);
      }
    }
    if (layers_.empty()) fail("acme.importer/syntax", path_, ": there is no layer");
    check_last();
  }

  std::vector<Port> inputs() override { return {{"x", f32, true, {-1, inputs_}, {"batch", ""}}}; }
  std::vector<Port> outputs() override {
    return {{"y", f32, true, {-1, layers_.back().outputs}, {"batch", ""}}};
  }

  void build(Graph& graph, std::span<const TensorType> input_types) override {
    Value value = graph.input("x", input_types[0]);
    for (size_t k = 0; k < layers_.size(); ++k) {
      const auto& layer = layers_[k];
      graph.set_origin("layer " + std::to_string(k + 1));
      const Value weights = graph.literal({f32, {layer.inputs, layer.outputs}}, layer.numbers.data());
      const Value biases =
          graph.literal({f32, {layer.outputs}}, layer.numbers.data() + layer.inputs * layer.outputs);
      value = graph.make("add", {graph.make("matmul", {value, weights}), biases});
      if (layer.activation != "none") value = graph.make(layer.activation, {value});
    }
    graph.output("y", value);
  }

 private:
  int64_t size(std::istringstream& words) const {
    int64_t result = 0;
    if (!(words >> result) || result < 1 || result > largest)
      fail("acme.importer/size", path_, ": a size is not a number from 1 to ", largest);
    return result;
  }
  void check_last() const {
    if (layers_.empty()) return;
    const auto& layer = layers_.back();
    const auto needed = static_cast<size_t>((layer.inputs + 1) * layer.outputs);
    if (layer.numbers.size() != needed)
      fail("acme.importer/size", path_, ": layer ", layers_.size(), " has ", layer.numbers.size(),
           " numbers of ", needed);
  }

  std::string path_;
  int64_t inputs_ = 0;
  std::vector<Layer> layers_;
};

class NetworkImporter final : public Importer {
 public:
  std::string id() const override { return "acme.mlp"; }
  std::string extensions() const override { return ".mlp"; }
  std::unique_ptr<Model> open(std::string_view path, Bytes bytes) override {
    return std::make_unique<Network>(
        std::string(path), std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  std::string coverage() override { return "layer\t1\tsupported\n"; }
};

}  // namespace

FERRITE_PLUGIN("acme.importer", "1.0.0", std::make_unique<NetworkImporter>())
