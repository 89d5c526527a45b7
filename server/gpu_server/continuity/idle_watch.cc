#include "server/gpu_server/continuity/idle_watch.h"

#include <utility>

#include "common/steady_time.h"

namespace warpline::server {

void IdleWatch::Start() { Look(); }

void IdleWatch::Stop() { parts_.timers->Remove(std::exchange(timer_, 0)); }

void IdleWatch::Look() {
  const absl::Time now = parts_.now ? parts_.now() : SteadyNow();
  for (auto& [session, known] : known_) known.there = false;
  std::vector<uint64_t> idle;
  for (const SessionProgress& one : parts_.sessions()) {
    const auto [at, added] = known_.try_emplace(one.session);
    Known& known = at->second;
    known.there = true;
    if (added || one.busy || one.done != known.done) {
      known = {one.done, now, /*told=*/false, /*there=*/true};
    } else if (!known.told && now - known.since >= idle_) {
      known.told = true;
      idle.push_back(one.session);
    }
  }
  std::erase_if(known_, [](const auto& entry) { return !entry.second.there; });
  for (const uint64_t session : idle) parts_.on_idle(session);
  timer_ = parts_.timers->RunAfter(idle_ / 8, [this] {
    control_loop.AssertOnLoop();
    Look();
  });
}

}  // namespace warpline::server
