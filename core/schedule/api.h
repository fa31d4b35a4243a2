// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host's side of fe_loop_api and fe_schedule_api: views of statements and groups, and the edits of the
// fusion hooks.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"
#include "core/support/abi/loan.h"
#include "core/support/deadline.h"
#include "ferrite/abi/schedule.h"

namespace ferrite::core::schedule {

/// Views of the statements of one program. The memory that a view points to lives as long as this object.
class StatementViews {
 public:
  explicit StatementViews(const LoopProgram& program) : program_(program) {}
  /// Fills the view of one statement. FE-S01 for a statement that does not exist.
  int32_t fill(fe_call* call, const fe_statement_args* args, const std::vector<Group>& groups,
               fe_statement_view* out);

 private:
  struct Scratch {
    std::vector<int64_t> extents;
    std::vector<uint32_t> reads, writes;
    std::string origin, text;
  };
  const LoopProgram& program_;
  std::deque<Scratch> scratch_;
};

class LoopApi {
 public:
  /// `requests`: null where the program can only be read.
  LoopApi(const LoopProgram& program, FusionRequests* requests);
  LoopApi(const LoopApi&) = delete;
  const fe_loop_api* api() const { return loan_->table(); }
  /// After the deadline every slot fails (FE-M21).
  void set_deadline(const Deadline& deadline) { deadline_ = deadline; }
  const Deadline& deadline() const { return deadline_; }
  /// FE-P63 where a pass let another thread use the table.
  Result<void> check() const { return loan_->check(); }

 private:
  const LoopProgram& program_;
  FusionRequests* const requests_;
  StatementViews views_;
  Deadline deadline_;
  std::optional<Loan<fe_loop_api, LoopApi>> loan_;
};

class ScheduleApi {
 public:
  explicit ScheduleApi(Schedule& schedule);
  ScheduleApi(const ScheduleApi&) = delete;
  const fe_schedule_api* api() const { return loan_->table(); }
  /// After the deadline every slot fails (FE-M21).
  void set_deadline(const Deadline& deadline) { deadline_ = deadline; }
  const Deadline& deadline() const { return deadline_; }
  /// FE-P63 where a pass let another thread use the table.
  Result<void> check() const { return loan_->check(); }

 private:
  Schedule& schedule_;
  StatementViews views_;
  Deadline deadline_;
  std::optional<Loan<fe_schedule_api, ScheduleApi>> loan_;
};

}  // namespace ferrite::core::schedule
