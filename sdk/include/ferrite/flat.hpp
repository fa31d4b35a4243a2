// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The flat container (abi/kernel.h): reads header and section table from untrusted bytes.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/abi/kernel.h"

namespace ferrite::inline v0::detail {

/// The sections of a container of any alignment. Reads stay within the bytes, and memory use is at most a
/// constant times their number. Keeps the first fault.
class FlatContainer {
 public:
  static constexpr uint32_t section_kinds = 64;  ///< sections with this number or above are ignored

  /// `what` names the contents in messages: "kernel".
  FlatContainer(std::span<const std::byte> bytes, std::string what) : bytes_(bytes), what_(std::move(what)) {}

  /// Reads header and section table. `known` has a bit for each section kind that the reader understands.
  /// Other sections are skipped, or cause a fault if they are marked must-understand. `features`: the header
  /// features that the reader understands.
  bool open(uint32_t content, uint64_t known, uint64_t features) {
    fe_flat_header header;
    if (bytes_.size() < sizeof header)
      return fail("the " + what_ + " is cut short: there is no whole header");
    std::memcpy(&header, bytes_.data(), sizeof header);
    if (header.magic != FE_FLAT_MAGIC)
      return fail("this is no flat " + what_ + ": the magic number is wrong");
    if (header.endian != FE_FLAT_ENDIAN) return fail("the " + what_ + " is of the other byte order");
    if (header.revision == 0 || header.revision > FE_FLAT_REVISION)
      return fail("the " + what_ + "'s revision " + std::to_string(header.revision) + " is not known");
    if (header.content != content) return fail("the container holds no " + what_);
    if (header.features & ~features) return fail("the " + what_ + " needs features that are not known");
    if (header.bytes > bytes_.size() || header.bytes < sizeof header)
      return fail("the " + what_ + " is cut short");
    bytes_ = bytes_.first(static_cast<size_t>(header.bytes));
    if (header.section_count > (bytes_.size() - sizeof header) / sizeof(fe_flat_section))
      return fail("the section table is cut short");
    for (uint32_t k = 0; k < header.section_count; ++k) {
      fe_flat_section section;
      std::memcpy(&section, bytes_.data() + sizeof header + k * sizeof section, sizeof section);
      const uint32_t kind = section.kind & ~FE_SECTION_MUST_UNDERSTAND;
      if (section.offset % 8 != 0 || section.offset > bytes_.size())
        return fail("a section lies outside of the " + what_);
      if (section.count > 0 &&
          (section.stride == 0 || section.count > (bytes_.size() - section.offset) / section.stride))
        return fail("a section is cut short");
      if (kind >= section_kinds || (known >> kind & 1) == 0) {
        if (section.kind & FE_SECTION_MUST_UNDERSTAND)
          return fail("the " + what_ + " has a section that is not known");
        continue;
      }
      if (present_ >> kind & 1) return fail("the " + what_ + " has a section twice");
      present_ |= uint64_t{1} << kind;
      sections_[kind] = section;
    }
    return true;
  }

  /// The elements of a section; none if it is absent. If the stored elements are longer than T, the rest of
  /// each is ignored.
  template <class T>
  bool table(uint32_t kind, std::vector<T>& out) {
    const auto& section = sections_[kind];
    if (section.count == 0) return true;
    if (section.stride < sizeof(T)) return fail("the elements of a section are too short");
    out.resize(static_cast<size_t>(section.count));
    for (size_t k = 0; k < out.size(); ++k)
      std::memcpy(&out[k], bytes_.data() + section.offset + k * section.stride, sizeof(T));
    return true;
  }

  /// The contents of a section of bytes, in place.
  bool bytes(uint32_t kind, std::span<const std::byte>& out) {
    const auto& section = sections_[kind];
    if (section.count == 0) return true;
    if (section.stride != 1) return fail("a section of bytes has another stride than 1");
    out = bytes_.subspan(static_cast<size_t>(section.offset), static_cast<size_t>(section.count));
    return true;
  }

  bool fail(std::string text) {
    if (fault_.empty()) fault_ = std::move(text);
    return false;
  }
  const std::string& fault() const { return fault_; }

 private:
  std::span<const std::byte> bytes_;
  std::string what_;
  fe_flat_section sections_[section_kinds] = {};
  uint64_t present_ = 0;
  std::string fault_;
};

}  // namespace ferrite::inline v0::detail
