// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns scaled dot products with a softmax in between, and rotary embeddings, into one op each. A scale of
// the queries or keys stays where it is: in a small dtype the scores may overflow without it. The rule
// language cannot express any number of dims, so the text is generated for each rank.
#include <vector>

#include "passes.h"

namespace ferrite::passes {
namespace {

/// A form of masking that exporters write, and the op's mask for it: one sum; two sums, as of T5's positions
/// and padding; a difference; a selection with the scores as its first or second operand.
struct Masking {
  const char *name, *masked, *made, *mask, *attribute;
};
// clang-format off
constexpr Masking maskings[] = {
    {"", "add(%t, %mask) once | %t", "", "%mask", ""},
    {".biased", "add(add(%t, %bias) once, %more) once", "%mask = add(%bias, %more)", "%mask", ""},
    {".subtracted", "sub(%t, %mask) once", "%negated = neg(%mask)", "%negated", ""},
    {".chosen", "where(%mask, %t, %fill) once", "", "%mask", ", masked = value(%fill)"},
    {".filled", "where(%mask, %fill, %t) once", "%kept = logical_not(%mask)", "%kept",
     ", masked = value(%fill)"},
};
// clang-format on

/// The operations between the two products. Paddle adds 0 to values that it scales, and a tensor of zeros to
/// operands of a selection. The selection at %w is PyTorch's form of a bool mask.
std::string scores(const Masking& masking) {
  return std::string(R"(
    %scaled = mul(%s, %m) once
    %t = %scaled | add(%scaled, 0) once | add(add(%scaled, 0) once, 0) once | div(%s, %d) once | %s
    %u = )") +
         masking.masked + R"(
    %p = softmax(%u) {axis = rank(%u) - 1}
    %w = where(isnan(%p) once, %zero, %p) | %p
)";
}
constexpr const char* attributes =
    "scale = value(%m) else 1 / value(%d) else 1.0, nan_as_zero = value(%zero) == 0 else false";
/// Other readers of the softmax keep it alive. The condition on %zero is skipped if there is no %zero.
constexpr const char* conditions = "uses(%p) <= 2, uses(%w) == 1, value(%zero) == 0";

/// Exporters write the keys transposed, mostly merged with the transposition of the heads. compose_views
/// removes the inverse view that this rule adds, together with the one in attention.
std::string plain_attention(const Masking& masking, size_t rank) {
  const std::string perm = rank == 3 ? "[0, 2, 1]" : "[0, 1, 3, 2]", dims = std::to_string(rank);
  return "rule passes.recognise_attention" + std::string(rank == 3 ? ".of_3_dims" : "") + masking.name +
         " at post_grad_post {\n  match {\n    %s = matmul(%q, %k) once" + scores(masking) +
         "    %r = matmul(%w, %v)\n  }\n  where { rank(%q) == " + dims + ", rank(%k) == " + dims +
         ", rank(%v) == " + dims + ", " + conditions +
         " }\n  yield {\n    %back = transpose(%k) {perm = " + perm + "}\n    " + masking.made +
         "\n    %r = attention(%q, %back, %v, " + masking.mask + ") {" + attributes + masking.attribute +
         "}\n  }\n}\n";
}

/// TensorFlow's einsum, and PyTorch's attention with added masks per head: the products have one batch dim,
/// the softmax has two.
std::string reshaped_attention(const Masking& masking) {
  return "rule passes.recognise_attention.reshaped" + std::string(masking.name) + R"( at post_grad_post {
  match {
    %s3 = matmul(%q, %k) once
    %s = reshape(%s3) once)" +
         scores(masking) + R"(
    %w3 = reshape(%w) once
    %r = matmul(%w3, %v)
  }
  where {
    rank(%q) == 3, rank(%k) == 3, rank(%v) == 3, rank(%s) == 4, rank(%w3) == 3, shape(%u) == shape(%s)
    dim(%q, 0) == dim(%s, 0) * dim(%s, 1), dim(%k, 0) == dim(%q, 0), dim(%v, 0) == dim(%q, 0)
    dim(%s, 2) == dim(%q, 1), dim(%s, 3) == dim(%k, 2)
    dim(%w3, 0) == dim(%q, 0), dim(%w3, 1) == dim(%q, 1), dim(%w3, 2) == dim(%k, 2)
    )" + conditions +
         R"(
  }
  yield {
    %back = transpose(%k) {perm = [0, 2, 1]}
    %q4 = reshape(%q) {shape = [dim(%s, 0), dim(%s, 1), dim(%q, 1), dim(%q, 2)]}
    %k4 = reshape(%back) {shape = [dim(%s, 0), dim(%s, 1), dim(%k, 2), dim(%k, 1)]}
    %v4 = reshape(%v) {shape = [dim(%s, 0), dim(%s, 1), dim(%v, 1), dim(%v, 2)]}
    )" + masking.made +
         "\n    %a = attention(%q4, %k4, %v4, " + masking.mask + ") {" + attributes + masking.attribute + R"(}
    %r = reshape(%a) {shape = [dim(%q, 0), dim(%q, 1), dim(%v, 2)]}
  }
}
)";
}

/// Keras computes the scores as keys by queries, takes the softmax along the keys, and transposes it.
constexpr const char* transposed_attention = R"(
rule passes.recognise_attention.transposed at post_grad_post {
  match {
    %s = matmul(%k, %q) once
    %t = mul(%s, %m) once | div(%s, %d) once | %s
    %p = softmax(%t) {axis = rank(%t) - 2} once
    %w = transpose(%p) {perm = [0, 1, 3, 2]} once
    %r = matmul(%w, %v)
  }
  where { rank(%q) == 4, rank(%k) == 4, rank(%v) == 4 }
  yield {
    %back = transpose(%q) {perm = [0, 1, 3, 2]}
    %r = attention(%back, %k, %v) {scale = value(%m) else 1 / value(%d) else 1.0}
  }
}
)";

/// "[first, first, ..., last]": `rank` times `first`, then `last`.
std::string repeat(size_t rank, const std::string& first, const std::string& last) {
  std::string text = "[";
  for (size_t d = 0; d < rank; ++d) text += first + ", ";
  return text + last + "]";
}
/// "[dim(%x, 0), dim(%x, 1), ..., last]" with the first `count` dims of x.
std::string dims_of(const std::string& x, size_t count, const std::string& last) {
  std::string text = "[";
  for (size_t d = 0; d < count; ++d) text += "dim(" + x + ", " + std::to_string(d) + "), ";
  return text + last + "]";
}

/// The text of the rules for tensors of one rank. %z is the tensor from which the rotated part is sliced, if
/// it is a part.
class Rotary {
 public:
  explicit Rotary(size_t rank) : rank_(rank), lead_(rank - 1), suffix_(rank == 4 ? "" : ".of_3_dims") {}

  /// rotate_half: a concatenation of the halves; cos and sin have the whole dim.
  std::string halves(bool of_part) const {
    const std::string x = of_part ? "%z" : "%x";
    const std::string split =
        of_part ? "" : "    %first, %second = split(%x) {axis = rank(%x) - 1, sizes = [$half, $half]}\n";
    const std::string low = slice(x, of_part ? "$start" : "0", "$half", "1"),
                      high = slice(x, of_part ? "$start + $half" : "$half", "$half", "1");
    return head(of_part ? "part" : "") + part(of_part) + split +
           "    %low = " + (of_part ? "" : "%first | ") + low +
           "\n    %high = " + (of_part ? "" : "%second | ") + high + R"(
    %negated = neg(%high) | add(neg(%high), 0)
    %rotated = concat(%negated, %low) {axis = rank(%x) - 1} once
    %r = add(mul(%x, %cos) once, mul(%rotated, %sin) once)
  }
  where { rank(%x) == )" +
           std::to_string(rank_) + R"(, $half * 2 == dim(%x, -1) }
  yield { %r = rotary_embedding(%x, %cos, %sin) }
}
)";
  }
  /// Separate halves; cos and sin have half the dim.
  std::string two_halves() const {
    return head("two_halves") +
           "    %first, %second = split(%x) {axis = rank(%x) - 1, sizes = [$half, $half]}\n    %a = %first "
           "| " +
           slice("%x", "0", "$half", "1") + "\n    %b = %second | " + slice("%x", "$half", "$half", "1") +
           products() + "    %r = concat(%low, %high) {axis = rank(%x) - 1}\n  }\n" + each_pair("$half") +
           "  yield { %r = rotary_embedding(%x, %cos, %sin) }\n}\n";
  }
  /// Adjacent pairs; cos and sin have the whole dim. The dim of the pairs is last when they are joined again.
  std::string interleaved(bool of_part) const {
    const std::string x = of_part ? "%z" : "%x";
    return head(of_part ? "interleaved.part" : "interleaved") + part(of_part) +
           "    %a = " + slice(x, of_part ? "$start" : "0", "$half", "2") +
           "\n    %b = " + slice(x, of_part ? "$start + 1" : "1", "$half", "2") + (of_part ? "" : pairs()) +
           R"(
    %negated = neg(%b) | add(neg(%b), 0))" +
           (of_part ? "\n    %low = reshape(%negated)\n    %high = reshape(%a)\n"
                    : " | neg(reshape(%pb)) | neg(%pb)\n    %low = reshape(%negated) | %negated\n    %high = "
                      "reshape(%a) | %pa\n") +
           R"(    %pairs = concat(%low, %high) {axis = rank(%x)} once
    %rotated = reshape(%pairs) once
    %r = add(mul(%x, %cos) once, mul(%rotated, %sin) once)
  }
  where {
    rank(%x) == )" +
           std::to_string(rank_) + ", shape(%low) == " + dims_of("%x", lead_, "dim(%pairs, -2), 1") +
           ", shape(%high) == shape(%low)\n    " + (of_part ? "" : "shape(%y) == shape(%pairs), ") +
           R"(dim(%pairs, -2) * 2 == dim(%x, -1), shape(%rotated) == shape(%x)
  }
  yield { %r = rotary_embedding(%x, %cos, %sin) {interleaved = true} }
}
)";
  }
  /// Adjacent pairs with one cos and one sin each, as for complex numbers.
  std::string interleaved_pairs() const {
    return head("interleaved.pairs") + "    %y = reshape(%x)\n    %a = " + slice("%x", "0", "$half", "2") +
           " | gather(%y, 0) {axis = rank(%x)}" + " | reshape(" + pair("0") +
           ")\n    %b = " + slice("%x", "1", "$half", "2") + " | gather(%y, 1) {axis = rank(%x)} | reshape(" +
           pair("1") + ")" + products() +
           R"(    %l = reshape(%low)
    %h = reshape(%high)
    %pairs = concat(%l, %h) {axis = rank(%x)} once
    %r = reshape(%pairs)
  }
  where {
    rank(%x) == )" +
           std::to_string(rank_) + ", shape(%l) == " + dims_of("%x", lead_, "dim(%pairs, -2), 1") +
           ", shape(%h) == shape(%l), shape(%pairs) == " + dims_of("%x", lead_, "dim(%pairs, -2), 2") +
           "\n    shape(%a) == " + dims_of("%x", lead_, "dim(%pairs, -2)") + R"(
    dim(%pairs, -2) * 2 == dim(%x, -1), shape(%y) == shape(%pairs), shape(%r) == shape(%x)
    shape(%b) == shape(%a), shape(%low) == shape(%a), shape(%high) == shape(%a)
    dim(%cos, -1) == dim(%a, -1), dim(%sin, -1) == dim(%a, -1)
  }
  yield { %r = rotary_embedding(%x, %cos, %sin) {interleaved = true} }
}
)";
  }
  /// The same with the pairs' dim kept throughout. cos and sin also have it, besides `factors` other dims.
  std::string complex_pairs(size_t factors) const {
    auto without = [&](const std::string& of) {
      return "reshape(" + of + ") {shape = " +
             dims_of(of, factors - 1, "dim(" + of + ", " + std::to_string(factors - 1) + ")") + "}";
    };
    const std::string rank = std::to_string(factors + 1);
    return head("interleaved.complex_" + std::to_string(factors)) +
           "    %y = reshape(%x)\n    %a = " + pair("0") + "\n    %b = " + pair("1") + products() +
           R"(    %pairs = concat(%low, %high) {axis = rank(%x)} once
    %r = reshape(%pairs)
  }
  where {
    rank(%x) == )" +
           std::to_string(rank_) + ", rank(%cos) == " + rank + ", rank(%sin) == " + rank +
           ", shape(%y) == " + dims_of("%x", lead_, "dim(%y, -2), 2") + R"(
    dim(%y, -2) * 2 == dim(%x, -1), shape(%pairs) == shape(%y), shape(%r) == shape(%x)
    dim(%cos, -1) == 1, dim(%sin, -1) == 1, dim(%cos, -2) == dim(%y, -2), dim(%sin, -2) == dim(%y, -2)
  }
  yield {
    %c = )" +
           without("%cos") + "\n    %s = " + without("%sin") +
           "\n    %r = rotary_embedding(%x, %c, %s) {interleaved = true}\n  }\n}\n";
  }

 private:
  std::string head(const std::string& form) const {
    return "rule passes.recognise_rotary_embedding" + (form.empty() ? form : "." + form) + suffix_ +
           " at post_grad_post {\n  match {\n";
  }
  std::string part(bool of_part) const {
    return of_part ? "    %x = " + slice("%z", "$start", "$size", "1") + "\n" : "";
  }
  std::string slice(const std::string& of, const std::string& start, const std::string& size,
                    const std::string& stride) const {
    return "slice(" + of + ") {starts = " + repeat(lead_, "0", start) +
           ", sizes = " + dims_of(of, lead_, size) + ", strides = " + repeat(lead_, "1", stride) + "}";
  }
  std::string pair(const std::string& start) const {
    return "slice(%y) {starts = " + repeat(rank_, "0", start) + ", sizes = " + dims_of("%y", rank_, "1") +
           ", strides = " + repeat(rank_, "1", "1") + "}";
  }
  std::string pairs() const {
    return "\n    %y = reshape(%x)\n    %pa = " + pair("0") + "\n    %pb = " + pair("1");
  }
  static std::string products() {
    return R"(
    %low = sub(mul(%a, %cos), mul(%b, %sin)) once
    %high = add(mul(%b, %cos), mul(%a, %sin)) once
)";
  }
  std::string each_pair(const std::string& half) const {
    return "  where {\n    rank(%x) == " + std::to_string(rank_) + ", " + half +
           " * 2 == dim(%x, -1), dim(%cos, -1) == " + half + ", dim(%sin, -1) == " + half +
           "\n    shape(%low) == shape(%a), shape(%high) == shape(%a)\n  }\n";
  }

  size_t rank_, lead_;
  std::string suffix_;
};

}  // namespace

RuleSet recognise_attention() {
  std::string text;
  for (const Masking& masking : maskings) {
    for (size_t rank : {4, 3}) text += plain_attention(masking, rank);
    text += reshaped_attention(masking);
  }
  text += transposed_attention;
  for (size_t rank : {4, 3}) {
    const Rotary rotary(rank);
    text += rotary.halves(false) + rotary.halves(true) + rotary.two_halves() + rotary.interleaved(false) +
            rotary.interleaved(true) + rotary.interleaved_pairs();
    for (size_t factors = 2; factors <= rank; ++factors) text += rotary.complex_pairs(factors);
  }
  return rule_text("passes.recognise_attention", std::move(text));
}

}  // namespace ferrite::passes
