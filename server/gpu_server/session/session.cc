#include "server/gpu_server/session/session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/crypto/secret.h"
#include "common/steady_time.h"
#include "common/text.h"
#include "proto/frames.h"
#include "proto/refusal.h"
#include "proto/tier.h"
#include "server/gpu_server/session/connection/message_frame.h"
#include "server/hostlink/handover/journal_file.h"

namespace warpline::server {
namespace {

constexpr size_t kSecretBytes = 16;
// For how long a lease is kept for a client that may offer another arena.
constexpr absl::Duration kOtherOffer = absl::Seconds(10);

}  // namespace

Session::Session(const Parts& parts, uint64_t id, std::string peer, LeaseMembership membership)
    : Session(parts, id, std::move(peer), std::move(membership), RandomBytes(kSecretBytes)) {}

Session::Session(const Parts& parts, uint64_t id, std::string peer, LeaseMembership membership,
                 std::string secret)
    : parts_(parts),
      id_(id),
      since_(SteadyNow()),
      secret_(std::move(secret)),
      port_(std::make_shared<SessionPort>()),
      audit_(std::make_shared<SessionAudit>(parts.books->audit, id, peer)),
      lines_(&parts.books->log, id, std::move(peer)),
      presence_(parts.control, &lines_, &parts.books->counters,
                [this](const std::string& reason) {
                  control_loop.AssertOnLoop();
                  GiveClientUp(reason);
                }),
      relay_(parts.control, parts.children->spawner(), parts.children->relays(), port_.get(),
             &lines_,
             [this](const warpline_internal::HostMemoryRequest& request, BulkMemoryAnswer answer) {
               control_loop.AssertOnLoop();
               HandleBulkMemory(request, std::move(answer));
             }),
      client_(port_, parts.options->max_pending_requests,
              [this](const absl::Status& status) {
                control_loop.AssertOnLoop();
                ProtocolError(status);
              }),
      modules_(std::make_shared<SessionModules>(
          parts.control, parts.modules, &worker_,
          [this](const std::string& why) {
            control_loop.AssertOnLoop();
            OnWorkerLost(why);
          },
          audit_)),
      worker_({.children = parts.children,
               .port = port_,
               .lines = &lines_,
               .holdings = &holdings_,
               .modules = modules_.get(),
               .events = this}),
      holdings_({.control = parts.control,
                 .worker = &worker_,
                 .windows = &worker_,
                 .client = &client_,
                 .reclaimer = parts.owner,
                 .host_memory = parts.resources->host_memory,
                 .taken = [this] { FinishSoon(); }}),
      lost_memory_({.worker = &worker_,
                    .holdings = &holdings_,
                    .client = &client_,
                    .lines = &lines_,
                    .await_room =
                        [this](std::function<void()> again) {
                          control_loop.AssertOnLoop();
                          parts_.owner->AwaitReturnOf(*this, std::move(again));
                        },
                    .stop_waiting =
                        [this] {
                          control_loop.AssertOnLoop();
                          parts_.owner->StopWaiting(id_);
                        },
                    .gone = [this] { FinishSoon(); }}),
      takeover_(parts.control, &worker_, &holdings_, parts.options->open_timeout, this),
      rest_(parts.control, &worker_),
      saver_(parts.control, &worker_, parts.options->open_timeout),
      replacement_({.rest = &rest_,
                    .saver = &saver_,
                    .standing =
                        [this] {
                          control_loop.AssertOnLoop();
                          return Standing();
                        },
                    .take_over =
                        [this](UniqueFd variables) {
                          control_loop.AssertOnLoop();
                          BeginTakeover(worker_.leaving()
                                            ? "the work of another session did not end"
                                            : "replaced on request",
                                        std::move(variables));
                        }}),
      paging_({.timers = parts.control,
               .rest = &rest_,
               .page_out =
                   [this](Paging::Done done) {
                     control_loop.AssertOnLoop();
                     holdings_.devices().PageOut(std::move(done));
                   },
               .page_in =
                   [this](Paging::Done done) {
                     control_loop.AssertOnLoop();
                     if (state_ == State::kSuspended) return WakeUp(std::move(done));
                     holdings_.devices().PageIn(
                         [this, done = std::move(done)](const absl::Status& status) {
                           control_loop.AssertOnLoop();
                           // Its worker died meanwhile.
                           if (status.ok() && state_ == State::kSuspended) return WakeUp(done);
                           done(status);
                         });
                   },
               .is_away =
                   [this] {
                     control_loop.AssertOnLoop();
                     return holdings_.devices().away();
                   },
               .waits_for_worker =
                   [this] {
                     control_loop.AssertOnLoop();
                     return holdings_.devices().waits_for_worker();
                   },
               .await_room =
                   [this](std::function<void()> again) {
                     control_loop.AssertOnLoop();
                     parts_.owner->AwaitReturnOf(*this, std::move(again));
                   },
               .stop_waiting =
                   [this] {
                     control_loop.AssertOnLoop();
                     parts_.owner->StopWaiting(id_);
                   },
               .has_requests =
                   [this] {
                     control_loop.AssertOnLoop();
                     return holdings_.devices().has_requests();
                   },
               .on_away = [this] { port_->AskAboutWaiting(); },
               .on_came =
                   [this](absl::Duration took) {
                     control_loop.AssertOnLoop();
                     parts_.owner->OnCame(id_, took);
                   },
               .on_broken =
                   [this](const std::string& why) {
                     control_loop.AssertOnLoop();
                     Distrust(why, absl::StrCat("worker died: ", why));
                   },
               .worker_timeout = parts.options->open_timeout}),
      suspension_({.paging = &paging_,
                   .saver = &saver_,
                   .standing =
                       [this] {
                         control_loop.AssertOnLoop();
                         return Standing();
                       },
                   .end_worker =
                       [this] {
                         control_loop.AssertOnLoop();
                         EndWorker("suspended");
                       }}),
      membership_(std::move(membership)) {}

bool Session::HasSecret(const std::string& secret) const { return EqualSecrets(secret, secret_); }

SessionStanding Session::Standing() const {
  return {worker_.journal_flags(), holdings_.devices().size()};
}

SessionFacts Session::Facts() const {
  return {.id = id_,
          .options = parts_.options,
          .hello = &hello_,
          .entitlement = &entitlement(),
          .devices = &holdings_.devices(),
          .resident_bytes = membership_.ResidentBytes(),
          .guarded = guarded_sizes_,
          .keeps_modules = modules_->kept(),
          .records_modules = parts_.books->audit != nullptr,
          .offers_relays = relay_.Offered(),
          .has_mps = parts_.children->mps() != nullptr};
}

void Session::SetTimer(absl::Duration delay, void (Session::*body)()) {
  ClearTimer();
  timer_ = parts_.control->RunAfter(delay, [self = shared_from_this(), body] {
    control_loop.AssertOnLoop();
    self->timer_ = 0;
    (self.get()->*body)();
  });
}

void Session::ClearTimer() { parts_.control->Remove(std::exchange(timer_, 0)); }

// --- What the client asks for.

void Session::WhileServing(std::function<void()> body) {
  parts_.control->Post([self = shared_from_this(), body = std::move(body)] {
    control_loop.AssertOnLoop();
    if (!self->Serving()) return self->client_.Done();
    body();
  });
}

void Session::OnMemoryRequest(warpline_internal::MemoryRequest request) {
  WhileServing([this, request = std::move(request)] {
    control_loop.AssertOnLoop();
    if (!handing_over()) paging_.OnWanted();
    holdings_.devices().Request(request);
  });
}

void Session::OnMemoryReturn(warpline_internal::MemoryReturn request) {
  WhileServing([this, request = std::move(request)] {
    control_loop.AssertOnLoop();
    if (!handing_over()) paging_.OnWanted();
    holdings_.devices().Return(request);
  });
}

void Session::OnHostMemory(const warpline_internal::HostMemoryRequest& request,
                           HostSegments::Answer answer) {
  if (handing_over() || barred_.load(std::memory_order_acquire)) {
    held_requests_.push_back([this, request, answer = std::move(answer)] {
      control_loop.AssertOnLoop();
      OnHostMemory(request, answer);
    });
    return;
  }
  if (!Serving() || away()) return answer({CudaResult::kIllegalState, -1, {}});
  if (state_ == State::kSuspended) paging_.OnWanted();
  if (request.board()) {
    const int board = worker_.board_fd();
    return answer({board >= 0 ? CudaResult::kSuccess : CudaResult::kNotSupported, board, {}});
  }
  if (!MayShareHostMemory(entitlement())) return answer({CudaResult::kNotPermitted, -1, {}});
  // Its kernels reach no memory of the host, and its copies have a window.
  const bool guarded = IsGuarded(hello_);
  const bool windows = parts_.options->guarded.process.windows.count > 0;
  if (guarded && !(windows && request.staging())) {
    return answer({CudaResult::kNotSupported, -1, {}});
  }
  // A relay could fill memory again that it has mapped, and that would be on nobody's bill.
  if (request.give_back() && relay_.Reaches(request.va())) {
    return answer({CudaResult::kIllegalState, -1, {}});
  }
  HostSegments::Answer note = [weak = weak_from_this(),
                               answer = std::move(answer)](const HostSegments::Result& result) {
    control_loop.AssertOnLoop();
    const auto self = weak.lock();
    if (self != nullptr && !result.why.empty()) self->client_.NoteRefusedMemory(result.why);
    answer(result);
  };
  TakeHostSegment(request, SteadyNow() + kMostReturnWait, std::move(note));
}

void Session::TakeHostSegment(const warpline_internal::HostMemoryRequest& request,
                              absl::Time deadline, HostSegments::Answer answer) {
  HostSegments::Answer once = [weak = weak_from_this(), request, deadline,
                               answer = std::move(answer)](const HostSegments::Result& result) {
    control_loop.AssertOnLoop();
    const auto self = weak.lock();
    const bool is_short = result.result == CudaResult::kOutOfMemory && !request.give_back();
    if (self == nullptr || !is_short || !self->Serving() || SteadyNow() >= deadline) {
      return answer(result);
    }
    const auto again = [weak, request, deadline, answer] {
      control_loop.AssertOnLoop();
      const auto session = weak.lock();
      if (session == nullptr || !session->Serving()) {
        return answer({CudaResult::kIllegalState, -1, {}});
      }
      session->TakeHostSegment(request, deadline, answer);
    };
    if (!self->parts_.owner->AwaitReturn(KeptMemory(), deadline, again)) answer(result);
  };
  if (IsGuarded(hello_)) return holdings_.window().Request(request, std::move(once));
  holdings_.host_segments().Request(request, std::move(once));
}

void Session::OnBulkMemory(uint32_t slot, warpline_internal::HostMemoryRequest request) {
  parts_.control->Post([self = shared_from_this(), slot, request = std::move(request)] {
    control_loop.AssertOnLoop();
    self->HandleBulkMemory(request, [bulk = self->bulk_, slot](
                                        const warpline_internal::HostMemoryAnswer& answer, int) {
      bulk->Push(slot, FrameOf(kBulkMemoryDone, answer));
    });
  });
}

void Session::HandleBulkMemory(const warpline_internal::HostMemoryRequest& request,
                               BulkMemoryAnswer answer) {
  const uint64_t va = request.va();
  const uint64_t bytes = request.bytes();
  const auto answer_with = [bulk = bulk_, va, bytes, give_back = request.give_back(),
                            answer = std::move(answer)](const HostSegments::Result& result) {
    warpline_internal::HostMemoryAnswer message;
    message.set_error(static_cast<int>(result.result));
    message.set_message(result.why);
    if (result.result == CudaResult::kSuccess && !give_back && !bulk->Add(va, bytes, result.fd)) {
      message.set_error(static_cast<int>(CudaResult::kOutOfMemory));
    }
    answer(message, message.error() == 0 ? result.fd : -1);
  };
  if (handing_over()) return answer_with({CudaResult::kIllegalState, -1, {}});
  if (request.give_back()) {
    if (!relay_.Reaches(va)) bulk_->Remove(va);
  } else if (const auto fd = bulk_->SegmentAt(va, bytes)) {
    // It has it already, and lost the connection on which it would have heard so.
    return answer_with({CudaResult::kSuccess, fd->get(), {}});
  } else if (!bulk_->HasRoom()) {
    return answer_with({CudaResult::kOutOfMemory, -1, "the session has too much of it already"});
  }
  // A host window is for a client that has it mapped.
  warpline_internal::HostMemoryRequest plain = request;
  plain.clear_staging();
  OnHostMemory(plain, answer_with);
}

void Session::OnCommandsWait() {
  parts_.control->Post([self = shared_from_this()] {
    control_loop.AssertOnLoop();
    if (self->Serving() && !self->handing_over()) self->paging_.OnWanted();
  });
}

void Session::OnRelayAsk() {
  parts_.control->Post([self = shared_from_this()] {
    control_loop.AssertOnLoop();
    if (self->Serving()) self->relay_.OnAsk();
    self->client_.Done();
  });
}

uint64_t Session::KeptBytes(const KeptMemory& wanted) const {
  const SessionDevices& devices = holdings_.devices();
  // Where no other worker can take over, nothing is to be had.
  const bool counts =
      state_ == State::kOpen && devices.size() == 1 && membership_.payer() == wanted.payer;
  return counts ? devices.KeptBytes(wanted.device, wanted.quota) : 0;
}

absl::Duration Session::age() const { return SteadyNow() - since_; }

void Session::OnReadMemory(warpline_internal::ReadBack request) {
  parts_.control->Post([self = shared_from_this(), request = std::move(request)] {
    control_loop.AssertOnLoop();
    self->HandleRead(request);
  });
}

// What is left of a lost session can be read.
void Session::HandleRead(const warpline_internal::ReadBack& request) {
  if (state_ == State::kOpen && (worker_.journal_flags() & kJournalFaulted) != 0) {
    SendFault(CudaResult::kLaunchFailed, "the session had failed with a sticky error",
              /*keep_memory=*/true);
  }
  CudaResult refusal = CudaResult::kSuccess;
  if (!entitlement().Allows(Capability::kCopyOut)) {
    refusal = CudaResult::kNotPermitted;
  } else if (state_ != State::kFaulted) {
    refusal = CudaResult::kIllegalState;
  } else if (!holdings_.devices().Backs(request.va(), request.bytes())) {
    refusal = CudaResult::kInvalidValue;
  }
  if (refusal == CudaResult::kSuccess) return lost_memory_.Read(request);
  warpline_internal::ReadBackDone done;
  done.set_id(request.id());
  done.set_error(static_cast<int>(refusal));
  client_.AnswerRead(std::move(done), "");
}

// --- Its worker, and the next.

void Session::OnWorkerOpened(const warpline_internal::WorkerOpened& opened) {
  if (state_ == State::kOpening) return OpenTo(opened);
  if (state_ != State::kReplacing) return;
  if (opened.error() == 0) {
    const absl::Status charged = holdings_.OnTakenOver(opened);
    return charged.ok() ? takeover_.OnWorkerOpened() : OnWorkerLost(std::string(charged.message()));
  }
  OnWorkerLost(absl::StrCat("no other could take over: ", opened.message()));
}

void Session::OnVariablesSaved(const warpline_internal::VariablesSaved& saved) {
  saver_.OnSaved(saved);
}

void Session::NoteDeath(const std::string& why) {
  parts_.books->counters.worker_deaths.Add(1);
  audit_->Worker(audit::Event::kWorkerDied, why, worker_.pid());
  if (const LogPermit permit = lines_.Ask(kWorkerLostLine)) {
    permit.Warning("worker died ", lines_.Keys(), " by=", why);
  }
}

void Session::OnWorkerLost(const std::string& why) {
  if (state_ != State::kOpening && !Serving()) return;
  NoteDeath(why);
  if (state_ == State::kOpening) {
    return RefuseTier(
        absl::UnavailableError(absl::StrCat("the worker died while starting: ", why)));
  }
  if (state_ == State::kReplacing) return takeover_.OnWorkerDied(why);
  JoinRecovery();
  // What it took is complete, or it is in flight for ever.
  worker_.Freeze();
  const bool idle = worker_.Taken() == worker_.Retired();
  const std::string obstacle =
      idle ? WhyNotReplaceable(Standing(), /*saves_variables=*/false) : "commands were in flight";
  if (!obstacle.empty()) {
    return SendFault(CudaResult::kLaunchFailed, absl::StrCat("worker died: ", why, "; ", obstacle),
                     /*keep_memory=*/true);
  }
  const std::string reason = absl::StrCat("worker died: ", why);
  if (paging_.gone() && holdings_.devices().away()) {
    // It needs no worker before its memory is back, for which there may be no room yet.
    if (recovery_ != nullptr) std::exchange(recovery_, nullptr)->WentOn();
    suspension_.Forget(absl::AbortedError("its worker died meanwhile"));
    return EndWorker(reason);
  }
  BeginTakeover(reason, UniqueFd());
  rest_.ForgetAll();
  ForgetMoves(absl::AbortedError("its worker died meanwhile"));
}

// A session that is not open yet ends with its worker.
void Session::OnWorkerHangs() {
  parts_.children->hangs()->OnHang(membership_.payer(), absl::Now());
}

void Session::OnWorkerLeaving() {
  if (state_ != State::kOpen) return;
  JoinRecovery();
  // What is not at rest by then is lost with the worker before.
  replacement_.Begin(parts_.options->open_timeout, [](const absl::Status&) {});
}

void Session::JoinRecovery() {
  // It lasts until the session is served again, whatever happens to the worker that takes over.
  if (recovery_ == nullptr) recovery_ = worker_.JoinRecovery();
}

void Session::OnWorkerDistrusted(const std::string& why) {
  Distrust(why, absl::StrCat("worker died: ", why));
}

void Session::EndDistrusted(const std::string& why) { Distrust(why, why); }

void Session::Distrust(const std::string& why, const std::string& message) {
  if (!Serving()) return OnWorkerLost(why);
  parts_.books->counters.worker_deaths.Add(1);
  audit_->Worker(audit::Event::kWorkerKilled, why, worker_.pid());
  if (const LogPermit permit = lines_.Ask(kWorkerLostLine)) {
    permit.Warning("worker not trusted ", lines_.Keys(), " why=", why);
  }
  SendFault(CudaResult::kLaunchFailed, message, /*keep_memory=*/true);
}

void Session::OnWorkerGone() {
  if (takeover_.under_way()) return takeover_.OnWorkerGone();
  if (state_ == State::kSuspended) return OnSuspended();
  lost_memory_.OnFormerGone();
  MaybeFinish();
}

void Session::BeginTakeover(const std::string& why, UniqueFd variables) {
  state_ = State::kReplacing;
  reason_ = why;
  takeover_.Begin(why, std::move(variables));
}

void Session::OnTakenOver() {
  state_ = State::kOpen;
  if (recovery_ != nullptr) std::exchange(recovery_, nullptr)->WentOn();
  parts_.books->counters.worker_replacements.Add(1);
  audit_->Worker(audit::Event::kWorkerReplaced, reason_, worker_.pid());
  if (const LogPermit permit = lines_.Ask(kReplacedLine)) {
    permit.Info("worker replaced ", lines_.Keys(), " after_command=", takeover_.resume_seq(),
                " reason=\"", reason_, "\"");
  }
  worker_.Refill();
  replacement_.Finish(absl::OkStatus());
  if (woken_) std::exchange(woken_, nullptr)(absl::OkStatus());
}

void Session::OnTakeoverFailed(const std::string& why) {
  SendFault(CudaResult::kLaunchFailed, why, /*keep_memory=*/true);
}

// --- Ends.

void Session::OnProtocolError(const absl::Status& status) {
  parts_.control->Post([self = shared_from_this(), status] {
    control_loop.AssertOnLoop();
    self->ProtocolError(status);
  });
}

void Session::OnWorkerGarbage(const absl::Status& status) {
  parts_.control->Post([self = shared_from_this(), status] {
    control_loop.AssertOnLoop();
    self->OnWorkerDistrusted(absl::StrCat("bad reply frame: ", std::string(status.message())));
  });
}

void Session::OnResumed(bool moved) {
  parts_.control->Post([self = shared_from_this(), moved] {
    control_loop.AssertOnLoop();
    if (!self->Serving() && self->state_ != State::kFaulted) return;
    self->presence_.Return(moved);
    self->parts_.owner->OnClientBack();
  });
}

void Session::OnChannelClosed(const absl::Status& status) {
  parts_.control->Post([self = shared_from_this(), status] {
    control_loop.AssertOnLoop();
    self->HandleChannelClosed(status);
  });
}

void Session::GiveClientUp(const std::string& reason) {
  const auto self = shared_from_this();
  // It cannot come back now, and has its time again afterwards.
  if ((handing_over() || barred_.load(std::memory_order_acquire)) && !presence_.gone()) return;
  // It came back, which is about to be told.
  if (port_->attached() && !presence_.gone()) return;
  parts_.books->counters.clients_vanished.Add(1);
  // A connection that another process has inherited.
  if (port_->attached()) port_->Close(absl::CancelledError(reason));
  End(reason);
}

bool Session::ComesBack(const KeptMemory& wanted) const {
  const bool leaves = state_ == State::kEnding || presence_.missing();
  return leaves && holdings_.devices().Has(wanted.device, wanted.quota);
}

void Session::HandleChannelClosed(const absl::Status& status) {
  // Another channel may have come before this was told.
  if (port_->attached()) return;
  if (handing_over() && Serving() && !status.ok()) {
    presence_.Leave(status);
    return AwaitHandedOver();
  }
  if ((Serving() || state_ == State::kFaulted) && presence_.CanReturnAfter(status)) {
    return presence_.Leave(status);
  }
  End(status.ok() ? "client closed" : status.ToString());
  MaybeFinish();
}

void Session::Refuse(const absl::Status& status) {
  const std::string why = status.ToString(absl::StatusToStringMode::kWithNoExtraData);
  if (!Began()) {
    parts_.books->counters.sessions_refused.Add(1);
    audit_->Refused(why);
  }
  // Its client may offer another arena, and shows the same token again.
  const auto reason = RefusalOf(status).reason();
  if (reason == warpline_internal::Refusal::ARENA_UNAVAILABLE ||
      reason == warpline_internal::Refusal::ARENA_TOO_LARGE) {
    membership_.ExpectAnother(kOtherOffer);
  }
  port_->Close(status);
  End(absl::StrCat("refused: ", why));
}

void Session::RefuseTier(const absl::Status& status) {
  // In a process of its own it may be otherwise. What concerns the arena does so here, too.
  const bool typed = RefusalOf(status).reason() != warpline_internal::Refusal::UNSPECIFIED;
  Refuse(IsGuarded(hello_) && !typed ? TierRefused(status) : status);
}

void Session::ProtocolError(const absl::Status& status) {
  if (state_ == State::kEnding || state_ == State::kEnded) return;
  parts_.books->counters.protocol_errors.Add(1);
  if (const LogPermit permit = lines_.Ask(kProtocolErrorLine)) {
    permit.Warning("protocol error ", lines_.Keys(), " peer=", lines_.peer(),
                   " error=", status.ToString());
  }
  Refuse(status);
}

void Session::SendFault(CudaResult error, const std::string& message, bool keep_memory) {
  parts_.books->counters.faults.Add(1);
  audit_->Faulted(message);
  warpline_internal::Fault fault;
  fault.set_error(static_cast<int>(error));
  fault.set_message(message);
  fault.set_memory_kept(keep_memory);
  ClearTimer();
  if (recovery_ != nullptr) lost_memory_.GiveWay(std::exchange(recovery_, nullptr)->Lost());
  state_ = State::kFaulted;
  reason_ = message;
  takeover_.Forget();
  rest_.ForgetAll();
  holdings_.Abandon();
  ForgetMoves(absl::AbortedError(message));
  port_->Fault(FrameOf(kFault, fault), /*last=*/!keep_memory);
  if (!keep_memory) SetTimer(parts_.options->fault_timeout, &Session::FaultTimedOut);
  worker_.Abandon();
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
  } else if (!Began()) {
    Refuse(absl::UnavailableError(message));
  }
}

void Session::EndWithLease(const EndReason& reason) {
  constexpr absl::string_view kEnded = "the lease was ended: ";
  audit_->Revoked(absl::StrCat(kEnded, reason.text));
  EndWithFault(CudaResult::kNotPermitted, absl::StrCat(kEnded, ReasonForHolder(reason)));
}

void Session::Revoke(const std::string& reason) {
  const std::string message =
      absl::StrCat("the server's operator ended the session", reason.empty() ? "" : ": ", reason);
  audit_->Revoked(message);
  EndWithFault(CudaResult::kNotPermitted, message);
}

void Session::End(const std::string& reason) {
  if (state_ == State::kEnding || state_ == State::kEnded) return;
  // Why a former worker died is not why the session ends.
  if (state_ != State::kFaulted) reason_ = reason;
  state_ = State::kEnding;
  ClearTimer();
  recovery_ = nullptr;
  presence_.End();
  port_->Shut();
  bulk_->Shut();
  takeover_.Forget();
  rest_.ForgetAll();
  worker_.LetGo();
  lost_memory_.Stop();
  ForgetMoves(absl::AbortedError("the session ended"));
  MaybeFinish();
}

void Session::FinishSoon() {
  parts_.control->Post([self = shared_from_this()] {
    control_loop.AssertOnLoop();
    self->MaybeFinish();
  });
}

void Session::MaybeFinish() {
  if (state_ != State::kEnding || !worker_.gone() || !lost_memory_.gone()) return;
  if (port_->attached() || holdings_.devices().takes_under_way() > 0) return;
  const auto self = shared_from_this();
  KeptSegments kept = holdings_.End();
  modules_->Stop();
  tasks_ = TaskShares::Share();
  state_ = State::kEnded;
  SayClosed();
  worker_.End();
  relay_.End();
  if (outlives_ && heir_ == Heir::kNextServer) parts_.owner->KeepMembership(std::move(membership_));
  membership_ = LeaseMembership();
  parts_.owner->OnSessionEnded(id_, placed_, std::move(kept));
}

void Session::SayClosed() const {
  EndedSession ended = {.placed = !placed_.empty(), .killed = killed_, .usage = worker_.usage()};
  ended.key.tenant = entitlement().tenant;
  if (placed_.size() == 1) ended.key.device = placed_.front()->ordinal();
  const dispatch::DispatchUsage engines = worker_.engine_usage();
  for (size_t i = 0; i < engines.size(); ++i) {
    ended.engine_ns[i] = static_cast<uint64_t>(engines[i].busy_ns);
  }
  const TrafficCounters& traffic = port_->traffic();
  parts_.books->counters.AddEnded(ended, traffic);
  audit_->Closed(reason_, traffic.commands.value(), ended.usage[Usage::kNeighbourPointers]);
  const uint64_t left_out = ended.usage[Usage::kLogLinesLeftOut];
  if (const LogPermit permit = lines_.AskForLast()) {
    permit.Info("closed ", lines_.Keys(), " peer=", lines_.peer(), " reason=", Quoted(reason_),
                " commands=", traffic.commands.value(),
                left_out == 0 ? "" : absl::StrCat(" log_lines_left_out=", left_out));
  }
}

SessionSnapshot Session::Snapshot() const {
  static constexpr const char* kNames[] = {"waiting",   "queued",  "opening", "open", "replacing",
                                           "suspended", "faulted", "ending",  "ended"};
  SessionSnapshot snapshot;
  snapshot.id = id_;
  snapshot.state = presence_.away() ? "detached" : kNames[static_cast<int>(state_)];
  snapshot.since = since_;
  snapshot.reason = reason_;
  snapshot.killed = killed_;
  snapshot.entitlement = entitlement();
  snapshot.entitlement.slice.resident_bytes = membership_.ResidentBytes();
  snapshot.tier = TierName(IsGuarded(hello_) ? Tier::kGuarded : Tier::kIsolated);
  // A relay comes as any client does that shares memory with the server.
  const std::string transport =
      relay_.transport() != nullptr ? relay_.transport() : port_->transport();
  snapshot.client = {hello_.program(),       hello_.pid(),  hello_.boot_id(),
                     hello_.pid_namespace(), lines_.peer(), transport};
  snapshot.worker_pid = state_ == State::kSuspended ? 0 : worker_.pid();
  holdings_.Describe(&snapshot);
  snapshot.traffic = TrafficSnapshot(port_->traffic());
  snapshot.traffic.unacknowledged_bytes = port_->link().kept_bytes();
  presence_.Describe(&snapshot.continuity);
  snapshot.continuity.restarts = takeover_.count();
  snapshot.usage = worker_.usage();
  snapshot.engines = worker_.engine_usage();
  return snapshot;
}

}  // namespace warpline::server
