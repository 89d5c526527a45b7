// The part of Session from the client's hello to its welcome.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/steady_time.h"
#include "common/text.h"
#include "proto/frames.h"
#include "proto/refusal.h"
#include "proto/tier.h"
#include "server/gpu_server/session/connection/message_frame.h"
#include "server/gpu_server/session/session.h"

namespace warpline::server {

using warpline_internal::MemoryGrant;

void Session::OnHello(warpline_internal::Hello hello) {
  parts_.control->Post([self = shared_from_this(), hello = std::move(hello)] {
    control_loop.AssertOnLoop();
    self->hello_ = hello;
    self->HandleHello();
  });
}

// The lease may have ended between the session's admission and its place in the host's table, where
// who ends the lease's sessions finds it.
absl::Status Session::CheckMembership() {
  if (parts_.options->keeps_tokens) token_ = hello_.token();
  hello_.clear_token();
  hello_.clear_credential();
  const absl::Status held = membership_.CheckHeld();
  if (!held.ok()) return held;
  lines_.SetTenant(entitlement().tenant);
  audit_->SetEntitlement(entitlement());
  modules_->SetTenant(entitlement().contents_tenant(), membership_.payer());
  worker_.SetTenant(entitlement().contents_tenant());
  return absl::OkStatus();
}

absl::Status Session::TakePlace() {
  const auto wanted = WantedDevices(hello_, entitlement());
  if (!wanted.ok()) return wanted.status();
  auto placed = parts_.owner->Place(*wanted);
  if (!placed.ok()) return placed.status();
  placed_ = *std::move(placed);
  lines_.SetDevices(DevicesText());
  return absl::OkStatus();
}

std::string Session::DevicesText() const {
  return absl::StrJoin(placed_, ",", [](std::string* out, const DeviceMemory* device) {
    absl::StrAppend(out, device->ordinal());
  });
}

void Session::HandleHello() {
  if (state_ != State::kWaiting) return;
  const auto version = CheckHello(&hello_);
  if (!version.ok()) return ProtocolError(version.status());
  terms_.version = *version;
  const SessionOptions& options = *parts_.options;
  if (const absl::Status tier = CheckTier(hello_, options); !tier.ok()) {
    return RefuseTier(tier);
  }
  if (const uint64_t most = MostArenaBytes(hello_, options); hello_.arena_bytes() > most) {
    return Refuse(ArenaTooLarge(hello_.arena_bytes(), most));
  }
  if (const absl::Status held = CheckMembership(); !held.ok()) return Refuse(held);
  if (const absl::Status tier = CheckTenantsTier(hello_, entitlement()); !tier.ok()) {
    return RefuseTier(tier);
  }
  if (IsGuarded(hello_)) {
    const absl::Status may = parts_.children->hangs()->Check(membership_.payer(), absl::Now());
    if (!may.ok()) return RefuseTier(may);
  }
  if (const absl::Status placed = TakePlace(); !placed.ok()) return Refuse(placed);
  const ArenaRange arena = {hello_.arena_base(), hello_.arena_bytes()};
  if (IsGuarded(hello_) && parts_.owner->HasArena(*placed_.front(), arena, id_)) {
    return Refuse(ArenaUnavailable(absl::StrFormat("%d bytes at %#x", arena.bytes, arena.base)));
  }
  has_arena_ = IsGuarded(hello_);
  lines_.Begin();
  state_ = State::kQueued;
  AskPolicy();
}

bool Session::HasArena(const DeviceMemory& device, const ArenaRange& arena) const {
  const bool ends = state_ == State::kEnding || state_ == State::kEnded;
  if (!has_arena_ || placed_.front() != &device || (ends && worker_.gone())) return false;
  return hello_.arena_base() <= arena.base + arena.bytes &&
         arena.base <= hello_.arena_base() + hello_.arena_bytes();
}

void Session::BeginOpening() {
  OpenDevices();
  TakeHostMemory(SteadyNow() + kMostReturnWait);
}

void Session::TakeHostMemory(absl::Time deadline) {
  const SessionOptions& options = *parts_.options;
  const std::shared_ptr<Quota> quota = membership_.PayersHostQuota();
  if (!holdings_.TakeHostMemory(quota, HostBytesOfSession(options))) {
    const auto again = [self = shared_from_this(), deadline] {
      control_loop.AssertOnLoop();
      if (self->state_ == State::kQueued) self->TakeHostMemory(deadline);
    };
    const bool waits =
        SteadyNow() < deadline && parts_.owner->AwaitReturn(KeptMemory(), deadline, again);
    if (waits) return;
    return Refuse(NoRoom(absl::StrCat("the sessions of ", membership_.payer(),
                                      " take up all host memory, of ", quota->limit_bytes(),
                                      " bytes, that they may have")));
  }
  tasks_ = parts_.resources->tasks.Take();
  state_ = State::kOpening;
  SetTimer(options.open_timeout, &Session::OpenTimedOut);
  if (!IsGuarded(hello_)) return StartWorker();
  worker_.SetTier(Tier::kGuarded);
  TakeOwnMemory();
}

std::shared_ptr<Quota> Session::QuotaOn(const DeviceMemory& device) {
  uint64_t bytes = device.capacity_bytes();
  uint64_t chunks = device.max_chunks();
  const uint64_t most = parts_.options->guarded.memory_bytes;
  // A lease's sessions, of whatever tier, have one quota.
  if (IsGuarded(hello_) && !entitlement().leased() && most < bytes) {
    chunks = static_cast<uint64_t>(static_cast<double>(chunks) * static_cast<double>(most) /
                                   static_cast<double>(bytes));
    bytes = most;
  }
  return membership_.QuotaOn(device.info().uuid(), bytes, chunks);
}

void Session::OpenDevices() {
  SessionMemoryOptions options;
  options.session = id_;
  options.arena = {hello_.arena_base(), hello_.arena_bytes()};
  options.entitlement = entitlement();
  options.payer = membership_.payer();
  options.tenant = policy_tenant();
  options.shares = &parts_.resources->offers;
  options.audit = audit_.get();
  options.at_once = IsGuarded(hello_);
  std::vector<SessionDevicePlace> places;
  for (DeviceMemory* const device : placed_) {
    places.push_back({device, QuotaOn(*device)});
  }
  holdings_.devices().Open(places, options);
  const std::shared_ptr<Quota> staging = membership_.HostQuota(
      parts_.resources->host_memory->limit_bytes(), placed_.front()->capacity_bytes());
  holdings_.host_segments().SetTenantQuota(staging);
  // Without a bound in its slice, a guarded session has its window whatever others of its lease
  // have.
  if (entitlement().slice.staging_bytes != 0) {
    holdings_.window().SetTenantQuota(staging, parts_.options->guarded.process.windows.bytes);
  }
}

void Session::TakeOwnMemory() {
  const auto sizes = DivideMemoryOf(Facts());
  if (!sizes.ok()) return RefuseTier(sizes.status());
  guarded_sizes_ = *sizes;
  holdings_.devices().TakeOwn(guarded_sizes_.own_bytes(), [this](const absl::Status& taken) {
    control_loop.AssertOnLoop();
    if (state_ != State::kOpening) return;
    if (taken.ok()) return StartWorker();
    RefuseTier(absl::ResourceExhaustedError(
        absl::StrCat("no memory for the session's sinks and variables, ",
                     guarded_sizes_.own_bytes(), " bytes: ", std::string(taken.message()))));
  });
}

absl::Status Session::PrepareWorkers() {
  const absl::Status joined = JoinDispatch();
  if (!joined.ok()) return joined;
  if (const std::string group = MpsGroupOf(Facts(), membership_.payer()); !group.empty()) {
    worker_.SetGroup({group, placed_.front()->ordinal()}, entitlement().slice.sm_percent);
  }
  return joined;
}

void Session::StartWorker() {
  if (const absl::Status prepared = PrepareWorkers(); !prepared.ok()) return RefuseTier(prepared);
  const absl::Status started = worker_.Start(
      WorkersDevice(holdings_.devices()),
      MakeOpenWorker(Facts(), membership_.payer(), tasks_.streams()), parts_.options->ring_bytes);
  if (!started.ok()) RefuseTier(started);
}

void Session::OpenTimedOut() {
  // Nobody else shall wait for it.
  worker_.Kill();
  RefuseTier(absl::DeadlineExceededError("the worker did not open the device in time"));
}

void Session::OpenTo(const warpline_internal::WorkerOpened& opened) {
  if (opened.error() != 0) return RefuseTier(WhyNotOpened(opened, hello_));
  // Its first memory may have to come back from others, which has a time of its own.
  static_assert(kMostReturnWait < absl::Seconds(60));
  SetTimer(parts_.options->open_timeout, &Session::OpenTimedOut);
  terms_.peers = PeersOf(opened, holdings_.devices().size());
  if (IsGuarded(hello_)) return TakeAll();
  if (hello_.initial_memory().want_bytes() == 0) return Welcome(MemoryGrant());
  TakeFirst(hello_.initial_memory(), [this](MemoryGrant grant) {
    control_loop.AssertOnLoop();
    Welcome(std::move(grant));
  });
}

void Session::TakeFirst(const warpline_internal::MemoryRequest& request,
                        std::function<void(MemoryGrant)> granted) {
  client_.HoldNextGrant([this, granted = std::move(granted)](MemoryGrant grant) {
    control_loop.AssertOnLoop();
    if (state_ == State::kOpening) granted(std::move(grant));
  });
  client_.Count();
  holdings_.devices().Request(request);
}

void Session::TakeAll() {
  const auto seal = [this](MemoryGrant grant) {
    control_loop.AssertOnLoop();
    // Nothing comes later.
    if (grant.bytes() == 0) {
      return RefuseTier(absl::ResourceExhaustedError(
          "other sessions took all memory that it may have while this one opened: have more "
          "allowed "
          "(--memory, which all processes of a run have together), or use --tier=isolated"));
    }
    holdings_.devices().Seal();
    terms_.fixed_bytes = grant.bytes();
    Welcome(std::move(grant));
  };
  warpline_internal::MemoryRequest request = AllMemoryOf(Facts());
  if (request.want_bytes() == 0) return seal(MemoryGrant());
  TakeFirst(request, [this, request, seal](MemoryGrant grant) mutable {
    control_loop.AssertOnLoop();
    if (grant.bytes() > 0) return seal(std::move(grant));
    // The device has less: it gets what there is.
    request.set_min_bytes(kChunkGranularity);
    TakeFirst(request, seal);
  });
}

void Session::KnowClient(absl::Duration patience) {
  presence_.Begin({hello_.pid(), hello_.start_time(), hello_.boot_id(), hello_.pid_namespace(),
                   hello_.arena_bytes()},
                  patience);
  if ((hello_.features() & kFeatureRefusals) != 0) client_.TellRefusals();
}

void Session::Welcome(MemoryGrant grant) {
  const SessionOptions& options = *parts_.options;
  terms_.secret = secret_;
  terms_.resumable =
      options.resume_timeout > absl::ZeroDuration() && (hello_.features() & kFeatureResume) != 0;
  if (terms_.resumable) {
    // The channel's loop reads it with the first counted frame, which comes after this.
    port_->link().KeepFrames();
  }
  KnowClient(terms_.resumable ? options.resume_timeout : absl::ZeroDuration());
  terms_.streams = tasks_.streams();
  auto welcome = MakeWelcome(Facts(), terms_);
  *welcome.mutable_initial_memory() = std::move(grant);
  ClearTimer();
  state_ = State::kOpen;
  parts_.books->counters.sessions_opened.Add(1);
  lines_.SayOpened(absl::StrCat(
      "peer=", lines_.peer(), " program=", Quoted(hello_.program()), " client_pid=", hello_.pid(),
      " quota_bytes=", welcome.quota_bytes(),
      entitlement().leased()
          ? absl::StrCat(" tenant=", entitlement().tenant, " lease=", entitlement().lease)
          : ""));
  audit_->Opened(
      {hello_.program(), hello_.pid(), worker_.pid(), DevicesText(), welcome.quota_bytes()});
  // In this order: nothing of the worker's goes out before the welcome.
  port_->Push(FrameOf(kWelcome, welcome));
  worker_.Connect();
  worker_.Refill();
}

}  // namespace warpline::server
