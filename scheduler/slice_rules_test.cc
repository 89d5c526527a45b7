#include "scheduler/slice_rules.h"

#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline::scheduler {
namespace {

using Code = absl::StatusCode;
using ::testing::HasSubstr;
using warpline_internal::AcquireRequest;

constexpr uint64_t kGiB = 1ull << 30;

SliceRecord Named(const std::string& name, const SliceShape& shape = {}) { return {name, shape}; }

TenantRecord With(std::vector<std::string> slices) {
  TenantRecord tenant;
  tenant.name = "vision";
  tenant.slices = std::move(slices);
  return tenant;
}

TEST(SliceRulesTest, NamesAndNumbersHaveBounds) {
  EXPECT_TRUE(CheckSlice(Named("small")).ok());
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a,b"), std::string("any"),
        std::string("none"), std::string(65, 'a'), std::string("a\0b", 3)}) {
    EXPECT_EQ(CheckSlice(Named(name)).code(), Code::kInvalidArgument) << name;
  }
  const struct {
    const char* option;
    std::function<void(SliceShape*)> edit;
  } kWrong[] = {
      {"--memory", [](SliceShape* s) { s->memory_bytes = 1; }},
      {"--memory", [](SliceShape* s) { s->memory_bytes = 1ull << 50; }},
      {"--staging", [](SliceShape* s) { s->staging_bytes = 4096; }},
      {"--staging", [](SliceShape* s) { s->staging_bytes = ~uint64_t{0}; }},
      {"--sessions", [](SliceShape* s) { s->max_sessions = 65537; }},
      {"--handles", [](SliceShape* s) { s->max_handles = 15; }},
      {"--handles", [](SliceShape* s) { s->max_handles = (1u << 20) + 1; }},
      {"--module_bytes", [](SliceShape* s) { s->max_module_bytes = 1; }},
      {"--module_bytes", [](SliceShape* s) { s->max_module_bytes = (4ull << 30) + 1; }},
      {"--commands", [](SliceShape* s) { s->max_commands = 63; }},
      {"--commands", [](SliceShape* s) { s->max_commands = 65537; }},
      {"--sm_percent", [](SliceShape* s) { s->sm_percent = 101; }},
      {"--launch_ms", [](SliceShape* s) { s->launch_ms = 86400001; }},
      {"--weight", [](SliceShape* s) { s->weight = 1001; }},
      {"--copy_weight", [](SliceShape* s) { s->copy_weight = 1001; }},
      {"--priority", [](SliceShape* s) { s->priority = 101; }},
      {"--period_ms", [](SliceShape* s) { *s = {.period_ms = 1, .budget_ms = 1}; }},
      {"--period_ms", [](SliceShape* s) { *s = {.period_ms = 1001, .budget_ms = 1}; }},
      {"--period_ms and --budget_ms", [](SliceShape* s) { s->period_ms = 10; }},
      {"--period_ms and --budget_ms", [](SliceShape* s) { s->budget_ms = 10; }},
      {"--budget_ms", [](SliceShape* s) { *s = {.period_ms = 10, .budget_ms = 10}; }},
  };
  for (const auto& wrong : kWrong) {
    SliceShape shape;
    wrong.edit(&shape);
    const absl::Status status = CheckSlice(Named("small", shape));
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << wrong.option;
    EXPECT_THAT(status.message(), HasSubstr(wrong.option));
  }
}

TEST(SliceRulesTest, AReservationIsNineTenthsOfADeviceAtMost) {
  EXPECT_EQ(TimeOf({}), 0u);
  EXPECT_EQ(TimeOf({.period_ms = 10, .budget_ms = 4}), 400u);
  EXPECT_EQ(TimeOf({.period_ms = 1000, .budget_ms = 1}), 1u);
  EXPECT_EQ(TimeOf({.period_ms = 3, .budget_ms = 1}), 334u) << "rounded up";
  EXPECT_TRUE(CheckSlice(Named("small", {.period_ms = 10, .budget_ms = 9})).ok());
  const absl::Status beyond = CheckSlice(Named("small", {.period_ms = 100, .budget_ms = 91}));
  EXPECT_EQ(beyond.code(), Code::kInvalidArgument);
  EXPECT_THAT(beyond.message(), HasSubstr("at most 90 % of its period of 100 ms"));
}

TEST(SliceRulesTest, ATenantsListNamesSlicesThatThereAre) {
  const std::vector<SliceRecord> known = {Named("large"), Named("small")};
  EXPECT_TRUE(CheckSlicesOf(With({}), known).ok());
  EXPECT_TRUE(CheckSlicesOf(With({"any"}), known).ok());
  EXPECT_TRUE(CheckSlicesOf(With({"small", "large"}), known).ok());
  EXPECT_EQ(CheckSlicesOf(With({"small", "huge"}), known).code(), Code::kNotFound);
  EXPECT_EQ(CheckSlicesOf(With({"small", "small"}), known).code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckSlicesOf(With({"small", "any"}), known).code(), Code::kInvalidArgument);
  std::vector<std::string> many;
  for (int i = 0; i < 65; ++i) many.push_back(std::string(1, 'a') + std::to_string(i));
  EXPECT_EQ(CheckSlicesOf(With(many), known).code(), Code::kInvalidArgument);
}

TEST(SliceRulesTest, ATenantHasTheSlicesOfItsListAndTheFirstOneUnlessItNamesAnother) {
  const std::vector<SliceRecord> known = {Named("large"), Named("small")};
  EXPECT_EQ(SliceFor(With({}), "", known)->name, "");
  EXPECT_EQ(SliceFor(With({"any"}), "", known)->name, "");
  EXPECT_EQ(SliceFor(With({"small", "large"}), "", known)->name, "small");
  EXPECT_EQ(SliceFor(With({"small", "large"}), "large", known)->name, "large");
  EXPECT_EQ(SliceFor(With({"any"}), "large", known)->name, "large");
  EXPECT_EQ(SliceFor(With({}), "small", known).status().code(), Code::kPermissionDenied);
  EXPECT_EQ(SliceFor(With({"small"}), "large", known).status().code(), Code::kPermissionDenied);
  // What it may not have it does not learn of.
  EXPECT_EQ(SliceFor(With({"small"}), "huge", known).status().code(), Code::kPermissionDenied);
  EXPECT_EQ(SliceFor(With({"any"}), "huge", known).status().code(), Code::kNotFound);
  EXPECT_EQ(SliceFor(With({"any"}), "any", known).status().code(), Code::kNotFound);
}

TEST(SliceRulesTest, ALeaseWantsWhatItsSliceHasAndNoMore) {
  SliceShape shape;
  shape.memory_bytes = 4 * kGiB;
  shape.max_sessions = 8;
  const SliceRecord slice = Named("small", shape);
  TenantRecord tenant = With({"small"});
  AcquireRequest request;
  ASSERT_TRUE(ShapeRequest(slice, tenant, /*by_sessions=*/false, &request).ok());
  EXPECT_EQ(request.memory_bytes(), 4 * kGiB);
  EXPECT_EQ(request.sessions(), 8u);
  // The tenant's limit is the smaller one.
  tenant.max_lease_sessions = 2;
  request.Clear();
  ASSERT_TRUE(ShapeRequest(slice, tenant, /*by_sessions=*/false, &request).ok());
  EXPECT_EQ(request.sessions(), 2u);
  request.Clear();
  ASSERT_TRUE(ShapeRequest(slice, tenant, /*by_sessions=*/true, &request).ok());
  EXPECT_EQ(request.sessions(), 0u);
  request.set_memory_bytes(kGiB);
  request.set_sessions(1);
  ASSERT_TRUE(ShapeRequest(slice, tenant, /*by_sessions=*/false, &request).ok());
  EXPECT_EQ(request.memory_bytes(), kGiB);
  EXPECT_EQ(request.sessions(), 1u);
  request.set_memory_bytes(4 * kGiB + 1);
  const absl::Status beyond = ShapeRequest(slice, tenant, /*by_sessions=*/false, &request);
  EXPECT_EQ(beyond.code(), Code::kResourceExhausted);
  EXPECT_THAT(beyond.message(), HasSubstr("slice small has 4096 MiB"));
  request.Clear();
  request.set_sessions(9);
  EXPECT_EQ(ShapeRequest(slice, tenant, /*by_sessions=*/false, &request).code(),
            Code::kResourceExhausted);
}

TEST(SliceRulesTest, ATokenHasTheSlicesPartsAndTheTenantsForThoseItLeaves) {
  TenantRecord tenant;
  tenant.weight = 3;
  tenant.copy_weight = 4;
  tenant.priority = 5;
  tenant.credential_hash = "of it";
  LeaseRecord lease;
  lease.memory_bytes = kGiB;
  const DeviceSlice usual;
  DeviceSlice slice = TokenSliceOf(lease, tenant);
  EXPECT_EQ(slice.memory_bytes, kGiB);
  EXPECT_EQ(slice.staging_bytes, 0u);
  EXPECT_EQ(slice.max_commands, 0u);
  EXPECT_EQ(slice.max_handles, usual.max_handles);
  EXPECT_EQ(slice.max_module_bytes, usual.max_module_bytes);
  EXPECT_EQ(slice.sm_percent, 100u);
  EXPECT_EQ(slice.launch_time_limit, absl::InfiniteDuration());
  EXPECT_EQ(slice.weight, 3u);
  EXPECT_EQ(slice.copy_weight, 4u);
  EXPECT_EQ(slice.priority, 5);
  EXPECT_FALSE(slice.best_effort);
  EXPECT_TRUE(slice.tenants_weight);
  EXPECT_TRUE(slice.tenants_copy_weight);
  lease.slice.shape = {.staging_bytes = 1,
                       .max_handles = 2,
                       .max_module_bytes = 3,
                       .max_commands = 4,
                       .sm_percent = 25,
                       .launch_ms = 6,
                       .weight = 7,
                       .copy_weight = 8,
                       .priority = 9,
                       .period_ms = 10,
                       .budget_ms = 4,
                       .best_effort = true};
  slice = TokenSliceOf(lease, tenant);
  EXPECT_EQ(slice.staging_bytes, 1u);
  EXPECT_EQ(slice.max_handles, 2u);
  EXPECT_EQ(slice.max_module_bytes, 3u);
  EXPECT_EQ(slice.max_commands, 4u);
  EXPECT_EQ(slice.sm_percent, 25u);
  EXPECT_EQ(slice.launch_time_limit, absl::Milliseconds(6));
  EXPECT_EQ(slice.weight, 7u);
  EXPECT_EQ(slice.copy_weight, 8u);
  EXPECT_EQ(slice.priority, 9);
  EXPECT_EQ(slice.period, absl::Milliseconds(10));
  EXPECT_EQ(slice.budget, absl::Milliseconds(4));
  EXPECT_TRUE(slice.best_effort);
  EXPECT_FALSE(slice.tenants_weight);
  EXPECT_FALSE(slice.tenants_copy_weight);
  lease.slice.shape.copy_weight = 0;
  slice = TokenSliceOf(lease, tenant);
  EXPECT_FALSE(slice.tenants_weight);
  EXPECT_TRUE(slice.tenants_copy_weight);
  // Programs of a scheduler's own host that has no tenants.
  tenant.credential_hash.clear();
  EXPECT_FALSE(TokenSliceOf(lease, tenant).tenants_copy_weight);
}

}  // namespace
}  // namespace warpline::scheduler
