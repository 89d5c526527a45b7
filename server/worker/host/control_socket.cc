#include "server/worker/host/control_socket.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/cuda_result.h"
#include "common/log/log.h"
#include "common/unique_fd.h"
#include "proto/refusal.h"
#include "proto/worker.pb.h"
#include "server/process/life_line.h"
#include "server/process/packet_socket.h"

namespace warpline::worker {
namespace {

using ::warpline_internal::FromWorker;
using ::warpline_internal::OpenWorker;
using ::warpline_internal::PrepareWorker;
using ::warpline_internal::ToWorker;
using ::warpline_internal::WorkerOpened;

// Fills in `reply`, with `message` for a failure.
template <typename Reply>
void SetStatus(const absl::Status& status, std::string message, Reply* reply) {
  reply->set_error(static_cast<int>(CudaResultFromStatus(status)));
  if (!status.ok()) reply->set_message(std::move(message));
}

template <typename Request, typename Done>
void SetDone(const Request& request, CudaResult result, Done* done) {
  done->set_id(request.id());
  done->set_error(static_cast<int>(result));
}

absl::Status OnPrepare(const PrepareWorker& prepare, const std::vector<UniqueFd>& fds,
                       HostProcess* process) {
  if (fds.size() != 1) return absl::InvalidArgumentError("no life line");
  // This thread lives as long as the process.
  const absl::Status held = HoldLifeLine(fds[0]);
  return held.ok() ? process->Prepare(prepare) : held;
}

void OnOpen(const OpenWorker& open, std::vector<UniqueFd> fds, HostProcess* process,
            WorkerOpened* opened) {
  const absl::Status status = process->Open(open, std::move(fds));
  SetStatus(status, status.ToString(absl::StatusToStringMode::kWithNoExtraData), opened);
  if (!status.ok()) {
    *opened->mutable_refusal() = RefusalOf(status);
    return;
  }
  for (const uint32_t peers : process->Peers()) opened->add_peers(peers);
  if (const auto& ring = process->Find(open.session())->ring; ring != nullptr) {
    opened->set_charged_bytes(ring->replayed_bytes());
  }
}

absl::Status OnSave(ProcessSession* session, const std::vector<UniqueFd>& fds) {
  if (session == nullptr || session->ring == nullptr || fds.size() != 1) {
    return absl::FailedPreconditionError("no session to save variables of");
  }
  return session->ring->SaveVariables(fds[0].get());
}

// Calls ask(part) for a part that the session may not have.
template <typename Part, typename Question>
CudaResult Ask(const std::unique_ptr<Part> ProcessSession::*part, ProcessSession* session,
               Question ask) {
  if (session == nullptr || session->*part == nullptr) return CudaResult::kIllegalState;
  return ask((session->*part).get());
}

// Handles requests about a session's memory.
void OnMemory(const ToWorker& request, std::vector<UniqueFd> fds, ProcessSession* session,
              FromWorker* answer) {
  const auto arena = [&](auto ask) { return Ask(&ProcessSession::memory, session, ask); };
  const auto ring = [&](auto ask) { return Ask(&ProcessSession::ring, session, ask); };
  if (request.has_map()) {
    SetDone(request.map(), arena([&](auto* memory) { return memory->Map(request.map(), fds); }),
            answer->mutable_memory_done());
  } else if (request.has_unmap()) {
    SetDone(request.unmap(), arena([&](auto* memory) { return memory->Unmap(request.unmap()); }),
            answer->mutable_memory_done());
  } else if (request.has_hold()) {
    SetDone(request.hold(),
            ring([&](auto* held) { return held->Hold(request.hold(), std::move(fds)); }),
            answer->mutable_memory_done());
  } else if (request.has_drop()) {
    SetDone(request.drop(), ring([&](auto* held) { return held->Drop(request.drop().handle()); }),
            answer->mutable_memory_done());
  } else if (request.has_host()) {
    const bool executes = session != nullptr && session->ring != nullptr;
    SetDone(request.host(),
            executes ? session->memory->MapHost(request.host(), fds) : CudaResult::kIllegalState,
            answer->mutable_host_done());
  } else {
    const bool reads = session != nullptr && session->ring == nullptr;
    SetDone(request.read(),
            reads ? session->memory->Read(request.read(), fds) : CudaResult::kIllegalState,
            answer->mutable_read_done());
  }
}

// Handles a request that came on `fd`. Returns false for one that gets no answer now.
bool OnRequest(int fd, const ToWorker& request, std::vector<UniqueFd> fds, HostProcess* process,
               FromWorker* answer) {
  ProcessSession* const session = process->Find(request.session());
  RingSession* const ring = session == nullptr ? nullptr : session->ring.get();
  switch (request.kind_case()) {
    case ToWorker::kOpen:
      OnOpen(request.open(), std::move(fds), process, answer->mutable_opened());
      return true;
    case ToWorker::kPrepare: {
      const absl::Status status = OnPrepare(request.prepare(), fds, process);
      SetStatus(status, status.ToString(), answer->mutable_prepared());
      *answer->mutable_prepared()->mutable_jail() = process->jail_report();
      return true;
    }
    case ToWorker::kSave: {
      const absl::Status status = OnSave(session, fds);
      answer->mutable_saved()->set_id(request.save().id());
      SetStatus(status, std::string(status.message()), answer->mutable_saved());
      return true;
    }
    case ToWorker::kCharged:
      if (ring != nullptr) ring->OnCharged(request.charged());
      return false;
    case ToWorker::kClose:
      process->Close(request.session(), [fd, number = request.session()](bool hangs) {
        FromWorker message;
        message.set_session(number);
        message.mutable_closed()->set_hangs(hangs);
        // When the server is gone, the process ends anyway.
        SendPacket(fd, message, {}).IgnoreError();
      });
      return false;
    case ToWorker::kModuleImage:
      if (ring != nullptr) ring->OnModuleImage(fds.empty() ? UniqueFd() : std::move(fds[0]));
      return false;
    default:
      OnMemory(request, std::move(fds), session, answer);
      return true;
  }
}

}  // namespace

void ServeControlSocket(int fd, HostProcess* process) {
  while (true) {
    ToWorker request;
    std::vector<UniqueFd> fds;
    if (!ReceivePacket(fd, &request, &fds).ok()) return;
    if (request.kind_case() == ToWorker::KIND_NOT_SET) {
      LogError("unknown request from the server");
      return;
    }
    FromWorker answer;
    answer.set_session(request.session());
    if (OnRequest(fd, request, std::move(fds), process, &answer) &&
        !SendPacket(fd, answer, {}).ok()) {
      return;
    }
  }
}

void SendSessionEnded(int fd, uint64_t session, const absl::Status& why) {
  LogError("session ended session=", session, ": ", why.ToString());
  FromWorker message;
  message.set_session(session);
  message.mutable_ended();
  // When the server is gone, the process ends anyway.
  SendPacket(fd, message, {}).IgnoreError();
}

}  // namespace warpline::worker
