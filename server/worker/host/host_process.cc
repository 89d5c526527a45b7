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

namespace warpline::worker {
namespace {

using ::warpline_internal::OpenWorker;
using ::warpline_internal::PrepareWorker;

// CUdevice_attribute.
constexpr int kMultiprocessors = 16, kThreadsEach = 39;

// Of a device whose contexts in this process are shared with others by NVIDIA's Multi-Process
// Service.
constexpr int kMpsEnabled = 133;

bool IsSharedByMps(const device::DeviceInfo& info) {
  return std::find(info.attributes.begin(), info.attributes.end(), std::pair(kMpsEnabled, 1)) !=
         info.attributes.end();
}

// The threads that the device can hold at once.
uint64_t MostThreads(const device::DeviceInfo& info) {
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

constexpr device::SharedDeviceOptions kSharedOptions;

// For the client of a session that is over its launch time to hear of it.
constexpr absl::Duration kToldBeforeEnd = absl::Seconds(1);

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
  auto backend = options_.open_backend(prepare.backend());
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
    auto shared = backend_->OpenShared(places_[0], kSharedOptions);
    if (!shared.ok()) return shared.status();
    shared_ = *std::move(shared);
    auto watched = shared_->OpenContext({});
    if (!watched.ok()) return watched.status();
    watch_ = std::make_unique<ContextWatch>(*std::move(watched));
    const absl::Status started = WatchKernels();
    if (!started.ok()) return started;
    auto pacer = KernelPacer::Start();
    if (!pacer.ok()) return pacer.status();
    pacer_ = *std::move(pacer);
    auto windows = HostWindows::Start(shared_.get());
    if (!windows.ok()) return windows.status();
    windows_ = *std::move(windows);
  } else {
    auto contexts = backend_->OpenContexts(places_);
    if (!contexts.ok()) return contexts.status();
    contexts_ = *std::move(contexts);
    if (prepare.mps()) {
      // A driver that finds no daemon goes on without, and so without its part of the device.
      const auto info = backend_->Info(places_[0]);
      if (!info.ok()) return info.status();
      if (!IsSharedByMps(*info)) {
        return absl::UnavailableError("the driver does not share the device by MPS");
      }
    }
  }
  driver_time_ = driver_ready - start;
  context_time_ = absl::Now() - driver_ready;
  return absl::OkStatus();
}

absl::Status HostProcess::WatchKernels() {
  KernelWatchOptions options = options_.kernels;
  options.look = [device = shared_.get()] { device->Look(); };
  options.hangs = [this](uint64_t session) {
    if (!options_.on_ended) return;
    options_.on_ended(session, absl::DeadlineExceededError("its kernels do not end"));
  };
  auto watch = KernelWatch::Start(std::move(options));
  if (!watch.ok()) return watch.status();
  kernel_watch_ = *std::move(watch);
  return absl::OkStatus();
}

absl::Status HostProcess::LimitLaunches(uint64_t session, absl::Duration most,
                                        std::shared_ptr<SessionDesk> desk) {
  auto end = [this, number = session] {
    if (!options_.on_ended) return;
    options_.on_ended(number, absl::DeadlineExceededError("a launch took too long"));
  };
  auto limit =
      LaunchLimit::Start(LimitedSessionOf(std::move(desk), std::move(end)), most, kToldBeforeEnd);
  if (!limit.ok()) return limit.status();
  launch_limit_ = *std::move(limit);
  return absl::OkStatus();
}

void HostProcess::EndWork(uint64_t session, std::shared_ptr<SessionDesk> desk,
                          const std::string& why) {
  MutexLock lock(&ending_mu_);
  absl::Status status;
  if (launch_limit_ == nullptr) {
    status = LimitLaunches(session, absl::InfiniteDuration(), std::move(desk));
  }
  if (status.ok()) return launch_limit_->EndNow(why);
  LogError("the session cannot be ended: ", status.message());
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
  if (prepare.shared()) options_.load_libraries(prepare.backend());
  absl::Status status;
  if (prepare.has_jail()) {
    jail::Jail jail(prepare.jail());
    status = jail.CloseBeforeDriver();
    if (status.ok()) status = OpenDevices(prepare);
    if (status.ok()) status = jail.CloseBeforeTenants();
    jail_report_ = jail.report();
  } else {
    status = OpenDevices(prepare);
  }
  // Nothing is to be executed beside an open jail, whatever comes next.
  if (!status.ok()) {
    contexts_.clear();
    kernel_watch_ = nullptr;
    pacer_ = nullptr;
    watch_ = nullptr;
    windows_ = nullptr;
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
      device.max_stack_bytes = shares() ? kSharedOptions.local_bytes : MostStackBytes(*info);
      device.max_threads = MostThreads(*info);
    }
  }
  return devices;
}

absl::StatusOr<int> HostProcess::ProcessorsOf(const OpenWorker& open, int place) const {
  if (open.sm_percent() == 0 || open.sm_percent() >= 100) return 0;
  const auto info = backend_->Info(place);
  if (!info.ok()) return info.status();
  for (const auto& [attribute, value] : info->attributes) {
    if (attribute == kMultiprocessors) {
      return std::max(1, value * static_cast<int>(open.sm_percent()) / 100);
    }
  }
  return absl::UnavailableError("the device does not tell how many multiprocessors it has");
}

absl::Status HostProcess::LimitPartitions(const OpenWorker& open) {
  for (size_t i = 0; i < contexts_.size(); ++i) {
    const absl::StatusOr<int> processors = ProcessorsOf(open, places_[i]);
    if (!processors.ok()) return processors.status();
    contexts_[i]->LimitPartitions(static_cast<uint32_t>(*processors));
  }
  return absl::OkStatus();
}

std::vector<uint32_t> HostProcess::Peers() const {
  if (shares()) return {1};
  std::vector<uint32_t> peers;
  for (const auto& context : contexts_) peers.push_back(context->peers());
  return peers;
}

void HostProcess::Ask(uint64_t session, SessionDesk::Task ask) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return ask(nullptr);
  it->second->Do([ask = std::move(ask)](ProcessSession* asked) mutable {
    ask(asked->open ? asked : nullptr);
  });
}

void HostProcess::Tell(uint64_t session, absl::FunctionRef<void(RingSession*)> tell) {
  const auto it = sessions_.find(session);
  if (it != sessions_.end()) it->second->WithRing(tell);
}

void HostProcess::SetPace(uint64_t session, uint32_t nap_ns) {
  if (pacer_ == nullptr) return;
  std::shared_ptr<KernelPace> pace;
  Tell(session, [&](RingSession* ring) { pace = ring->pace(); });
  if (pace != nullptr) pacer_->Set(std::move(pace), nap_ns);
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

void HostProcess::Open(const OpenWorker& open, std::vector<UniqueFd> fds, Opened done) {
  if (const absl::Status room = CheckRoom(open); !room.ok()) return done(room, nullptr);
  ++opened_;
  const absl::Status prepared = shares() ? absl::OkStatus() : Prepare(PreparationFor(open));
  if (!prepared.ok()) return done(prepared, nullptr);
  absl::StatusOr<std::shared_ptr<SessionDesk>> desk = SessionDesk::OfCaller();
  if (shares()) desk = SessionDesk::WithThread();
  if (!desk.ok()) return done(desk.status(), nullptr);
  sessions_.emplace(open.session(), *desk);
  if (kernel_watch_ != nullptr) {
    kernel_watch_->Add(open.session(), *desk,
                       open.launch_limit_ms() == 0 ? absl::InfiniteDuration()
                                                   : absl::Milliseconds(open.launch_limit_ms()));
  }
  if (!shares() && open.launch_limit_ms() != 0 && !open.reader()) {
    absl::Status limited;
    {
      MutexLock lock(&ending_mu_);
      limited = LimitLaunches(open.session(), absl::Milliseconds(open.launch_limit_ms()), *desk);
    }
    if (!limited.ok()) return done(limited, nullptr);
  }
  (*desk)->Do([this, at = desk->get(), open, fds = std::move(fds),
               done = std::move(done)](ProcessSession* session) mutable {
    const absl::Status status = OpenAt(at, open, std::move(fds), session);
    // What a session on a shared device has may still be written to, as by a copy to a variable; it
    // goes when it is closed.
    if (!status.ok() && !shares()) {
      session->ring = nullptr;
      session->memory = nullptr;
    }
    done(status, session);
  });
}

absl::Status HostProcess::OpenAt(SessionDesk* desk, const OpenWorker& open,
                                 std::vector<UniqueFd> fds, ProcessSession* session) {
  const absl::Time start = absl::Now();
  if (shares()) {
    session->overdue = std::make_shared<OverdueKernels>();
    session->share = std::make_shared<std::atomic<uint32_t>>(0);
    const absl::StatusOr<int> processors = ProcessorsOf(open, places_[0]);
    if (!processors.ok()) return processors.status();
    auto context = shared_->OpenContext(
        {.multiprocessors = *processors,
         .weight = static_cast<int>(std::clamp(open.compute_weight(), 1u, 1000u)),
         .niceness = open.niceness(),
         .share_group = open.share_group(),
         .on_share = [share = session->share](uint32_t now) { share->store(now); },
         .on_overdue = [overdue = session->overdue] { overdue->Say(); },
         .sink_granule_bytes = open.sink_granule_bytes()});
    if (!context.ok()) return context.status();
    session->context = *std::move(context);
  }
  if (const absl::Status limited = LimitPartitions(open); !limited.ok()) return limited;
  const std::vector<device::Context*> contexts = Contexts(*session);
  const CudaResult reserved = contexts[0]->ReserveArena(open.arena_base(), open.arena_bytes());
  if (reserved != CudaResult::kSuccess) {
    return ArenaUnavailable(absl::StrFormat("%d bytes at %#x: %s", open.arena_bytes(),
                                            open.arena_base(), CudaResultName(reserved)));
  }
  arenas_.Add(open.arena_base(), open.arena_bytes());
  if (open.quiet() && !shares()) SetLogLevel(LogLevel::kNone);
  session->memory = std::make_unique<ArenaMemory>(contexts, open.arena_base(), open.arena_bytes());
  if (!open.reader()) {
    const absl::Status status = OpenRing(desk, open, std::move(fds), session);
    if (!status.ok()) return status;
    LogInfo("opened session=", open.session(), " gpu=", absl::StrJoin(ordinals_, ","),
            " us=", absl::ToInt64Microseconds(absl::Now() - start),
            " driver_ms=", absl::ToInt64Milliseconds(driver_time_),
            " context_ms=", absl::ToInt64Milliseconds(context_time_));
  }
  session->open = true;
  if (options_.on_opened) options_.on_opened();
  return absl::OkStatus();
}

absl::Status HostProcess::OpenRing(SessionDesk* desk, const OpenWorker& open,
                                   std::vector<UniqueFd> fds, ProcessSession* session) {
  if (!shares()) session->memory->MapSinks(open.sink_bytes());
  if (shares() ||
      (open.guard() != 0 && !GuardWindowOf(open.arena_base(), open.arena_bytes()).host_memory)) {
    session->memory->RefuseHost();
  }
  if (shares()) session->memory->UseWindows(windows_.get());
  RingSession::Options options;
  options.devices = Devices(*session);
  options.shared = shares();
  options.share = session->share;
  if (shares()) {
    options.on_fault = [this] { OnFault(); };
  } else {
    // The desk has the ring session that has this.
    options.end_work = [this, number = open.session(),
                        weak = desk->weak_from_this()](const std::string& why) {
      if (auto at = weak.lock()) EndWork(number, std::move(at), why);
    };
  }
  options.control_fd = options_.control_fd;
  options.arenas = &arenas_;
  options.output = shares() ? nullptr : options_.output;
  auto ring = RingSession::Create(open, std::move(fds), session->memory.get(), std::move(options));
  if (!ring.ok()) return ring.status();
  session->ring = *std::move(ring);
  desk->Show(session->ring.get());
  if (session->overdue != nullptr) {
    session->overdue->Ask([ring = session->ring.get()] {
      ring->EndKernels("kernels of this session kept others from loading code for too long");
    });
  }
  // Whoever ends it from now on finds the ring session, and tells it.
  if (desk->ending()) return absl::CancelledError("the session is over");
  if (const absl::Status restored = session->ring->Restore(open); !restored.ok()) return restored;
  return session->ring->Start([this, number = open.session()](const absl::Status& why) {
    if (options_.on_ended) options_.on_ended(number, why);
  });
}

void HostProcess::ReplaceWindow(const warpline_internal::ReplaceWindow& request, UniqueFd fd,
                                HostWindows::Done done) {
  if (windows_ == nullptr) return done(absl::FailedPreconditionError("nothing is shared"));
  if (fd.valid() && !windows_->Find(request.number()) && sessions_.empty()) {
    return done(windows_->Open(request.number(), fd.get(), request.bytes()));
  }
  windows_->Replace(request.number(), std::move(fd), std::move(done));
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
  const std::shared_ptr<SessionDesk> desk = std::move(found->second);
  sessions_.erase(found);
  kernel_watch_->OnClosing(number);
  desk->DoLast([this, number, at = desk.get(), done = std::move(done)](ProcessSession* session) {
    done(!End(number, at, session));
  });
  // After DoLast(), so that one that is being opened is either told here or sees that it ends.
  desk->WithRing([](RingSession* ring) { ring->BeginEnd(); });
}

bool HostProcess::End(uint64_t number, SessionDesk* desk, ProcessSession* session) {
  const absl::Time start = absl::Now();
  desk->Show(nullptr);
  // Before another session can have it.
  if (session->memory != nullptr) arenas_.Remove(session->memory->base());
  const bool ended = session->End(options_.patience);
  if (ended) {
    kernel_watch_->Remove(number);
  } else {
    LogError("work on the device does not end session=", number);
  }
  LogInfo("closed session=", number, " us=", absl::ToInt64Microseconds(absl::Now() - start));
  return ended;
}

}  // namespace warpline::worker
