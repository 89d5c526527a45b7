// A session's lanes, and the order between them.
#include <algorithm>
#include <iterator>
#include <utility>

#include "server/worker/session/session.h"

namespace warpline::worker {

std::shared_ptr<Lane> Session::OpenLane(Lane::Kind kind, uint64_t stream) {
  auto lane = std::make_shared<StreamLane>(this, kind, stream);
  if (!lane->Start()) return nullptr;
  lanes_.emplace(stream, lane);
  MutexLock lock(&mu_);
  all_lanes_.push_back(lane);
  return lane;
}

// Joins the threads of lanes whose stream is destroyed and complete, and forgets them. Records of
// events may keep the rest of such a lane.
void Session::ReapLanes() {
  const auto finished = [](const std::shared_ptr<Lane>& lane) { return lane->finished(); };
  std::erase_if(leaving_, finished);
  std::vector<std::shared_ptr<Lane>> dead;
  {
    MutexLock lock(&mu_);
    std::copy_if(all_lanes_.begin(), all_lanes_.end(), std::back_inserter(dead), finished);
    // Another may have finished meanwhile; its turn comes next time.
    std::erase_if(all_lanes_, [&](const std::shared_ptr<Lane>& lane) {
      return std::find(dead.begin(), dead.end(), lane) != dead.end();
    });
  }
  for (const auto& lane : dead) lane->Stop();
}

void Session::ComesAfterData(Lane* lane, const std::shared_ptr<Lane>& other, uint64_t ticket,
                             Task* task) {
  if (other->delivered() >= ticket) return;
  task->data.push_back({other, ticket});
  // Who comes after this command comes after that data.
  lane->data_ticket = lane->appended() + 1;
}

void Session::ComesAfterBarrier(const std::shared_ptr<Lane>& lane, const Barriers& barriers,
                                uint64_t* seen, Task* task) {
  if (*seen == barriers.count) return;
  *seen = barriers.count;
  const std::shared_ptr<EventRecord>& barrier = barriers.latest;
  if (barrier->lane == lane) return;
  if (barrier->state() != worker::EventRecord::State::kComplete) {
    task->after.push_back({barrier->lane, barrier->ticket});
    task->barriers.push_back(barrier);
  }
  ComesAfterData(lane.get(), barrier->lane, barrier->data_ticket, task);
}

// A device's legacy stream waits for its every blocking stream and they for it. The device sees to
// that, once the commands reach it in the application's order.
void Session::Enqueue(const std::shared_ptr<Lane>& lane, Task task) {
  const auto wait_for = [&](const std::shared_ptr<Lane>& other) {
    const uint64_t appended = other->appended();
    if (other->issued() < appended) task.after.push_back({other, appended});
    ComesAfterData(lane.get(), other, other->data_ticket, &task);
  };
  const auto is_blocking = [&](const Lane& other) {
    return other.kind() == Lane::Kind::kBlocking && other.device() == lane->device();
  };
  if (lane->kind() == Lane::Kind::kLegacy) {
    for (const auto& [stream, other] : lanes_) {
      if (is_blocking(*other)) wait_for(other);
    }
    for (const auto& other : leaving_) {
      if (is_blocking(*other)) wait_for(other);
    }
  } else if (lane->kind() == Lane::Kind::kBlocking) {
    wait_for(legacy_[lane->device()]);
  }
  for (size_t i = lane->ignores_barriers ? 1 : 0; i < barriers_.size(); ++i) {
    ComesAfterBarrier(lane, barriers_[i], &lane->barriers_seen[i], &task);
  }
  lane->Append(std::move(task));
}

}  // namespace warpline::worker
