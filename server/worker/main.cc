// warpline-worker: executes one session's commands on one device. Started by warpline-server, which
// speaks proto/worker.proto on descriptor 3; of no use by hand.
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/log.h"
#include "proto/frames.h"
#include "proto/worker.pb.h"
#include "server/device/device.h"
#include "server/life_line.h"
#include "server/packet_socket.h"
#include "server/worker/file_copies.h"
#include "server/worker/image_cache.h"
#include "server/worker/journal.h"
#include "server/worker/output_capture.h"
#include "server/worker/recorder.h"
#include "server/worker/ring_writer.h"
#include "server/worker/sandbox.h"
#include "server/worker/session.h"
#include "server/worker/socket_charger.h"
#include "server/worker/virtual_memory.h"
#include "transport/shm_ring.h"

namespace warpline::worker {
namespace {

using ::warpline_internal::FromWorker;
using ::warpline_internal::OpenWorker;
using ::warpline_internal::ToWorker;

constexpr int kControlFd = 3;
constexpr size_t kRingFds = 3;
constexpr size_t kOpenFds = 2 * kRingFds + 1;

// The session's parts, in the order in which they need each other. Never destroyed: the process
// ends with _exit, and its memory and device context with it.
struct Worker {
  std::unique_ptr<device::Backend> backend;
  std::unique_ptr<device::Context> context;
  std::unique_ptr<RingReader> commands;
  std::unique_ptr<RingFrameWriter> replies;
  std::unique_ptr<OutputCapture> output;
  std::unique_ptr<Journal> journal;
  std::unique_ptr<Recorder> recorder;
  std::unique_ptr<ServerImageCache> images;
  std::unique_ptr<VirtualMemory> memory;
  std::unique_ptr<Session> session;
  SocketCharger charger{kControlFd};
};

RingDescriptors TakeRing(std::vector<UniqueFd>* fds, size_t first) {
  return {std::move((*fds)[first]), std::move((*fds)[first + 1]), std::move((*fds)[first + 2])};
}

// Every thread that the device can hold gets a stack: together no more than an eighth of its
// memory.
uint64_t MostStackBytes(const device::DeviceInfo& info) {
  constexpr int kMultiprocessors = 16, kThreadsEach = 39;  // CUdevice_attribute.
  constexpr uint64_t kLeast = 16u << 10, kMost = 512u << 10;
  uint64_t threads = 1;
  for (const auto& [attribute, value] : info.attributes) {
    if (attribute == kMultiprocessors || attribute == kThreadsEach) threads *= std::max(value, 1);
  }
  return std::clamp(info.total_bytes / 8 / threads, kLeast, kMost);
}

// What takes long and is the same for every session of a device.
absl::Status Prepare(const std::string& name, int ordinal, Worker* worker) {
  if (worker->context != nullptr) return absl::OkStatus();
  const absl::Time start = absl::Now();
  auto backend = device::OpenBackend(name);
  if (!backend.ok()) return backend.status();
  worker->backend = *std::move(backend);
  const absl::Time driver_ready = absl::Now();
  auto context = worker->backend->OpenContext(ordinal);
  if (!context.ok()) return context.status();
  worker->context = *std::move(context);
  const absl::Status sandboxed = EnterSandbox();
  if (!sandboxed.ok()) return sandboxed;
  LogInfo("prepared gpu=", ordinal, " driver_ms=", absl::ToInt64Milliseconds(driver_ready - start),
          " context_ms=", absl::ToInt64Milliseconds(absl::Now() - driver_ready));
  return absl::OkStatus();
}

absl::Status Open(const OpenWorker& open, std::vector<UniqueFd> fds, Worker* worker) {
  const absl::Time start = absl::Now();
  const absl::Status prepared = Prepare(open.backend(), open.ordinal(), worker);
  if (!prepared.ok()) return prepared;
  const CudaResult reserved = worker->context->ReserveArena(open.arena_base(), open.arena_bytes());
  if (reserved != CudaResult::kSuccess) {
    return absl::AbortedError("the arena's addresses are taken in the worker");
  }
  if (open.reader()) return absl::OkStatus();
  if (fds.size() != kOpenFds + (open.variables() ? 1 : 0)) {
    return absl::InvalidArgumentError("descriptors of the rings");
  }
  auto commands = RingReader::Attach(TakeRing(&fds, 0));
  if (!commands.ok()) return commands.status();
  worker->commands = *std::move(commands);
  auto replies = RingWriter::Attach(TakeRing(&fds, kRingFds));
  if (!replies.ok()) return replies.status();
  worker->replies = std::make_unique<RingFrameWriter>(*std::move(replies));

  auto journal = Journal::Open(std::move(fds[2 * kRingFds]));
  if (!journal.ok()) return journal.status();
  worker->journal = *std::move(journal);
  worker->recorder =
      std::make_unique<Recorder>(worker->journal.get(), open.arena_base(), open.arena_bytes());
  SessionLimits limits;
  if (open.max_handles() > 0) limits.max_handles = open.max_handles();
  if (const auto info = worker->backend->Info(open.ordinal()); info.ok()) {
    limits.max_stack_bytes = MostStackBytes(*info);
  }
  if (open.max_module_bytes() > 0) limits.max_module_bytes = open.max_module_bytes();
  worker->session = std::make_unique<Session>(worker->context.get(), worker->replies.get(), limits);
  worker->memory = std::make_unique<VirtualMemory>(worker->context.get());
  worker->session->set_virtual_memory(worker->memory.get());
  worker->session->set_output(worker->output.get());
  worker->session->set_charger(&worker->charger);
  if (!worker->session->ok()) return absl::ResourceExhaustedError("no threads for a session");
  worker->session->SetRecorder(worker->recorder.get());
  worker->session->set_sm(open.sm());
  if (open.has_rights()) worker->session->set_rights(open.rights());
  if (open.resume_seq() > 0 || worker->journal->entries() > 0) {
    const absl::Status replayed = worker->session->Replay(open.resume_seq());
    if (!replayed.ok()) return replayed;
  }
  if (open.variables()) {
    const absl::Status restored = worker->session->RestoreVariables(fds[kOpenFds].get());
    if (!restored.ok()) return restored;
  }
  if (open.module_cache()) {
    worker->images = std::make_unique<ServerImageCache>(kControlFd);
    worker->session->set_image_cache(worker->images.get());
  }
  LogInfo("opened session=", open.session(),
          " us=", absl::ToInt64Microseconds(absl::Now() - start));
  return absl::OkStatus();
}

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

CudaResult MapMemory(const warpline_internal::MapMemory& map, const std::vector<UniqueFd>& fds,
                     device::Context* context) {
  if (static_cast<size_t>(map.chunk_bytes_size()) != fds.size()) return CudaResult::kInvalidValue;
  uint64_t va = map.va();
  for (int i = 0; i < map.chunk_bytes_size(); ++i) {
    const CudaResult result = context->MapChunk(va, map.chunk_bytes(i), fds[i].get());
    if (result != CudaResult::kSuccess) {
      // All or nothing, so that the books agree.
      uint64_t undo = map.va();
      for (int j = 0; j < i; ++j) {
        context->UnmapChunk(undo, map.chunk_bytes(j));
        undo += map.chunk_bytes(j);
      }
      return result;
    }
    va += map.chunk_bytes(i);
  }
  return CudaResult::kSuccess;
}

CudaResult UnmapMemory(const warpline_internal::UnmapMemory& unmap, device::Context* context) {
  CudaResult first = CudaResult::kSuccess;
  uint64_t va = unmap.va();
  for (const uint64_t bytes : unmap.chunk_bytes()) {
    const CudaResult result = context->UnmapChunk(va, bytes);
    if (first == CudaResult::kSuccess) first = result;
    va += bytes;
  }
  return first;
}

CudaResult HoldMemory(const warpline_internal::HoldMemory& hold, std::vector<UniqueFd> fds,
                      VirtualMemory* memory) {
  if (memory == nullptr) return CudaResult::kIllegalState;
  if (static_cast<size_t>(hold.chunk_bytes_size()) != fds.size() ||
      hold.handle_size() != hold.chunk_bytes_size()) {
    return CudaResult::kInvalidValue;
  }
  for (int i = 0; i < hold.handle_size(); ++i) {
    const CudaResult result =
        memory->Hold(hold.handle(i), hold.chunk_bytes(i), std::move(fds[static_cast<size_t>(i)]));
    if (result != CudaResult::kSuccess) return result;
  }
  return CudaResult::kSuccess;
}

CudaResult MapHostMemory(const warpline_internal::HostSegment& segment,
                         const std::vector<UniqueFd>& fds, device::Context* context) {
  if (segment.unmap()) return context->UnmapHost(segment.va(), segment.bytes());
  if (fds.size() != 1) return CudaResult::kInvalidValue;
  return context->MapHost(segment.va(), segment.bytes(), fds[0].get());
}

// Serves the server's requests until it closes the socket.
void Serve(Worker* worker) {
  bool opened = false;
  while (true) {
    ToWorker request;
    std::vector<UniqueFd> fds;
    const absl::Status received = ReceivePacket(kControlFd, &request, &fds);
    if (!received.ok()) return;
    FromWorker answer;
    switch (request.kind_case()) {
      case ToWorker::kOpen: {
        absl::Status status = absl::FailedPreconditionError("opened twice");
        if (!opened) status = Open(request.open(), std::move(fds), worker);
        opened = true;
        answer.mutable_opened()->set_error(static_cast<int>(CudaResultFromStatus(status)));
        if (!status.ok()) {
          // The code tells the server whether another arena may do.
          answer.mutable_opened()->set_message(status.ToString());
        }
        if (status.ok() && worker->session != nullptr) {
          std::thread(RunDecoder, worker->commands.get(), worker->session.get()).detach();
        }
        break;
      }
      case ToWorker::kMap:
        answer.mutable_memory_done()->set_id(request.map().id());
        answer.mutable_memory_done()->set_error(
            static_cast<int>(opened ? MapMemory(request.map(), fds, worker->context.get())
                                    : CudaResult::kIllegalState));
        break;
      case ToWorker::kUnmap:
        answer.mutable_memory_done()->set_id(request.unmap().id());
        answer.mutable_memory_done()->set_error(
            static_cast<int>(opened ? UnmapMemory(request.unmap(), worker->context.get())
                                    : CudaResult::kIllegalState));
        break;
      case ToWorker::kHold:
        answer.mutable_memory_done()->set_id(request.hold().id());
        answer.mutable_memory_done()->set_error(
            static_cast<int>(HoldMemory(request.hold(), std::move(fds), worker->memory.get())));
        break;
      case ToWorker::kDrop:
        answer.mutable_memory_done()->set_id(request.drop().id());
        answer.mutable_memory_done()->set_error(static_cast<int>(
            worker->memory == nullptr ? CudaResult::kIllegalState
                                      : worker->memory->Drop(request.drop().handle())));
        break;
      case ToWorker::kHost:
        answer.mutable_host_done()->set_id(request.host().id());
        answer.mutable_host_done()->set_error(
            static_cast<int>(opened && worker->session != nullptr
                                 ? MapHostMemory(request.host(), fds, worker->context.get())
                                 : CudaResult::kIllegalState));
        break;
      case ToWorker::kPrepare: {
        // This thread lives as long as the process.
        absl::Status status =
            fds.size() == 1 ? HoldLifeLine(fds[0]) : absl::InvalidArgumentError("no life line");
        if (status.ok()) {
          status = Prepare(request.prepare().backend(), request.prepare().ordinal(), worker);
        }
        answer.mutable_prepared()->set_error(static_cast<int>(CudaResultFromStatus(status)));
        if (!status.ok()) answer.mutable_prepared()->set_message(status.ToString());
        break;
      }
      case ToWorker::kRead:
        answer.mutable_read_done()->set_id(request.read().id());
        answer.mutable_read_done()->set_error(static_cast<int>(
            opened && worker->session == nullptr && fds.size() == 1
                ? FileCopies(worker->context.get())
                      .ToFile(request.read().va(), request.read().bytes(), fds[0].get(), 0)
                : CudaResult::kIllegalState));
        break;
      case ToWorker::kSave: {
        absl::Status status = absl::FailedPreconditionError("no session to save variables of");
        if (opened && worker->session != nullptr && fds.size() == 1) {
          status = worker->session->SaveVariables(fds[0].get());
        }
        answer.mutable_saved()->set_id(request.save().id());
        answer.mutable_saved()->set_error(static_cast<int>(CudaResultFromStatus(status)));
        if (!status.ok()) answer.mutable_saved()->set_message(std::string(status.message()));
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
