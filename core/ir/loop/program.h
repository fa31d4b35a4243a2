// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A loop program: the statements of a whole graph over one table of buffers. Lowering records it, fusion
// rewrites it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/loop.hpp"
#include "runtime/constant.h"

namespace ferrite::core::loop {

namespace index = ferrite::index;
using ferrite::loop::BodyOp;
using ferrite::loop::Buffer;
using ferrite::loop::BufferId;
using ferrite::loop::Carry;
using ferrite::loop::Kernel;
using ferrite::loop::none;
using ferrite::loop::OpId;
using ferrite::loop::Reduction;
using ferrite::loop::Statement;
using ferrite::loop::Store;
using ferrite::loop::Var;
using ferrite::loop::VarKind;
using runtime::Constant;

enum class Role : uint8_t { input, output, constant, temporary };

/// A buffer and its role in the program. A statement that writes to a buffer with contents makes a new
/// version: a buffer of the same type that shares the storage of `base`, written @base.version. Versions are
/// written and read in their order.
struct ProgramBuffer : Buffer {
  Role role = Role::temporary;
  uint32_t number = 0;         ///< index among the inputs, outputs or constants
  BufferId base = none;        ///< versions only: the buffer whose storage it shares, itself no version
  uint32_t version = 0;        ///< versions only: 1, 2, ...
  bool channels_last = false;  ///< temporaries only: stored in channels-last order, for convolutions
};

/// A graph node that a statement computes, completely or in part.
struct Origin {
  uint64_t node = 0;
  std::string op;
  std::string names;  ///< the model's own node names
  /// The number under which texts show a node without a name in the model: its index, without the generation.
  uint32_t index() const { return static_cast<uint32_t>(node); }
  std::string label() const { return names.empty() ? op + " %" + std::to_string(index()) : names; }
  friend bool operator==(const Origin&, const Origin&) = default;
};

/// An opaque kernel: a function over contiguous buffers.
struct CallInfo {
  std::string name;
  fe_kernel_function function = nullptr;  ///< null in a program read from text
  void* self = nullptr;
  std::vector<BufferId> reads, writes;
  uint32_t region = none;  ///< the number of a region that a provider claimed; then there is no function
};

struct ProgramStatement : Statement {
  std::vector<Origin> origins;  ///< in order, without duplicates
  CallInfo call;                ///< only if the kind is FE_STATEMENT_CALL
};

struct LoopProgram {
  index::Pool pool;
  std::vector<ProgramBuffer> buffers;
  std::vector<ProgramStatement> statements;  ///< in an order of execution
  std::vector<BufferId> inputs, outputs;     ///< an output may be any version of any buffer
  std::vector<Constant> constants;

  /// The buffer that owns the storage of `id`.
  BufferId storage(BufferId id) const { return buffers[id].base == none ? id : buffers[id].base; }

  /// Adds the next version of a buffer that is no version itself and has none yet.
  BufferId add_version(BufferId base) {
    ProgramBuffer version = buffers[base];
    version.base = base;
    version.version = 1;
    buffers.push_back(std::move(version));
    return static_cast<BufferId>(buffers.size() - 1);
  }
};

/// The common view of a program or a kernel, for the interpreter, the printer and the verifier.
struct StatementList {
  const index::Pool& pool;
  std::vector<const Buffer*> buffers;  ///< by id
  std::vector<BufferId> storage;       ///< by id: the buffer whose memory it uses
  std::vector<const Statement*> statements;
  std::vector<const ProgramStatement*> provenance;  ///< parallel to `statements`; null in a kernel
  uint32_t shared = 0;  ///< number of leading variables that form loops around all statements
};

inline StatementList list_of(const LoopProgram& program) {
  StatementList list{program.pool, {}, {}, {}, {}, 0};
  for (BufferId id = 0; id < program.buffers.size(); ++id) {
    list.buffers.push_back(&program.buffers[id]);
    list.storage.push_back(program.storage(id));
  }
  for (const auto& statement : program.statements) {
    list.statements.push_back(&statement);
    list.provenance.push_back(&statement);
  }
  return list;
}
inline StatementList list_of(const Kernel& kernel) {
  StatementList list{kernel.pool, {}, {}, {}, {}, kernel.shared};
  for (BufferId id = 0; id < kernel.buffers.size(); ++id) {
    list.buffers.push_back(&kernel.buffers[id]);
    list.storage.push_back(id);
  }
  for (const auto& statement : kernel.statements) {
    list.statements.push_back(&statement);
    list.provenance.push_back(nullptr);
  }
  return list;
}

}  // namespace ferrite::core::loop
