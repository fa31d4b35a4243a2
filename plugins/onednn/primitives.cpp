// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "primitives.h"

#include <algorithm>
#include <array>
#include <span>

namespace ferrite::onednn {
namespace {

using dnnl::Handle;
using dnnl::MemoryDesc;

constexpr int64_t line = 64;
int64_t aligned(int64_t bytes) { return (bytes + line - 1) / line * line; }

int type_of(DType type) { return type == bf16 ? dnnl::bf16 : dnnl::f32; }
int bytes_of(DType type) { return bits_of(type) / 8; }

/// The primitive's algorithm for an activation. It is 0 for none, and for relu, since oneDNN's own loses NaN.
int algorithm_of(Activation activation) {
  switch (activation) {
    case Activation::tanh: return dnnl::eltwise_tanh;
    case Activation::sigmoid: return dnnl::eltwise_logistic;
    case Activation::silu: return dnnl::eltwise_swish;
    case Activation::gelu: return dnnl::eltwise_gelu_erf;
    default: return 0;
  }
}

struct Destroy {
  int (*function)(Handle) = nullptr;
  void operator()(Handle handle) const { function(handle); }
};
using Owned = std::unique_ptr<void, Destroy>;

void check(int status, const char* what) {
  if (status != dnnl::success) fail("ferrite.onednn/failed", "oneDNN: ", what, " gives status ", status);
}

/// The stride of a dim with one element is arbitrary. oneDNN handles those best that are no smaller than the
/// inner strides.
MemoryDesc plain(const Library& library, int dtype, std::vector<int64_t> dims, std::vector<int64_t> strides) {
  int64_t most = 1;
  for (size_t k = 0; k < dims.size(); ++k)
    if (dims[k] > 1) most = std::max(most, strides[k] * dims[k]);
  for (size_t k = 0; k < dims.size(); ++k)
    if (dims[k] == 1) strides[k] = k + 1 == dims.size() ? 1 : most;
  MemoryDesc desc;
  check(library.memory_desc_init_by_strides(&desc, static_cast<int>(dims.size()), dims.data(), dtype,
                                            strides.data()),
        "describing memory");
  return desc;
}
MemoryDesc any(const Library& library, int dtype, const std::vector<int64_t>& dims) {
  MemoryDesc desc;
  check(library.memory_desc_init_by_tag(&desc, static_cast<int>(dims.size()), dims.data(), dtype, dnnl::any),
        "describing memory");
  return desc;
}

/// Whether an array [1, channels, rows, columns] is dense with its channels innermost.
bool channels_last(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
  return (dims[1] == 1 || strides[1] == 1) && (dims[3] == 1 || strides[3] == dims[1]) &&
         (dims[2] == 1 || strides[2] == dims[1] * dims[3]);
}

/// max(x, 0) that keeps NaN, over an array with these loops; it iterates over the smallest stride innermost.
void relu(float* data, std::array<Loop, 3> loops) {
  std::ranges::sort(loops, [](const Loop& x, const Loop& y) {
    return x.extent == 1 || y.extent == 1 ? x.extent < y.extent : x.c > y.c;
  });
  const auto& [outer, middle, inner] = loops;
  for (int64_t i = 0; i < outer.extent; ++i)
    for (int64_t j = 0; j < middle.extent; ++j) {
      float* row = data + i * outer.c + j * middle.c;
      if (inner.c == 1) {
        for (int64_t k = 0; k < inner.extent; ++k) row[k] = row[k] < 0 ? 0 : row[k];
      } else {
        for (int64_t k = 0; k < inner.extent; ++k)
          row[k * inner.c] = row[k * inner.c] < 0 ? 0 : row[k * inner.c];
      }
    }
}

/// Initialises a row with the sum of its addends, each of which is a contiguous row or a repeated element.
void set_row(float* row, int64_t count, std::span<const float* const> addends,
             std::span<const int64_t> steps) {
  float constant = 0;
  const float *first = nullptr, *second = nullptr;
  for (size_t d = 0; d < addends.size(); ++d) {
    if (steps[d] == 0)
      constant += *addends[d];
    else
      (first ? second : first) = addends[d];
  }
  if (second)
    for (int64_t n = 0; n < count; ++n) row[n] = first[n] + second[n];
  else if (first)
    for (int64_t n = 0; n < count; ++n) row[n] = first[n] + constant;
  else
    std::fill_n(row, count, constant);
}

}  // namespace

/// One primitive, with the reorders of its operands and its memory requirements.
struct Computation::PrimitivePlan {
  Owned desc, primitive;
  MemoryDesc source, weights, bias, result;         // in the primitive's layouts
  MemoryDesc plain_source, plain_result, addend;    // in the kernel's layouts
  Owned in_desc, in, out_desc, out, sum_desc, sum;  // reorders; null if the layouts agree
  bool has_bias = false, has_sum = false;
  int64_t rows = 0, input_rows = 0, low = 0;  // for a convolution
  int64_t scratch_at = 0, source_at = 0, result_at = 0, workspace = 0;

  const MemoryDesc& query(const Library& library, int what) const {
    const auto* found = library.primitive_desc_query_md(desc.get(), what, 0);
    if (!found) fail("ferrite.onednn/failed", "oneDNN: a primitive does not say what memory it takes");
    return *found;
  }
  std::string implementation(const Library& library) const {
    const char* text = nullptr;
    library.primitive_desc_query(desc.get(), dnnl::query_impl, 0, &text);
    return text ? text : "";
  }

  void make_desc(const Library& library, const Problem& problem, const dnnl::OperationDesc& operation) {
    Handle attr = nullptr, post = nullptr;
    check(library.primitive_attr_create(&attr), "making attributes");
    const Owned attributes(attr, {library.primitive_attr_destroy});
    check(library.post_ops_create(&post), "making an epilogue");
    const Owned epilogue(post, {library.post_ops_destroy});
    if (has_sum) check(library.post_ops_append_sum(post, 1), "adding to the result");
    if (const int algorithm = algorithm_of(problem.activation))
      check(library.post_ops_append_eltwise(post, 1, algorithm, 1, 0), "adding an activation");
    check(library.primitive_attr_set_post_ops(attr, post), "setting an epilogue");
    check(library.primitive_attr_set_scratchpad_mode(attr, dnnl::user_scratchpad), "setting its memory");
    Handle made = nullptr;
    if (library.primitive_desc_create(&made, &operation, attr, library.engine, nullptr) != dnnl::success)
      decline("oneDNN has no implementation of it");
    desc = Owned(made, {library.primitive_desc_destroy});
    const auto name = implementation(library);
    if (name.empty() || name.starts_with("ref")) decline("oneDNN has but its reference for it");
    source = query(library, dnnl::query_src);
    weights = query(library, dnnl::query_weights);
    result = query(library, dnnl::query_dst);
    const auto scratch =
        static_cast<int64_t>(library.memory_desc_get_size(&query(library, dnnl::query_scratchpad)));
    source_at = aligned(scratch);
    result_at = workspace = source_at;
  }

  Owned reorder(const Library& library, const MemoryDesc& from, const MemoryDesc& to) {
    Handle attr = nullptr, made = nullptr;
    check(library.primitive_attr_create(&attr), "making attributes");
    const Owned attributes(attr, {library.primitive_attr_destroy});
    check(library.primitive_attr_set_scratchpad_mode(attr, dnnl::user_scratchpad), "setting its memory");
    if (library.reorder_primitive_desc_create(&made, &from, library.engine, &to, library.engine, attr) !=
        dnnl::success)
      decline("oneDNN cannot reorder an operand into its layout");
    Owned owned(made, {library.primitive_desc_destroy});
    const auto* scratch = library.primitive_desc_query_md(made, dnnl::query_scratchpad, 0);
    if (scratch && static_cast<int64_t>(library.memory_desc_get_size(scratch)) > source_at)
      decline("reordering an operand into its layout takes more memory than the product");
    return owned;
  }

  /// Adds reorders if the primitive requests other layouts than the kernel has.
  void add_reorders(const Library& library) {
    if (!library.memory_desc_equal(&source, &plain_source)) {
      in_desc = reorder(library, plain_source, source);
      result_at = source_at + aligned(static_cast<int64_t>(library.memory_desc_get_size(&source)));
    }
    workspace = result_at;
    if (has_sum) sum_desc = reorder(library, addend, result);
    if (!library.memory_desc_equal(&result, &plain_result)) {
      out_desc = reorder(library, result, plain_result);
      workspace += aligned(static_cast<int64_t>(library.memory_desc_get_size(&result)));
    }
  }

  void load(const Library& library) {
    auto make = [&](const Owned& from, Owned& to) {
      if (!from) return;
      Handle made = nullptr;
      check(library.primitive_create(&made, from.get()), "making a primitive");
      to = Owned(made, {library.primitive_destroy});
    };
    make(desc, primitive);
    make(in_desc, in);
    make(out_desc, out);
    make(sum_desc, sum);
  }
};

namespace {

/// The arguments of one execution.
class Execution {
 public:
  Execution(const Library& library, Handle stream) : library_(library), stream_(stream) {}
  ~Execution() {
    for (int k = 0; k < count_; ++k) library_.memory_destroy(arguments_[static_cast<size_t>(k)].memory);
  }
  Execution(const Execution&) = delete;
  void add(int kind, const MemoryDesc& desc, void* data) {
    auto& argument = arguments_[static_cast<size_t>(count_)];
    check(library_.memory_create(&argument.memory, &desc, library_.engine, data), "naming memory");
    argument.kind = kind;
    ++count_;
  }
  void run(Handle primitive) {
    check(library_.primitive_execute(primitive, stream_, count_, arguments_.data()), "running a primitive");
  }

 private:
  const Library& library_;
  Handle stream_;
  std::array<dnnl::Argument, 5> arguments_{};
  int count_ = 0;
};

}  // namespace

Computation::Computation(std::shared_ptr<const Library> library, const Problem& problem, bool pack,
                         const MemoryDesc* packed)
    : library_(std::move(library)), problem_(problem) {
  const OneThread alone(*library_);
  tasks_ = 1;
  for (int64_t k = 0; k < problem_.loop_count; ++k) tasks_ *= problem_.loops[static_cast<size_t>(k)].extent;
  if (problem_.convolution)
    plan_convolution(packed);
  else
    plan_product(pack, packed);
  tasks_ *= static_cast<int64_t>(parts_.size()) * column_chunks_;
  for (const auto& plan : plans_) workspace_bytes_ = std::max(workspace_bytes_, plan->workspace);
}
Computation::~Computation() = default;

/// Divides the rows or columns into as many parts as there are workers, or more if the result is read again:
/// a part then stays in a core's cache. All parts read one operand again; that should be the smaller one.
void Computation::plan_product(bool pack, const MemoryDesc* packed) {
  const auto& p = problem_;
  const int64_t workers = std::max<int64_t>(1, p.workers);
  constexpr int64_t least_rows = 8, least_columns = 64, part_bytes = 512 << 10;
  int64_t wanted = tasks_ % workers == 0 || tasks_ >= 4 * workers ? 1 : workers;
  if (p.addend_count > 0 || p.activation == Activation::relu) {
    const int64_t parts = (4 * p.m.extent * p.n.extent + part_bytes - 1) / part_bytes;
    wanted = std::max(wanted, (parts + workers - 1) / workers * workers);
  }
  int64_t rows = p.m.extent;
  columns_ = p.n.extent;
  auto fits = [&](int64_t chunks) {
    const int64_t columns = p.n.extent / chunks;
    return columns >= least_columns && p.n.extent % chunks == 0 && (!pack || columns % least_columns == 0);
  };
  int64_t chunks = wanted;
  while (chunks < 4 * wanted && !fits(chunks)) ++chunks;
  const bool by_rows = p.m.extent >= least_rows * wanted;
  if (wanted > 1 && fits(chunks) && (!by_rows || (!pack && p.m.extent <= p.n.extent))) {
    column_chunks_ = chunks;
    columns_ = p.n.extent / chunks;
  } else if (wanted > 1 && by_rows) {
    rows = (p.m.extent + wanted - 1) / wanted;
  }
  const int type = type_of(p.type), result = type_of(p.result);
  for (int64_t first = 0; first < p.m.extent; first += rows) {
    const int64_t count = std::min(rows, p.m.extent - first);
    if (!plans_.empty() && count == rows) {
      parts_.push_back({0, first, first});
      continue;
    }
    auto plan = std::make_unique<PrimitivePlan>();
    plan->has_bias = p.bias.argument >= 0;
    plan->has_sum = p.addend_count > 0;
    plan->rows = count;
    plan->plain_source = plain(*library_, type, {count, p.k.extent}, {p.m.a, p.k.a});
    plan->plain_result = plain(*library_, result, {count, columns_}, {p.m.c, 1});
    plan->bias = plain(*library_, dnnl::f32, {1, columns_}, {columns_, 1});
    // All parts share one layout of the weights: the one that the first part prefers.
    const auto wanted = !plans_.empty() ? weights_
                        : packed        ? *packed
                        : pack          ? any(*library_, type, {p.k.extent, columns_})
                                        : plain(*library_, type, {p.k.extent, columns_}, {p.k.b, p.n.b});
    dnnl::OperationDesc operation{};
    if (library_->matmul_desc_init(&operation, &plan->plain_source, &wanted,
                                   plan->has_bias ? &plan->bias : nullptr,
                                   &plan->plain_result) != dnnl::success)
      decline("oneDNN does not describe it");
    plan->make_desc(*library_, p, operation);
    if (plans_.empty()) weights_ = plan->weights;
    parts_.push_back({plans_.size(), first, first});
    plans_.push_back(std::move(plan));
  }
}

/// Each image is a task. If there are too few, its rows are divided, and only parts at the image's border
/// have padding.
void Computation::plan_convolution(const MemoryDesc* packed) {
  const auto& p = problem_;
  const int64_t workers = std::max<int64_t>(1, p.workers);
  const int64_t cuts = tasks_ % workers == 0 ? 1 : std::min(workers, p.m.extent);
  const int64_t rows = (p.m.extent + cuts - 1) / cuts;
  const int64_t channels = p.depthwise ? p.n.extent : p.k.extent, channel = p.depthwise ? p.n.a : p.k.a;
  const int64_t reach = (p.window_row.extent - 1) * p.rows.dilation,
                wide = (p.column.extent - 1) * p.columns.step +
                       (p.window_column.extent - 1) * p.columns.dilation - p.columns.low;
  const int type = type_of(p.type), result = type_of(p.result);
  for (int64_t first = 0; first < p.m.extent; first += rows) {
    auto plan = std::make_unique<PrimitivePlan>();
    plan->rows = std::min(rows, p.m.extent - first);
    const int64_t from = first * p.rows.step - p.rows.low,
                  last = (first + plan->rows - 1) * p.rows.step + reach - p.rows.low;
    const int64_t begin = std::max<int64_t>(0, from), end = std::min(p.rows.size - 1, last);
    if (end < begin) decline("a part of the convolution reads nothing but padding");
    plan->input_rows = end - begin + 1;
    plan->low = begin - from;
    plan->has_bias = p.bias.argument >= 0;
    plan->has_sum = p.addend_count > 0;
    // Parts with the same size and padding share a primitive.
    parts_.push_back({plans_.size(), first, begin});
    const auto same = std::ranges::find_if(plans_, [&](const auto& other) {
      return other->rows == plan->rows && other->input_rows == plan->input_rows && other->low == plan->low;
    });
    if (same != plans_.end()) {
      parts_.back().plan = static_cast<size_t>(same - plans_.begin());
      continue;
    }
    const std::vector<int64_t> in = {1, channels, plan->input_rows, p.columns.size},
                               in_strides = {0, channel, p.m.a, p.column.a},
                               to = {1, p.n.extent, plan->rows, p.column.extent},
                               to_strides = {0, p.n.c, p.m.c, p.column.c};
    plan->plain_source = plain(*library_, type, in, in_strides);
    plan->plain_result = plain(*library_, result, to, to_strides);
    plan->bias = plain(*library_, dnnl::f32, {p.n.extent}, {1});
    if (plan->has_sum)
      plan->addend = plain(*library_, dnnl::f32, to, {0, p.n.addend[0], p.m.addend[0], p.column.addend[0]});
    const auto source = channels_last(in, in_strides) ? plan->plain_source : any(*library_, type, in);
    const auto target = channels_last(to, to_strides) ? plan->plain_result : any(*library_, result, to);
    std::vector<int64_t> window = {p.n.extent, p.k.extent, p.window_row.extent, p.window_column.extent};
    if (p.depthwise) window.insert(window.begin() + 1, 1);
    const auto wanted = !plans_.empty() ? weights_ : packed ? *packed : any(*library_, type, window);
    const std::array<int64_t, 2> steps = {p.rows.step, p.columns.step},
                                 dilations = {p.rows.dilation - 1, p.columns.dilation - 1},
                                 low = {plan->low, p.columns.low},
                                 high = {last - end, std::max<int64_t>(0, wide - p.columns.size + 1)};
    dnnl::OperationDesc operation{};
    if (library_->dilated_convolution_forward_desc_init(
            &operation, dnnl::forward_inference, dnnl::convolution_direct, &source, &wanted,
            plan->has_bias ? &plan->bias : nullptr, &target, steps.data(), dilations.data(), low.data(),
            high.data()) != dnnl::success)
      decline("oneDNN does not describe it");
    plan->make_desc(*library_, p, operation);
    plan->add_reorders(*library_);
    if (plans_.empty()) weights_ = plan->weights;
    plans_.push_back(std::move(plan));
  }
}

std::vector<Role> Computation::weight_roles() const {
  if (!problem_.convolution) return {Role::k, Role::n};
  std::vector<Role> roles = {Role::n, Role::k, Role::window_row, Role::window_column};
  if (problem_.depthwise) roles.insert(roles.begin() + 1, Role::k);
  return roles;
}

std::string Computation::text() const {
  const auto& p = problem_;
  std::string text = p.convolution ? (p.depthwise ? "depthwise convolution" : "convolution") : "product";
  auto number = [&](const char* name, int64_t value) {
    text += std::string(" ") + name + std::to_string(value);
  };
  number("m ", p.m.extent * p.column.extent);
  number("n ", p.n.extent);
  number("k ", p.k.extent * p.window_row.extent * p.window_column.extent);
  number("tasks ", tasks_);
  number("workspace ", workspace_bytes_);
  for (const auto& plan : plans_) {
    text += "\n  " + plan->implementation(*library_);
    if (plan->in_desc) text += ", its input reordered";
    if (plan->out_desc) text += ", its result reordered";
    if (plan->has_sum) text += ", added to";
  }
  return text + "\n";
}

double Computation::seconds(int64_t vector_bytes) const {
  // Cycles at the clock rate of the code generators' estimates, with two vector multiply-adds per cycle; the
  // other constants are attained fractions and rates.
  constexpr double cycles_per_second = 2.5e9, of_task = 4000, bytes_a_cycle = 8, slow_bytes_a_cycle = 4,
                   of_cache = 1 << 20;
  constexpr double of_product = 0.82, of_convolution = 0.75, of_depthwise = 0.12;
  const auto& p = problem_;
  double points = 1;
  for (int64_t k = 0; k < p.loop_count; ++k)
    points *= static_cast<double>(p.loops[static_cast<size_t>(k)].extent);
  const auto width = static_cast<double>(p.n.extent),
             height = points * static_cast<double>(p.m.extent * p.column.extent),
             depth = static_cast<double>(p.k.extent * p.window_row.extent * p.window_column.extent);
  const double efficiency = p.depthwise ? of_depthwise : p.convolution ? of_convolution : of_product;
  const double lanes = static_cast<double>(vector_bytes) / bytes_of(p.type);
  double bytes = 0;
  for (const auto& plan : plans_)
    bytes += (plan->in_desc ? 2.0 * static_cast<double>(plan->result_at - plan->source_at) : 0) +
             (plan->out_desc ? 2.0 * static_cast<double>(plan->workspace - plan->result_at) : 0);
  bytes *= points;
  const double type = bytes_of(p.type);
  bytes += type * (height * width * (1.0 + 2.0 * static_cast<double>(p.addend_count)) +
                   (p.activation == Activation::relu ? height * width : 0));
  // Operands that exceed a core's cache are read from memory.
  double slow = 0;
  for (const double operand : {type * depth * width, type * height * depth / points})
    (operand > of_cache ? slow : bytes) += operand;
  return (height * width * depth / (2 * lanes * efficiency) + bytes / bytes_a_cycle +
          slow / slow_bytes_a_cycle + of_task * static_cast<double>(tasks_)) /
         cycles_per_second;
}

void Computation::load() {
  const OneThread alone(*library_);
  for (auto& plan : plans_) plan->load(*library_);
}

void Computation::run(void* const* buffers, int64_t begin, int64_t end, void* workspace) const {
  const OneThread alone(*library_);
  for (int64_t task = begin; task < end; ++task) run_task(buffers, task, static_cast<char*>(workspace));
}

void Computation::run_task(void* const* buffers, int64_t task, char* workspace) const {
  const auto& p = problem_;
  const auto& part = parts_[static_cast<size_t>(task % static_cast<int64_t>(parts_.size()))];
  const auto& plan = *plans_[part.plan];
  task /= static_cast<int64_t>(parts_.size());
  const int64_t chunk = task % column_chunks_, column = chunk * columns_;
  task /= column_chunks_;
  Loop at{};  // offsets of the task's operands
  at.a = p.a.offset + part.input * p.m.a;
  at.b = p.b.offset + (p.packed ? 0 : column * p.n.b);
  at.c = p.c.offset + part.first * p.m.c + column;
  at.bias = p.bias.offset + part.first * p.m.bias + column * p.n.bias;
  for (size_t k = 0; k < most_addends; ++k)
    at.addend[k] = p.addends[k].offset + part.first * p.m.addend[k] + column * p.n.addend[k];
  for (int64_t k = p.loop_count; k-- > 0;) {
    const auto& loop = p.loops[static_cast<size_t>(k)];
    const int64_t i = task % loop.extent;
    task /= loop.extent;
    at.a += i * loop.a;
    at.b += i * loop.b;
    at.c += i * loop.c;
    at.bias += i * loop.bias;
    for (size_t d = 0; d < most_addends; ++d) at.addend[d] += i * loop.addend[d];
  }
  const int64_t size = bytes_of(p.type), result_size = bytes_of(p.result);
  auto pointer = [&](const Operand& operand, int64_t offset, int64_t bytes) {
    return static_cast<char*>(buffers[operand.argument]) + offset * bytes;
  };
  char* const source = pointer(p.a, at.a, size);
  char* weights = pointer(p.b, p.packed ? 0 : at.b, size);
  if (p.packed) weights += chunk * static_cast<int64_t>(library_->memory_desc_get_size(&weights_));
  char* const result = pointer(p.c, at.c, result_size);
  char* const target = plan.out ? workspace + plan.result_at : result;

  Handle made = nullptr;
  check(library_->stream_create(&made, library_->engine, dnnl::in_order), "making a stream");
  const Owned stream(made, {library_->stream_destroy});
  const MemoryDesc& scratch = plan.query(*library_, dnnl::query_scratchpad);
  auto reorder = [&](const Owned& primitive, const MemoryDesc& from, void* data, const MemoryDesc& to,
                     void* into) {
    Execution run(*library_, made);
    run.add(dnnl::arg_src, from, data);
    run.add(dnnl::arg_dst, to, into);
    run.add(dnnl::arg_scratchpad, scratch, workspace);
    run.run(primitive.get());
  };
  if (plan.in) reorder(plan.in, plan.plain_source, source, plan.source, workspace + plan.source_at);
  if (plan.sum) {
    reorder(plan.sum, plan.addend, pointer(p.addends[0], at.addend[0], 4), plan.result, target);
    // The sum post-op adds to the destination, so fill it with the addends first.
  } else if (plan.has_sum) {
    auto* to = reinterpret_cast<float*>(result);
    std::array<const float*, most_addends> from{};
    for (int64_t d = 0; d < p.addend_count; ++d)
      from[static_cast<size_t>(d)] = reinterpret_cast<const float*>(
          pointer(p.addends[static_cast<size_t>(d)], at.addend[static_cast<size_t>(d)], 4));
    const std::array<int64_t, most_addends> steps = {p.n.addend[0], p.n.addend[1]};
    const auto count = static_cast<size_t>(p.addend_count);
    for (int64_t m = 0; m < plan.rows; ++m) {
      std::array<const float*, most_addends> at_row = from;
      for (size_t d = 0; d < count; ++d) at_row[d] += m * p.m.addend[d];
      set_row(to + m * p.m.c, columns_, std::span(at_row).first(count), std::span(steps).first(count));
    }
  }
  {
    Execution run(*library_, made);
    run.add(dnnl::arg_src, plan.source, plan.in ? workspace + plan.source_at : source);
    run.add(dnnl::arg_weights, plan.weights, weights);
    if (plan.has_bias) run.add(dnnl::arg_bias, plan.bias, pointer(p.bias, at.bias, 4));
    run.add(dnnl::arg_dst, plan.result, target);
    run.add(dnnl::arg_scratchpad, scratch, workspace);
    run.run(plan.primitive.get());
  }
  if (plan.out) reorder(plan.out, plan.result, target, plan.plain_result, result);
  // oneDNN's relu would turn NaN into 0.
  if (p.activation == Activation::relu) {
    auto rows = p.m, columns = p.column, channels = p.n;
    rows.extent = plan.rows;
    if (!p.convolution) channels.extent = columns_, channels.c = 1;
    relu(reinterpret_cast<float*>(result), {rows, columns, channels});
  }
}

}  // namespace ferrite::onednn
