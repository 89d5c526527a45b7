// Slices as operators and tenants meet them, on either kind of store.
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lease/token.h"
#include "scheduler/scheduler.h"
#include "scheduler/scheduler_fixture.h"

namespace warpline::scheduler {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

class SlicesTest : public SchedulerTest {
 protected:
  static warpline_internal::SliceRequest Request(const std::string& name, bool create) {
    warpline_internal::SliceRequest request;
    request.set_credential("operator");
    request.set_name(name);
    request.set_create(create);
    return request;
  }
  // A tenant that has these slices, and its credential.
  std::string TenantWith(const std::string& name, const std::vector<std::string>& slices,
                         uint64_t gib = 0) {
    warpline_internal::TenantRequest request;
    for (const std::string& slice : slices) request.mutable_slices()->add_names(slice);
    return AddTenant(name, gib, 0, 0, request);
  }
  absl::StatusOr<LeaseReply> AcquireOf(const std::string& slice, const std::string& credential,
                                       uint64_t gib = 0, uint32_t sessions = 0) {
    AcquireRequest request;
    request.set_memory_bytes(gib * kGiB);
    request.set_sessions(sessions);
    request.set_credential(credential);
    request.set_slice(slice);
    return scheduler_->Acquire(request, /*by_sessions=*/false, true);
  }
  static LeaseToken Opened(const std::string& text, const ReportReply& keys) {
    return OpenToken(text, {{keys.keys(0).id(), keys.keys(0).key()}}).value();
  }
};

TEST_P(SlicesTest, AreAddedChangedShownAndRemoved) {
  auto request = Request("small", true);
  request.set_memory_bytes(4 * kGiB);
  request.set_max_handles(100);
  ASSERT_TRUE(scheduler_->PutSlice(request).ok());
  EXPECT_EQ(scheduler_->PutSlice(request).code(), Code::kAlreadyExists);
  EXPECT_EQ(scheduler_->PutSlice(Request("large", false)).code(), Code::kNotFound);
  for (const char* name : {"no name", ".", "..", "all", "-x"}) {
    EXPECT_EQ(scheduler_->PutSlice(Request(name, true)).code(), Code::kInvalidArgument) << name;
  }
  request = Request("small", false);
  request.set_sm_percent(50);
  request.set_max_handles(0);
  ASSERT_TRUE(scheduler_->PutSlice(request).ok());
  request.set_sm_percent(101);
  EXPECT_EQ(scheduler_->PutSlice(request).code(), Code::kInvalidArgument);
  Restart();
  const auto list = scheduler_->Slices("operator");
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->slices_size(), 1);
  EXPECT_EQ(list->slices(0).name(), "small");
  EXPECT_EQ(list->slices(0).memory_bytes(), 4 * kGiB);
  EXPECT_EQ(list->slices(0).max_handles(), 0u);
  EXPECT_EQ(list->slices(0).sm_percent(), 50u);
  ASSERT_TRUE(scheduler_->RemoveSlice(Request("small", false)).ok());
  EXPECT_EQ(scheduler_->RemoveSlice(Request("small", false)).code(), Code::kNotFound);
  // Only the operator may.
  request = Request("mine", true);
  request.set_credential("tenant");
  EXPECT_EQ(scheduler_->PutSlice(request).code(), Code::kUnauthenticated);
  EXPECT_EQ(scheduler_->RemoveSlice(request).code(), Code::kUnauthenticated);
  EXPECT_EQ(scheduler_->Slices("tenant").status().code(), Code::kUnauthenticated);
}

TEST_P(SlicesTest, ALeaseHasTheShapeThatItsSliceHadWhenItWasMade) {
  auto request = Request("small", true);
  request.set_memory_bytes(4 * kGiB);
  request.set_max_sessions(2);
  request.set_max_handles(100);
  request.set_max_commands(64);
  request.set_weight(7);
  request.set_best_effort(true);
  ASSERT_TRUE(scheduler_->PutSlice(request).ok());
  const std::string vision = TenantWith("vision", {"small"});
  const ReportReply keys = Tell(Report("a"));
  const auto lease = AcquireOf("", vision);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->slice(), "small");
  EXPECT_EQ(lease->memory_bytes(), 4 * kGiB);
  EXPECT_EQ(lease->max_sessions(), 2u);
  const LeaseToken token = Opened(lease->token(), keys);
  EXPECT_EQ(token.max_sessions, 2u);
  EXPECT_EQ(token.slice.memory_bytes, 4 * kGiB);
  EXPECT_EQ(token.slice.max_handles, 100u);
  EXPECT_EQ(token.slice.max_commands, 64u);
  EXPECT_EQ(token.slice.weight, 7u);
  EXPECT_TRUE(token.slice.best_effort);
  EXPECT_EQ(scheduler_->Slices("operator")->slices(0).leases(), 1u);
  EXPECT_TRUE(scheduler_->Slices("operator")->slices(0).best_effort());
  EXPECT_EQ(scheduler_->Leases("operator")->leases(0).slice(), "small");
  // Another shape is for new leases, also after a restart.
  request = Request("small", false);
  request.set_max_handles(200);
  request.set_best_effort(false);
  ASSERT_TRUE(scheduler_->PutSlice(request).ok());
  Pass(absl::Seconds(20));
  Tell(Report("a"));
  Restart();
  Tell(Report("a"));
  const auto renewed = scheduler_->Renew(lease->token());
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(Opened(renewed->token(), keys).slice.max_handles, 100u);
  EXPECT_TRUE(Opened(renewed->token(), keys).slice.best_effort);
  EXPECT_EQ(Opened(AcquireOf("", vision)->token(), keys).slice.max_handles, 200u);
}

TEST_P(SlicesTest, ATenantHasItsOwnSlicesAndNoMoreOfThem) {
  for (const char* name : {"small", "large"}) {
    auto request = Request(name, true);
    request.set_memory_bytes((name[0] == 's' ? 2 : 8) * kGiB);
    request.set_max_sessions(4);
    ASSERT_TRUE(scheduler_->PutSlice(request).ok());
  }
  const std::string vision = TenantWith("vision", {"small"});
  const std::string speech = TenantWith("speech", {"any"}, /*gib=*/3);
  const std::string plain = TenantWith("plain", {});
  Tell(Report("a"));
  EXPECT_EQ(AcquireOf("large", vision).status().code(), Code::kPermissionDenied);
  EXPECT_EQ(AcquireOf("small", plain).status().code(), Code::kPermissionDenied);
  EXPECT_EQ(AcquireOf("huge", speech).status().code(), Code::kNotFound);
  EXPECT_EQ(AcquireOf("small", vision, /*gib=*/3).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(AcquireOf("small", vision, 0, /*sessions=*/5).status().code(),
            Code::kResourceExhausted);
  EXPECT_EQ(AcquireOf(std::string(257, 'a'), speech).status().code(), Code::kInvalidArgument);
  // The tenant's own quota bounds what its slices give.
  EXPECT_EQ(AcquireOf("large", speech).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(AcquireOf("small", speech)->memory_bytes(), 2 * kGiB);
  EXPECT_EQ(AcquireOf("small", speech).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(AcquireOf("", speech)->memory_bytes(), kGiB);
  EXPECT_EQ(AcquireOf("", plain)->slice(), "");
  // A slice that a tenant has stays.
  const absl::Status kept = scheduler_->RemoveSlice(Request("small", false));
  EXPECT_EQ(kept.code(), Code::kFailedPrecondition);
  EXPECT_THAT(kept.message(), HasSubstr("tenant vision has slice small"));
  warpline_internal::TenantRequest change;
  change.set_credential("operator");
  change.set_name("vision");
  change.mutable_slices();
  ASSERT_TRUE(scheduler_->PutTenant(change).ok());
  EXPECT_EQ(AcquireOf("small", vision).status().code(), Code::kPermissionDenied);
  EXPECT_TRUE(scheduler_->RemoveSlice(Request("small", false)).ok());
  change.mutable_slices()->add_names("small");
  EXPECT_EQ(scheduler_->PutTenant(change).status().code(), Code::kNotFound);
}

TEST_P(SlicesTest, ReservationsOfADeviceAreTogetherNoMoreThanThereIs) {
  auto request = Request("camera", true);
  request.set_memory_bytes(kGiB);
  request.set_period_ms(20);
  request.set_budget_ms(8);
  ASSERT_TRUE(scheduler_->PutSlice(request).ok());
  auto wrong = Request("greedy", true);
  wrong.set_period_ms(20);
  EXPECT_EQ(scheduler_->PutSlice(wrong).code(), Code::kInvalidArgument);
  wrong.set_budget_ms(19);
  EXPECT_EQ(scheduler_->PutSlice(wrong).code(), Code::kInvalidArgument);
  const std::string vision = TenantWith("vision", {"camera"});
  const std::string plain = TenantWith("plain", {});
  const ReportReply keys = Tell(Report("a"));
  const auto first = AcquireOf("", vision);
  ASSERT_TRUE(first.ok()) << first.status();
  const LeaseToken token = Opened(first->token(), keys);
  EXPECT_EQ(token.slice.period, absl::Milliseconds(20));
  EXPECT_EQ(token.slice.budget, absl::Milliseconds(8));
  ASSERT_TRUE(AcquireOf("", vision).ok());
  const auto third = AcquireOf("", vision);
  EXPECT_EQ(third.status().code(), Code::kResourceExhausted);
  EXPECT_THAT(third.status().message(), HasSubstr("1024 MiB and 40 % of the time wanted"));
  EXPECT_THAT(third.status().message(), HasSubstr("10 % of the time that is not reserved"));
  EXPECT_TRUE(AcquireOf("", plain, /*gib=*/1).ok()) << "it reserves nothing";
  // What is reserved is known after a restart, too, and free when its lease has gone.
  Restart();
  Tell(Report("a"));
  EXPECT_EQ(scheduler_->Slices("operator")->slices(0).budget_ms(), 8u);
  EXPECT_EQ(AcquireOf("", vision).status().code(), Code::kResourceExhausted);
  ASSERT_TRUE(scheduler_->Release(first->token()).ok());
  EXPECT_TRUE(AcquireOf("", vision).ok());
}

TEST_P(SlicesTest, WhatIsOutOfRangeIsNamed) {
  Tell(Report("a"));
  AcquireRequest request;
  request.set_memory_bytes(1 << 20);
  const auto lease = scheduler_->Acquire(request, /*by_sessions=*/false, /*local=*/true);
  EXPECT_EQ(lease.status(), absl::InvalidArgumentError("a lease has at least 2 MiB of memory"));
  const auto put = [&](const std::function<void(warpline_internal::TenantRequest*)>& set) {
    warpline_internal::TenantRequest tenant;
    tenant.set_credential("operator");
    tenant.set_name("t");
    tenant.set_create(true);
    set(&tenant);
    return std::string(scheduler_->PutTenant(tenant).status().message());
  };
  EXPECT_EQ(put([](auto* tenant) { tenant->set_memory_bytes(1ull << 50); }),
            "--memory must be less than 1024 TiB");
  EXPECT_EQ(put([](auto* tenant) { tenant->set_reserved_bytes(1ull << 50); }),
            "--reserved must be less than 1024 TiB");
  EXPECT_EQ(put([](auto* tenant) { tenant->set_weight(1001); }), "--weight must be from 1 to 1000");
  EXPECT_EQ(put([](auto* tenant) { tenant->set_copy_weight(0); }),
            "--copy_weight must be from 1 to 1000");
  EXPECT_EQ(put([](auto* tenant) { tenant->set_max_lease_sessions(0); }),
            "--max_lease_sessions must be at least 1");
}

INSTANTIATE_TEST_SUITE_P(States, SlicesTest, kStateKinds, StateKindName);

}  // namespace
}  // namespace warpline::scheduler
