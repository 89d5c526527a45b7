// A session's worker: how it comes, goes, and is replaced by another.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/frames.h"
#include "proto/refusal.h"
#include "server/session/message_frame.h"
#include "server/session/session.h"

namespace warpline {
namespace {

// CUdevice_attribute.
constexpr int kComputeMajor = 75;
constexpr int kComputeMinor = 76;
// Of workers for one replacement; a journal that kills its workers must not go on for ever.
constexpr int kMostTakeOvers = 3;

}  // namespace

WorkerDevice Session::WorkersDevice() const {
  WorkerDevice device = {devices_.device(0).backend(), devices_.device(0).ordinal(), {}};
  for (size_t i = 1; i < devices_.size(); ++i) {
    device.more_ordinals.push_back(devices_.device(i).ordinal());
  }
  return device;
}

warpline_internal::OpenWorker Session::OpenMessage() const {
  const SessionOptions& options = *context_.options;
  warpline_internal::OpenWorker open;
  const DeviceMemory& device = devices_.device(0);
  open.set_backend(device.backend());
  open.set_ordinal(device.ordinal());
  for (const int ordinal : WorkersDevice().more_ordinals) open.add_more_ordinals(ordinal);
  open.set_arena_base(hello_.arena_base());
  open.set_arena_bytes(hello_.arena_bytes());
  open.set_session(id_);
  open.set_max_handles(entitlement().slice.max_handles);
  open.set_max_module_bytes(entitlement().slice.max_module_bytes);
  open.set_max_streams(tasks_.streams());
  // Up to where the client begins to use each device's part.
  const uint64_t sink = hello_.initial_memory().va() - hello_.arena_base();
  if (hello_.initial_memory().va() > hello_.arena_base() && sink <= kMostSinkBytes &&
      sink % kChunkGranularity == 0) {
    open.set_sink_bytes(sink);
  }
  open.set_window_bytes(options.window_bytes);
  int sm = 0;
  for (const auto& attribute : device.info().attributes()) {
    if (attribute.id() == kComputeMajor) sm += 10 * attribute.value();
    if (attribute.id() == kComputeMinor) sm += attribute.value();
  }
  open.set_sm(sm);
  open.set_resume_seq(resume_seq_);
  open.set_rights(entitlement().rights);
  open.set_module_cache(context_.modules != nullptr);
  open.set_quiet(quiet_);
  return open;
}

void Session::StartWorker() {
  const SessionOptions& options = *context_.options;
  auto rings = WorkerRings::Create(options.ring_bytes);
  if (!rings.ok()) return Refuse(rings.status());
  rings_ = std::move(*rings);
  auto journal = JournalFile::Create();
  if (!journal.ok()) return Refuse(journal.status());
  journal_ = std::move(*journal);
  timer_ = context_.control->RunAfter(options.open_timeout, [self = shared_from_this()] {
    // Nobody else shall wait for it.
    if (!self->worker_gone_) self->worker_->Kill();
    self->Refuse(absl::DeadlineExceededError("the worker did not open the device in time"));
  });
  worker_ = context_.pool->Take(WorkersDevice(), this);
  worker_gone_ = false;
  worker_->Open(OpenMessage(), rings_, journal_->fd());
}

void Session::LetGoOfWorker() {
  if (worker_gone_) return;
  if (!worker_->untouched()) return worker_->Kill();
  worker_->CancelOpen();
  context_.pool->GiveBack(WorkersDevice(), std::exchange(worker_, nullptr));
  worker_gone_ = true;
}

// What a warm worker ended with is known to the pool; this is one that was started for the session.
void Session::OnWorkerPrepared(const warpline_internal::WorkerOpened& prepared) {
  if (prepared.error() != 0) OnWorkerOpened(prepared);
}

void Session::OnWorkerOpened(const warpline_internal::WorkerOpened& opened) {
  if (state_ == State::kReplacing && taking_over_) {
    worker_pid_ = static_cast<int>(worker_->pid());
    if (opened.error() == 0) {
      host_segments_.MapAgain();
      return devices_.MapAgain(
          /*go_on=*/true,
          [self = shared_from_this()](CudaResult result) { self->FinishReplacing(result); });
    }
    return LoseWorker(absl::StrCat("no other could take over: ", opened.message()));
  }
  if (state_ != State::kOpening || worker_pid_ != 0) return;
  worker_pid_ = static_cast<int>(worker_->pid());
  if (opened.error() != 0) {
    // Not UNAVAILABLE, after which clients would ask for the same arena again.
    if (opened.refusal().reason() == warpline_internal::Refusal::ARENA_UNAVAILABLE) {
      return Refuse(ArenaUnavailable(
          absl::StrFormat("%d bytes at %#x", hello_.arena_bytes(), hello_.arena_base())));
    }
    return Refuse(absl::UnavailableError(
        absl::StrCat("the worker cannot open the device: ", opened.message(), " (",
                     CudaResultName(static_cast<CudaResult>(opened.error())), ")")));
  }
  const uint32_t all = (1u << devices_.size()) - 1;
  for (int i = 0; i < static_cast<int>(devices_.size()); ++i) {
    peers_.push_back((i < opened.peers_size() ? opened.peers(i) & all : 0) | 1u << i);
  }
  if (hello_.initial_memory().want_bytes() == 0) return Welcome(warpline_internal::MemoryGrant());
  awaiting_initial_memory_ = true;
  pending_requests_.fetch_add(1, std::memory_order_relaxed);
  devices_.Request(hello_.initial_memory());
}

void Session::WatchDoorbell() {
  doorbell_watches_ = std::make_shared<std::array<EventLoop::Token, 2>>();
  context_.doorbell->Post(
      [loop = context_.doorbell, watches = doorbell_watches_, pair = rings_->pair(), port = port_] {
        const auto ring = [pair, port] {
          pair->ClearDoorbells();
          port->Wake();
        };
        *watches = {loop->Watch(pair->reply_doorbell(), ring),
                    loop->Watch(pair->room_doorbell(), ring)};
        if ((*watches)[0] == 0 || (*watches)[1] == 0) {
          port->Close(absl::ResourceExhaustedError("cannot watch the worker's rings"));
        }
      });
}

void Session::UnwatchDoorbell() {
  if (doorbell_watches_ == nullptr) return;
  context_.doorbell->Post([loop = context_.doorbell, watches = std::move(doorbell_watches_)] {
    for (const EventLoop::Token token : *watches) loop->Remove(token);
  });
  doorbell_watches_ = nullptr;
}

void Session::OnCharge(const warpline_internal::ChargeMemory& charge) {
  warpline_internal::ToWorker message;
  auto* const answer = message.mutable_charged();
  answer->set_id(charge.id());
  const CudaResult result = devices_.empty() ? CudaResult::kIllegalState : devices_.Charge(charge);
  answer->set_error(static_cast<int>(result));
  if (result == CudaResult::kOutOfMemory) {
    NoteRefusedMemory(
        absl::StrCat("the quota has no room for an array of ", charge.bytes(), " bytes"));
  }
  const absl::Status sent = worker_->Send(message, {});
  if (!sent.ok() && !absl::IsUnavailable(sent)) DistrustWorker(sent.ToString());
}

void Session::OnUncharge(const warpline_internal::UnchargeMemory& uncharge) {
  if (devices_.empty() || devices_.Uncharge(uncharge)) return;
  DistrustWorker("bad message: it gave back what it did not have");
}

// --- A worker dies.

void Session::OnWorkerDied(const std::string& why) { LoseWorker(why); }

void Session::DistrustWorker(const std::string& why) {
  if (Serving()) {
    context_.counters->worker_deaths.Add(1);
    if (const LogPermit permit = AskForLine(kWorkerLostLine)) {
      permit.Warning("worker not trusted ", Keys(), " why=", why);
    }
    SendFault(CudaResult::kLaunchFailed, absl::StrCat("worker died: ", why), /*keep_memory=*/true);
  } else {
    LoseWorker(why);
  }
}

std::string Session::WhyNotReplaceable(uint32_t flags) const {
  if (devices_.size() > 1) return "it had several devices, which no other worker takes over";
  if ((flags & kJournalFaulted) != 0) return "it had failed with a sticky error";
  if ((flags & kJournalVariables) != 0) {
    return "its kernels may have written module variables, which are lost with it";
  }
  if ((flags & kJournalHeap) != 0) {
    return "its kernels may have allocated memory of the device's heap, which is lost with it";
  }
  if ((flags & kJournalDevices) != 0) return "it had several devices";
  if ((flags & kJournalIncomplete) != 0) return "its journal was full";
  if ((flags & kJournalObjects) != 0) return "it had arrays or textures, which are lost with it";
  return "";
}

void Session::LoseWorker(const std::string& why) {
  if (state_ != State::kOpening && !Serving()) return;
  context_.counters->worker_deaths.Add(1);
  if (const LogPermit permit = AskForLine(kWorkerLostLine)) {
    permit.Warning("worker died ", Keys(), " by=", why);
  }
  if (state_ == State::kOpening) {
    return Refuse(absl::UnavailableError(absl::StrCat("the worker died while starting: ", why)));
  }
  if (state_ == State::kReplacing) {
    if (!taking_over_) return;  // The one that is being replaced.
    taking_over_ = false;
    if (++take_overs_failed_ >= kMostTakeOvers) {
      return SendFault(CudaResult::kLaunchFailed,
                       absl::StrCat(reason_, "; the next one died: ", why), true);
    }
    // Nothing has reached it yet. OnWorkerGone() takes another.
    devices_.Suspend();
    host_segments_.Suspend();
    if (!worker_gone_) worker_->Kill();
    return;
  }
  // What it took is complete, or it is in flight for ever.
  rings_->Freeze();
  const bool idle = rings_->TakenSeq() == journal_->retired_seq();
  const std::string obstacle =
      idle ? WhyNotReplaceable(journal_->flags()) : "commands were in flight";
  if (!obstacle.empty()) {
    return SendFault(CudaResult::kLaunchFailed, absl::StrCat("worker died: ", why, "; ", obstacle),
                     true);
  }
  BeginReplacing(absl::StrCat("worker died: ", why));
}

void Session::SendFault(CudaResult error, const std::string& message, bool keep_memory) {
  context_.counters->faults.Add(1);
  warpline_internal::Fault fault;
  fault.set_error(static_cast<int>(error));
  fault.set_message(message);
  fault.set_memory_kept(keep_memory);
  context_.control->Remove(timer_);
  timer_ = 0;
  state_ = State::kFaulted;
  reason_ = message;
  saved_variables_ = UniqueFd();
  devices_.Abandon();
  host_segments_.Abandon();
  AnswerReplace(absl::AbortedError(message));
  port_->Fault(FrameOf(kFault, fault), /*last=*/!keep_memory);
  if (!keep_memory) {
    timer_ = context_.control->RunAfter(context_.options->fault_timeout,
                                        [self = shared_from_this()] { self->FaultTimedOut(); });
  }
  if (!worker_gone_) worker_->Kill();
}

void Session::OnWorkerGone() {
  worker_gone_ = true;
  if (state_ == State::kReplacing) return TakeOver();
  if (reader_ != nullptr) reader_->OnFormerGone();
  MaybeFinish();
}

// --- Another takes over.

void Session::BeginReplacing(const std::string& why) {
  rings_->Freeze();
  resume_seq_ = rings_->TakenSeq().value_or(0);
  state_ = State::kReplacing;
  taking_over_ = false;
  take_overs_failed_ = 0;
  reason_ = why;
  devices_.Suspend();
  host_segments_.Suspend();
  timer_ = context_.control->RunAfter(context_.options->open_timeout, [self = shared_from_this()] {
    self->timer_ = 0;
    if (self->state_ != State::kReplacing) return;
    self->SendFault(CudaResult::kLaunchFailed, "no other worker took over in time", true);
  });
  // Its mappings and its hold on the journal must be gone first.
  worker_->Kill();
  if (worker_gone_) TakeOver();
}

void Session::TakeOver() {
  const absl::Status renewed = rings_->Renew();
  if (!renewed.ok()) return SendFault(CudaResult::kLaunchFailed, renewed.ToString(), true);
  taking_over_ = true;
  const LogPermit permit = AskForLine(kTakeOverLine);
  quiet_ = !permit;
  if (permit) permit.Info("another worker takes over ", Keys());
  worker_ = context_.pool->Take(WorkersDevice(), this);
  worker_gone_ = false;
  auto open = OpenMessage();
  open.set_variables(saved_variables_.valid());
  worker_->Open(std::move(open), rings_, journal_->fd(), saved_variables_.get());
}

void Session::FinishReplacing(CudaResult result) {
  if (state_ != State::kReplacing) return;
  if (result != CudaResult::kSuccess) {
    return LoseWorker(absl::StrCat("cannot map the memory: ", CudaResultName(result)));
  }
  context_.control->Remove(timer_);
  timer_ = 0;
  state_ = State::kOpen;
  taking_over_ = false;
  saved_variables_ = UniqueFd();
  ++restarts_;
  context_.counters->worker_replacements.Add(1);
  if (const LogPermit permit = AskForLine(kReplacedLine)) {
    permit.Info("worker replaced ", Keys(), " after_command=", resume_seq_, " reason=\"", reason_,
                "\"");
  }
  UnwatchDoorbell();
  WatchDoorbell();
  rings_->Thaw();
  port_->Wake();
  context_.pool->Refill(WorkersDevice());
  AnswerReplace(absl::OkStatus());
}

// --- What is left of a lost session can be read.

void Session::OnReadMemory(warpline_internal::ReadBack request) {
  context_.control->Post([self = shared_from_this(), request = std::move(request)] {
    const bool faulted_context =
        self->state_ == State::kOpen && (self->journal_->flags() & kJournalFaulted) != 0;
    if (faulted_context) {
      self->SendFault(CudaResult::kLaunchFailed, "the session had failed with a sticky error",
                      true);
    }
    if (!self->entitlement().Allows(Capability::kCopyOut)) {
      warpline_internal::ReadBackDone done;
      done.set_id(request.id());
      done.set_error(static_cast<int>(CudaResult::kNotPermitted));
      return self->OnReadAnswered(std::move(done), "");
    }
    if (self->state_ != State::kFaulted || !self->devices_.Backs(request.va(), request.bytes())) {
      warpline_internal::ReadBackDone done;
      done.set_id(request.id());
      done.set_error(static_cast<int>(self->state_ != State::kFaulted ? CudaResult::kIllegalState
                                                                      : CudaResult::kInvalidValue));
      return self->OnReadAnswered(std::move(done), "");
    }
    if (self->reader_ == nullptr) self->reader_ = std::make_shared<MemoryReader>(self.get());
    self->reader_->Read(request, self->worker_gone_);
  });
}

std::shared_ptr<WorkerProcess> Session::TakeReader(WorkerEvents* events) {
  auto worker = context_.pool->Take(WorkersDevice(), events);
  auto open = OpenMessage();
  open.set_reader(true);
  worker->Open(std::move(open), nullptr, -1);
  return worker;
}

void Session::MapForReader(std::function<void(CudaResult)> done) {
  devices_.MapAgain(/*go_on=*/false, std::move(done));
}

void Session::OnReadAnswered(warpline_internal::ReadBackDone done, std::string data) {
  done.set_data(std::move(data));
  pending_requests_.fetch_sub(1, std::memory_order_relaxed);
  port_->PushAfterFault(FrameOf(kReadBackDone, done));
}

void Session::OnReaderGone() { MaybeFinish(); }

}  // namespace warpline
