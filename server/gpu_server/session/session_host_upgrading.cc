// The part of SessionHost that passes sessions on to the next version of the server, and takes over
// those that the version before passed on.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/log/log.h"
#include "common/serving/listen_address.h"
#include "common/steady_time.h"
#include "common/text.h"
#include "server/gpu_server/session/session_host.h"

namespace warpline::server {
namespace {

// A session that is being opened has this long before it ends with the server.
constexpr absl::Duration kOpening = absl::Seconds(5);
constexpr absl::Duration kPoll = absl::Milliseconds(10);
// A server takes its leases' keys from its scheduler, which may be a moment later than sessions.
constexpr absl::Duration kPause = absl::Milliseconds(100);
// So many obstacles are told; there may be thousands.
constexpr size_t kMostTold = 5;

}  // namespace

void SessionHost::HoldNewSessions(bool hold) {
  MutexLock lock(&mu_);
  held_ = hold;
}

void SessionHost::AwaitOpened(absl::Time deadline) {
  while (SteadyNow() < deadline) {
    bool opening = false;
    OnControl([&] {
      control_loop.AssertOnLoop();
      opening = absl::c_any_of(sessions_, [](const auto& one) {
        control_loop.AssertOnLoop();
        return one.second->opening();
      });
    });
    if (!opening) return;
    absl::SleepFor(kPoll);
  }
}

absl::Status SessionHost::CheckCuts(const std::vector<uint64_t>& ids, Session::Heir heir,
                                    const char* fate) {
  std::vector<std::string> obstacles;
  OnControl([&] {
    control_loop.AssertOnLoop();
    for (const uint64_t id : ids) {
      const auto found = sessions_.find(id);
      if (found == sessions_.end()) continue;
      const std::string why = found->second->WhyNotSaved(heir);
      if (!why.empty()) obstacles.push_back(absl::StrCat("session ", id, ": ", why));
    }
  });
  if (obstacles.empty()) return absl::OkStatus();
  const size_t all = obstacles.size();
  obstacles.resize(std::min(all, kMostTold));
  return absl::FailedPreconditionError(absl::StrCat(all, " of ", ids.size(), " sessions ", fate,
                                                    " (", absl::StrJoin(obstacles, "; "),
                                                    all > kMostTold ? "; ..." : "", ")"));
}

absl::StatusOr<std::vector<SessionCut>> SessionHost::CutAll(absl::Duration deadline, bool force) {
  HoldNewSessions(true);
  AwaitOpened(SteadyNow() + std::min(deadline, kOpening));
  std::vector<uint64_t> ids;
  OnControl([&] {
    control_loop.AssertOnLoop();
    for (const auto& [id, session] : sessions_) {
      if (session->Serving()) ids.push_back(id);
    }
  });
  const absl::Status may = CheckCuts(ids, Session::Heir::kNextServer, "would end with this server");
  if (!may.ok() && !force) {
    HoldNewSessions(false);
    return may;
  }
  Resting resting = BringToRest(ids, Session::Heir::kNextServer, deadline, /*all=*/!force);
  if (resting.failed.ok() || force) return std::move(resting.cuts);
  EndCut(resting.cuts, resting.failed);
  return resting.failed;
}

void SessionHost::EndCut(const std::vector<SessionCut>& cuts, const absl::Status& passed) {
  for (const SessionCut& cut : cuts) {
    if (!passed.ok()) break;
    // Its client tries again until the next server answers.
    MutexLock lock(&mu_);
    away_[cut.manifest.session()] = cut.manifest.secret();
  }
  OnControl([&] {
    control_loop.AssertOnLoop();
    EndCutSessions(NumbersOf(cuts), passed);
  });
  if (!passed.ok()) HoldNewSessions(false);
}

// --- The next server.

void SessionHost::ExpectPassed(const std::vector<SessionCut>& cuts) {
  MutexLock lock(&mu_);
  for (const SessionCut& cut : cuts) {
    const uint64_t id = cut.manifest.session();
    away_[id] = cut.manifest.secret();
    numbers_[cut.manifest.secret()] = id;
    last_id_ = std::max(last_id_, id);
  }
}

absl::StatusOr<uint32_t> SessionHost::AdoptPassed(std::vector<SessionCut> cuts, bool all,
                                                  absl::Time give_up) {
  uint32_t adopted = 0;
  for (SessionCut& cut : cuts) {
    const uint64_t id = cut.manifest.session();
    const absl::Status status = AdoptWhenItMay(std::move(cut), give_up);
    if (status.ok()) {
      ++adopted;
      continue;
    }
    if (all) {
      return absl::Status(
          status.code(),
          absl::StrCat("session ", id, " cannot go on: ", std::string(status.message())));
    }
    LogError("session=", id, " is lost: ", status.ToString());
    MutexLock lock(&mu_);
    ForgetAway(id);
  }
  return adopted;
}

absl::Status SessionHost::AdoptWhenItMay(SessionCut cut, absl::Time give_up) {
  const std::string peer = cut.manifest.peer();
  while (true) {
    auto membership = options_.leases->Rejoin(cut.manifest.token(), HolderOf(peer), PeerUnit(peer));
    if (!membership.ok()) {
      if (!absl::IsUnavailable(membership.status()) || SteadyNow() >= give_up) {
        return membership.status();
      }
      absl::SleepFor(kPause);
      continue;
    }
    absl::Status adopted;
    OnControl([&] {
      control_loop.AssertOnLoop();
      const uint64_t id = cut.manifest.session();
      adopted = AdoptAs(id, *std::move(membership), std::move(cut), /*barred=*/true);
    });
    return adopted;
  }
}

void SessionHost::LetPassedIn() {
  OnControl([&] {
    control_loop.AssertOnLoop();
    // A session that ends leaves the table.
    const auto sessions = sessions_;
    for (const auto& [id, session] : sessions) {
      if (!session->LetIn()) continue;
      MutexLock lock(&mu_);
      away_.erase(id);
    }
  });
}

}  // namespace warpline::server
