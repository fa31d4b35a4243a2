// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls of plugins: their errors, calls and tables that are kept too long, records that are reused, time
// limits.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>

#include "core/support/abi/abi.h"
#include "core/support/abi/callback.h"
#include "core/support/abi/loan.h"
#include "core/support/deadline.h"

namespace ferrite::core {
namespace {

int32_t use_kept(void* kept, fe_call*, const fe_none*, fe_none*) {
  auto* call = static_cast<fe_call*>(kept);
  call->set_error(call->host, abi::string(std::string_view("acme/late")), abi::string(std::string_view("?")));
  return FE_OK;
}
int32_t throw_error(void*, fe_call*, const fe_none*, fe_none*) { throw std::runtime_error("no more"); }
int32_t throw_number(void*, fe_call*, const fe_none*, fe_none*) { throw 7; }

/// The error of a slot that is called as a pass of acme.
Error called(int32_t (*slot)(void*, fe_call*, const fe_none*, fe_none*), void* self) {
  const auto args = abi::sized<fe_none>();
  auto out = abi::sized<fe_none>();
  abi::Call call;
  const int32_t status = callback::call({"acme", "pass", "acme.fold"}, slot, self, call, &args, &out);
  return call.error(status, "none", "none");
}

TEST(Calls, CarryTheErrorOfTheCallee) {
  abi::Call call;
  EXPECT_TRUE(call.check(FE_OK, "acme/none", "not said"));
  EXPECT_EQ(call.error(FE_EINVALID, "acme/none", "not said").message(), "acme/none not said");
  std::string text(100'000, 'a');
  call.get()->set_error(call.get()->host, abi::string(std::string_view("acme/e")), abi::string(text));
  text.assign(text.size(), 'b');
  const auto failed = call.check(FE_EDEVICE, "acme/none", "not said");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().status, FE_EDEVICE);
  EXPECT_EQ(failed.error().code, "acme/e");
  EXPECT_EQ(failed.error().text, std::string(1 << 16, 'a')) << "a copy, of limited length";
}

TEST(Calls, KeptAfterTheirReturnAreRefused) {
  fe_call* kept = nullptr;
  {
    abi::Call call;
    call.cancel_when([] { return true; });
    kept = call.get();
    EXPECT_NE(kept->cancelled(kept->host), 0);
  }
  EXPECT_EQ(kept->cancelled(kept->host), 0);
  testing::internal::CaptureStderr();
  const Error late = called(use_kept, kept);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("plugin 'acme', pass 'acme.fold'"),
            std::string::npos);
  EXPECT_EQ(late.code, "FE-P62") << "although the pass itself succeeded";
  EXPECT_EQ(late.status, FE_EINVALID);
}

TEST(Calls, UsedFromAnotherThreadAreRefused) {
  abi::Call call;
  testing::internal::CaptureStderr();
  std::thread([&] { use_kept(call.get(), nullptr, nullptr, nullptr); }).join();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("FE-P63"), std::string::npos);
  EXPECT_EQ(call.error(FE_EINVALID, "none", "").code, "none");
}

TEST(Callbacks, TurnExceptionsIntoErrors) {
  EXPECT_EQ(called(throw_error, nullptr).message(), "FE-P61 an exception left it: no more");
  EXPECT_EQ(called(throw_number, nullptr).message(), "FE-P61 an exception left it: of unknown type");
  EXPECT_EQ(called(throw_error, nullptr).status, FE_EINTERNAL);
}

TEST(Callbacks, AreDescribedByTheOwnerOfTheirTable) {
  const int table = 0;
  const callback::Frame frame{{}, "pass", "acme.fold", &table};
  EXPECT_EQ(callback::describe(frame), "pass 'acme.fold'");
  callback::own(&table, "acme");
  EXPECT_EQ(callback::describe(frame), "plugin 'acme', pass 'acme.fold'");
  callback::own(&table, "other");
  EXPECT_EQ(callback::describe(frame), "plugin 'other', pass 'acme.fold'") << "the address was reused";
  std::array<char, 8> text{};
  EXPECT_EQ(callback::describe(frame, text.data(), text.size()), 7u);
  EXPECT_STREQ(text.data(), "plugin ");
}

/// The depth and the name of the innermost call within `levels` nested calls.
std::pair<uint32_t, std::string> nested(uint32_t levels, const std::string& name = "0") {
  if (levels == 0) {
    const auto* inside = callback::this_thread()->innermost();
    return {callback::this_thread()->depth.load(), inside ? std::string(inside->name) : "none"};
  }
  const callback::Scope scope({"acme", "pass", name});
  return nested(levels - 1, std::to_string(levels - 1));
}

TEST(Callbacks, NestDeeperThanTheyAreRecorded) {
  EXPECT_EQ(nested(3, "first"), std::pair(3u, std::string("1")));
  EXPECT_EQ(nested(0), std::pair(0u, std::string("none")));
  // The 64th of 70 is the last one recorded: six levels are left below it.
  EXPECT_EQ(nested(callback::Thread::deepest + 6),
            std::pair(callback::Thread::deepest + 6, std::string("7")));
  EXPECT_EQ(nested(0), std::pair(0u, std::string("none")));
}

TEST(Recycled, AreReusedInTheOrderOfTheirReturnWhenEnoughWait) {
  struct Plain {
    int number = 0;
  };
  using Records = Recycled<Plain>;
  std::vector<Plain*> taken;
  for (size_t k = 0; k <= Records::rest; ++k) taken.push_back(Records::take());
  std::set<Plain*> distinct(taken.begin(), taken.end());
  EXPECT_EQ(distinct.size(), Records::rest + 1);
  for (auto* record : taken) Records::give(record);
  Plain* const again = Records::take();
  EXPECT_EQ(again, taken[0]);
  Plain* const fresh = Records::take();
  EXPECT_FALSE(distinct.contains(fresh)) << "as many as have to rest are waiting, no more";
  Records::give(again);
  Records::give(fresh);
  Plain* const next = Records::take();
  EXPECT_EQ(next, taken[1]);
  Records::give(next);
}

struct LentTable {
  void* self = nullptr;
};
struct Lender {
  Deadline limit;
  const Deadline& deadline() const { return limit; }
};
using Lent = Loan<LentTable, Lender>;

TEST(Loans, LeadToTheirOwnerWhileTheyLiveAndOnTheirThread) {
  Lender lender;
  abi::Call call;
  int32_t status = FE_OK;
  void* self = nullptr;
  {
    const Lent loan(&lender, LentTable());
    self = loan.table()->self;
    EXPECT_EQ(Lent::owner_of(self, call.get(), status), &lender);
    EXPECT_EQ(&Lent::owner_of(*loan.table()), &lender);
    EXPECT_TRUE(loan.check());
    EXPECT_EQ(status, FE_OK);
    std::thread([&] { EXPECT_EQ(Lent::owner_of(self, nullptr, status), nullptr); }).join();
    EXPECT_EQ(status, FE_EINVALID);
    ASSERT_FALSE(loan.check());
    EXPECT_EQ(loan.check().error().code, "FE-P63");
  }
  testing::internal::CaptureStderr();
  EXPECT_EQ(Lent::owner_of(self, call.get(), status), nullptr);
  EXPECT_EQ(status, FE_ESTALE);
  EXPECT_EQ(Lent::owner_of(nullptr, nullptr, status), nullptr);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("FE-P62"), std::string::npos);
  EXPECT_EQ(call.error(status, "none", "none").code, "FE-P62");
}

TEST(Loans, OfAnOwnerWhoseTimeIsOverAreRefused) {
  using std::chrono::hours, std::chrono::milliseconds;
  Lender without_limit, in_time{Deadline(hours(24))}, late{Deadline(milliseconds(1))};
  std::this_thread::sleep_for(milliseconds(2));
  EXPECT_TRUE(without_limit.limit.check());
  EXPECT_TRUE(in_time.limit.check());
  ASSERT_TRUE(late.limit.passed());
  EXPECT_NE(late.limit.check().error().text.find("timeout_ms = 1;"), std::string::npos);
  abi::Call call;
  int32_t status = FE_OK;
  const Lent first(&without_limit, LentTable()), second(&in_time, LentTable()), third(&late, LentTable());
  EXPECT_EQ(Lent::owner_in_time(first.table()->self, call.get(), status), &without_limit);
  EXPECT_EQ(Lent::owner_in_time(second.table()->self, call.get(), status), &in_time);
  EXPECT_EQ(Lent::owner_in_time(third.table()->self, call.get(), status), nullptr);
  EXPECT_EQ(status, FE_ECANCELLED);
  EXPECT_EQ(call.error(status, "none", "none").code, "FE-M21");
}

}  // namespace
}  // namespace ferrite::core
