// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// @ID@: imports models of a toy format, lines of text:
//   input NAME DIM...      f32; a dim is a number, or a name if it is not fixed
//   NAME = OP OPERAND...   an op of the operator library, without attributes
//   output NAME
//   # a comment
#include <ferrite/plugin.hpp>

#include <map>
#include <sstream>

namespace {

using namespace ferrite;

struct Line {
  size_t number;
  std::vector<std::string> words;
};

class ToyModel final : public Model {
 public:
  /// Everything is checked here or when the graph is built: a model may come from an untrusted source.
  ToyModel(std::string path, std::string_view text) : path_(std::move(path)) {
    std::istringstream lines{std::string(text)};
    std::string line;
    for (size_t number = 1; std::getline(lines, line); ++number) {
      std::istringstream stream(line.substr(0, line.find('#')));
      Line read{number, {}};
      for (std::string word; stream >> word;) read.words.push_back(word);
      const auto& words = read.words;
      if (words.empty()) continue;
      if (words[0] == "input" && words.size() >= 2)
        inputs_.push_back(port(read));
      else if (words[0] == "output" && words.size() == 2)
        outputs_.push_back({words[1], f32, false, {}, {}});
      else if (words.size() >= 3 && words[1] == "=")
        nodes_.push_back(read);
      else
        refuse(read, "this is neither 'input NAME DIM...', 'output NAME' nor 'NAME = OP OPERAND...'");
    }
    if (outputs_.empty()) fail("@ID@/syntax", path_, ": the model has no output");
  }

  std::vector<Port> inputs() override { return inputs_; }
  std::vector<Port> outputs() override { return outputs_; }

  void build(Graph& graph, std::span<const TensorType> input_types) override {
    std::map<std::string, Value> values;
    for (size_t k = 0; k < inputs_.size(); ++k)
      values[inputs_[k].name] = graph.input(inputs_[k].name, input_types[k]);
    for (const auto& line : nodes_) {
      std::vector<Value> operands;
      for (size_t k = 3; k < line.words.size(); ++k) {
        auto found = values.find(line.words[k]);
        if (found == values.end()) refuse(line, "there is no value '" + line.words[k] + "' before this line");
        operands.push_back(found->second);
      }
      graph.set_origin(line.words[0]);
      values[line.words[0]] = graph.make(line.words[2], operands);
    }
    for (const auto& output : outputs_) {
      if (!values.contains(output.name))
        fail("@ID@/syntax", path_, ": there is no value '", output.name, "'");
      graph.output(output.name, values[output.name]);
    }
  }

 private:
  [[noreturn]] void refuse(const Line& line, const std::string& why) const {
    fail("@ID@/syntax", path_, ":", line.number, ": ", why);
  }

  Port port(const Line& line) const {
    Port result{line.words[1], f32, true, {}, {}};
    for (size_t k = 2; k < line.words.size(); ++k) {
      const auto& word = line.words[k];
      const bool fixed = word.find_first_not_of("0123456789") == std::string::npos;
      if (fixed && word.size() > 9) refuse(line, "the dim " + word + " is too large");
      result.dims.push_back(fixed ? std::stoll(word) : -1);
      result.names.push_back(fixed ? "" : word);
    }
    return result;
  }

  std::string path_;
  std::vector<Port> inputs_, outputs_;
  std::vector<Line> nodes_;
};

class ToyImporter final : public Importer {
 public:
  std::string id() const override { return "@ID@"; }
  std::string extensions() const override { return ".@TARGET@"; }
  std::unique_ptr<Model> open(std::string_view path, Bytes bytes) override {
    return std::make_unique<ToyModel>(
        std::string(path), std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  std::string coverage() override { return "input\t1\tsupported\noutput\t1\tsupported\n"; }
};

}  // namespace

FERRITE_PLUGIN("@ID@", "0.1.0", std::make_unique<ToyImporter>())
