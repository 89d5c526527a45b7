#include "server/worker/host/host_process.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/log/log.h"
#include "proto/devices.h"
#include "proto/guard.h"
#include "proto/refusal.h"
#include "server/jail/jail.h"
#include "transport/loop_thread.h"

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
  if (prepare.shared()) {
    if (places_.size() != 1) return absl::InvalidArgumentError("one device can be shared");
    auto shared = backend_->OpenShared(places_[0], {});
    if (!shared.ok()) return shared.status();
    shared_ = *std::move(shared);
    auto watched = shared_->OpenContext({});
    if (!watched.ok()) return watched.status();
    watch_ = std::make_unique<ContextWatch>(*std::move(watched));
  } else {
    auto contexts = backend_->OpenContexts(places_);
    if (!contexts.ok()) return contexts.status();
    contexts_ = *std::move(contexts);
  }
  driver_time_ = driver_ready - start;
  context_time_ = absl::Now() - driver_ready;
  return absl::OkStatus();
}

absl::Status HostProcess::Prepare(const PrepareWorker& prepare) {
  const std::vector<int> ordinals = OrdinalsOf(prepare);
  if (!contexts_.empty() || shares()) {
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
  if (!status.ok()) {
    contexts_.clear();
    watch_ = nullptr;
    shared_ = nullptr;
  }
  return status;
}

std::vector<device::Context*> HostProcess::Contexts(const ProcessSession& session) const {
  if (shares()) return {session.context.get()};
  std::vector<device::Context*> contexts;
  for (const auto& context : contexts_) contexts.push_back(context.get());
  return contexts;
}

std::vector<SessionDevice> HostProcess::Devices(const ProcessSession& session) const {
  const std::vector<device::Context*> contexts = Contexts(session);
  std::vector<SessionDevice> devices;
  for (size_t i = 0; i < contexts.size(); ++i) {
    SessionDevice& device = devices.emplace_back();
    device.context = contexts[i];
    if (const auto info = backend_->Info(places_[i]); info.ok()) {
      device.max_stack_bytes = MostStackBytes(*info);
      device.max_threads = MostThreads(*info);
    }
  }
  return devices;
}

std::vector<uint32_t> HostProcess::Peers() const {
  if (shares()) return {1};
  std::vector<uint32_t> peers;
  for (const auto& context : contexts_) peers.push_back(context->peers());
  return peers;
}

ProcessSession* HostProcess::Find(uint64_t session) {
  const auto it = sessions_.find(session);
  return it == sessions_.end() ? nullptr : &it->second;
}

absl::Status HostProcess::CheckRoom(const OpenWorker& open) const {
  if (sessions_.contains(open.session())) {
    return absl::FailedPreconditionError("the worker hosts this session already");
  }
  if (!shares()) {
    if (opened_ < options_.max_sessions) return absl::OkStatus();
    return absl::FailedPreconditionError("the worker hosts a session already");
  }
  if (open.reader() || static_cast<GuardMode>(open.guard()) != GuardMode::kHardened) {
    return absl::FailedPreconditionError("sessions that share a device are hardened");
  }
  // The CPU device executes the text itself, so there is no machine code to ask for.
  if (open.compiler_gives_text() && !absl::StartsWith(open.backend(), "cpu")) {
    return absl::FailedPreconditionError("the guarded tier needs a compiler for machine code");
  }
  return absl::OkStatus();
}

absl::Status HostProcess::Open(const OpenWorker& open, std::vector<UniqueFd> fds) {
  if (const absl::Status room = CheckRoom(open); !room.ok()) return room;
  ++opened_;
  const absl::Time start = absl::Now();
  const absl::Status prepared = shares() ? absl::OkStatus() : Prepare(PreparationFor(open));
  if (!prepared.ok()) return prepared;
  ProcessSession session;
  if (shares()) {
    auto context = shared_->OpenContext({});
    if (!context.ok()) return context.status();
    session.context = *std::move(context);
  }
  const std::vector<device::Context*> contexts = Contexts(session);
  const CudaResult reserved = contexts[0]->ReserveArena(open.arena_base(), open.arena_bytes());
  if (reserved != CudaResult::kSuccess) {
    return ArenaUnavailable(absl::StrFormat("%d bytes at %#x: %s", open.arena_bytes(),
                                            open.arena_base(), CudaResultName(reserved)));
  }
  arenas_.Add(open.arena_base(), open.arena_bytes());
  if (open.quiet() && !shares()) SetLogLevel(LogLevel::kNone);
  session.memory = std::make_unique<ArenaMemory>(contexts, open.arena_base(), open.arena_bytes());
  if (!open.reader()) {
    const absl::Status status = OpenSession(open, std::move(fds), &session);
    if (!status.ok()) {
      arenas_.Remove(open.arena_base());
      // What it has on the device may still be written to, as by a copy to a variable.
      if (shares()) (void)session.End(options_.patience);
      return status;
    }
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
  if (!shares()) session->memory->MapSinks(open.sink_bytes());
  if (shares() ||
      (open.guard() != 0 && !GuardWindowOf(open.arena_base(), open.arena_bytes()).host_memory)) {
    session->memory->RefuseHost();
  }
  RingSession::Options options;
  options.devices = Devices(*session);
  options.shared = shares();
  if (shares()) options.on_fault = [this] { OnFault(); };
  options.control_fd = options_.control_fd;
  options.arenas = &arenas_;
  options.output = shares() ? nullptr : options_.output;
  auto ring = RingSession::Create(open, std::move(fds), session->memory.get(), std::move(options));
  if (!ring.ok()) return ring.status();
  session->ring = *std::move(ring);
  return session->ring->Start([this, number = open.session()](const absl::Status& why) {
    if (options_.on_ended) options_.on_ended(number, why);
  });
}

// A session that fails by itself, as after a failed assertion, fails alone.
void HostProcess::OnFault() {
  const CudaResult lost = watch_->Look();
  if (lost == CudaResult::kSuccess) return;
  LogError("the context that sessions share is lost error=", CudaResultName(lost));
  _exit(kContextLost);
}

void HostProcess::Close(uint64_t number, std::function<void(bool hangs)> done) {
  const auto found = sessions_.find(number);
  if (!shares() || found == sessions_.end()) return done(false);
  auto session = std::make_shared<ProcessSession>(std::move(found->second));
  sessions_.erase(found);
  const auto end = [this, session, number, done = std::move(done)] {
    const absl::Time start = absl::Now();
    // Before another session can have it.
    arenas_.Remove(session->memory->base());
    const bool ended = session->End(options_.patience);
    if (!ended) LogError("work on the device does not end session=", number);
    LogInfo("closed session=", number, " us=", absl::ToInt64Microseconds(absl::Now() - start));
    done(!ended);
  };
  auto thread = TryStartLoopThread("wl-close", end);
  if (!thread.ok()) return end();
  thread->detach();
}

}  // namespace warpline::worker
