#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/placement/allocator.h"
#include "scheduler/placement/move_room.h"
#include "scheduler/placement/testing/pool_events.h"

namespace warpline::placement {
namespace {

using ::testing::HasSubstr;
using warpline_placement::GRANTED;
using warpline_placement::REFUSED;

class AllocatorMovesTest : public ::testing::Test {
 protected:
  Decision Apply(Event event) {
    event.set_at_ns(now_);
    return allocator_->Apply(event);
  }

  Decision AskFor(const Ask& ask) {
    Event event;
    *event.mutable_ask() = ask;
    return Apply(event);
  }

  // Makes the devices of a server those of a model.
  static Event OfModel(Event event, const std::string& model) {
    for (auto& device : *event.mutable_put_server()->mutable_devices()) device.set_model(model);
    return event;
  }

  absl::StatusCode Refused(const Decision& decision) {
    EXPECT_EQ(decision.outcome(), REFUSED);
    return static_cast<absl::StatusCode>(decision.code());
  }

  uint64_t LeasedOn(const std::string& server) const {
    uint64_t bytes = 0;
    const ServerState* const state = allocator_->pool().FindServer(server);
    if (state == nullptr) return 0;
    for (const DeviceState& device : state->devices) bytes += device.leased_bytes;
    return bytes;
  }

  // Leases, moves and room add up.
  void CheckAccounts() const {
    const Pool& pool = allocator_->pool();
    std::map<std::pair<std::string, std::string>, std::tuple<uint64_t, uint32_t, uint32_t>> room;
    std::map<std::string, Usage> used;
    size_t rooms = 0;
    for (const auto& [id, lease] : pool.allocations()) {
      for (const std::string& uuid : lease.devices) {
        auto& [bytes, weights, leases] = room[{lease.server, uuid}];
        bytes += lease.memory_bytes;
        weights += lease.weight;
        ++leases;
      }
      if (IsMoveRoom(id)) {
        ++rooms;
        continue;
      }
      // A tenant's use counts for the one above it, too.
      std::set<std::string> tenants = {lease.tenant};
      const TenantSpec* const spec = allocator_->quotas().Find(lease.tenant);
      if (spec != nullptr && !spec->parent.empty()) tenants.insert(spec->parent);
      for (const std::string& tenant : tenants) {
        Usage& usage = used[tenant];
        usage.bytes += lease.memory_bytes * lease.devices.size();
        usage.leases += 1;
        usage.sessions += lease.sessions;
        usage.milli_gpus += lease.milli_gpus;
      }
    }
    for (const ServerState& server : pool.servers()) {
      for (const DeviceState& device : server.devices) {
        const auto& [bytes, weights, leases] = room[{server.name, device.spec.uuid}];
        ASSERT_EQ(device.leased_bytes, bytes) << device.spec.uuid;
        ASSERT_EQ(device.weights, weights) << device.spec.uuid;
        ASSERT_EQ(device.leases, leases) << device.spec.uuid;
      }
    }
    for (const auto& [tenant, spec] : allocator_->quotas().tenants()) {
      const Usage usage = allocator_->quotas().UsageOf(tenant);
      ASSERT_EQ(usage.bytes, used[tenant].bytes) << tenant;
      ASSERT_EQ(usage.leases, used[tenant].leases) << tenant;
      ASSERT_EQ(usage.sessions, used[tenant].sessions) << tenant;
      ASSERT_EQ(usage.milli_gpus, used[tenant].milli_gpus) << tenant;
    }
    ASSERT_EQ(rooms, allocator_->moves().size());
    for (const std::string& lease : allocator_->moves()) {
      const Allocation* const moves = pool.Find(lease);
      const Allocation* const to = allocator_->RoomOfMove(lease);
      ASSERT_TRUE(moves != nullptr && to != nullptr) << lease;
      ASSERT_NE(moves->server, to->server);
      ASSERT_EQ(moves->memory_bytes, to->memory_bytes);
    }
  }

  AllocatorOptions options_ = {.order = Order::kPack};
  std::unique_ptr<Allocator> allocator_ = std::make_unique<Allocator>(options_);
  int64_t now_ = 1'800'000'000'000'000'000;
};

TEST_F(AllocatorMovesTest, ALeaseHasRoomAtBothServersAndCountsOnce) {
  Apply(TenantOf("t", "", 50));
  Apply(ServerOf("a", 1));
  AskFor(AskOf("l", "t", 50));
  Apply(ServerOf("b", 1));
  const Decision begun = Apply(MoveOf("l"));
  EXPECT_EQ(begun.outcome(), GRANTED);
  EXPECT_EQ(begun.place().server(), "b");
  EXPECT_EQ(begun.place().memory_bytes(), 50 * kGiB);
  EXPECT_EQ(LeasedOn("a"), 50 * kGiB);
  EXPECT_EQ(LeasedOn("b"), 50 * kGiB);
  EXPECT_EQ(allocator_->quotas().UsageOf("t").bytes, 50 * kGiB);
  EXPECT_EQ(allocator_->quotas().UsageOf("t").leases, 1u);
  CheckAccounts();
  EXPECT_EQ(Refused(Apply(MoveOf("l"))), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Apply(CommitMoveOf("l")).outcome(), GRANTED);
  EXPECT_EQ(LeasedOn("a"), 0u);
  EXPECT_EQ(LeasedOn("b"), 50 * kGiB);
  EXPECT_EQ(allocator_->pool().Find("l")->server, "b");
  EXPECT_EQ(allocator_->pool().Find("l")->devices, std::vector<std::string>{"GPU-b0"});
  CheckAccounts();
  EXPECT_EQ(Refused(Apply(CommitMoveOf("l"))), absl::StatusCode::kFailedPrecondition);
  Apply(MoveOf("l"));
  Apply(EndMoveOf("l"));
  EXPECT_EQ(LeasedOn("a"), 0u);
  EXPECT_EQ(allocator_->pool().Find("l")->server, "b");
  Apply(EndMoveOf("l"));
  CheckAccounts();
}

TEST_F(AllocatorMovesTest, APlaceIsOfTheSameModelAndHasRoomForAllOfTheLease) {
  Apply(OfModel(ServerOf("a", 2), "H200"));
  AskFor(AskOf("l", "t", 50));
  AskFor(AskOf("two", "t", 10, "", 2));
  EXPECT_EQ(Refused(Apply(MoveOf("nothing"))), absl::StatusCode::kNotFound);
  EXPECT_THAT(Apply(MoveOf("two")).message(), HasSubstr("several devices"));
  EXPECT_THAT(Apply(MoveOf("l")).message(), HasSubstr("no other server"));
  Apply(OfModel(ServerOf("b", 1), "A100"));
  const Decision another = Apply(MoveOf("l", "b"));
  EXPECT_EQ(Refused(another), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(another.message(), "server b has no device of the same model, H200");
  Apply(OfModel(ServerOf("c", 1), "H200"));
  Apply(CordonOf("c", true, 0));
  EXPECT_EQ(Refused(Apply(MoveOf("l"))), absl::StatusCode::kFailedPrecondition);
  Apply(CordonOf("c", false, 0));
  Ask full = AskOf("full", "t", 40);
  full.add_named("GPU-c0");
  ASSERT_EQ(AskFor(full).outcome(), GRANTED);
  const Decision no_room = Apply(MoveOf("l"));
  EXPECT_EQ(Refused(no_room), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(no_room.message(), HasSubstr("51200 MiB wanted"));
  EXPECT_THAT(no_room.message(), HasSubstr("has 40960 MiB"));
  Apply(OfModel(ServerOf("d", 2), "H200"));
  EXPECT_EQ(Refused(Apply(MoveOf("l", "d", "GPU-d7"))), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Apply(MoveOf("l", "d", "GPU-d1")).place().devices(0), "GPU-d1");
  CheckAccounts();
}

TEST_F(AllocatorMovesTest, TheOrderChoosesAmongServers) {
  for (const Order order : {Order::kPack, Order::kSpread}) {
    options_.order = order;
    allocator_ = std::make_unique<Allocator>(options_);
    Apply(ServerOf("a", 1));
    AskFor(AskOf("l", "t", 10));
    Apply(ServerOf("b", 1));
    Apply(ServerOf("c", 1));
    Ask fills = AskOf("fills", "t", 30);
    fills.add_named("GPU-c0");
    ASSERT_EQ(AskFor(fills).outcome(), GRANTED);
    EXPECT_EQ(Apply(MoveOf("l")).place().server(), order == Order::kPack ? "c" : "b");
  }
}

TEST_F(AllocatorMovesTest, WhateverTakesALeaseOrAServerAwayEndsTheMove) {
  const std::map<std::string, Event> ends = [] {
    std::map<std::string, Event> events;
    events["the lease has ended"] = ReleaseOf("l");
    events["server b was cordoned meanwhile"] = CordonOf("b", true, 0);
    events["server b has left the pool"].set_remove_server("b");
    events["server a has left the pool"].set_remove_server("a");
    return events;
  }();
  for (const auto& [why, event] : ends) {
    allocator_ = std::make_unique<Allocator>(options_);
    Apply(ServerOf("a", 1));
    AskFor(AskOf("l", "t", 50));
    Apply(ServerOf("b", 1));
    ASSERT_EQ(Apply(MoveOf("l")).outcome(), GRANTED);
    const Decision decision = Apply(event);
    ASSERT_EQ(decision.ended_moves_size(), 1) << why;
    EXPECT_EQ(decision.ended_moves(0).lease(), "l");
    EXPECT_EQ(decision.ended_moves(0).why(), why);
    EXPECT_TRUE(allocator_->moves().empty());
    EXPECT_EQ(LeasedOn("b"), 0u);
    EXPECT_EQ(Refused(Apply(CommitMoveOf("l"))), absl::StatusCode::kFailedPrecondition);
    CheckAccounts();
  }
}

TEST_F(AllocatorMovesTest, RequestsThatWaitGetWhatALeaseLeaves) {
  Apply(ServerOf("a", 1));
  AskFor(AskOf("l", "t", 80));
  Apply(ServerOf("b", 1));
  ASSERT_EQ(Apply(MoveOf("l")).outcome(), GRANTED);
  EXPECT_EQ(AskFor(AskOf("m", "t", 80, "k")).outcome(), warpline_placement::WAITING);
  const Decision committed = Apply(CommitMoveOf("l"));
  ASSERT_EQ(committed.placed_size(), 1);
  EXPECT_EQ(AskFor(AskOf("m", "t", 80, "k")).place().server(), "a");
  CheckAccounts();
}

TEST_F(AllocatorMovesTest, ANoticeIsTakenBackFromALeaseThatHasLeft) {
  options_.preemption = true;
  allocator_ = std::make_unique<Allocator>(options_);
  Apply(ServerOf("a", 1));
  AskFor(AskOf("l", "t", 80));
  Ask urgent = AskOf("m", "t", 80, "k");
  urgent.set_priority(1);
  urgent.add_named("GPU-a0");
  AskFor(urgent);
  ASSERT_EQ(Apply(TimePasses()).notices_size(), 1);
  Apply(ServerOf("b", 1));
  ASSERT_EQ(Apply(MoveOf("l")).outcome(), GRANTED);
  const Decision committed = Apply(CommitMoveOf("l"));
  ASSERT_EQ(committed.notices_size(), 1);
  EXPECT_TRUE(committed.notices(0).cancelled());
  EXPECT_EQ(committed.notices(0).lease(), "l");
  EXPECT_EQ(committed.placed_size(), 1) << "the request has the device";
  CheckAccounts();
}

TEST_F(AllocatorMovesTest, ADrainsNoticeIsTakenBackFromALeaseThatHasLeft) {
  Apply(ServerOf("a", 1));
  AskFor(AskOf("l", "t", 80));
  Apply(ServerOf("b", 1));
  ASSERT_EQ(Apply(CordonOf("a", true, now_ + 1'000'000'000)).notices_size(), 1);
  ASSERT_EQ(Apply(MoveOf("l")).outcome(), GRANTED);
  const Decision committed = Apply(CommitMoveOf("l"));
  ASSERT_EQ(committed.notices_size(), 1);
  EXPECT_TRUE(committed.notices(0).cancelled());
  now_ += 2'000'000'000;
  EXPECT_EQ(Apply(TimePasses()).due_size(), 0);
}

TEST_F(AllocatorMovesTest, AccountsHoldWhateverHappens) {
  std::mt19937_64 random(11);
  std::vector<std::string> leases;
  int moved = 0;
  int ended = 0;
  for (int i = 0; i < 4; ++i) Apply(TenantOf(absl::StrCat("t", i), i == 0 ? "" : "t0", 2000));
  for (int step = 0; step < 6000; ++step) {
    now_ += static_cast<int64_t>(random() % 1'000'000'000);
    const std::string server = absl::StrCat("s", random() % 5);
    const std::string lease = leases.empty() ? "none" : leases[random() % leases.size()];
    Event event;
    switch (random() % 12) {
      case 0:
        event = OfModel(ServerOf(server, static_cast<int>(1 + random() % 3)),
                        random() % 4 == 0 ? "A100" : "H200");
        break;
      case 1:
        if (random() % 4 == 0) event.set_remove_server(server);
        break;
      case 2:
        event = CordonOf(server, random() % 3 == 0, 0);
        break;
      case 3:
      case 4:
        event = ReleaseOf(lease);
        break;
      case 5:
      case 6:
        event = MoveOf(lease, random() % 2 == 0 ? "" : server);
        break;
      case 7:
      case 8:
        if (!allocator_->moves().empty()) event = CommitMoveOf(*allocator_->moves().begin());
        break;
      case 9:
        event = EndMoveOf(lease);
        break;
      default: {
        Ask ask =
            AskOf(absl::StrCat("l", step), absl::StrCat("t", random() % 4), 1 + random() % 60);
        ask.set_sessions(static_cast<uint32_t>(1 + random() % 3));
        *event.mutable_ask() = ask;
      }
    }
    const Decision decision = Apply(event);
    if (event.has_ask() && decision.outcome() == GRANTED) leases.push_back(event.ask().lease());
    if (event.has_commit_move() && decision.outcome() == GRANTED) ++moved;
    ended += decision.ended_moves_size();
    if (event.has_release()) std::erase(leases, event.release());
    CheckAccounts();
    if (HasFatalFailure()) FAIL() << "step " << step << ": " << event.ShortDebugString();
  }
  EXPECT_GT(moved, 100);
  EXPECT_GT(ended, 20);
  // A snapshot is the same state.
  Allocator again(options_);
  for (const Event& event : allocator_->Snapshot(now_)) again.Apply(event);
  EXPECT_EQ(again.moves(), allocator_->moves());
  EXPECT_EQ(again.pool().allocations().size(), allocator_->pool().allocations().size());
  for (int i = 0; i < 4; ++i) {
    const std::string tenant = absl::StrCat("t", i);
    EXPECT_EQ(again.quotas().UsageOf(tenant).bytes, allocator_->quotas().UsageOf(tenant).bytes);
  }
}

}  // namespace
}  // namespace warpline::placement
