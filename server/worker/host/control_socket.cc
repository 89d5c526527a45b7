#include "server/worker/host/control_socket.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/cuda_result.h"
#include "common/log/log.h"
#include "common/packets/packet_socket.h"
#include "common/unique_fd.h"
#include "proto/refusal.h"
#include "proto/worker.pb.h"
#include "server/hostlink/process/liveness_lock.h"

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
  if (fds.size() != 1) return absl::InvalidArgumentError("no liveness lock");
  // This thread lives as long as the process.
  const absl::Status held = HoldLivenessLock(fds[0]);
  return held.ok() ? process->Prepare(prepare) : held;
}

// Sends what is said of a session. When the server is gone, the process ends anyway.
void Say(int fd, uint64_t session, FromWorker message) {
  message.set_session(session);
  SendPacket(fd, message, {}).IgnoreError();
}

void OnOpen(int fd, const OpenWorker& open, std::vector<UniqueFd> fds, HostProcess* process) {
  process->Open(open, std::move(fds),
                [fd, process, number = open.session()](const absl::Status& status,
                                                       const ProcessSession* session) {
                  FromWorker answer;
                  WorkerOpened* const opened = answer.mutable_opened();
                  SetStatus(status, status.ToString(absl::StatusToStringMode::kWithNoExtraData),
                            opened);
                  if (!status.ok()) {
                    *opened->mutable_refusal() = RefusalOf(status);
                  } else {
                    for (const uint32_t peers : process->Peers()) opened->add_peers(peers);
                    if (session->ring != nullptr) {
                      opened->set_charged_bytes(session->ring->replayed_bytes());
                    }
                  }
                  Say(fd, number, std::move(answer));
                });
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
  } else if (request.has_release()) {
    SetDone(request.release(), ring([&](auto* held) { return held->Release(request.release()); }),
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

// Handles what the session is asked, in order.
void OnQuestion(const ToWorker& request, std::vector<UniqueFd> fds, ProcessSession* session,
                FromWorker* answer) {
  if (!request.has_save()) return OnMemory(request, std::move(fds), session, answer);
  const absl::Status status = OnSave(session, fds);
  answer->mutable_saved()->set_id(request.save().id());
  SetStatus(status, std::string(status.message()), answer->mutable_saved());
}

// Handles a request that came on `fd`.
void OnRequest(int fd, ToWorker request, std::vector<UniqueFd> fds, HostProcess* process) {
  const uint64_t session = request.session();
  switch (request.kind_case()) {
    case ToWorker::kOpen:
      return OnOpen(fd, request.open(), std::move(fds), process);
    case ToWorker::kPrepare: {
      const absl::Status status = OnPrepare(request.prepare(), fds, process);
      FromWorker answer;
      SetStatus(status, status.ToString(), answer.mutable_prepared());
      *answer.mutable_prepared()->mutable_jail() = process->jail_report();
      return Say(fd, session, std::move(answer));
    }
    // What somebody waits for who may be in the way of what the session is asked.
    case ToWorker::kCharged:
      return process->Tell(session, [&](RingSession* ring) { ring->OnCharged(request.charged()); });
    case ToWorker::kModuleImage:
      return process->Tell(session, [&](RingSession* ring) {
        ring->OnModuleImage(fds.empty() ? UniqueFd() : std::move(fds[0]));
      });
    case ToWorker::kWindow:
      return process->ReplaceWindow(
          request.window(), fds.empty() ? UniqueFd() : std::move(fds[0]),
          [fd, number = request.window().number()](const absl::Status& status) {
            FromWorker message;
            message.mutable_window_done()->set_number(number);
            SetStatus(status, std::string(status.message()), message.mutable_window_done());
            Say(fd, 0, std::move(message));
          });
    case ToWorker::kPace:
      return process->SetPace(session, request.pace().nap_ns());
    case ToWorker::kClose:
      return process->Close(session, [fd, session](bool hangs) {
        FromWorker message;
        message.mutable_closed()->set_hangs(hangs);
        Say(fd, session, std::move(message));
      });
    default:
      return process->Ask(session, [fd, request = std::move(request),
                                    fds = std::move(fds)](ProcessSession* asked) mutable {
        FromWorker answer;
        OnQuestion(request, std::move(fds), asked, &answer);
        Say(fd, request.session(), std::move(answer));
      });
  }
}

}  // namespace

void ServeControlSocket(int fd, HostProcess* process) {
  while (true) {
    ToWorker request;
    std::vector<UniqueFd> fds;
    const absl::Status received = ReceivePacket(fd, &request, &fds);
    if (absl::IsResourceExhausted(received) && request.session() != 0) {
      // The one whose message has lost its descriptors is refused what it asks.
      LogError("session=", request.session(), ": ", received.ToString());
    } else if (!received.ok()) {
      return;
    }
    if (request.kind_case() == ToWorker::KIND_NOT_SET) {
      LogError("unknown request from the server");
      return;
    }
    OnRequest(fd, std::move(request), std::move(fds), process);
  }
}

void SendSessionEnded(int fd, uint64_t session, const absl::Status& why) {
  LogError("session ended session=", session, ": ", why.ToString());
  FromWorker message;
  message.set_session(session);
  message.mutable_ended()->set_overdue(absl::IsDeadlineExceeded(why));
  // When the server is gone, the process ends anyway.
  SendPacket(fd, message, {}).IgnoreError();
}

}  // namespace warpline::worker
