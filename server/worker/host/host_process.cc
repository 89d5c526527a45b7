#include "server/worker/host/host_process.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/log/log.h"
#include "proto/devices.h"
#include "proto/guard.h"
#include "proto/refusal.h"
#include "server/jail/jail.h"

namespace warpline::worker {
namespace {

using ::warpline_internal::OpenWorker;
using ::warpline_internal::PrepareWorker;

// The threads that the device can hold at once.
uint64_t MostThreads(const device::DeviceInfo& info) {
  constexpr int kMultiprocessors = 16, kThreadsEach = 39;  // CUdevice_attribute.
  uint64_t threads = 1;
  for (const auto& [attribute, value] : info.attributes) {
    if (attribute == kMultiprocessors || attribute == kThreadsEach) threads *= std::max(value, 1);
  }
  return threads;
}

// Every thread that the device can hold gets a stack; together they take no more than an eighth of
// its memory.
uint64_t MostStackBytes(const device::DeviceInfo& info) {
  constexpr uint64_t kLeast = 16u << 10, kMost = 512u << 10;
  return std::clamp(info.total_bytes / 8 / MostThreads(info), kLeast, kMost);
}

template <typename Message>
std::vector<int> OrdinalsOf(const Message& message) {
  std::vector<int> ordinals = {message.ordinal()};
  ordinals.insert(ordinals.end(), message.more_ordinals().begin(), message.more_ordinals().end());
  return ordinals;
}

PrepareWorker PreparationFor(const OpenWorker& open) {
  PrepareWorker prepare;
  prepare.set_backend(open.backend());
  prepare.set_ordinal(open.ordinal());
  *prepare.mutable_more_ordinals() = open.more_ordinals();
  return prepare;
}

}  // namespace

absl::Status HostProcess::OpenDevices(const PrepareWorker& prepare) {
  const absl::Time start = absl::Now();
  auto backend = device::OpenBackend(prepare.backend());
  if (!backend.ok()) return backend.status();
  backend_ = *std::move(backend);
  const absl::Time driver_ready = absl::Now();
  const auto& bus_ids = prepare.jail().pci_bus_ids();
  places_.clear();
  for (size_t i = 0; i < ordinals_.size(); ++i) {
    const auto known = static_cast<int>(i) < bus_ids.size();
    auto place = backend_->Find(ordinals_[i], known ? bus_ids[static_cast<int>(i)] : "");
    if (!place.ok()) return place.status();
    places_.push_back(*place);
  }
  auto contexts = backend_->OpenContexts(places_);
  if (!contexts.ok()) return contexts.status();
  contexts_ = *std::move(contexts);
  driver_time_ = driver_ready - start;
  context_time_ = absl::Now() - driver_ready;
  return absl::OkStatus();
}

absl::Status HostProcess::Prepare(const PrepareWorker& prepare) {
  const std::vector<int> ordinals = OrdinalsOf(prepare);
  if (!contexts_.empty()) {
    if (ordinals == ordinals_) return absl::OkStatus();
    return absl::FailedPreconditionError("the worker was prepared for other devices");
  }
  if (ordinals.size() > kMaxSessionDevices) return absl::InvalidArgumentError("too many devices");
  for (auto it = ordinals.begin(); it != ordinals.end(); ++it) {
    if (std::find(ordinals.begin(), it, *it) != it) {
      return absl::InvalidArgumentError("a device twice");
    }
  }
  ordinals_ = ordinals;
  if (!prepare.has_jail()) return OpenDevices(prepare);
  jail::Jail jail(prepare.jail());
  absl::Status status = jail.CloseBeforeDriver();
  if (status.ok()) status = OpenDevices(prepare);
  if (status.ok()) status = jail.CloseBeforeTenants();
  jail_report_ = jail.report();
  // Nothing is to be executed beside an open jail, whatever comes next.
  if (!status.ok()) contexts_.clear();
  return status;
}

std::vector<device::Context*> HostProcess::Contexts() const {
  std::vector<device::Context*> contexts;
  for (const auto& context : contexts_) contexts.push_back(context.get());
  return contexts;
}

std::vector<SessionDevice> HostProcess::Devices() const {
  std::vector<SessionDevice> devices;
  for (size_t i = 0; i < contexts_.size(); ++i) {
    SessionDevice& device = devices.emplace_back();
    device.context = contexts_[i].get();
    if (const auto info = backend_->Info(places_[i]); info.ok()) {
      device.max_stack_bytes = MostStackBytes(*info);
      device.max_threads = MostThreads(*info);
    }
  }
  return devices;
}

std::vector<uint32_t> HostProcess::Peers() const {
  std::vector<uint32_t> peers;
  for (const auto& context : contexts_) peers.push_back(context->peers());
  return peers;
}

ProcessSession* HostProcess::Find(uint64_t session) {
  const auto it = sessions_.find(session);
  return it == sessions_.end() ? nullptr : &it->second;
}

absl::Status HostProcess::Open(const OpenWorker& open, std::vector<UniqueFd> fds) {
  if (opened_ >= options_.max_sessions || sessions_.contains(open.session())) {
    return absl::FailedPreconditionError("the worker hosts a session already");
  }
  ++opened_;
  const absl::Time start = absl::Now();
  const absl::Status prepared = Prepare(PreparationFor(open));
  if (!prepared.ok()) return prepared;
  const CudaResult reserved = contexts_[0]->ReserveArena(open.arena_base(), open.arena_bytes());
  if (reserved != CudaResult::kSuccess) {
    return ArenaUnavailable(absl::StrFormat("%d bytes at %#x: %s", open.arena_bytes(),
                                            open.arena_base(), CudaResultName(reserved)));
  }
  arenas_.Add(open.arena_base(), open.arena_bytes());
  if (open.quiet()) SetLogLevel(LogLevel::kNone);
  ProcessSession session;
  session.memory = std::make_unique<ArenaMemory>(Contexts(), open.arena_base(), open.arena_bytes());
  if (!open.reader()) {
    const absl::Status status = OpenSession(open, std::move(fds), &session);
    if (!status.ok()) return status;
    LogInfo("opened session=", open.session(), " gpu=", absl::StrJoin(ordinals_, ","),
            " us=", absl::ToInt64Microseconds(absl::Now() - start),
            " driver_ms=", absl::ToInt64Milliseconds(driver_time_),
            " context_ms=", absl::ToInt64Milliseconds(context_time_));
  }
  sessions_.emplace(open.session(), std::move(session));
  if (options_.on_opened) options_.on_opened();
  return absl::OkStatus();
}

absl::Status HostProcess::OpenSession(const OpenWorker& open, std::vector<UniqueFd> fds,
                                      ProcessSession* session) {
  session->memory->MapSinks(open.sink_bytes());
  if (open.guard() != 0 && !GuardWindowOf(open.arena_base(), open.arena_bytes()).host_memory) {
    session->memory->RefuseHost();
  }
  RingSession::Options options;
  options.devices = Devices();
  options.control_fd = options_.control_fd;
  options.arenas = &arenas_;
  options.output = opened_ == 1 ? options_.output : nullptr;
  auto ring = RingSession::Create(open, std::move(fds), *session->memory, std::move(options));
  if (!ring.ok()) return ring.status();
  session->ring = *std::move(ring);
  return session->ring->Start([this, number = open.session()](const absl::Status& why) {
    if (options_.on_ended) options_.on_ended(number, why);
  });
}

}  // namespace warpline::worker
