// A session's memory with a pool and a worker that answer when the test says so.
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_SESSION_MEMORY_FIXTURE_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_SESSION_MEMORY_FIXTURE_H_

#include <fcntl.h>

#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/gpu_server/memory/session_memory.h"

namespace warpline::server {

using warpline_internal::MemoryDone;
using warpline_internal::MemoryGrant;
using warpline_internal::MemoryRequest;
using warpline_internal::MemoryReturn;
using warpline_internal::ToWorker;

inline constexpr uint64_t kMiB = 1ull << 20;
inline constexpr ArenaRange kArena = {1ull << 40, 8ull << 30};

// Pool and worker in one, which answer when the test says so.
class FakeHost : public WorkerLink, public ClientLink, public ChunkSource {
 public:
  void Take(uint64_t, uint64_t want_bytes, uint64_t, Taken taken) override {
    ++takes;
    asked_bytes = want_bytes;
    pending = std::move(taken);
  }
  void Claim(uint64_t bytes, std::function<void(bool)> claimed) override {
    const bool has_room = bytes <= claimable;
    if (has_room) claimable -= bytes;
    claimed(has_room);
  }
  void Unclaim(uint64_t bytes) override { claimable += bytes; }
  void Return(std::vector<Chunk> chunks, std::vector<Reservation> bill) override {
    returned += chunks.size();
    if (frees_late) std::move(bill.begin(), bill.end(), std::back_inserter(billed));
  }
  void ReturnUnused(std::vector<Chunk> chunks) override { unused += chunks.size(); }
  void ReturnUnmapped(std::vector<Chunk> chunks, std::function<void(uint64_t)> judged) override {
    unmapped += chunks.size();
    judge = std::move(judged);
  }
  void MoveOut(std::shared_ptr<std::vector<Chunk>> chunks, std::shared_ptr<AwayMemory> away,
               Moved done) override {
    away->used.assign(TotalBytes(*chunks) / SwapSpace::kGranule, true);
    moved = std::move(done);
  }
  void MoveIn(std::shared_ptr<std::vector<Chunk>> chunks, std::shared_ptr<const AwayMemory> away,
              Moved done) override {
    EXPECT_EQ(TotalBytes(*chunks), away->bytes());
    moved = std::move(done);
  }
  void Store(std::shared_ptr<AwayMemory> away, Moved done) override {
    stored = std::move(away);
    moved = std::move(done);
  }
  void Fetch(std::shared_ptr<AwayMemory> away, Moved done) override {
    EXPECT_EQ(away, stored);
    EXPECT_TRUE(away->file != nullptr);
    moved = std::move(done);
  }
  uint64_t MostGrowth(bool) override { return most_growth; }
  uint64_t LeftOfLimit() override { return left_of_limit; }
  bool MayStay(uint64_t) override { return true; }
  void StopWaiting() override { ++stops; }
  MemoryRelief Relieve(const MemoryShortage& shortage, Again again) override {
    seen = shortage;
    if (relief.kind == MemoryRelief::Kind::kWaiting || relief.kind == MemoryRelief::Kind::kMoving ||
        relief.kind == MemoryRelief::Kind::kReturning) {
      waited = std::move(again);
    }
    if (relief.kind != MemoryRelief::Kind::kNone) return relief;
    if (shortage.reclaimed) return {};
    ++reclaims;
    short_of_quota = shortage.of_quota;
    if (!can_reclaim) return {};
    reclaimed = std::move(again);
    return {MemoryRelief::Kind::kReclaiming, {}};
  }
  absl::Status Send(const ToWorker& message, absl::Span<const int> fds) override {
    sent.push_back(message);
    attached = fds.size();
    return send_status;
  }
  void Push(MemoryGrant grant) override { grants.push_back(std::move(grant)); }
  void Done() override { ++done; }
  void SayRefused(const std::string&) override {}
  void Violated(const absl::Status&) override { ++bad_returns; }

  MemoryLinks links() { return {this, this, this}; }

  // Ends the move that is under way.
  void EndMove(const absl::Status& status = absl::OkStatus()) {
    std::exchange(moved, nullptr)(status);
  }
  // Answers the pool's request with `count` chunks of 2 MiB.
  void Deliver(size_t count, uint64_t bytes = 2 * kMiB) {
    std::vector<Chunk> chunks;
    for (size_t i = 0; i < count; ++i) {
      chunks.push_back(Chunk{bytes, UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC))});
    }
    std::exchange(pending, nullptr)(std::move(chunks));
  }
  // The pool has too little.
  void Refuse() { std::exchange(pending, nullptr)(absl::ResourceExhaustedError("none left")); }

  uint64_t claimable = 0;
  int takes = 0;
  uint64_t asked_bytes = 0;
  Taken pending;
  size_t returned = 0;
  size_t unused = 0;
  size_t unmapped = 0;
  std::function<void(uint64_t)> judge;
  Moved moved;
  std::shared_ptr<AwayMemory> stored;
  bool frees_late = false;
  std::vector<Reservation> billed;
  int reclaims = 0;
  bool can_reclaim = false;
  bool short_of_quota = false;
  Again reclaimed;
  // The policy's answer, where it gives one, and the shortage that it saw.
  MemoryRelief relief;
  MemoryShortage seen;
  Again waited;
  uint64_t most_growth = ~uint64_t{0};
  uint64_t left_of_limit = ~uint64_t{0};
  int stops = 0;  // How often it was told that the session does not wait any more.
  std::vector<ToWorker> sent;
  size_t attached = 0;
  absl::Status send_status;
  std::vector<MemoryGrant> grants;
  int done = 0;
  int bad_returns = 0;
};

class SessionMemoryTest : public testing::Test {
 protected:
  void Request(uint64_t offset, uint64_t min_bytes, uint64_t want_bytes) {
    MemoryRequest request;
    request.set_id(++last_id_);
    request.set_va(kArena.base + offset);
    request.set_min_bytes(min_bytes);
    request.set_want_bytes(want_bytes);
    memory_->Request(request);
  }
  void Return(uint64_t offset, uint64_t bytes) {
    MemoryReturn request;
    request.set_va(kArena.base + offset);
    request.set_bytes(bytes);
    memory_->Return(request);
  }
  // So many chunks of 2 MiB.
  void GrantAndReturn(size_t count) {
    Request(0, 2 * kMiB, count * 2 * kMiB);
    host_.Deliver(count);
    EXPECT_TRUE(Done().ok());
    Return(0, count * 2 * kMiB);
    EXPECT_TRUE(Done().ok());
    EXPECT_EQ(memory_->kept_bytes(), count * 2 * kMiB);
  }
  // The worker's answer to the last message.
  absl::Status Done(int error = 0) {
    const ToWorker& last = host_.sent.back();
    MemoryDone done;
    done.set_id(last.has_map() ? last.map().id() : last.unmap().id());
    done.set_error(error);
    return memory_->OnMemoryDone(done);
  }

  FakeHost host_;
  std::shared_ptr<Quota> quota_ = Quota::Create(1024 * kMiB);
  std::shared_ptr<SessionMemory> memory_ = std::make_shared<SessionMemory>(
      SessionMemoryOptions{.arena = kArena, .max_chunks = 400}, quota_, host_.links());
  uint64_t last_id_ = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_SESSION_MEMORY_FIXTURE_H_
