#include "server/worker/executors/executor.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "common/cuda/cuda_numbers.h"
#include "common/loop/adaptive_poll.h"
#include "server/worker/executors/session_log.h"
#include "server/worker/executors/task_engine.h"

namespace warpline::worker {
namespace {

using Clock = AdaptivePoll::Clock;

// Fewer than the 1,020 launches at which the driver blocks its caller on a stalled stream.
constexpr uint64_t kMaxOutstanding = 512;
// A mark after so many commands lets a long burst retire while it runs.
constexpr uint64_t kMarkEvery = 64;
// What the decoder's thread issues itself: no burst, and nothing behind much else.
constexpr size_t kFewTasks = 4;
constexpr uint64_t kFewOutstanding = 4;
// Replies collect up to this size; a frame must not grow beyond kMaxFramePayload.
constexpr size_t kMaxBatch = 64u << 10;
// Of a row of launches: reports of so many marks, a millisecond or so.
constexpr size_t kReportBytes = 256;
// More than any program has threads. A wait beyond them is refused with kOutOfMemory.
constexpr size_t kMaxEventWaits = 4096;
// The longest sleep between two looks at what is under way. The longer the work lasts, the longer
// the sleeps become.
constexpr int64_t kMaxNapNs = 500'000;

// Until the driver is asked again for a mark on which no answer hangs: about as long as it takes
// the device to copy a piece.
constexpr std::chrono::microseconds kUnhurried(8);

// Waking another core costs more than most waits last, so an executor polls before it sleeps.
std::chrono::microseconds PollFor() { return std::chrono::microseconds(FewProcessors() ? 5 : 100); }

// Returns the hash of the name of the kernel that the task launches; 0 for none.
uint64_t LaunchedBy(const Task& task) {
  const bool launches = task.id == CommandId::kLaunch || task.id == CommandId::kLaunchEx;
  if (!launches || task.kernel == nullptr || task.kernel->on_device == nullptr) return 0;
  return task.kernel->on_device->facts.name;
}

}  // namespace

Executor::Executor(const ExecutorHost* host, Kind kind, uint64_t stream)
    : host_(host),
      context_(host->devices->context(DeviceOfHandle(stream))),
      kind_(kind),
      stream_(stream),
      turns_(host->gates, DeviceOfHandle(stream)) {}

bool Executor::Start() {
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    // A tenant can have many streams; a limit on threads must not end its session.
    if (const LogPermit permit = host_->log->Ask(kNoThreadLine)) {
      permit.Warning("no thread for a stream: ", error.what());
    }
    finished_.store(true, std::memory_order_release);
    return false;
  }
  return true;
}

Executor::~Executor() { Stop(); }

void Executor::Stop() {
  inbox_.Stop();
  if (thread_.joinable()) thread_.join();
  on_executor_.AssertOnLoop();  // There is no such thread any more.
  // Records refer to their executors, and the tasks left here to records.
  inbox_.Clear();
  ready_.clear();
  pending_.clear();
  event_waits_.clear();
  left_over_ = nullptr;
  turns_.Leave();
}

uint64_t Executor::Append(Task&& task) {
  const uint64_t ticket = appended_.load(std::memory_order_relaxed) + 1;
  task.ticket = ticket;
  inbox_.Append(std::move(task));
  appended_.store(ticket, std::memory_order_release);
  return ticket;
}

bool Executor::WaitForEvent(uint64_t seq, std::shared_ptr<EventRecord> record) {
  if (event_wait_count_.load(std::memory_order_relaxed) >= kMaxEventWaits) return false;
  event_wait_count_.fetch_add(1, std::memory_order_relaxed);
  if (inbox_.AddEventWait({seq, std::move(record)})) return true;
  host_->sink->Reply(seq, host_->reports->fault());  // Everything of the executor is complete.
  return true;
}

void Executor::EndCancel() {
  if (!std::exchange(stops_kernels_, false) || StopKernels(false)) return;
  // The next kernels would stop, too.
  host_->reports->Fail(last_issued_seq_, CommandId::kStreamCancel, CudaResult::kLaunchTimeout);
}

bool Executor::LookAfterCancel() {
  // After a fault everything is complete soon.
  if (!cancel_.under_way() || host_->reports->fault() != CudaResult::kSuccess) return false;
  switch (cancel_.Next({issued(), delivered(), CanStopKernels(), IsHeld()}, SteadyNow())) {
    case StreamCancel::Step::kWait:
      return false;
    case StreamCancel::Step::kStop:
      stops_kernels_ = StopKernels(true);
      return true;
    case StreamCancel::Step::kEndSession:
      if (host_->end_work) host_->end_work("a stream was cancelled whose work does not end alone");
      return false;
    case StreamCancel::Step::kDone:
      EndCancel();
      return true;
  }
  return false;
}

void Executor::DropFront() {
  Task& task = ready_.front();
  if (left_over_ == nullptr) left_over_ = std::make_unique<Task>();
  for (Prerequisite& p : task.after) {
    // A wait for an event is dropped with what it waits for.
    if (!p.of_event) left_over_->after.push_back(std::move(p));
  }
  std::move(task.complete.begin(), task.complete.end(), std::back_inserter(left_over_->complete));
  std::move(task.data.begin(), task.data.end(), std::back_inserter(left_over_->data));
  std::move(task.barriers.begin(), task.barriers.end(), std::back_inserter(left_over_->barriers));
  turns_.OnDropped();
  Drop(task);
  PopIssued();
}

void Executor::TakeOver(Task* task) {
  if (left_over_ == nullptr) return;
  const std::unique_ptr<Task> left = std::move(left_over_);
  std::move(left->after.begin(), left->after.end(), std::back_inserter(task->after));
  std::move(left->complete.begin(), left->complete.end(), std::back_inserter(task->complete));
  std::move(left->data.begin(), left->data.end(), std::back_inserter(task->data));
  std::move(left->barriers.begin(), left->barriers.end(), std::back_inserter(task->barriers));
}

void Executor::PopIssued() {
  const Task& task = ready_.front();
  last_issued_seq_ = task.seq;
  issued_.store(task.ticket, std::memory_order_release);
  ready_.pop_front();
  ++unmarked_;
}

bool Executor::Satisfied(const Task& task) {
  const auto issued = [](const Prerequisite& p) {
    return p.executor->issued() >= p.ticket || p.executor->finished();
  };
  const auto complete = [](const Prerequisite& p) {
    return p.executor->delivered() >= p.ticket || p.executor->finished();
  };
  return absl::c_all_of(task.after, issued) && absl::c_all_of(task.complete, complete);
}

Executor::Step Executor::IssueInTurn(Task& task) {
  EngineWork work = task.work;
  if (turns_.IsFree(work.engine, work.bytes)) work = {};
  if (!turns_.MayIssue(work.engine)) {
    if (turns_.wants_kernel()) turns_.ShowKernel(KernelFactsOf(task));
    return Step::kBlocked;
  }
  turns_.OnIssuing(work.engine);
  const Step step = Issue(task);
  // A copy that waits for staging memory may have parts under way.
  if (step == Step::kDone || work.bytes > 0) {
    turns_.OnIssued(work.engine, task.ticket, work.bytes, LaunchedBy(task));
  } else {
    turns_.OnNotIssued();
  }
  return step;
}

bool Executor::IssueReady() {
  bool progress = false;
  while (!ready_.empty()) {
    Task& task = ready_.front();
    // After a fault nothing has to end any more.
    const bool sound = host_->reports->fault() == CudaResult::kSuccess;
    if (sound && cancel_.Holds(task.ticket)) break;
    if (cancel_.Drops(task.ticket) && FindCommand(task.id).dropped && !HasBegun(task)) {
      if (issued() == retired()) NoteProgress();
      DropFront();
      progress = true;
      continue;
    }
    TakeOver(&task);
    if (!Satisfied(task)) break;
    if (has_stream_ && issued() - retired() >= kMaxOutstanding) break;
    if (!task.data.empty()) {
      // Earlier work does not wait for it.
      MarkTail();
      Pending wait;
      wait.data = std::exchange(task.data, {});
      pending_.push_back(std::move(wait));
    }
    if (issued() == retired()) NoteProgress();
    if (IssueInTurn(task) == Step::kBlocked) break;
    PopIssued();
    progress = true;
    if (unmarked_ >= turns_.MarkEvery(kMarkEvery)) {
      MarkTail();
      Poll();
      if (ReportsNow()) Deliver();
    }
  }
  return progress;
}

// What the client waits for may be complete while a long row is behind it.
bool Executor::ReportsNow() const {
  return answers_ > 0 || batch_.size() >= kReportBytes ||
         (!batch_.empty() && host_->sink->Awaited(stream_));
}

CudaResult Executor::Mark(device::StreamId stream, Pending pending) {
  if (pending.mark == nullptr) {
    pending.mark = std::make_shared<EventRecord>(host_->devices->events(device()),
                                                 kEventDisableTiming, nullptr);
    pending.mark_result = pending.mark->Record(context_, stream);
  }
  if (pending.ticket != 0) {
    unmarked_ = 0;
    last_marked_ = pending.ticket;
  }
  const CudaResult result = pending.mark_result;
  // It is queued even without a mark, because replies keep the order of their commands.
  pending_.push_back(std::move(pending));
  return result;
}

void Executor::MarkIssued(std::function<void(std::string* batch)> then) {
  Pending pending;
  pending.ticket = issued_.load(std::memory_order_relaxed);
  pending.seq = last_issued_seq_;
  pending.action = [this, ticket = pending.ticket, seq = pending.seq, then = std::move(then)](
                       CudaResult result, std::string* batch) {
    on_executor_.AssertOnLoop();
    if (result == CudaResult::kSuccess) Retire(ticket, seq);
    then(result == CudaResult::kSuccess ? batch : nullptr);
  };
  Mark(device_stream_, std::move(pending));
}

// Marks everything issued so far, so that it retires although nothing waits for it.
void Executor::MarkTail() {
  if (!HasTail()) return;
  const uint64_t ticket = issued_.load(std::memory_order_relaxed);
  if (!has_stream_ || host_->reports->fault() != CudaResult::kSuccess) {
    if (pending_.empty()) Retire(ticket, last_issued_seq_);
    return;
  }
  Pending pending;
  pending.ticket = ticket;
  pending.seq = last_issued_seq_;
  Mark(device_stream_, std::move(pending));
}

void Executor::Retire(uint64_t ticket, uint64_t seq) {
  const uint64_t before = retired_;
  if (ticket <= before) return;
  if (ticket > last_marked_) {
    last_marked_ = ticket;
    unmarked_ = 0;
  }
  if (printed_ > before) SendPrints(ticket, seq);
  retired_seq_ = seq;
  retired_ = ticket;
  turns_.OnRetired(ticket);
  if (ticket != issued()) NoteProgress();
  host_->reports->OnRetired(this, ticket - before, &batch_);
}

void Executor::Prints(uint64_t ticket) {
  printed_ = ticket;
  ++printing_;
  host_->prints->Launching();
}

// When a later kernel that prints is still running, this one's count as running, too.
void Executor::SendPrints(uint64_t ticket, uint64_t seq) {
  const uint64_t complete = printed_ <= ticket ? std::exchange(printing_, 0) : 0;
  const CudaResult result = host_->prints->Send(complete);
  if (result != CudaResult::kSuccess) host_->reports->Fail(seq, CommandId::kStreamSync, result);
}

void Executor::Deliver() {
  host_->sink->Send(&batch_);
  if (answers_ > 0) host_->sink->Answered(std::exchange(answers_, 0));
  if (delivered_.load(std::memory_order_relaxed) == retired_) return;
  delivered_seq_.store(retired_seq_, std::memory_order_release);
  delivered_.store(retired_, std::memory_order_release);
  host_->reports->AfterRetired();
}

void Executor::Complete(const Pending& pending, CudaResult result) {
  if (result != CudaResult::kSuccess) {
    // A wait reports an execution error of the work before it: the context is gone.
    host_->reports->Fail(pending.seq, CommandId::kStreamSync, result);
  }
  if (pending.mark != nullptr) {
    if (result == CudaResult::kSuccess && pending.mark->timed()) {
      const std::chrono::nanoseconds now = Clock::now().time_since_epoch();
      pending.mark->host_ns.store(now.count(), std::memory_order_relaxed);
      host_->state->OnRecorded(*pending.mark);
    }
    pending.mark->set_state(result == CudaResult::kSuccess ? EventRecord::State::kComplete
                                                           : EventRecord::State::kFailed);
  }
  if (pending.action) pending.action(result, &batch_);
  // The board is updated before the reply, because a query after the wait must find the work
  // complete.
  if (pending.ticket != 0) Retire(pending.ticket, pending.seq);
  if (pending.reply_seq != 0) {
    if (result == CudaResult::kSuccess) result = pending.reply_result;
    AppendReply(pending.reply_seq, static_cast<int32_t>(result), {}, {}, &batch_);
    ++answers_;
  }
  if (batch_.size() >= kMaxBatch) Deliver();
}

bool Executor::Poll() {
  bool progress = false;
  while (!pending_.empty()) {
    const Pending& front = pending_.front();
    CudaResult result = host_->reports->fault();
    if (result == CudaResult::kSuccess &&
        std::any_of(front.data.begin(), front.data.end(),
                    [](const Prerequisite& p) { return p.executor->delivered() < p.ticket; })) {
      break;
    }
    if (result == CudaResult::kSuccess) result = front.mark_result;
    if (result == CudaResult::kSuccess && front.mark != nullptr) {
      const bool unhurried = front.unhurried && pending_.back().reply_seq == 0;
      if (unhurried && Clock::now() < ask_after_) break;
      result = context_->QueryEvent(front.mark->id());
      if (result == CudaResult::kNotReady) {
        if (unhurried) ask_after_ = Clock::now() + kUnhurried;
        break;
      }
      // Any stream may have waited for the call.
      if (result == CudaResult::kSuccess) result = context_->LibraryFault();
    }
    const Pending pending = std::move(pending_.front());
    pending_.pop_front();
    Complete(pending, result);
    progress = true;
  }
  return progress;
}

bool Executor::PollEventWaits() {
  if (event_waits_.empty()) return false;
  const auto done = [this](const EventWait& wait) {
    const EventRecord::State state = wait.record->state();
    CudaResult result = host_->reports->fault();
    if (result == CudaResult::kSuccess && state == EventRecord::State::kFailed) {
      result = CudaResult::kInvalidHandle;
    }
    if (result == CudaResult::kSuccess && state != EventRecord::State::kComplete) return false;
    host_->sink->Reply(wait.seq, result);
    return true;
  };
  const size_t before = event_waits_.size();
  event_waits_.erase(std::remove_if(event_waits_.begin(), event_waits_.end(), done),
                     event_waits_.end());
  const size_t answered = before - event_waits_.size();
  event_wait_count_.fetch_sub(answered, std::memory_order_relaxed);
  // These may have been the last answers.
  if (answered > 0) host_->reports->AfterRetired();
  return answered > 0;
}

absl::Duration Executor::NapAfter(std::chrono::nanoseconds waited) {
  if (!UnderWay()) return absl::InfiniteDuration();
  const bool answering = !event_waits_.empty() || cancel_.under_way() ||
                         std::any_of(pending_.begin(), pending_.end(),
                                     [](const Pending& p) { return p.reply_seq != 0; }) ||
                         host_->sink->Awaited(stream_);
  const int64_t nap_ns = answering ? std::clamp<int64_t>(waited.count() / 64, 20'000, kMaxNapNs)
                                   : std::clamp<int64_t>(waited.count() / 32, 50'000, kMaxNapNs);
  return turns_.NapAtMost(absl::Nanoseconds(nap_ns));
}

void Executor::TakeTurn() {
  for (int tries = 1; !TryTakeTurn(); ++tries) {
    if (tries % 64 == 0) {
      sched_yield();
    } else {
      __builtin_ia32_pause();
    }
  }
}

bool Executor::AllQuick(const TaskQueue& tasks) const {
  return tasks.size() <= kFewTasks &&
         tasks.AllOf([this](const Task& task) { return Satisfied(task) && IsQuick(task); });
}

bool Executor::IssueHere() {
  if (!AllQuick(inbox_.outbox()) || !TryTakeTurn()) return false;
  bool here = false;
  {
    const LoopScope scope(&on_executor_);
    here = has_stream_ && ready_.empty() && !inbox_.has_news() &&
           issued() - retired_ <= kFewOutstanding;
    if (here) {
      ready_.Append(&inbox_.outbox());
      adopted_.store(true, std::memory_order_relaxed);
      Look();
    }
  }
  LeaveTurn();
  return here;
}

bool Executor::LookHere() {
  if (!TryTakeTurn()) return true;
  bool under_way;
  {
    const LoopScope scope(&on_executor_);
    Look();
    under_way = UnderWay();
  }
  LeaveTurn();
  return under_way;
}

void Executor::GiveBack() {
  adopted_.store(false, std::memory_order_relaxed);
  inbox_.Nudge();
}

void Executor::Flush() {
  if (!has_appended()) return;
  adopted_.store(false, std::memory_order_relaxed);
  inbox_.Flush();
}

Executor::Next Executor::Look() {
  bool progress = inbox_.Take(&ready_, &event_waits_, &cancels_);
  for (const CancelRequest& request : cancels_) cancel_.Begin(request);
  cancels_.clear();
  progress |= IssueReady();
  // Mark even when the next command has to wait, so that what was issued retires without it. What
  // comes at once is marked with it.
  if (!inbox_.has_news()) MarkTail();
  progress |= Poll();
  Deliver();
  progress |= PollEventWaits();
  progress |= LookAfterCancel();
  if ((closing_ && !UnderWay()) || inbox_.stopped()) return Next::kEnd;
  return progress ? Next::kLookAgain : Next::kWait;
}

void Executor::Run() {
  prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  pthread_setname_np(pthread_self(), "wl-executor");
  AdaptivePoll poll(PollFor());
  Next next = Next::kLookAgain;
  while (next != Next::kEnd) {
    absl::Duration nap;
    TakeTurn();
    {
      const LoopScope scope(&on_executor_);
      next = Look();
      const Clock::time_point now = Clock::now();
      if (next == Next::kLookAgain) {
        poll.Found(now);
      } else if (next == Next::kWait && adopted_.load(std::memory_order_relaxed)) {
        nap = absl::InfiniteDuration();
      } else if (next == Next::kWait && poll.over(now)) {
        nap = NapAfter(poll.idle(now));
      }
    }
    if (next != Next::kEnd) LeaveTurn();
    if (nap == absl::InfiniteDuration()) {
      const AdaptivePoll::Sleep sleep(&poll);
      inbox_.Sleep(nap);
    } else if (nap > absl::ZeroDuration()) {
      const ExecutorNaps::Nap shared(host_->naps, absl::ToInt64Nanoseconds(nap));
      inbox_.Sleep(absl::Nanoseconds(shared.ns()));
    } else if (next == Next::kWait) {
      poll.Rest();
    }
  }
  // It has the turn for good.
  const LoopScope scope(&on_executor_);
  Finish();
  turns_.Leave();
  const std::vector<EventWait> late = inbox_.Close();
  finished_.store(true, std::memory_order_seq_cst);
  host_->reports->OnFinished();
  for (const EventWait& wait : late) host_->sink->Reply(wait.seq, host_->reports->fault());
}

}  // namespace warpline::worker
