// Sessions of others, taken over on another connection.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/frames.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"
#include "tests/hostile/commands.h"

namespace warpline::attack {
namespace {

using hostile::RawClient;
using warpline_internal::Resume;

// Whether the server resumes on a new connection, which is then in `*client`.
absl::StatusOr<bool> TryResume(const WireTarget& target, const Resume& resume,
                               std::unique_ptr<RawClient>* client = nullptr) {
  auto made = RawClient::Connect(target.endpoint, target.tls);
  if (!made.ok()) return made.status();
  (*made)->Send(kResume, resume.SerializeAsString());
  const auto resumed = (*made)->Expect(kResumed, kPatience);
  if (absl::IsDeadlineExceeded(resumed.status())) return resumed.status();
  if (client != nullptr) *client = *std::move(made);
  return resumed.ok();
}

Resume Honest(const WireSession& session) {
  Resume resume;
  resume.set_session(session.welcome().session());
  resume.set_secret(session.welcome().secret());
  resume.set_attempt(1);
  return resume;
}

// Makes the attempts, none of which may resume; then the session's own client must be able to.
WireResult NoneResumes(const WireTarget& target, WireSession* owner,
                       const std::vector<Resume>& attempts) {
  for (const Resume& attempt : attempts) {
    const auto resumed = TryResume(target, attempt);
    if (!resumed.ok()) return Unprepared(resumed.status());
    if (*resumed) return Succeeded("somebody else's session was resumed");
  }
  const Resume own = Honest(*owner);
  owner->Drop();
  const auto resumed = TryResume(target, own);
  if (!resumed.ok()) return Unprepared(resumed.status());
  return *resumed ? Stopped(absl::StrCat(attempts.size(), " attempts failed, its own did not"))
                  : Succeeded("its own client cannot resume any more");
}

WireResult WrongSecret(const WireTarget& target) {
  auto owner = WireSession::Open(target, /*resumable=*/true);
  if (!owner.ok()) return Unprepared(owner.status());
  auto other = WireSession::Open(target, /*resumable=*/true);
  if (!other.ok()) return Unprepared(other.status());
  std::vector<Resume> attempts;
  const std::string& secret = (*owner)->welcome().secret();
  for (const std::string& wrong :
       {std::string(), secret.substr(0, 1), secret.substr(1), secret + '\0',
        std::string(secret.size(), '\0'), (*other)->welcome().secret(), std::string(60'000, 'x')}) {
    attempts.push_back(Honest(**owner));
    attempts.back().set_secret(wrong);
  }
  return NoneResumes(target, owner->get(), attempts);
}

WireResult GuessedSessions(const WireTarget& target) {
  auto owner = WireSession::Open(target, /*resumable=*/true);
  if (!owner.ok()) return Unprepared(owner.status());
  // One of the guesses is right, but the secret is not that session's.
  auto other = WireSession::Open(target, /*resumable=*/true);
  if (!other.ok()) return Unprepared(other.status());
  const uint64_t id = (*owner)->welcome().session();
  std::vector<Resume> attempts;
  for (uint64_t i = id > 20 ? id - 20 : 0; i < id + 20; ++i) {
    if (i == id) continue;
    attempts.push_back(Honest(**owner));
    attempts.back().set_session(i);
  }
  return NoneResumes(target, owner->get(), attempts);
}

WireResult ReceivedTheFuture(const WireTarget& target) {
  auto owner = WireSession::Open(target, /*resumable=*/true);
  if (!owner.ok()) return Unprepared(owner.status());
  Resume resume = Honest(**owner);
  resume.set_received(1ull << 60);
  const auto resumed = TryResume(target, resume);
  if (!resumed.ok()) return Unprepared(resumed.status());
  return *resumed ? Succeeded("frames that were never sent are taken for received")
                  : Stopped("refused");
}

WireResult OldAttempt(const WireTarget& target) {
  auto owner = WireSession::Open(target, /*resumable=*/true);
  if (!owner.ok()) return Unprepared(owner.status());
  Resume resume = Honest(**owner);
  resume.set_attempt(7);
  (*owner)->Drop();
  std::unique_ptr<RawClient> client;
  const auto resumed = TryResume(target, resume, &client);
  if (!resumed.ok() || !*resumed) return Unprepared("it does not resume");
  for (const uint64_t attempt : {uint64_t{0}, uint64_t{1}, uint64_t{7}}) {
    resume.set_attempt(attempt);
    const auto again = TryResume(target, resume);
    if (!again.ok()) return Unprepared(again.status());
    if (*again) return Succeeded(absl::StrCat("attempt ", attempt, " after 7"));
  }
  return client->closed() ? Succeeded("the session's channel was ended")
                          : Stopped("attempts that were seen are refused");
}

WireResult EndedSession(const WireTarget& target) {
  auto owner = WireSession::Open(target, /*resumable=*/true);
  if (!owner.ok()) return Unprepared(owner.status());
  const Resume resume = Honest(**owner);
  (*owner)->client()->Close();
  // The server ends the stream once the session is over.
  (void)(*owner)->client()->Expect(kFault, kPatience).ok();
  const auto resumed = TryResume(target, resume);
  if (!resumed.ok()) return Unprepared(resumed.status());
  return *resumed ? Succeeded("a session that was closed is back") : Stopped("refused");
}

WireResult SessionThatCannotResume(const WireTarget& target) {
  auto owner = WireSession::Open(target);
  if (!owner.ok()) return Unprepared(owner.status());
  const Resume resume = Honest(**owner);
  (*owner)->Drop();
  const auto resumed = TryResume(target, resume);
  if (!resumed.ok()) return Unprepared(resumed.status());
  return *resumed ? Succeeded("it was resumed without the feature") : Stopped("refused");
}

// Two clients with the same secret, which move the session to and fro.
WireResult ToAndFro(const WireTarget& target) {
  auto owner = WireSession::Open(target, /*resumable=*/true);
  if (!owner.ok()) return Unprepared(owner.status());
  const Footprint before = Measure(target);
  Resume resume = Honest(**owner);
  for (uint64_t i = 1; i <= 100; ++i) {
    resume.set_attempt(i);
    const auto resumed = TryResume(target, resume);
    if (!resumed.ok()) return Unprepared(resumed.status());
  }
  const WireResult served = JudgeNeighbour(target, "a session that moves 100 times");
  if (served.outcome != WireOutcome::kStopped) return served;
  return JudgeGrowth(target, before, {64 << 10, 300, 100, 10'000});
}

// Sessions whose clients vanish are kept for a while: not more of them than the server takes.
WireResult Abandoned(const WireTarget& target) {
  for (int i = 0; i < 24; ++i) {
    auto session = WireSession::Open(target, /*resumable=*/true);
    if (!session.ok()) break;
  }
  return JudgeNeighbour(target, "24 sessions that wait for their clients");
}

constexpr WireAttack kAttacks[] = {
    {"resumption_with_a_wrong_secret", "-", "", &WrongSecret},
    {"resumption_of_guessed_sessions", "-", "", &GuessedSessions},
    {"resumption_beyond_what_was_sent", "-", "", &ReceivedTheFuture},
    {"resumption_that_was_seen_before", "-", "", &OldAttempt},
    {"resumption_after_the_end", "-", "", &EndedSession},
    {"resumption_without_the_feature", "-", "", &SessionThatCannotResume},
    {"session_that_moves_all_the_time", "H4", "", &ToAndFro},
    {"sessions_that_wait_for_nobody", "H5", "--max_sessions=16", &Abandoned},
};

}  // namespace

absl::Span<const WireAttack> ResumptionAttacks() { return kAttacks; }

}  // namespace warpline::attack
