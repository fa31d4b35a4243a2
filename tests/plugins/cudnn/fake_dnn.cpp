// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cuDNN without a device: its descriptors are what was set of them, and a plan computes them in the host's
// memory, which is that of the fake driver's devices. FAKE_LIBRARY_EPILOGUE=0: there are no engines but for a
// convolution alone; FAKE_LIBRARY_NOTE: what the first engine says of its results, FAKE_LIBRARY_WAY: how it
// comes to its code; FAKE_LIBRARY_WORKSPACE: bytes that it wants; FAKE_LIBRARY_ENGINES: how many there are;
// FAKE_LIBRARY_VERSION: the library's.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fake_library.h"

using fake::called, fake::load, fake::number, fake::setting, fake::store;

extern "C" {
size_t cudnnGetVersion() { return number("FAKE_LIBRARY_VERSION", "91900"); }
}

#ifndef FAKE_EMPTY
namespace {

constexpr int success = 0, not_initialised = 1001, bad_parameter = 2000, not_supported = 3000,
              execution_failed = 5000;
constexpr int convolution_forward = 10, engine_search = 4, execution_plan = 5;

struct Descriptor {
  int kind = 0;
  bool finished = false;
  int engine = 0;                             // of choices and engines
  std::shared_ptr<const Descriptor> graph{};  // of choices
  std::map<int, std::vector<char>> attributes{};
  std::map<int, std::vector<std::shared_ptr<const Descriptor>>> parts{};  // as they were when they were set

  bool has(int attribute) const { return attributes.count(attribute) != 0; }
  template <class Value>
  std::vector<Value> list(int attribute) const {
    const auto& bytes = attributes.at(attribute);
    std::vector<Value> values(bytes.size() / sizeof(Value));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Value));
    return values;
  }
  template <class Value>
  Value one(int attribute) const {
    return list<Value>(attribute).at(0);
  }
  const Descriptor& descriptor(int attribute) const { return *parts.at(attribute).at(0); }
};

size_t bytes_of(int type) {
  constexpr int boolean = 2;
  const bool wide = type == 0 || type == 3 || type == 5 || type == 6 || type == 15;
  return wide ? 8 : type == boolean ? 1 : 4;
}

/// Values of a graph's tensors, by their ids; those of buffers come from there, and go there.
class Run {
 public:
  explicit Run(const Descriptor& arguments) {
    const auto ids = arguments.list<int64_t>(1000);
    const auto pointers = arguments.list<void*>(1001);
    for (size_t k = 0; k < ids.size(); ++k) buffers_[ids[k]] = pointers[k];
  }
  void step(const Descriptor& step) {
    if (step.kind == convolution_forward)
      convolve(step);
    else
      point_by_point(step);
  }

 private:
  struct Tensor {
    int64_t id;
    int type;
    std::vector<int64_t> dims, strides;
    bool is_virtual;
    explicit Tensor(const Descriptor& d)
        : id(d.one<int64_t>(906)),
          type(d.one<int>(901)),
          dims(d.list<int64_t>(902)),
          strides(d.list<int64_t>(903)),
          is_virtual(d.one<char>(907) != 0) {}
    int64_t at(std::array<int64_t, 4> i) const {
      int64_t sum = 0;
      for (size_t d = 0; d < 4; ++d) sum += (dims[d] == 1 ? 0 : i[d]) * strides[d];
      return sum;
    }
    template <class Body>
    void each(Body&& body) const {
      std::array<int64_t, 4> i{};
      for (i[0] = 0; i[0] < dims[0]; ++i[0])
        for (i[1] = 0; i[1] < dims[1]; ++i[1])
          for (i[2] = 0; i[2] < dims[2]; ++i[2])
            for (i[3] = 0; i[3] < dims[3]; ++i[3]) body(i);
    }
  };

  double get(const Tensor& t, const std::array<int64_t, 4>& i) {
    return t.is_virtual ? between_[t.id][t.at(i)] : load(buffers_.at(t.id), t.type, t.at(i));
  }
  void put(const Tensor& t, const std::array<int64_t, 4>& i, double value) {
    if (t.is_virtual)
      between_[t.id][t.at(i)] = value;
    else
      store(buffers_.at(t.id), t.type, t.at(i), value);
  }

  void convolve(const Descriptor& step) {
    const Tensor w(step.descriptor(703)), x(step.descriptor(704)), y(step.descriptor(705));
    const auto& form = step.descriptor(702);
    const auto dilations = form.list<int64_t>(102), strides = form.list<int64_t>(103),
               low = form.list<int64_t>(105);
    const int64_t groups = x.dims[1] / w.dims[1], of_group = y.dims[1] / groups;
    y.each([&](const auto& i) {
      double sum = 0;
      for (int64_t c = 0; c < w.dims[1]; ++c)
        for (int64_t r = 0; r < w.dims[2]; ++r)
          for (int64_t s = 0; s < w.dims[3]; ++s) {
            const int64_t row = i[2] * strides[0] + r * dilations[0] - low[0],
                          column = i[3] * strides[1] + s * dilations[1] - low[1];
            if (row < 0 || row >= x.dims[2] || column < 0 || column >= x.dims[3]) continue;
            sum += get(x, {i[0], i[1] / of_group * w.dims[1] + c, row, column}) * get(w, {i[1], c, r, s});
          }
      put(y, i, sum);
    });
  }

  void point_by_point(const Descriptor& step) {
    const Tensor x(step.descriptor(751)), y(step.descriptor(753));
    const int mode = step.descriptor(750).one<int>(0);
    y.each([&](const auto& i) {
      double value = get(x, i);
      switch (mode) {
        case 0: value += get(Tensor(step.descriptor(752)), i); break;
        case 100: value = value < 0 ? 0 : value; break;
        case 101: value = std::tanh(value); break;
        case 102: value = 1 / (1 + std::exp(-value)); break;
        case 104: value = 0.5 * value * (1 + std::erf(value / std::sqrt(2.0))); break;
        case 106: value = value / (1 + std::exp(-value)); break;
        case 107:
          value =
              0.5 * value * (1 + std::tanh(std::sqrt(2 / M_PI) * (value + 0.044715 * value * value * value)));
          break;
        default: value = NAN;
      }
      put(y, i, value);
    });
  }

  std::map<int64_t, void*> buffers_;
  std::map<int64_t, std::map<int64_t, double>> between_;
};

/// "convolution bias relu" and the like, with the dims of the images and what the form is.
std::string text_of(const Descriptor& graph) {
  std::string text;
  for (const auto& step : graph.parts.at(801)) {
    if (step->kind != convolution_forward) {
      text += " mode " + std::to_string(step->descriptor(750).one<int>(0));
      continue;
    }
    const auto add = [&](const char* name, const std::vector<int64_t>& values) {
      text += std::string(" ") + name;
      for (int64_t value : values) text += " " + std::to_string(value);
    };
    const auto& form = step->descriptor(702);
    text += " types " + std::to_string(step->descriptor(704).one<int>(901));
    add("x", step->descriptor(704).list<int64_t>(902));
    add("w", step->descriptor(703).list<int64_t>(902));
    add("y", step->descriptor(705).list<int64_t>(902));
    add("order", step->descriptor(703).list<int64_t>(903));  // of w
    add("strides", form.list<int64_t>(103));
    add("dilations", form.list<int64_t>(102));
    add("low", form.list<int64_t>(105));
    add("high", form.list<int64_t>(104));
  }
  return text;
}

void* current_stream = nullptr;

}  // namespace

extern "C" {

int cudnnCreate(void** handle) {
  *handle = new int;
  return called("create", not_initialised, "");
}
int cudnnDestroy(void* handle) {
  delete static_cast<int*>(handle);
  return called("destroy", bad_parameter, "");
}
int cudnnSetStream(void*, void* stream) {
  current_stream = stream;
  return success;
}
const char* cudnnGetErrorString(int status) {
  return status == not_initialised    ? "CUDNN_STATUS_NOT_INITIALIZED"
         : status == execution_failed ? "CUDNN_STATUS_EXECUTION_FAILED"
                                      : "CUDNN_STATUS_BAD_PARAM";
}
int cudnnBackendCreateDescriptor(int kind, Descriptor** descriptor) {
  *descriptor = new Descriptor{kind};
  return success;
}
int cudnnBackendDestroyDescriptor(Descriptor* descriptor) {
  delete descriptor;
  return success;
}
int cudnnBackendFinalize(Descriptor* descriptor) {
  if (descriptor->finished) return bad_parameter;
  descriptor->finished = true;
  if (descriptor->kind != engine_search) return success;
  const auto& graph = descriptor->descriptor(201);
  if (const int failed =
          called("search", not_supported, " mode %d:%s", descriptor->one<int>(200), text_of(graph).c_str()))
    return failed;
  const bool alone = graph.parts.at(801).size() == 1;
  return !alone && setting("FAKE_LIBRARY_EPILOGUE", "1") == "0" ? not_supported : success;
}
int cudnnBackendSetAttribute(Descriptor* descriptor, int attribute, int type, int64_t count,
                             const void* values) {
  if (descriptor->finished || count < 0) return bad_parameter;
  const auto* bytes = static_cast<const char*>(values);
  if (type == 15) {
    auto& parts = descriptor->parts[attribute];
    for (int64_t k = 0; k < count; ++k) {
      const auto& given = *static_cast<Descriptor* const*>(values)[k];
      if (!given.finished) return bad_parameter;
      parts.push_back(std::make_shared<const Descriptor>(given));
    }
    return success;
  }
  descriptor->attributes[attribute] = {bytes, bytes + static_cast<size_t>(count) * bytes_of(type)};
  return success;
}
int cudnnBackendGetAttribute(Descriptor* descriptor, int attribute, int, int64_t wanted, int64_t* count,
                             void* values) {
  const auto engines = static_cast<int64_t>(number("FAKE_LIBRARY_ENGINES", "2"));
  switch (attribute) {
    case 202:
      *count = wanted == 0 ? engines : std::min(engines, wanted);
      for (int64_t k = 0; k < *count && wanted > 0; ++k) {
        auto* choice = static_cast<Descriptor**>(values)[k];
        choice->engine = static_cast<int>(k);
        choice->graph = descriptor->parts.at(201).at(0);
        choice->finished = true;
      }
      return success;
    case 300:
      *count = 1;
      (*static_cast<Descriptor**>(values))->engine = descriptor->engine;
      return success;
    case 1303:
    case 1305: {
      const auto note = setting(attribute == 1303 ? "FAKE_LIBRARY_NOTE" : "FAKE_LIBRARY_WAY", "");
      *count = descriptor->engine == 0 && !note.empty() ? 1 : 0;
      if (*count) *static_cast<int*>(values) = std::stoi(note);
      return success;
    }
    case 402: {
      *count = 1;
      const bool first = descriptor->descriptor(401).engine == 0;
      *static_cast<int64_t*>(values) =
          first ? static_cast<int64_t>(number("FAKE_LIBRARY_WORKSPACE", "0")) : 0;
      return success;
    }
    default: return bad_parameter;
  }
}
int cudnnBackendExecute(void*, Descriptor* plan, Descriptor* arguments) {
  const auto& choice = plan->descriptor(401);
  const bool has_workspace = arguments->one<void*>(1003) != nullptr;
  if (const int failed =
          called("execute", execution_failed, " engine %d workspace %d stream %d:%s", choice.engine,
                 has_workspace, current_stream != nullptr, text_of(*choice.graph).c_str()))
    return failed;
  if (plan->kind != execution_plan || !plan->finished || !arguments->finished) return bad_parameter;
  Run run(*arguments);
  for (const auto& step : choice.graph->parts.at(801)) run.step(*step);
  return success;
}
}
#endif
