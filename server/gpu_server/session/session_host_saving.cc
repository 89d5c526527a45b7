// The part of SessionHost that saves sessions for the next server, and takes over those that the
// server before this one saved.
#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "common/serving/listen_address.h"
#include "common/steady_time.h"
#include "proto/refusal.h"
#include "server/gpu_server/session/session_host.h"

namespace warpline::server {
namespace {

// How much longer than its deadline a session may be tried again that could not be saved just then.
constexpr absl::Duration kPatience = absl::Seconds(30);
// A server takes its leases' keys from its scheduler, which may be a moment later than sessions.
constexpr absl::Duration kPause = absl::Milliseconds(500);

}  // namespace

// A call of SaveAll().
struct SessionHost::Saving {
  explicit Saving(absl::Duration deadline)
      : deadline(deadline), give_up(SteadyNow() + deadline + kPatience) {}

  void Begin(int sessions) {
    MutexLock lock(&mu);
    left = sessions;
    changed.NotifyAll();
  }
  void End(bool was_saved) {
    MutexLock lock(&mu);
    --left;
    saved += was_saved ? 1 : 0;
    changed.NotifyAll();
  }
  int Await() {
    MutexLock lock(&mu);
    while (left != 0) changed.Wait(&mu);
    return saved;
  }

  const absl::Duration deadline;
  const absl::Time give_up;
  Mutex mu;
  CondVar changed;
  int left ABSL_GUARDED_BY(mu) = -1;
  int saved ABSL_GUARDED_BY(mu) = 0;
};

Session::Parts SessionHost::PartsOfSession() {
  return {.options = &options_.session,
          .control = &control_,
          .owner = this,
          .children = &children_,
          .resources = &resources_,
          .books = &books_,
          .modules = modules_.get(),
          .dispatcher = options_.dispatcher.get()};
}

void SessionHost::OnDisk(std::function<void()> body) {
  if (!stopping_.load()) disk_.Post(std::move(body));
}

int SessionHost::SaveAll(absl::Duration deadline) {
  if (options_.saved == nullptr) return 0;
  const auto saving = std::make_shared<Saving>(deadline);
  control_.Post([this, saving] {
    control_loop.AssertOnLoop();
    // A session that ends leaves the table.
    const auto sessions = sessions_;
    saving->Begin(static_cast<int>(sessions.size()));
    for (const auto& [id, session] : sessions) SaveOne(id, saving);
  });
  return saving->Await();
}

void SessionHost::Cut(uint64_t id, const CutTerms& terms, Session::Saved cut) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return cut(absl::NotFoundError("the session has ended"));
  const auto session = found->second;
  session->Save(terms.heir, terms.deadline, [this, id, terms, cut = std::move(cut)](auto made) {
    control_loop.AssertOnLoop();
    // Host memory is free again once others have been written.
    const bool passes = absl::IsAborted(made.status()) || absl::IsResourceExhausted(made.status());
    if (!passes || !terms.tries_again()) return cut(std::move(made));
    control_.RunAfter(kPause, [this, id, terms, cut] {
      control_loop.AssertOnLoop();
      Cut(id, terms, cut);
    });
  });
}

void SessionHost::CutGroup(const std::vector<uint64_t>& ids, const GroupTerms& terms,
                           const std::function<void(Resting)>& done) {
  const auto resting = std::make_shared<Resting>();
  resting->left = ids.size();
  if (ids.empty()) return done(std::move(*resting));
  const CutTerms one = {.heir = terms.heir,
                        .deadline = terms.deadline,
                        .tries_again = [resting, all = terms.all, give_up = terms.give_up] {
                          return (resting->failed.ok() || !all) && SteadyNow() < give_up;
                        }};
  for (const uint64_t id : ids) {
    Cut(id, one, [this, id, resting, done, all = terms.all, failure = terms.failure](auto cut) {
      control_loop.AssertOnLoop();
      if (cut.ok()) {
        resting->cuts.push_back(*std::move(cut));
      } else if (sessions_.contains(id)) {
        const absl::Status failed(
            cut.status().code(),
            absl::StrCat("session ", id, " ", failure, ": ", std::string(cut.status().message())));
        if (!all) LogWarning(std::string(failed.message()));
        if (resting->failed.ok()) resting->failed = failed;
      }
      if (--resting->left == 0) done(std::move(*resting));
    });
  }
}

SessionHost::Resting SessionHost::BringToRest(const std::vector<uint64_t>& ids, Session::Heir heir,
                                              absl::Duration deadline, bool all) {
  const auto rests = std::make_shared<std::promise<Resting>>();
  OnControl([&] {
    control_loop.AssertOnLoop();
    CutGroup(ids,
             {.heir = heir,
              .deadline = deadline,
              .give_up = SteadyNow() + 2 * deadline,
              .all = all,
              .failure = "does not come to rest"},
             [rests](Resting resting) { rests->set_value(std::move(resting)); });
  });
  return rests->get_future().get();
}

void SessionHost::EndCutSessions(const std::vector<uint64_t>& ids, const absl::Status& written) {
  for (const uint64_t id : ids) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) continue;
    const auto session = found->second;
    session->EndSaved(written);
  }
}

void SessionHost::SaveOne(uint64_t id, const std::shared_ptr<Saving>& saving) {
  const CutTerms terms = {.heir = Session::Heir::kNextServer,
                          .deadline = saving->deadline,
                          .tries_again = [saving] { return SteadyNow() < saving->give_up; }};
  Cut(id, terms, [this, id, saving](absl::StatusOr<SessionCut> cut) {
    control_loop.AssertOnLoop();
    OnSaved(id, saving, std::move(cut));
  });
}

void SessionHost::OnSaved(uint64_t id, const std::shared_ptr<Saving>& saving,
                          absl::StatusOr<SessionCut> cut) {
  if (absl::IsNotFound(cut.status())) return saving->End(false);
  if (!cut.ok()) {
    LogWarning("session=", id,
               " cannot be saved and ends with the server: ", cut.status().ToString());
    return saving->End(false);
  }
  const auto shared = std::make_shared<SessionCut>(*std::move(cut));
  OnDisk([this, id, saving, shared] {
    const absl::Status written = options_.saved->Write(shared.get());
    const std::string secret = shared->manifest.secret();
    control_.Post([this, id, secret, written, saving] {
      control_loop.AssertOnLoop();
      OnWritten(id, secret, written, saving);
    });
  });
}

void SessionHost::OnWritten(uint64_t id, const std::string& secret, const absl::Status& written,
                            const std::shared_ptr<Saving>& saving) {
  const auto found = sessions_.find(id);
  const auto session = found == sessions_.end() ? nullptr : found->second;
  if (written.ok()) {
    MutexLock lock(&mu_);
    away_[id] = secret;
  } else {
    LogWarning("session=", id, " cannot be saved and ends with the server: ", written.ToString());
  }
  const bool goes_on = session != nullptr && session->EndSaved(written);
  if (written.ok() && !goes_on) {
    {
      MutexLock lock(&mu_);
      away_.erase(id);
    }
    OnDisk([this, id] {
      if (options_.saved->Take(id).ok()) options_.saved->Forget(id);
    });
  }
  if (written.ok() && goes_on) LogInfo("saved session=", id);
  saving->End(written.ok() && goes_on);
}

// --- Goes on.

void SessionHost::FindSaved() {
  if (options_.saved == nullptr) return;
  std::vector<std::string> unreadable;
  const auto found = options_.saved->Find(&unreadable);
  for (const std::string& why : unreadable) LogWarning("a saved session is left alone: ", why);
  MutexLock lock(&mu_);
  away_ = found;
  for (const auto& [id, secret] : away_) numbers_[secret] = id;
  last_id_ = std::max(last_id_, options_.saved->LastNumber());
}

void SessionHost::RestoreSaved() {
  std::map<uint64_t, std::string> found;
  {
    MutexLock lock(&mu_);
    found = away_;
  }
  const absl::Time give_up = SteadyNow() + options_.session.resume_timeout;
  for (const auto& [id, secret] : found) RestoreOne(id, give_up);
}

bool SessionHost::Leaves() const {
  MutexLock lock(&mu_);
  return draining_;
}

// A session that could not be taken over stays in the folder, for the next server.
void SessionHost::RestoreOne(uint64_t id, absl::Time give_up) {
  OnDisk([this, id, give_up] {
    if (Leaves()) return;
    auto cut = options_.saved->Read(id);
    absl::Status status = cut.status();
    if (status.ok()) status = options_.saved->Take(id);
    if (!status.ok()) return LeaveSaved(id, status);
    // Waits for the control loop, which does not wait for this one.
    absl::Status adopted;
    OnControl([&] {
      control_loop.AssertOnLoop();
      adopted = AdoptOne(*std::move(cut));
      MutexLock lock(&mu_);
      if (adopted.ok()) away_.erase(id);
    });
    if (adopted.ok()) return options_.saved->Forget(id);
    const absl::Status back = options_.saved->PutBack(id);
    if (!back.ok()) LogWarning("saved session=", id, " is lost: ", back.ToString());
    const bool passes = absl::IsUnavailable(adopted) || absl::IsResourceExhausted(adopted);
    if (!passes || !back.ok() || SteadyNow() >= give_up) return LeaveSaved(id, adopted);
    control_.Post([this, id, give_up] {
      control_loop.AssertOnLoop();
      control_.RunAfter(kPause, [this, id, give_up] { RestoreOne(id, give_up); });
    });
  });
}

absl::Status SessionHost::AdoptOne(SessionCut cut) {
  const uint64_t id = cut.manifest.session();
  const std::string peer = cut.manifest.peer();
  auto membership = options_.leases->Rejoin(cut.manifest.token(), HolderOf(peer), PeerUnit(peer));
  if (!membership.ok()) return membership.status();
  return AdoptAs(id, *std::move(membership), std::move(cut));
}

absl::Status SessionHost::AdoptAs(uint64_t id, LeaseMembership membership, SessionCut cut,
                                  bool barred) {
  std::shared_ptr<Session> session;
  {
    MutexLock lock(&mu_);
    if (draining_ || held_) return absl::UnavailableError("the server is shutting down");
    if (live_ >= options_.max_sessions) {
      return absl::ResourceExhaustedError("the server has as many sessions as it may have");
    }
    if (known_.contains(id)) return absl::AlreadyExistsError("there is such a session");
    ++live_;
    session = std::make_shared<Session>(PartsOfSession(), id, cut.manifest.peer(),
                                        std::move(membership), cut.manifest.secret());
    known_.emplace(id, session);
    numbers_[cut.manifest.secret()] = id;
  }
  sessions_.emplace(id, session);
  if (barred) session->Bar();
  return session->Adopt(std::move(cut));
}

void SessionHost::LeaveSaved(uint64_t id, const absl::Status& why) {
  LogWarning("saved session=", id, " cannot go on, and stays in its folder: ",
             why.ToString(absl::StatusToStringMode::kWithNoExtraData));
  MutexLock lock(&mu_);
  ForgetAway(id);
}

void SessionHost::ForgetAway(uint64_t id) {
  away_.erase(id);
  ForgetNumber(id);
}

void SessionHost::ForgetNumber(uint64_t id) {
  absl::erase_if(numbers_, [id](const auto& number) { return number.second == id; });
}

}  // namespace warpline::server
