// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A loop program: the statements of a whole graph over a table of buffers, as lowering records them and fusion rewrites them.
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

/// A buffer and its place in the program. A statement that writes to a buffer with contents makes a new version: a buffer
/// of the same type whose storage is that of `base`, written @base.version. Versions are read and written in their order.
struct ProgramBuffer : Buffer {
  Role role = Role::temporary;
  uint32_t number = 0;         ///< which input, output or constant
  BufferId base = none;        ///< versions: whose storage it shares, itself no version
  uint32_t version = 0;        ///< versions: 1, 2, ...
  bool channels_last = false;  ///< temporaries: stored as convolutions want it
};

/// A node of the graph that a statement computes, or part of it.
struct Origin {
  uint64_t node = 0;
  std::string op;
  std::string names;  ///< the model's own node names
  /// The node as texts show it, where the model gives it no name: its index, without what tells stale handles apart.
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
  uint32_t region =
      none;  ///< a region that a provider took, by its number in the compilation; then without a function
};

struct ProgramStatement : Statement {
  std::vector<Origin> origins;  ///< in order, each once
  CallInfo call;                ///< of kind FE_STATEMENT_CALL
};

struct LoopProgram {
  index::Pool pool;
  std::vector<ProgramBuffer> buffers;
  std::vector<ProgramStatement> statements;  ///< in an order of execution
  std::vector<BufferId> inputs, outputs;     ///< an output may be any version of any buffer
  std::vector<Constant> constants;

  /// The buffer that owns the storage of `id`.
  BufferId storage(BufferId id) const { return buffers[id].base == none ? id : buffers[id].base; }

  /// Adds the first version of a buffer that has none and is none.
  BufferId add_version(BufferId base) {
    ProgramBuffer version = buffers[base];
    version.base = base;
    version.version = 1;
    buffers.push_back(std::move(version));
    return static_cast<BufferId>(buffers.size() - 1);
  }
};

/// What the interpreter, the printer and the verifier see: a program or a kernel.
struct StatementList {
  const index::Pool& pool;
  std::vector<const Buffer*> buffers;  ///< by id
  std::vector<BufferId> storage;       ///< by id: whose memory it is
  std::vector<const Statement*> statements;
  std::vector<const ProgramStatement*> provenance;  ///< beside `statements`; null in a kernel
  uint32_t shared = 0;                              ///< leading variables that run outside all statements
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
