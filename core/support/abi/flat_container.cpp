// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/abi/flat_container.h"

#include <cstring>

#include "core/support/hash.h"
#include "ferrite/abi/kernel.h"

namespace ferrite::core {

void FlatContainer::add(uint32_t kind, bool semantic, const void* data, size_t count, size_t stride) {
  Section& section = sections_.emplace_back();
  section.kind = kind | (semantic ? FE_SECTION_MUST_UNDERSTAND : 0u);
  section.stride = stride;
  section.count = count;
  section.semantic = semantic;
  const auto* first = static_cast<const std::byte*>(data);
  section.data.assign(first, first + count * stride);
}

std::vector<std::byte> FlatContainer::bytes(uint32_t content, uint64_t features) const {
  std::vector<fe_flat_section> table;
  uint64_t offset = sizeof(fe_flat_header) + sections_.size() * sizeof(fe_flat_section);
  for (const Section& section : sections_) {
    table.push_back({section.kind, FE_FLAT_REVISION, section.stride, section.count, offset});
    offset += (section.data.size() + 7) / 8 * 8;
  }
  fe_flat_header header{};
  header.magic = FE_FLAT_MAGIC;
  header.endian = FE_FLAT_ENDIAN;
  header.revision = FE_FLAT_REVISION;
  header.content = content;
  header.features = features;
  header.bytes = offset;
  header.section_count = static_cast<uint32_t>(sections_.size());
  std::vector<std::byte> result(offset);
  std::memcpy(result.data(), &header, sizeof header);
  if (!table.empty())
    std::memcpy(result.data() + sizeof header, table.data(), table.size() * sizeof(fe_flat_section));
  for (size_t k = 0; k < sections_.size(); ++k) {
    const auto& data = sections_[k].data;
    if (!data.empty()) std::memcpy(result.data() + table[k].offset, data.data(), data.size());
  }
  return result;
}

std::string FlatContainer::entry() const {
  std::vector<std::byte> input;
  auto append = [&](const void* data, size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    input.insert(input.end(), first, first + size);
  };
  const uint32_t revision = FE_FLAT_REVISION;
  for (const Section& section : sections_) {
    if (!section.semantic) continue;
    append(&section.kind, sizeof section.kind);
    append(&revision, sizeof revision);
    append(&section.stride, sizeof section.stride);
    append(&section.count, sizeof section.count);
    append(section.data.data(), section.data.size());
  }
  return "k_" + hash128(input);
}

}  // namespace ferrite::core
