#include "server/worker/host/worker.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/log/log.h"
#include "common/log/log_budget.h"
#include "proto/devices.h"
#include "proto/frames.h"
#include "proto/refusal.h"
#include "server/worker/host/sandbox.h"

namespace warpline::worker {
namespace {

using ::warpline_internal::OpenWorker;
using ::warpline_internal::PrepareWorker;

constexpr size_t kRingFds = 3;
constexpr size_t kOpenFds = 2 * kRingFds + 1;

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

template <typename Message>
std::vector<int> OrdinalsOf(const Message& message) {
  std::vector<int> ordinals = {message.ordinal()};
  ordinals.insert(ordinals.end(), message.more_ordinals().begin(), message.more_ordinals().end());
  return ordinals;
}

std::string Join(const std::vector<int>& ordinals) {
  std::string text;
  for (const int ordinal : ordinals) {
    text += (text.empty() ? "" : ",") + std::to_string(ordinal);
  }
  return text;
}

// Attaches the two rings and the journal, which makes `fds` shorter by them.
absl::Status AttachShared(std::vector<UniqueFd>* fds, Worker* worker) {
  auto commands = RingReader::Attach(TakeRing(fds, 0));
  if (!commands.ok()) return commands.status();
  worker->commands = *std::move(commands);
  auto replies = RingWriter::Attach(TakeRing(fds, kRingFds));
  if (!replies.ok()) return replies.status();
  worker->replies = std::make_unique<RingFrameWriter>(*std::move(replies));
  auto journal = Journal::Open(std::move((*fds)[2 * kRingFds]));
  if (!journal.ok()) return journal.status();
  worker->journal = *std::move(journal);
  LogBudget::CountAllIn(&worker->journal->usage()->log_lines_left_out);
  return absl::OkStatus();
}

// A program that reads a little before its first allocation gets nothing but zeros natively.
void MapSinks(const OpenWorker& open, Worker* worker) {
  const auto devices = static_cast<uint32_t>(worker->contexts.size());
  const uint64_t part = DeviceArenaBytes(open.arena_bytes(), devices);
  if (open.sink_bytes() == 0 || open.sink_bytes() > std::min(part, kMostSinkBytes)) return;
  for (uint32_t i = 0; i < devices; ++i) {
    const CudaResult mapped =
        worker->contexts[i]->MapSink(open.arena_base() + i * part, open.sink_bytes());
    if (mapped == CudaResult::kSuccess) continue;
    LogWarning("no memory for stray accesses before the first allocation gpu=", i,
               " error=", CudaResultName(mapped));
  }
}

absl::Status MakeSession(const OpenWorker& open, Worker* worker) {
  SessionLimits limits;
  if (open.max_handles() > 0) limits.max_handles = open.max_handles();
  if (open.max_streams() > 0) limits.max_streams = open.max_streams();
  if (open.max_module_bytes() > 0) limits.max_module_bytes = open.max_module_bytes();
  std::vector<SessionDevice> devices;
  std::vector<device::Context*> contexts;
  for (size_t i = 0; i < worker->contexts.size(); ++i) {
    SessionDevice& device = devices.emplace_back();
    device.context = worker->contexts[i].get();
    contexts.push_back(device.context);
    if (const auto info = worker->backend->Info(worker->ordinals[i]); info.ok()) {
      device.max_stack_bytes = MostStackBytes(*info);
    }
  }
  worker->recorder =
      std::make_unique<Recorder>(worker->journal.get(), open.arena_base(), open.arena_bytes());
  worker->session = std::make_unique<Session>(std::move(devices), worker->replies.get(), limits);
  worker->memory = std::make_unique<VirtualMemory>(std::move(contexts));
  worker->session->set_arena(open.arena_base(), open.arena_bytes());
  worker->session->set_virtual_memory(worker->memory.get());
  worker->session->set_output(worker->output.get());
  worker->session->set_charger(&worker->charger);
  if (!worker->session->ok()) return absl::ResourceExhaustedError("no threads for a session");
  worker->session->SetRecorder(worker->recorder.get());
  worker->session->set_sm(open.sm());
  if (open.has_rights()) worker->session->set_rights(open.rights());
  return absl::OkStatus();
}

}  // namespace

absl::Status Prepare(const PrepareWorker& prepare, Worker* worker) {
  const std::vector<int> ordinals = OrdinalsOf(prepare);
  if (!worker->contexts.empty()) {
    if (ordinals == worker->ordinals) return absl::OkStatus();
    return absl::FailedPreconditionError("the worker was prepared for other devices");
  }
  if (ordinals.size() > kMaxSessionDevices) return absl::InvalidArgumentError("too many devices");
  for (size_t i = 0; i < ordinals.size(); ++i) {
    if (std::find(ordinals.begin(), ordinals.begin() + i, ordinals[i]) != ordinals.begin() + i) {
      return absl::InvalidArgumentError("a device twice");
    }
  }
  const absl::Time start = absl::Now();
  auto backend = device::OpenBackend(prepare.backend());
  if (!backend.ok()) return backend.status();
  worker->backend = *std::move(backend);
  const absl::Time driver_ready = absl::Now();
  auto contexts = worker->backend->OpenContexts(ordinals);
  if (!contexts.ok()) return contexts.status();
  worker->contexts = *std::move(contexts);
  worker->ordinals = ordinals;
  const absl::Status sandboxed = EnterSandbox();
  if (!sandboxed.ok()) return sandboxed;
  worker->driver_time = driver_ready - start;
  worker->context_time = absl::Now() - driver_ready;
  return absl::OkStatus();
}

absl::Status Open(const OpenWorker& open, std::vector<UniqueFd> fds, Worker* worker) {
  if (worker->opened) return absl::FailedPreconditionError("opened twice");
  worker->opened = true;
  const absl::Time start = absl::Now();
  PrepareWorker prepare;
  prepare.set_backend(open.backend());
  prepare.set_ordinal(open.ordinal());
  *prepare.mutable_more_ordinals() = open.more_ordinals();
  const absl::Status prepared = Prepare(prepare, worker);
  if (!prepared.ok()) return prepared;
  const CudaResult reserved =
      worker->contexts[0]->ReserveArena(open.arena_base(), open.arena_bytes());
  if (reserved != CudaResult::kSuccess) {
    return ArenaUnavailable(absl::StrFormat("%d bytes at %#x: %s", open.arena_bytes(),
                                            open.arena_base(), CudaResultName(reserved)));
  }
  worker->arena_base = open.arena_base();
  worker->arena_bytes = open.arena_bytes();
  if (open.quiet()) SetLogLevel(LogLevel::kNone);
  if (open.reader()) return absl::OkStatus();
  MapSinks(open, worker);
  if (fds.size() != kOpenFds + (open.variables() ? 1 : 0)) {
    return absl::InvalidArgumentError("descriptors of the rings");
  }
  absl::Status status = AttachShared(&fds, worker);
  if (status.ok()) status = MakeSession(open, worker);
  if (status.ok() && (open.resume_seq() > 0 || worker->journal->entries() > 0)) {
    status = worker->session->Replay(open.resume_seq());
  }
  if (status.ok() && open.variables()) {
    status = worker->session->RestoreVariables(fds[kOpenFds].get());
  }
  if (!status.ok()) return status;
  if (open.module_cache()) {
    worker->images = std::make_unique<ServerImageCache>(kControlFd);
    worker->session->set_image_cache(worker->images.get());
  }
  LogInfo("opened session=", open.session(), " gpu=", Join(worker->ordinals),
          " us=", absl::ToInt64Microseconds(absl::Now() - start),
          " driver_ms=", absl::ToInt64Milliseconds(worker->driver_time),
          " context_ms=", absl::ToInt64Milliseconds(worker->context_time));
  return absl::OkStatus();
}

}  // namespace warpline::worker
