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

// A call of CutAll().
struct SessionHost::Cutting {
  Mutex mu;
  CondVar changed;
  size_t left ABSL_GUARDED_BY(mu) = 0;
  absl::Status failed ABSL_GUARDED_BY(mu);
  std::vector<SessionCut> cuts ABSL_GUARDED_BY(mu);

  bool may_go_on(bool force) {
    MutexLock lock(&mu);
    return failed.ok() || force;
  }
};

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

absl::Status SessionHost::CheckCuts() {
  std::vector<std::string> obstacles;
  size_t sessions = 0;
  OnControl([&] {
    control_loop.AssertOnLoop();
    for (const auto& [id, session] : sessions_) {
      if (!session->Serving()) continue;
      ++sessions;
      const std::string why = session->WhyNotSaved(Session::Heir::kNextServer);
      if (!why.empty()) obstacles.push_back(absl::StrCat("session ", id, ": ", why));
    }
  });
  if (obstacles.empty()) return absl::OkStatus();
  const size_t all = obstacles.size();
  obstacles.resize(std::min(all, kMostTold));
  return absl::FailedPreconditionError(
      absl::StrCat(all, " of ", sessions, " sessions would end with this server (",
                   absl::StrJoin(obstacles, "; "), all > kMostTold ? "; ..." : "", ")"));
}

absl::StatusOr<std::vector<SessionCut>> SessionHost::CutAll(absl::Duration deadline, bool force) {
  HoldNewSessions(true);
  AwaitOpened(SteadyNow() + std::min(deadline, kOpening));
  if (const absl::Status may = CheckCuts(); !may.ok() && !force) {
    HoldNewSessions(false);
    return may;
  }
  const auto cutting = std::make_shared<Cutting>();
  const absl::Time give_up = SteadyNow() + 2 * deadline;
  const CutTerms terms = {
      .heir = Session::Heir::kNextServer, .deadline = deadline, .tries_again = [=] {
        return cutting->may_go_on(force) && SteadyNow() < give_up;
      }};
  OnControl([&] {
    control_loop.AssertOnLoop();
    cut_.clear();
    std::vector<uint64_t> ids;
    for (const auto& [id, session] : sessions_) {
      if (session->Serving()) ids.push_back(id);
    }
    {
      MutexLock lock(&cutting->mu);
      cutting->left = ids.size();
    }
    for (const uint64_t id : ids) {
      Cut(id, terms, [this, id, cutting](absl::StatusOr<SessionCut> cut) {
        control_loop.AssertOnLoop();
        if (cut.ok()) cut_.emplace_back(id, cut->manifest.secret());
        MutexLock lock(&cutting->mu);
        if (cut.ok()) {
          cutting->cuts.push_back(*std::move(cut));
        } else if (sessions_.contains(id)) {
          LogWarning("session=", id, " does not come to rest: ", cut.status().ToString());
          if (cutting->failed.ok()) {
            cutting->failed = absl::Status(cut.status().code(),
                                           absl::StrCat("session ", id, " does not come to rest: ",
                                                        std::string(cut.status().message())));
          }
        }
        --cutting->left;
        cutting->changed.NotifyAll();
      });
    }
  });
  absl::Status failed;
  std::vector<SessionCut> cuts;
  {
    MutexLock lock(&cutting->mu);
    while (cutting->left != 0) cutting->changed.Wait(&cutting->mu);
    failed = cutting->failed;
    cuts = std::move(cutting->cuts);
  }
  if (failed.ok() || force) return cuts;
  cuts.clear();
  EndCut(failed);
  return failed;
}

void SessionHost::EndCut(const absl::Status& passed) {
  OnControl([&] {
    control_loop.AssertOnLoop();
    for (const auto& [id, secret] : std::exchange(cut_, {})) {
      if (passed.ok()) {
        // Its client tries again until the next server answers.
        MutexLock lock(&mu_);
        away_[id] = secret;
      }
      const auto found = sessions_.find(id);
      if (found == sessions_.end()) continue;
      const auto session = found->second;
      session->EndSaved(passed);
    }
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
      passed_.push_back(id);
      continue;
    }
    if (all) {
      return absl::Status(
          status.code(),
          absl::StrCat("session ", id, " cannot go on: ", std::string(status.message())));
    }
    LogError("session=", id, " is lost: ", status.ToString());
    MutexLock lock(&mu_);
    away_.erase(id);
    ForgetNumber(id);
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
    for (const uint64_t id : std::exchange(passed_, {})) {
      const auto found = sessions_.find(id);
      const auto session = found == sessions_.end() ? nullptr : found->second;
      if (session != nullptr) session->LetIn();
      MutexLock lock(&mu_);
      away_.erase(id);
    }
  });
}

}  // namespace warpline::server
