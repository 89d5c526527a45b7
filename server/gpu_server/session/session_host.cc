#include "server/gpu_server/session/session_host.h"

#include <unistd.h>

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/crypto/secret.h"
#include "common/log/log.h"
#include "common/serving/listen_address.h"
#include "common/steady_time.h"
#include "lease/token.h"
#include "proto/refusal.h"
#include "server/gpu_server/leases/placement.h"

namespace warpline::server {
namespace {

// What is shared with clients is locked in memory once a device knows it.
uint64_t HostMemoryLimit(uint64_t configured) {
  if (configured != 0) return configured;
  const auto pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  return pages / 2 * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

SessionHostOptions WithSocket(SessionHostOptions options) {
  options.session.keeps_tokens = options.leases->options().required;
  std::string& name = options.session.host_memory_socket;
  if (name.empty()) name = HostMemoryPort::NewName();
  return options;
}

ResidencyOptions ResidencyOf(const MemoryOvercommit& overcommit,
                             const std::vector<std::unique_ptr<DeviceMemory>>& devices) {
  ResidencyOptions options;
  options.evicts = overcommit.factor > 1;
  options.keeps_limits = !devices.empty() && devices.front()->pager() != nullptr;
  for (const auto& device : devices) {
    options.devices = std::max(options.devices, device->ordinal() + 1);
    options.low_water_bytes =
        std::max(options.low_water_bytes,
                 static_cast<uint64_t>(overcommit.low_water *
                                       static_cast<double>(device->capacity_bytes())));
  }
  return options;
}

TaskShareOptions TasksOf(const SessionHostOptions& options, size_t devices) {
  const int standbys = options.session.guarded.standby.kept ? 1 : 0;
  return {.tasks = options.tasks,
          .max_sessions = options.max_sessions,
          .tasks_per_stream = options.tasks_per_stream,
          .devices = static_cast<int>(devices),
          .warm_workers = options.session.warm_workers + standbys};
}

}  // namespace

SessionHost::SessionHost(SessionHostOptions options,
                         std::vector<std::unique_ptr<DeviceMemory>> devices)
    : options_(WithSocket(std::move(options))),
      books_{.log = KeyedLogBudget(options_.log), .audit = options_.audit},
      resources_{.host_memory = Quota::Create(HostMemoryLimit(options_.host_memory_bytes)),
                 .tasks = TaskShares(TasksOf(options_, devices.size()))},
      sessions_on_device_(devices.size(), 0),
      return_waits_(&control_),
      residency_(ResidencyOf(options_.overcommit, devices), &control_, this),
      idle_watch_(options_.idle, {.timers = &control_,
                                  .sessions =
                                      [this] {
                                        control_loop.AssertOnLoop();
                                        return OpenSessions();
                                      },
                                  .on_idle =
                                      [this](uint64_t session) {
                                        control_loop.AssertOnLoop();
                                        SuspendIdle(session);
                                      }}),
      devices_(std::move(devices)),
      modules_(options_.modules == nullptr
                   ? nullptr
                   : std::make_unique<ModuleCache>(std::move(options_.modules))),
      children_(
          &control_, std::move(options_.children), options_.session, resources_.host_memory,
          {.read_others =
               [this](int ordinal, ContextMeasure::Answer answer) {
                 ReadOthers(ordinal, std::move(answer));
               },
           .kept_bytes = [this](int ordinal) { return DeviceAt(ordinal)->shared_context_bytes(); },
           .waiting_gone =
               [this] {
                 control_loop.AssertOnLoop();
                 return_waits_.Wake();
               }}),
      host_memory_port_(&control_, this) {
  control_.Post([this] {
    control_loop.AssertOnLoop();
    residency_.Start();
    if (options_.idle < absl::InfiniteDuration()) idle_watch_.Start();
    const absl::Status listening = host_memory_port_.Start(options_.session.host_memory_socket);
    // Clients find nobody there, and do without.
    if (!listening.ok()) LogWarning(listening.message());
    for (const auto& device : devices_)
      children_.workers()->Refill({device->backend(), device->ordinal()});
  });
}

DeviceMemory* SessionHost::DeviceAt(int ordinal) const {
  return devices_[static_cast<size_t>(ordinal)].get();
}

void SessionHost::ReadOthers(int ordinal, ContextMeasure::Answer answer) {
  DeviceAt(ordinal)->ReadOthers([this, answer = std::move(answer)](std::optional<uint64_t> bytes) {
    control_.Post([answer, bytes] { answer(bytes); });
  });
}

SessionHost::~SessionHost() {
  // A session that is being restored stays in its folder, or ends with the others.
  StartDrain();
  StopMoves();
  disk_.Flush();
  FaultAll("the server is shutting down");
  WaitUntilIdle(absl::InfiniteDuration());
  stopping_.store(true);
  control_.Flush();
  disk_.Flush();
  control_.Flush();
  auto stopped = std::make_shared<std::promise<void>>();
  control_.Post([this, stopped] {
    control_loop.AssertOnLoop();
    children_.Stop([this, stopped] {
      control_loop.AssertOnLoop();
      host_memory_port_.Stop();
      stopped->set_value();
    });
  });
  stopped->get_future().wait();
  control_.Flush();
}

bool SessionHost::HasSecret(uint64_t session, const std::string& secret) {
  const auto found = sessions_.find(session);
  return found != sessions_.end() && found->second->HasSecret(secret);
}

void SessionHost::OnHostMemory(const warpline_internal::HostMemoryRequest& request,
                               HostSegments::Answer answer) {
  sessions_.at(request.session())->OnHostMemory(request, std::move(answer));
}

HostSegments::Result SessionHost::OnKeptMemory(const warpline_internal::HostMemoryRequest& request,
                                               std::vector<UniqueFd> memory) {
  return sessions_.at(request.session())->TakeShared(request, std::move(memory));
}

bool SessionHost::GiveToClient(uint64_t session, const std::vector<HostSegments::Shared>& memory) {
  return host_memory_port_.GiveToClient(session, memory);
}

void SessionHost::RenewWorkers() {
  OnControl([this] {
    control_loop.AssertOnLoop();
    children_.Renew();
  });
}

void SessionHost::Do(SessionAction action, uint64_t id, absl::Duration deadline,
                     std::function<void(absl::Status)> done) {
  control_.Post([this, action, id, deadline, done = std::move(done)] {
    control_loop.AssertOnLoop();
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return done(absl::NotFoundError(absl::StrCat("no session ", id)));
    const auto session = found->second;
    session->Do(action, deadline, done);
  });
}

void SessionHost::Revoke(uint64_t id, const std::string& reason,
                         std::function<void(absl::Status)> done) {
  control_.Post([this, id, reason, done = std::move(done)] {
    control_loop.AssertOnLoop();
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return done(absl::NotFoundError(absl::StrCat("no session ", id)));
    // It may leave the table meanwhile.
    const auto session = found->second;
    session->Revoke(reason);
    done(absl::OkStatus());
  });
}

std::unique_ptr<SessionHandler> SessionHost::Accept(const std::string& peer, absl::Status*) {
  return std::make_unique<SessionChannel>(
      options_.session.channel, static_cast<SessionDirectory*>(this),
      FirstFrameGuard::Start(&control_, options_.session.hello_timeout), peer);
}

absl::StatusOr<SessionSides> SessionHost::Create(const std::string& peer,
                                                 const warpline_internal::Hello& hello) {
  absl::Status moving;
  if (auto redirect = WhereTo(hello.token(), HolderOf(peer), &moving)) {
    return SessionSides{.redirect = *std::move(redirect)};
  }
  if (!moving.ok()) return moving;
  auto membership = options_.leases->Join(hello.token(), HolderOf(peer), PeerUnit(peer));
  if (!membership.ok()) {
    books_.counters.sessions_refused.Add(1);
    if (const LogPermit permit = books_.log.Ask(LogKey("", peer), kRefusedLine)) {
      permit.Info("refused peer=", peer, " error=",
                  membership.status().ToString(absl::StatusToStringMode::kWithNoExtraData));
    }
    RecordRefusal(peer, 0, membership.status());
    return membership.status();
  }
  std::shared_ptr<Session> session;
  absl::Status refusal;
  const bool recorded = books_.audit == nullptr || books_.audit->takes();
  {
    MutexLock lock(&mu_);
    if (!recorded) {
      refusal = absl::UnavailableError("the server cannot write its audit's record");
    } else if (draining_) {
      refusal = absl::UnavailableError("the server is shutting down");
    } else if (held_) {
      refusal = absl::UnavailableError("the server is being upgraded, and is back in a moment");
    } else if (live_ + static_cast<int>(away_.size()) >= options_.max_sessions) {
      refusal = NoRoom(absl::StrCat("the server is full: ", options_.max_sessions, " sessions"));
    } else {
      ++live_;
      const uint64_t id = ++last_id_;
      session = std::make_shared<Session>(PartsOfSession(), id, peer, *std::move(membership));
      known_.emplace(id, session);
      // Under the lock, so that no session is known and missing from the table.
      control_.Post([this, id, session] {
        control_loop.AssertOnLoop();
        sessions_.emplace(id, session);
      });
    }
  }
  if (session == nullptr) {
    books_.counters.sessions_refused.Add(1);
    RecordRefusal(peer, 0, refusal);
    return refusal;
  }
  return SessionSides{session->port(), session, session->bulk()};
}

void SessionHost::RecordRefusal(const std::string& peer, uint64_t session,
                                const absl::Status& why) {
  if (books_.audit == nullptr) return;
  books_.audit->Add(
      {.event = audit::Event::kSessionRefused,
       .session = session,
       .peer = peer,
       .texts = {{"reason", why.ToString(absl::StatusToStringMode::kWithNoExtraData)}}});
}

absl::StatusOr<SessionSides> SessionHost::Find(const std::string& peer, uint64_t id,
                                               const std::string& secret) {
  if (std::string endpoint; HasLeft(secret, &endpoint)) {
    warpline_internal::Redirect redirect;
    redirect.set_endpoint(endpoint);
    return SessionSides{.redirect = std::move(redirect)};
  }
  std::shared_ptr<Session> session;
  bool away = false;
  {
    MutexLock lock(&mu_);
    const auto number = numbers_.find(secret);
    if (number != numbers_.end()) id = number->second;
    const auto found = known_.find(id);
    if (found != known_.end()) session = found->second;
    const auto saved = away_.find(id);
    away = saved != away_.end() && EqualSecrets(secret, saved->second);
    away = away || (session == nullptr && checkpointed_.contains(secret));
  }
  if (away || (session != nullptr && session->HasSecret(secret) && session->away())) {
    return absl::UnavailableError("the session is saved, and goes on once a server has it again");
  }
  if (session == nullptr || !session->HasSecret(secret)) {
    books_.counters.resumes_refused.Add(1);
    absl::Status refusal = absl::PermissionDeniedError("the session cannot be resumed");
    RecordRefusal(peer, id, refusal);
    return refusal;
  }
  return SessionSides{session->port(), session, session->bulk()};
}

void SessionHost::OnStrangersError(const std::string& peer, const absl::Status& status) {
  books_.counters.protocol_errors.Add(1);
  books_.counters.sessions_refused.Add(1);
  RecordRefusal(peer, 0, status);
  if (const LogPermit permit = books_.log.Ask(LogKey("", peer), kProtocolErrorLine)) {
    permit.Warning("protocol error peer=", peer, " error=", status.ToString());
  }
}

absl::StatusOr<std::vector<DeviceMemory*>> SessionHost::Place(
    const std::vector<std::string>& wanted) {
  std::vector<PlacementCandidate> candidates;
  for (size_t i = 0; i < devices_.size(); ++i) {
    candidates.push_back({devices_[i]->info().uuid(), sessions_on_device_[i]});
  }
  const auto chosen = PlaceSession(candidates, wanted);
  if (!chosen.ok()) return chosen.status();
  std::vector<DeviceMemory*> placed;
  for (const size_t index : *chosen) {
    ++sessions_on_device_[index];
    placed.push_back(devices_[index].get());
  }
  return placed;
}

bool SessionHost::HasArena(const DeviceMemory& device, const ArenaRange& arena, uint64_t except) {
  return std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
    control_loop.AssertOnLoop();
    return entry.first != except && entry.second->HasArena(device, arena);
  });
}

void SessionHost::OnSessionEnded(uint64_t id, const std::vector<DeviceMemory*>& devices,
                                 KeptSegments kept) {
  for (size_t i = 0; i < devices_.size(); ++i) {
    sessions_on_device_[i] -=
        static_cast<int>(std::count(devices.begin(), devices.end(), devices_[i].get()));
  }
  sessions_.erase(id);
  residency_.Forget(id);
  host_memory_port_.Forget(id, std::move(kept));
  // What it had of the host is free by now, and what it had of the devices once they say so.
  control_.Post([this] {
    control_loop.AssertOnLoop();
    return_waits_.Wake();
  });
  MutexLock lock(&mu_);
  known_.erase(id);
  if (!away_.contains(id)) ForgetNumber(id);
  if (--live_ == 0) idle_.NotifyAll();
}

void SessionHost::StartDrain() {
  MutexLock lock(&mu_);
  draining_ = true;
}

bool SessionHost::WaitUntilIdle(absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  MutexLock lock(&mu_);
  while (live_ > 0) {
    const absl::Duration left = deadline - SteadyNow();
    if (left <= absl::ZeroDuration()) return false;
    idle_.WaitWithTimeout(&mu_, std::min(left, absl::Seconds(10)));
  }
  return true;
}

void SessionHost::FaultAll(const std::string& message) {
  OnControl([&] {
    control_loop.AssertOnLoop();
    // A session that ends leaves the table.
    const auto sessions = sessions_;
    for (const auto& [id, session] : sessions) {
      session->EndWithFault(CudaResult::kSystemNotReady, message);
    }
  });
}

void SessionHost::EndLease(const std::string& lease, const EndReason& reason) {
  control_.Post([this, lease, reason] {
    control_loop.AssertOnLoop();
    // A session that ends leaves the table.
    const auto sessions = sessions_;
    for (const auto& [id, session] : sessions) {
      if (session->entitlement().lease == lease) session->EndWithLease(reason);
    }
  });
}

void SessionHost::EndSession(uint64_t id, const std::string& reason) {
  control_.Post([this, id, reason] {
    control_loop.AssertOnLoop();
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return;
    const auto session = found->second;
    session->EndDistrusted(reason);
  });
}

int SessionHost::sessions() const {
  MutexLock lock(&mu_);
  return live_;
}

void SessionHost::OnControl(const std::function<void()>& body) {
  control_.Post(body);
  control_.Flush();
}

HostSnapshot SessionHost::Snapshot() {
  HostSnapshot snapshot;
  OnControl([&] {
    control_loop.AssertOnLoop();
    for (const auto& [id, session] : sessions_) snapshot.sessions.push_back(session->Snapshot());
    snapshot.usage = books_.counters.EndedUsage();
    for (const SessionSnapshot& session : snapshot.sessions) snapshot.usage.AddAll(session.usage);
    for (size_t i = 0; i < devices_.size(); ++i) {
      const DeviceMemory& device = *devices_[i];
      snapshot.devices.push_back({device.ordinal(), device.info().name(),
                                  FormatDeviceUuid(device.info().uuid()), device.backend(),
                                  sessions_on_device_[i], device.stats(), OfferedBytes(device),
                                  device.info()});
    }
  });
  snapshot.host_memory_bytes = resources_.host_memory->used_bytes();
  snapshot.host_memory_limit_bytes = resources_.host_memory->limit_bytes();
  // All devices have the same.
  if (const Pager* const pager = devices_.front()->pager()) {
    snapshot.swap_limit_bytes = pager->space().bytes();
    snapshot.swap_bytes = snapshot.swap_limit_bytes - pager->space().free_bytes();
  }
  MutexLock lock(&mu_);
  snapshot.draining = draining_;
  return snapshot;
}

void SessionHost::AddTraffic(TrafficCounters* total) {
  // On the control loop, where a session's counters move to the ended ones.
  OnControl([&] {
    control_loop.AssertOnLoop();
    total->AddAll(books_.counters.ended);
    for (const auto& [id, session] : sessions_) total->AddAll(session->port()->traffic());
  });
}

}  // namespace warpline::server
