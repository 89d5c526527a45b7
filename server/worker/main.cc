// warpline-worker: executes one session's commands on its devices. Started by warpline-server,
// which speaks proto/worker.proto on descriptor 3; of no use by hand.
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/log/log.h"
#include "proto/frames.h"
#include "proto/refusal.h"
#include "proto/worker.pb.h"
#include "server/process/life_line.h"
#include "server/process/packet_socket.h"
#include "server/worker/host/memory_requests.h"
#include "server/worker/host/worker.h"
#include "transport/loop_thread.h"

namespace warpline::worker {
namespace {

using ::warpline_internal::FromWorker;
using ::warpline_internal::OpenWorker;
using ::warpline_internal::PrepareWorker;
using ::warpline_internal::ToWorker;
using ::warpline_internal::WorkerOpened;

// How long the decoder polls before it sleeps, in turns of about 40 ns.
int SpinTurns() { return std::thread::hardware_concurrency() > 4 ? 4000 : 100; }

// Takes the session's commands from the ring for as long as the process lives.
void RunDecoder(RingReader* ring, Session* session) {
  prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  pthread_setname_np(pthread_self(), "wl-decoder");
  const int spin = SpinTurns();
  int idle = 0;
  uint32_t kind = 0;
  std::string payload;
  while (true) {
    const absl::StatusOr<bool> got = ring->TryRead(&kind, &payload);
    if (!got.ok()) {
      LogError("ring from the server: ", got.status().ToString());
      _exit(1);
    }
    if (!*got) {
      if (++idle < spin) {
        __builtin_ia32_pause();
      } else {
        ring->WaitReadable(absl::InfiniteDuration());
      }
      continue;
    }
    idle = 0;
    const absl::Status status = kind == kCommands
                                    ? session->Decode(std::move(payload))
                                    : absl::InvalidArgumentError("unknown frame kind");
    payload.clear();
    if (!status.ok()) {
      // The client broke the protocol; the server tells it that its worker is gone.
      LogError("protocol error: ", status.ToString());
      _exit(2);
    }
  }
}

// Fills `reply`, with `message` for a failure.
template <typename Reply>
void SetStatus(const absl::Status& status, std::string message, Reply* reply) {
  reply->set_error(static_cast<int>(CudaResultFromStatus(status)));
  if (!status.ok()) reply->set_message(std::move(message));
}

void OnOpen(const OpenWorker& open, std::vector<UniqueFd> fds, Worker* worker,
            WorkerOpened* opened) {
  const absl::Status status = Open(open, std::move(fds), worker);
  SetStatus(status, status.ToString(absl::StatusToStringMode::kWithNoExtraData), opened);
  if (!status.ok()) {
    *opened->mutable_refusal() = RefusalOf(status);
    return;
  }
  for (const auto& context : worker->contexts) opened->add_peers(context->peers());
  if (worker->session != nullptr) {
    auto decoder = TryStartLoopThread(
        "wl-decoder", [worker] { RunDecoder(worker->commands.get(), worker->session.get()); });
    if (!decoder.ok()) return SetStatus(decoder.status(), decoder.status().ToString(), opened);
    decoder->detach();
  }
}

absl::Status OnPrepare(const PrepareWorker& prepare, const std::vector<UniqueFd>& fds,
                       Worker* worker) {
  if (fds.size() != 1) return absl::InvalidArgumentError("no life line");
  // This thread lives as long as the process.
  const absl::Status held = HoldLifeLine(fds[0]);
  return held.ok() ? Prepare(prepare, worker) : held;
}

absl::Status OnSave(const std::vector<UniqueFd>& fds, Worker* worker) {
  if (worker->session == nullptr || fds.size() != 1) {
    return absl::FailedPreconditionError("no session to save variables of");
  }
  return worker->session->SaveVariables(fds[0].get());
}

template <typename Request, typename Done>
void SetDone(const Request& request, CudaResult result, Done* done) {
  done->set_id(request.id());
  done->set_error(static_cast<int>(result));
}

// Serves the server's requests until it closes the socket.
void Serve(Worker* worker) {
  while (true) {
    ToWorker request;
    std::vector<UniqueFd> fds;
    const absl::Status received = ReceivePacket(kControlFd, &request, &fds);
    if (!received.ok()) return;
    FromWorker answer;
    switch (request.kind_case()) {
      case ToWorker::kOpen:
        OnOpen(request.open(), std::move(fds), worker, answer.mutable_opened());
        break;
      case ToWorker::kPrepare: {
        const absl::Status status = OnPrepare(request.prepare(), fds, worker);
        SetStatus(status, status.ToString(), answer.mutable_prepared());
        break;
      }
      case ToWorker::kMap:
        SetDone(request.map(), MapMemory(request.map(), fds, worker), answer.mutable_memory_done());
        break;
      case ToWorker::kUnmap:
        SetDone(request.unmap(), UnmapMemory(request.unmap(), worker),
                answer.mutable_memory_done());
        break;
      case ToWorker::kHold:
        SetDone(request.hold(), HoldMemory(request.hold(), std::move(fds), worker),
                answer.mutable_memory_done());
        break;
      case ToWorker::kDrop:
        SetDone(request.drop(), DropMemory(request.drop(), worker), answer.mutable_memory_done());
        break;
      case ToWorker::kHost:
        SetDone(request.host(), MapHostMemory(request.host(), fds, worker),
                answer.mutable_host_done());
        break;
      case ToWorker::kRead:
        SetDone(request.read(), ReadMemory(request.read(), fds, worker),
                answer.mutable_read_done());
        break;
      case ToWorker::kSave: {
        const absl::Status status = OnSave(fds, worker);
        answer.mutable_saved()->set_id(request.save().id());
        SetStatus(status, std::string(status.message()), answer.mutable_saved());
        break;
      }
      case ToWorker::kCharged:
        worker->charger.OnCharged(request.charged());
        continue;
      case ToWorker::kModuleImage:
        // The answer to a question, which gets none itself.
        if (worker->images != nullptr) {
          worker->images->Deliver(fds.empty() ? UniqueFd() : std::move(fds[0]));
        }
        continue;
      case ToWorker::KIND_NOT_SET:
        LogError("unknown request from the server");
        return;
    }
    if (!SendPacket(kControlFd, answer, {}).ok()) return;
  }
}

}  // namespace
}  // namespace warpline::worker

int main(int argc, char**) {
  warpline::SetLogName("worker");
  if (argc > 1) {
    warpline::LogError("warpline-worker is started by warpline-server and takes no arguments");
    return 64;
  }
  auto* worker = new warpline::worker::Worker;
  // Before anything else prints.
  auto output = warpline::worker::OutputCapture::Install();
  if (!output.ok()) {
    warpline::LogError(output.status().ToString());
    return 1;
  }
  worker->output = *std::move(output);
  warpline::worker::Serve(worker);
  _exit(0);
}
