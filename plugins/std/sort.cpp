// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sorting along an axis, and its first elements (top-k). An element is sorted as one i64: the upper half is
// an order-preserving key of its value, the lower half its number in the row. All keys are therefore
// different, and equal values keep their order. The statements are maps, reductions and loops with one
// carried number, which every device supports.
#include <algorithm>
#include <cmath>
#include <optional>

#include "common.h"

namespace ferrite::standard {
namespace {

constexpr uint64_t number_bits = 32, number_mask = (uint64_t{1} << number_bits) - 1;
constexpr uint64_t sign = uint64_t{1} << 63;

// The constants are tuned on two cores of Zen 4.
constexpr int64_t candidates = 256;  // number of candidates among which few kept elements are searched
constexpr int64_t least_part = 4;    // minimum elements of a part that is represented by its first one
// Maximum number of comparisons between pairs of elements. Rows with at most so many are sorted by rank, and
// candidate sets always are.
constexpr int64_t most_compared = candidates * (candidates + candidates / least_part);
constexpr int64_t run = 64;    // elements of the first sorted runs
constexpr int64_t chunk = 32;  // elements of a merged run that one loop computes

constexpr int64_t parts_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

/// Emits the statements of one op. Buffers between them have the dims of the rows, and a last dim of
/// elements, in which several runs follow each other.
class Sorter {
 public:
  Sorter(Lowering& l, bool descending)
      : l_(l),
        x_(l.op.operand(0)),
        axis_(static_cast<size_t>(axis_of(l.op, x_.rank()))),
        rows_(x_.dims),
        length_(x_.dims[axis_]),
        descending_(descending) {
    rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(axis_));
  }

  /// Computes the first elements, as many as the results hold, and their numbers.
  void lower() {
    const int64_t kept = l_.result().type.dims[axis_];
    std::optional<BufferRef> order, sorted;
    if (l_.result().type.elements() > 0) {
      // Radix order: sort by the lower half of a wide value first, then stably by the upper half.
      if (bits_of(x_.dtype) == 64) order = first(keys(true, {}), length_);
      sorted = first(keys(false, order), kept);
    }
    const auto number = [&](Indices i) {
      if (!sorted) return l_.constant(i64, 0);
      std::rotate(i.begin() + static_cast<std::ptrdiff_t>(axis_),
                  i.begin() + static_cast<std::ptrdiff_t>(axis_) + 1, i.end());
      return number_at(*sorted, i, order);
    };
    l_.map(0, [&](const Indices& i) {
      auto at = i;
      at[axis_] = l_.indirect(number(i), length_, FE_INDIRECT_ASSUME);
      return l_.load(0, at);
    });
    l_.map(1, number);
  }

 private:
  struct Point {
    Indices row, own;
  };
  /// Begins loops over the rows, and over further variables.
  Point begin(std::initializer_list<int64_t> parallel, std::initializer_list<int64_t> reduction = {},
              std::initializer_list<int64_t> serial = {}) {
    Dims extents = rows_;
    extents.insert(extents.end(), parallel);
    Point point;
    point.row = l_.begin(extents, reduction, serial);
    const auto own = point.row.begin() + static_cast<std::ptrdiff_t>(rows_.size());
    point.own.assign(own, point.row.end());
    point.row.erase(own, point.row.end());
    return point;
  }
  static Indices at(const Point& point, Idx element) {
    Indices i = point.row;
    i.push_back(element);
    return i;
  }
  BufferRef buffer(int64_t count) {
    Dims dims = rows_;
    dims.push_back(count);
    return l_.temp(i64, dims);
  }
  static int64_t count_of(const BufferRef& elements) { return elements.type.dims.back(); }

  Val bits(uint64_t value) { return l_.constant_bits(i64, value); }
  Val number_of(Val element) { return element & bits(number_mask); }
  /// The number in x of the element at `i`. With `order`, the elements count positions in that order.
  Val number_at(const BufferRef& elements, Indices i, const std::optional<BufferRef>& order) {
    const Val number = number_of(l_.load(elements, i));
    if (!order) return number;
    i.back() = l_.indirect(number, length_, FE_INDIRECT_ASSUME);
    return number_of(l_.load(*order, i));
  }

  /// The sort key of a value: an i64 with the same order; for narrow values only its upper half is used.
  Val order_of(Val x) {
    Val key = x;
    if (is_float(x.dtype())) {
      x = widen(x);
      const DType whole = x.dtype() == f64 ? i64 : i32;
      const Val most = l_.constant_bits(whole, (uint64_t{1} << (bits_of(whole) - 1)) - 1);
      key = l_.bitcast(x, whole);
      key = where(key < 0.0, key ^ most, key);
      key = where(x == 0.0, l_.constant(whole, 0), key);  // zeros of both signs are equal
      key = where(isnan(x), most, key);
    }
    if (x_.dtype == u64) key = key ^ l_.constant_bits(u64, sign);
    key = cast(key, i64);
    if (x_.dtype == u32) key = key - 0x1p31;
    if (bits_of(x_.dtype) < 64) key = l_.prim(Prim::shl_, key, bits(number_bits));
    return descending_ ? !key : key;
  }
  /// Combines the upper half of `key` with the element's number.
  Val element(Val key, Val number) { return (key & bits(~number_mask)) | number; }
  /// The elements of the row, keyed by the upper half of their sort key, or by the lower half.
  BufferRef keys(bool by_lower, const std::optional<BufferRef>& order) {
    const auto made = buffer(length_);
    const auto point = begin({length_});
    const Idx place = point.own[0];
    auto from = at(point, place);
    if (order) from.back() = l_.indirect(number_of(l_.load(*order, from)), length_, FE_INDIRECT_ASSUME);
    std::rotate(from.begin() + static_cast<std::ptrdiff_t>(axis_), from.end() - 1, from.end());
    Val key = order_of(l_.load(0, from));
    if (by_lower) key = l_.prim(Prim::shl_, key, bits(number_bits)) ^ bits(sign);
    l_.store(made, at(point, place), element(key, l_.value(place)));
    l_.end();
    return made;
  }

  /// The element at `place`; past the end, one that sorts after all others.
  Val load(const BufferRef& elements, const Point& point, Idx place, bool may_leave) {
    if (!may_leave) return l_.load(elements, at(point, place));
    const Val number = l_.value(place);
    return l_.load(elements, at(point, place), number < static_cast<double>(count_of(elements)),
                   element(bits(~sign), number));
  }
  BufferRef padded(const BufferRef& elements, int64_t count) {
    if (count == count_of(elements)) return elements;
    const auto made = buffer(count);
    const auto point = begin({count});
    l_.store(made, at(point, point.own[0]), load(elements, point, point.own[0], true));
    l_.end();
    return made;
  }

  /// The first `kept` elements in order; each of `elements` represents `stride` elements of the row. If few
  /// are kept, only parts whose minima come first can contain them: of n elements in parts of m, compare the
  /// n / m minima first, and then kept * m elements.
  BufferRef first(const BufferRef& elements, int64_t kept, int64_t stride = 1) {
    const int64_t count = count_of(elements);
    if (kept == 1) return least(elements, count);
    int64_t part = candidates / kept;
    if (part < least_part) part = static_cast<int64_t>(std::sqrt(count / kept));
    if (is_short(count, kept) || part < least_part) return in_order(elements, kept);
    const auto best = first(least(elements, part), kept, stride * part);
    return in_order(parts(elements, best, part, stride), kept);
  }
  static bool is_short(int64_t count, int64_t kept) { return count <= most_compared / (count + kept); }
  /// The same by sorting all elements.
  BufferRef in_order(const BufferRef& elements, int64_t kept) {
    const int64_t count = count_of(elements);
    if (is_short(count, kept)) return by_rank(elements, count, kept);
    const int64_t runs = parts_of(count, run);
    int64_t length = std::min(run, kept);
    auto sorted = by_rank(padded(elements, runs * run), run, length);
    while (count_of(sorted) > length) {
      const int64_t longer = std::min(2 * length, kept);
      sorted = merged(sorted, length, longer);
      length = longer;
    }
    return sorted;
  }

  /// The first `kept` of each run of `length` elements. The rank of an element is the number of smaller
  /// elements; each position then takes the element of its rank.
  BufferRef by_rank(const BufferRef& elements, int64_t length, int64_t kept) {
    const int64_t runs = count_of(elements) / length;
    const auto ranks = buffer(count_of(elements)), sorted = buffer(runs * kept);
    auto point = begin({runs, length}, {length});
    const Idx own = point.own[0] * length + point.own[1];
    const Val other = l_.load(elements, at(point, point.own[0] * length + point.own[2]));
    const Val before = cast(other < l_.load(elements, at(point, own)), i64);
    l_.store(ranks, at(point, own), l_.reduce(FE_REDUCE_SUM, before));
    l_.end();
    point = begin({runs, kept}, {length});
    const auto from = at(point, point.own[0] * length + point.own[2]);
    const Val here = l_.load(ranks, from) == l_.value(point.own[1]);
    const Val taken = l_.reduce(FE_REDUCE_SUM, where(here, l_.load(elements, from), l_.constant(i64, 0)));
    l_.store(sorted, at(point, point.own[0] * kept + point.own[1]), taken);
    l_.end();
    return sorted;
  }

  /// The minimum of each `part` elements.
  BufferRef least(const BufferRef& elements, int64_t part) {
    const int64_t parts = parts_of(count_of(elements), part);
    const auto made = buffer(parts);
    const auto point = begin({parts}, {part});
    const Idx place = point.own[0] * part + point.own[1];
    const Val element = load(elements, point, place, count_of(elements) % part != 0);
    l_.store(made, at(point, point.own[0]), l_.reduce(FE_REDUCE_MIN, element));
    l_.end();
    return made;
  }
  /// The parts whose minima are the elements `best`.
  BufferRef parts(const BufferRef& elements, const BufferRef& best, int64_t part, int64_t stride) {
    const auto made = buffer(count_of(best) * part);
    const auto point = begin({count_of(best), part});
    const Val number = number_of(l_.load(best, at(point, point.own[0])));
    const Idx from = l_.indirect(number / static_cast<double>(stride * part),
                                 parts_of(count_of(elements), part), FE_INDIRECT_ASSUME);
    l_.store(made, at(point, point.own[0] * part + point.own[1]),
             load(elements, point, from * part + point.own[1], count_of(elements) % part != 0));
    l_.end();
    return made;
  }

  /// Merges sorted runs of `length` in pairs and keeps the first `kept` of each pair. The starts of each
  /// chunk of the output in both runs are found by bisection, and each chunk is merged independently (Odeh,
  /// Green, Mwassi, Shmueli and Birk, "Merge path", 2012).
  BufferRef merged(const BufferRef& elements, int64_t length, int64_t kept) {
    const int64_t runs = count_of(elements) / length, pairs = parts_of(runs, 2);
    const int64_t size = std::min(chunk, kept), chunks = parts_of(kept, size);
    const auto starts = buffer(pairs * chunks), made = buffer(pairs * kept);
    // Element `place` of the pair's first or second run; the last pair may lack a second run.
    const auto load_of = [&](const Point& point, int64_t second, Val place, Val inside) {
      const Idx number = point.own[0] * 2 + second;
      const Idx from = number * length + l_.indirect(place, length, FE_INDIRECT_CLAMP);
      if (second == 1 && runs % 2 == 1) {
        const Val exists = l_.value(number) < static_cast<double>(runs);
        inside = inside.lowering() ? inside & exists : exists;
      }
      if (!inside.lowering()) return l_.load(elements, at(point, from));
      return l_.load(elements, at(point, from), inside, bits(~sign));
    };

    auto point = begin({pairs, chunks});
    const Val start = l_.value(point.own[1] * size);
    const auto limit = static_cast<double>(length);
    Val low = max(start - limit, l_.constant(i64, 0)), high = min(start, l_.constant(i64, limit));
    for (int64_t left = length; left > 0; left /= 2) {
      const Val middle = l_.prim(Prim::shr_, low + high, bits(1)), open = low < high;
      const Val before = load_of(point, 0, middle, {}) < load_of(point, 1, start - middle - 1.0, {});
      low = where(open & before, middle + 1.0, low);
      high = where(open & !before, middle, high);
    }
    l_.store(starts, at(point, point.own[0] * chunks + point.own[1]), low);
    l_.end();

    point = begin({pairs, chunks}, {}, {size});
    const Idx place = point.own[1] * size + point.own[2];
    const Val taken = l_.carry(i64, 0);
    const Val of_first = l_.load(starts, at(point, point.own[0] * chunks + point.own[1])) + taken;
    const Val of_second = l_.value(place) - of_first;
    const Val a = load_of(point, 0, of_first, of_first < limit),
              b = load_of(point, 1, of_second, of_second < limit);
    l_.set_carry(taken, taken + cast(a < b, i64));
    const Val exists = kept % size == 0 ? Val() : l_.value(place) < static_cast<double>(kept);
    l_.store(made, at(point, point.own[0] * kept + place), min(a, b), FE_STORE_SET, exists);
    l_.end();
    return made;
  }

  Lowering& l_;
  const TensorType x_;
  const size_t axis_;
  Dims rows_;  ///< the dims of x but the axis
  const int64_t length_;
  const bool descending_;
};

/// Graphs of the op alone, one per operand and attributes.
std::vector<std::string> samples_of(const std::string& name,
                                    std::initializer_list<std::pair<const char*, const char*>> cases) {
  std::vector<std::string> samples;
  for (const auto& [operand, attributes] : cases)
    samples.push_back(sample(operand, name + "(%x) {" + attributes + "}", {"v", "i"}));
  return samples;
}

/// The type of x; its elements along the axis must have 32-bit numbers.
TensorType sorted_type(const Instance& op) {
  auto x = typed(op, 0, any_class);
  const int64_t length = x.dims[static_cast<size_t>(axis_of(op, x.rank()))];
  need_fit(length < static_cast<int64_t>(number_mask), op, "a row of ", length,
           " elements is too long to be sorted");
  return x;
}

OpDef sort_op() {
  return op_def("sort")
      .doc(
          "The elements along the axis in ascending or descending order, and the indices (i64) at which they "
          "were. NaN counts as the "
          "greatest; equal elements keep their order. Of n elements n^2 pairs are compared in rows of up to "
          "202, n log n in longer ones: runs "
          "of 64 are merged, by Odeh, Green, Mwassi, Shmueli and Birk's merge path (2012).")
      .operands("x")
      .results(2)
      .attr(attr("axis", -1))
      .axis()
      .attr(attr("descending", false))
      .attr(attr("stable", true), "whether equal elements have to keep their order, which they do either way")
      .infer([](const Instance& op) {
        const auto x = sorted_type(op);
        return std::vector{x, TensorType{i64, x.dims}};
      })
      .lower([](Lowering& l) { Sorter(l, l.op.attrs.boolean("descending")).lower(); })
      .samples(samples_of("sort", {{"%x: f32[3,17]", "axis = 1"},
                                   {"%x: bf16[5,2]", "axis = 0, descending = true"},
                                   {"%x: u64[300]", "axis = 0"}}));
}

OpDef topk_op() {
  return op_def("topk")
      .doc(
          "The k greatest or least elements along the axis, the first of them first, and the indices (i64) "
          "at which they were. NaN counts "
          "as the greatest; of equal elements those of lower indices come first. Of n elements n are looked "
          "at; in rows of which k are few, "
          "about 2 sqrt(k n) are sorted then, or less.")
      .operands("x")
      .results(2)
      .required(attr("k", 1))
      .attr(attr("axis", -1))
      .axis()
      .attr(attr("largest", true))
      .attr(attr("sorted", true), "whether they have to be in order, which they are either way")
      .infer([](const Instance& op) {
        auto x = sorted_type(op);
        auto& length = x.dims[static_cast<size_t>(axis_of(op, x.rank()))];
        const int64_t k = op.attrs.integer("k");
        need_value(k >= 0 && k <= length, op, "k", "is ", k, ", and the axis has ", length, " elements");
        length = k;
        return std::vector{x, TensorType{i64, x.dims}};
      })
      .lower([](Lowering& l) { Sorter(l, l.op.attrs.boolean("largest")).lower(); })
      .samples(samples_of("topk", {{"%x: f32[3,17]", "k = 2"},
                                   {"%x: i32[4,3]", "k = 1, axis = 0, largest = false"},
                                   {"%x: f16[600]", "k = 9"},
                                   {"%x: bool[2,0]", "k = 0"}}));
}

}  // namespace

void add_sort(PluginBuilder& builder, const PluginContext&) {
  builder.add(sort_op());
  builder.add(topk_op());
}

}  // namespace ferrite::standard
