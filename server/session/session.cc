#include "server/session/session.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/crypto/secret.h"
#include "common/process_identity.h"
#include "common/steady_time.h"
#include "common/text.h"
#include "proto/frames.h"
#include "proto/refusal.h"
#include "server/leases/placement.h"
#include "server/session/message_frame.h"

namespace warpline {
namespace {

using warpline_internal::MemoryGrant;

constexpr size_t kMaxProgramName = 256;
constexpr size_t kSecretBytes = 16;

}  // namespace

Session::Session(const SessionContext& context, uint64_t id, std::string peer)
    : context_(context),
      id_(id),
      peer_(std::move(peer)),
      since_(SteadyNow()),
      secret_(RandomBytes(kSecretBytes)),
      port_(std::make_shared<SessionPort>()),
      absence_(context.control),
      devices_(this),
      host_segments_(context.host_memory,
                     [this](const warpline_internal::ToWorker& message, absl::Span<const int> fds) {
                       return SendToWorker(message, fds);
                     }) {}

// --- Hello and welcome.

void Session::OnHello(warpline_internal::Hello hello) {
  context_.control->Post([self = shared_from_this(), hello = std::move(hello)] {
    self->hello_ = hello;
    self->HandleHello();
  });
}

absl::Status Session::CheckHello() {
  version_ = AgreedVersion(hello_.min_version(), hello_.max_version());
  if (version_ == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the client speaks protocol versions ", hello_.min_version(), " to ", hello_.max_version(),
        ", this server ", kLeastProtocolVersion, " to ", kProtocolVersion));
  }
  if (hello_.program().size() > kMaxProgramName) {
    hello_.mutable_program()->resize(kMaxProgramName);
  }
  return ValidateArena({hello_.arena_base(), hello_.arena_bytes()}, kMaxArenaBytes);
}

absl::Status Session::TakeSeat() {
  auto seat = context_.leases->Join(hello_.token());
  hello_.clear_token();
  hello_.clear_credential();
  if (!seat.ok()) return seat.status();
  seat_ = *std::move(seat);
  return absl::OkStatus();
}

// A lease may name its devices. The ordinals that a program uses count those then.
absl::Status Session::TakePlace() {
  auto wanted = ParseDeviceNames(hello_.device());
  if (!entitlement().devices.empty()) {
    auto chosen = ChooseOfLease(entitlement().devices, wanted);
    if (!chosen.ok()) return chosen.status();
    wanted = *std::move(chosen);
  }
  auto placed = context_.owner->Place(wanted);
  if (!placed.ok()) return placed.status();
  placed_ = *std::move(placed);
  return absl::OkStatus();
}

void Session::HandleHello() {
  if (state_ != State::kWaiting) return;
  const absl::Status checked = CheckHello();
  if (!checked.ok()) return ProtocolError(checked);
  if (const uint64_t most = context_.options->max_arena_bytes; hello_.arena_bytes() > most) {
    return Refuse(ArenaTooLarge(hello_.arena_bytes(), most));
  }
  if (const absl::Status seated = TakeSeat(); !seated.ok()) return Refuse(seated);
  if (const absl::Status placed = TakePlace(); !placed.ok()) return Refuse(placed);
  first_line_ = AskForLine(kSessionLine);
  quiet_ = !first_line_;
  OpenDevices();
  tasks_ = context_.tasks->Take();
  state_ = State::kOpening;
  StartWorker();
}

void Session::OpenDevices() {
  SessionMemoryOptions options;
  options.arena = {hello_.arena_base(), hello_.arena_bytes()};
  options.entitlement = entitlement();
  options.shares = context_.shares;
  std::vector<SessionDevicePlace> places;
  for (DeviceMemory* const device : placed_) {
    places.push_back({device, seat_.QuotaOn(device->info().uuid(), device->capacity_bytes())});
  }
  devices_.Open(places, options);
}

void Session::Welcome(MemoryGrant grant) {
  const SessionOptions& options = *context_.options;
  resumable_ =
      options.resume_timeout > absl::ZeroDuration() && (hello_.features() & kFeatureResume) != 0;
  // The channel's loop reads it with the first counted frame, which comes after this.
  if (resumable_) port_->link().KeepFrames();
  warpline_internal::Welcome welcome;
  welcome.set_version(version_);
  uint64_t features = kFeatureCompressedImages;
  if (context_.modules != nullptr) features |= kFeatureModuleCache;
  welcome.set_features((hello_.features() & features) |
                       (resumable_ ? kFeatureResume : kFeatureNone));
  welcome.set_session(id_);
  welcome.set_secret(secret_);
  *welcome.mutable_device() = devices_.device(0).info();
  welcome.set_quota_bytes(devices_.quota(0).limit_bytes());
  for (size_t i = 1; i < devices_.size(); ++i) {
    auto* const more = welcome.add_more_devices();
    *more->mutable_info() = devices_.device(i).info();
    more->set_quota_bytes(devices_.quota(i).limit_bytes());
  }
  welcome.mutable_peers()->Add(peers_.begin(), peers_.end());
  welcome.set_window_bytes(options.window_bytes);
  welcome.set_window_commands(options.window_commands);
  *welcome.mutable_initial_memory() = std::move(grant);
  welcome.set_server(options.server_name);
  welcome.set_boot_id(BootId());
  welcome.set_host_memory_socket(options.host_memory_socket);
  if (!options.unix_socket.empty()) {
    welcome.set_unix_socket(options.unix_socket);
    welcome.set_server_uid(geteuid());
    welcome.set_user_namespace(UserNamespace());
  }
  context_.control->Remove(timer_);
  state_ = State::kOpen;
  context_.counters->sessions_opened.Add(1);
  if (first_line_) {
    said_opened_ = true;
    first_line_.Info("opened ", Keys(), " peer=", peer_, " program=", Quoted(hello_.program()),
                     " client_pid=", hello_.pid(), " quota_bytes=", devices_.quota(0).limit_bytes(),
                     entitlement().leased() ? absl::StrCat(" tenant=", entitlement().tenant,
                                                           " lease=", entitlement().lease)
                                            : "");
  }
  // In this order: nothing of the worker's goes out before the welcome.
  port_->Push(FrameOf(kWelcome, welcome));
  port_->Open(rings_);
  WatchDoorbell();
  context_.pool->Refill(WorkersDevice());
}

// --- Memory.

bool Session::TryCountRequest() {
  if (pending_requests_.fetch_add(1, std::memory_order_relaxed) <
      context_.options->max_pending_requests) {
    return true;
  }
  pending_requests_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

void Session::OnMemoryRequest(warpline_internal::MemoryRequest request) {
  context_.control->Post([self = shared_from_this(), request = std::move(request)] {
    if (!self->Serving()) return self->OnRequestDone();
    self->devices_.Request(request);
  });
}

void Session::OnMemoryReturn(warpline_internal::MemoryReturn request) {
  context_.control->Post([self = shared_from_this(), request = std::move(request)] {
    if (!self->Serving()) return self->OnRequestDone();
    self->devices_.Return(request);
  });
}

void Session::TakeChunks(DeviceMemory* device, uint64_t min_bytes, uint64_t want_bytes,
                         uint64_t largest_bytes, SessionMemoryHost::Taken taken) {
  ++takes_under_way_;
  device->Take(
      min_bytes, want_bytes,
      [self = shared_from_this(),
       taken = std::move(taken)](absl::StatusOr<std::vector<Chunk>> chunks) {
        auto shared = std::make_shared<absl::StatusOr<std::vector<Chunk>>>(std::move(chunks));
        self->context_.control->Post([self, taken, shared] {
          --self->takes_under_way_;
          taken(std::move(*shared));
          self->MaybeFinish();
        });
      },
      largest_bytes);
}

bool Session::Reclaim(const DeviceMemory* device, const Quota* quota, std::function<void()> tried) {
  return context_.owner->Reclaim({device, entitlement().tenant, quota}, std::move(tried));
}

uint64_t Session::KeptBytes(const KeptMemory& wanted) const {
  // Where no other worker can take over, nothing is to be had.
  const bool counts =
      state_ == State::kOpen && devices_.size() == 1 && entitlement().tenant == wanted.tenant;
  return counts ? devices_.KeptBytes(wanted.device, wanted.quota) : 0;
}

absl::Status Session::SendToWorker(const warpline_internal::ToWorker& message,
                                   absl::Span<const int> fds) {
  if (reader_ != nullptr) {
    WorkerProcess* const reader = reader_->worker();
    // It comes when the worker that was lost is gone.
    return reader != nullptr ? reader->Send(message, fds) : absl::UnavailableError("no reader");
  }
  if (worker_ == nullptr) return absl::UnavailableError("no worker");
  const absl::Status sent = worker_->Send(message, fds);
  // It is dying, which will be known in a moment: then another worker does it, or nobody waits.
  if (absl::IsUnavailable(sent) && Serving()) return absl::OkStatus();
  return sent;
}

void Session::NoteRefusedMemory(const std::string& why) {
  port_->traffic().memory_refused.Add(1);
  memory_refusal_ = why;
}

void Session::OnGrant(MemoryGrant grant) {
  if (grant.bytes() == 0) NoteRefusedMemory(grant.message());
  if (awaiting_initial_memory_) {
    awaiting_initial_memory_ = false;
    if (state_ == State::kOpening) Welcome(std::move(grant));
    return;
  }
  port_->Push(FrameOf(kMemoryGrant, grant));
}

void Session::OnRequestDone() { pending_requests_.fetch_sub(1, std::memory_order_relaxed); }

void Session::OnBadReturn(const absl::Status& status) { ProtocolError(status); }

void Session::OnMemoryDone(const warpline_internal::MemoryDone& done) {
  if (devices_.empty()) return;
  const absl::Status status = devices_.OnMemoryDone(done);
  if (!status.ok()) DistrustWorker(absl::StrCat("bad message: ", std::string(status.message())));
}

void Session::OnHostMemory(const warpline_internal::HostMemoryRequest& request,
                           HostSegments::Answer answer) {
  if (!Serving()) return answer(CudaResult::kIllegalState, -1);
  host_segments_.Request(request, std::move(answer));
}

void Session::OnHostDone(const warpline_internal::MemoryDone& done) {
  const absl::Status status = host_segments_.OnDone(done);
  if (absl::IsInvalidArgument(status)) {
    DistrustWorker(absl::StrCat("bad message: ", std::string(status.message())));
  } else if (!status.ok()) {
    LoseWorker(std::string(status.message()));
  }
}

// --- Ends.

void Session::OnProtocolError(const absl::Status& status) {
  context_.control->Post([self = shared_from_this(), status] { self->ProtocolError(status); });
}

void Session::OnWorkerGarbage(const absl::Status& status) {
  context_.control->Post([self = shared_from_this(), status] {
    self->DistrustWorker(absl::StrCat("bad reply frame: ", std::string(status.message())));
  });
}

void Session::OnChannelClosed(const absl::Status& status) {
  context_.control->Post(
      [self = shared_from_this(), status] { self->HandleChannelClosed(status); });
}

void Session::Refuse(const absl::Status& status) {
  if (state_ == State::kWaiting || state_ == State::kOpening) {
    context_.counters->sessions_refused.Add(1);
  }
  port_->Close(status);
  End(absl::StrCat("refused: ", status.ToString(absl::StatusToStringMode::kWithNoExtraData)));
}

void Session::ProtocolError(const absl::Status& status) {
  if (state_ == State::kEnding || state_ == State::kEnded) return;
  context_.counters->protocol_errors.Add(1);
  if (const LogPermit permit = AskForLine(kProtocolErrorLine)) {
    permit.Warning("protocol error ", Keys(), " peer=", peer_, " error=", status.ToString());
  }
  Refuse(status);
}

void Session::FaultTimedOut() {
  if (!port_->attached()) return End(reason_);
  // Not a status after which a client would come back.
  port_->Close(absl::DeadlineExceededError(reason_));
}

void Session::EndWithFault(CudaResult error, const std::string& message) {
  if ((Serving() || state_ == State::kFaulted) && !port_->attached()) {
    End(message);  // Nobody to tell.
  } else if (Serving()) {
    SendFault(error, message, /*keep_memory=*/false);
  } else if (state_ == State::kFaulted && port_->StaysOpen()) {
    // Otherwise the channel closes by itself, once the client has the fault.
    port_->Close(absl::DeadlineExceededError(message));
  } else if (state_ == State::kWaiting || state_ == State::kOpening) {
    Refuse(absl::UnavailableError(message));
  }
}

void Session::End(const std::string& reason) {
  if (state_ == State::kEnding || state_ == State::kEnded) return;
  // Why a former worker died is not why the session ends.
  if (state_ != State::kFaulted) reason_ = reason;
  state_ = State::kEnding;
  context_.control->Remove(timer_);
  absence_.End();
  port_->Shut();
  LetGoOfWorker();
  if (reader_ != nullptr) reader_->Stop();
  saved_variables_ = UniqueFd();
  AnswerReplace(absl::AbortedError("the session ended"));
  MaybeFinish();
}

// What was said to have begun is said to end.
LogPermit Session::AskForLastLine() const {
  if (said_opened_) return LogPermit(/*left_out=*/0);
  if (first_line_) return first_line_;
  return AskForLine(placed_.empty() ? kRefusedLine : kSessionLine);
}

void Session::MaybeFinish() {
  if (state_ != State::kEnding || !worker_gone_ || port_->attached() || takes_under_way_ > 0) {
    return;
  }
  if (reader_ != nullptr && !reader_->gone()) return;
  devices_.End();
  host_segments_.End();
  tasks_ = TaskShares::Share();
  state_ = State::kEnded;
  UnwatchDoorbell();
  const auto self = shared_from_this();
  context_.counters->ended.AddAll(port_->traffic());
  uint64_t lines_left_out = 0;
  if (journal_ != nullptr) {
    const SessionUsage usage = journal_->usage();
    for (size_t i = 0; i < kLimitCount; ++i) context_.counters->limits_met[i].Add(usage.met[i]);
    lines_left_out = usage.log_lines_left_out;
  }
  if (const LogPermit permit = AskForLastLine()) {
    permit.Info("closed ", Keys(), " peer=", peer_, " reason=", Quoted(reason_),
                " commands=", port_->traffic().commands.value(),
                lines_left_out == 0 ? "" : absl::StrCat(" log_lines_left_out=", lines_left_out));
  }
  seat_ = LeaseSeat();
  context_.owner->OnSessionEnded(id_, placed_);
}

}  // namespace warpline
