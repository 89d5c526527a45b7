// The part of SessionHost that writes sessions into the folder of a checkpoint, and goes on with
// those of such a folder.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "common/serving/listen_address.h"
#include "common/steady_time.h"
#include "common/text.h"
#include "server/gpu_server/saved/checkpoint_folder.h"
#include "server/gpu_server/session/session_host.h"

namespace warpline::server {
namespace {

// So many sessions in checkpoints have clients that are told to wait.
constexpr size_t kMostAwaited = 4096;

}  // namespace

absl::StatusOr<std::vector<uint64_t>> SessionHost::SessionsOf(const CheckpointOrder& order) {
  AwaitOpened(SteadyNow() + order.deadline);
  std::vector<uint64_t> ids;
  OnControl([&] {
    control_loop.AssertOnLoop();
    for (const auto& [id, session] : sessions_) {
      const bool meant =
          order.lease.empty() ? id == order.session : session->entitlement().lease == order.lease;
      if (meant && session->Serving()) ids.push_back(id);
    }
  });
  if (!ids.empty()) return ids;
  return absl::NotFoundError(order.lease.empty()
                                 ? absl::StrCat("no session ", order.session)
                                 : absl::StrCat("no session of lease ", order.lease));
}

absl::StatusOr<CheckpointResult> SessionHost::SaveCheckpoint(const CheckpointOrder& order,
                                                             CheckpointProgress* progress) {
  auto ids = SessionsOf(order);
  if (!ids.ok()) return ids.status();
  const absl::Status may = CheckCuts(*ids, Session::Heir::kCheckpoint, "cannot be saved");
  if (!may.ok()) return may;
  auto folder = CheckpointFolder::Open(order.dir, /*makes=*/true, order.space);
  if (!folder.ok()) return folder.status();
  LogInfo("saves a checkpoint sessions=", ids->size(), " folder=", Quoted(order.dir));
  const absl::Time begin = SteadyNow();
  Resting resting = BringToRest(*ids, Session::Heir::kCheckpoint, order.deadline, /*all=*/true);
  absl::Status status = resting.failed;
  *ids = NumbersOf(resting.cuts);
  if (status.ok() && ids->empty()) status = absl::NotFoundError("the sessions have ended");
  // Memory that is at rest stays as it is while the sessions go on. Their state does not.
  for (SessionCut& cut : resting.cuts) {
    if (status.ok() && !order.ends) status = CopyState(&cut);
  }
  if (!status.ok() || !order.ends) {
    OnControl([&] {
      control_loop.AssertOnLoop();
      EndCutSessions(*ids, status.ok() ? absl::AbortedError("it goes on") : status);
    });
  }
  if (!status.ok()) return status;
  CheckpointResult result = {
      .sessions = ids->size(), .bytes = HeldBytes(resting.cuts), .pause = SteadyNow() - begin};
  progress->bytes.store(result.bytes);
  const auto written = (*folder)->Write(&resting.cuts, &progress->done_bytes);
  if (order.ends) EndInCheckpoint(resting.cuts, written.status());
  if (!written.ok()) return written.status();
  result.written_bytes = *written;
  LogInfo("saved a checkpoint sessions=", result.sessions, " bytes=", result.bytes,
          " written_bytes=", result.written_bytes, " folder=", Quoted(order.dir));
  return result;
}

void SessionHost::EndInCheckpoint(const std::vector<SessionCut>& cuts,
                                  const absl::Status& written) {
  for (const SessionCut& cut : cuts) {
    if (!written.ok()) break;
    MutexLock lock(&mu_);
    if (checkpointed_.size() < kMostAwaited) checkpointed_.insert(cut.manifest.secret());
  }
  OnControl([&] {
    control_loop.AssertOnLoop();
    EndCutSessions(NumbersOf(cuts), written);
  });
}

absl::StatusOr<CheckpointResult> SessionHost::RestoreCheckpoint(const CheckpointOrder& order,
                                                                CheckpointProgress* progress) {
  auto folder = CheckpointFolder::Open(order.dir, /*makes=*/false, order.space);
  if (!folder.ok()) return folder.status();
  auto manifests = (*folder)->Manifests();
  if (!manifests.ok()) return manifests.status();
  for (const auto& manifest : *manifests) {
    if (const absl::Status here = CheckNotHere(manifest.secret()); !here.ok()) return here;
  }
  LogInfo("restores a checkpoint sessions=", manifests->size(), " folder=", Quoted(order.dir));
  auto cuts = (*folder)->Read(*std::move(manifests), &progress->done_bytes);
  if (!cuts.ok()) return cuts.status();
  CheckpointResult result = {.sessions = cuts->size(), .bytes = HeldBytes(*cuts)};
  std::vector<uint64_t> ids;
  std::vector<std::string> secrets;
  absl::Status status;
  OnControl([&] {
    control_loop.AssertOnLoop();
    for (SessionCut& cut : *cuts) {
      secrets.push_back(cut.manifest.secret());
      cut.device = order.device;
      if (status = AdoptCheckpointed(std::move(cut), &ids); !status.ok()) break;
    }
    for (const uint64_t id : ids) {
      const auto found = sessions_.find(id);
      if (found == sessions_.end()) continue;
      const auto session = found->second;
      if (status.ok()) {
        session->LetIn();
      } else {
        session->EndWithFault(CudaResult::kSystemNotReady, "its checkpoint was not restored");
      }
    }
  });
  if (!status.ok()) return status;
  MutexLock lock(&mu_);
  for (const std::string& secret : secrets) checkpointed_.erase(secret);
  LogInfo("restored a checkpoint sessions=", result.sessions, " bytes=", result.bytes);
  return result;
}

absl::Status SessionHost::CheckNotHere(const std::string& secret) {
  MutexLock lock(&mu_);
  for (const auto& [id, session] : known_) {
    if (session->HasSecret(secret)) {
      return absl::AlreadyExistsError(
          absl::StrCat("session ", id, " is a later state of the checkpoint's, and runs here"));
    }
  }
  return absl::OkStatus();
}

absl::Status SessionHost::AdoptCheckpointed(SessionCut cut, std::vector<uint64_t>* ids) {
  const std::string peer = cut.manifest.peer();
  auto membership = options_.leases->Rejoin(cut.manifest.token(), HolderOf(peer), PeerUnit(peer));
  if (!membership.ok()) return membership.status();
  // Another session has the number by now.
  uint64_t id = 0;
  {
    MutexLock lock(&mu_);
    id = ++last_id_;
  }
  cut.manifest.set_session(id);
  cut.origin = Origin::kCheckpoint;
  const absl::Status adopted = AdoptAs(id, *std::move(membership), std::move(cut), /*barred=*/true);
  if (adopted.ok()) ids->push_back(id);
  return adopted;
}

}  // namespace warpline::server
