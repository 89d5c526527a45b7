// What the channel's loop does for a session. Everything that arrives is untrusted: a frame that a
// correct server does not send ends the session.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client_stub/session/opening/session_impl.h"
#include "common/log/log.h"
#include "proto/frames.h"
#include "proto/session.pb.h"

namespace warpline::stub {
namespace {

constexpr size_t kMaxLoggedText = 512;

std::string CommandName(uint32_t id) {
  if (id >= 1 && id <= static_cast<uint32_t>(kCommandCount)) return kCommandTable[id - 1].name;
  return absl::StrCat("command ", id);
}

// Never success, since the server says that something failed.
CudaResult ErrorFromWire(int32_t value) {
  return value == 0 ? CudaResult::kUnknown : static_cast<CudaResult>(value);
}

void Add(std::atomic<uint64_t>* counter, uint64_t n) {
  counter->store(counter->load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

}  // namespace

bool SessionImpl::NextFrame(Frame* frame) {
  if (resumed_awaited_) {
    if (!resume_due_) return false;
    resume_due_ = false;
    warpline_internal::Resume resume;
    resume.set_session(welcomed_.session);
    resume.set_secret(welcomed_.secret);
    resume.set_attempt(attempt_);
    resume.set_received(handled_frames_);
    *frame = {kResume, resume.SerializeAsString()};
  } else if (!NextAck(frame) && !control_.Take(frame)) {
    if (!queue_.Take(&frame->payload, counts_ ? static_cast<uint32_t>(handled_frames_) : 0)) {
      return false;
    }
    frame->kind = kCommands;
    unacked_frames_ = 0;
    unacked_bytes_ = 0;
  }
  Add(&counters_.frames_sent, 1);
  Add(&counters_.bytes_sent, frame->payload.size());
  return true;
}

bool SessionImpl::NextAck(Frame* frame) {
  if (!counts_ || (unacked_frames_ < kAckFrames && unacked_bytes_ < kAckBytes)) return false;
  const AckBody body = {handled_frames_};
  *frame = {kAck, std::string(reinterpret_cast<const char*>(&body), sizeof(body))};
  unacked_frames_ = 0;
  unacked_bytes_ = 0;
  return true;
}

Accept SessionImpl::OnFrame(Frame* frame) {
  Add(&counters_.frames_received, 1);
  Add(&counters_.bytes_received, frame->payload.size());
  if (frame->kind == kReadBackDone && HandleReadBack(frame->payload)) return Accept::kTaken;
  std::string problem;
  // What comes to a lost session is counted, so that the server need not keep it.
  if (!lost_ && !HandleFrame(*frame, &problem)) {
    const absl::Status status = absl::InvalidArgumentError(problem);
    {
      MutexLock lock(&state_mu_);
      if (!answer_.has_value()) answer_ = status;
      state_changed_.NotifyAll();
    }
    LogError("session lost: the server sent what it should not: ", problem);
    lost_ = true;
    Lose(CudaResult::kLaunchFailed);
    CloseChannel(status);
  } else if (IsCountedToClient(frame->kind)) {
    ++handled_frames_;
    ++unacked_frames_;
    unacked_bytes_ += frame->payload.size();
  }
  return Accept::kTaken;
}

bool SessionImpl::HandleFrame(const Frame& frame, std::string* problem) {
  if (!welcome_seen_ && frame.kind == kRedirect) {
    MutexLock lock(&state_mu_);
    if (!answer_.has_value()) answer_ = ParseRedirect(frame.payload);
    state_changed_.NotifyAll();
    return true;
  }
  if (!welcome_seen_ && frame.kind != kWelcome && frame.kind != kFault) {
    *problem = absl::StrCat("frame ", frame.kind, " before the welcome");
    return false;
  }
  if (resumed_awaited_ != (frame.kind == kResumed)) {
    *problem = absl::StrCat("frame ", frame.kind, resumed_awaited_ ? " before" : " without",
                            " the resumption");
    return false;
  }
  switch (frame.kind) {
    case kResumed:
      return HandleResumed(frame.payload, problem);
    case kWelcome:
      return HandleWelcome(frame.payload, problem);
    case kReplies:
      return HandleReplies(frame.payload, problem);
    case kMemoryGrant:
      return HandleGrant(frame.payload, problem);
    case kFault:
      HandleFault(frame.payload);
      return true;
    case kReceived: {
      ReceivedBody body;
      std::string_view rest = frame.payload;
      if (!TakeStruct(&rest, &body) || !queue_.OnReceived(body.seq) ||
          !control_.OnReceived(body.controls)) {
        *problem = "a bad receipt";
        return false;
      }
      if (flushing_.load(std::memory_order_relaxed) && queue_.AllReceived()) {
        MutexLock lock(&state_mu_);
        state_changed_.NotifyAll();
      }
      return true;
    }
    default:
      *problem = absl::StrCat("frame kind ", frame.kind);
      return false;
  }
}

bool SessionImpl::HandleWelcome(std::string_view payload, std::string* problem) {
  if (welcome_seen_) {
    *problem = "a second welcome";
    return false;
  }
  welcome_seen_ = true;
  auto welcomed = ParseWelcome(payload, {arena_.base(), arena_.bytes()});
  MutexLock lock(&state_mu_);
  answer_ = welcomed.status();
  if (welcomed.ok()) {
    welcomed_ = *std::move(welcomed);
    counts_ = welcomed_.resumable;
    link_ = LinkState::kUp;
  }
  state_changed_.NotifyAll();
  return true;
}

bool SessionImpl::HandleReplies(std::string_view payload, std::string* problem) {
  ReplyReader reader(payload);
  while (!reader.Done()) {
    absl::StatusOr<ReplyView> reply = reader.Next();
    if (!reply.ok()) {
      *problem = std::string(reply.status().message());
      return false;
    }
    if (!HandleReply(*reply, problem)) return false;
  }
  return true;
}

bool SessionImpl::HandleReply(const ReplyView& reply, std::string* problem) {
  std::string_view rest = reply.body;
  switch (reply.id) {
    case ReplyId::kReply: {
      ReplyBody body;
      CommandId command{};
      if (!TakeStruct(&rest, &body)) break;
      const auto result = static_cast<CudaResult>(body.result);
      // Before the waiter goes on, so that it and everybody after it see the same error.
      if (IsSticky(result) && !replies_.failed()) {
        CommandFailed(CommandId{}, reply.seq, result, "");
        return true;
      }
      const auto outcome = replies_.Reply(reply.seq, result, rest, &command);
      if (outcome == ReplyTable::Outcome::kUnclaimed) CommandFailed(command, reply.seq, result, "");
      if (outcome == ReplyTable::Outcome::kUnexpected && !replies_.failed()) break;
      return true;
    }
    case ReplyId::kCopyData: {
      notice::CopyData data;
      if (!TakeStruct(&rest, &data)) break;
      if (replies_.CopyData(reply.seq, data.offset, rest) == ReplyTable::Outcome::kUnexpected &&
          !replies_.failed()) {
        break;
      }
      return true;
    }
    case ReplyId::kRetired:
      return HandleRetired(reply, problem);
    case ReplyId::kFreed: {
      notice::Freed freed;
      if (!TakeStruct(&rest, &freed)) break;
      const uint32_t device = DeviceOfHandle(freed.token);
      if (device >= freed_callbacks_.size()) break;
      MutexLock lock(&freed_mu_);
      if (freed_callbacks_[device]) freed_callbacks_[device](freed.token);
      return true;
    }
    case ReplyId::kUnmapped: {
      notice::Unmapped unmapped;
      if (!TakeStruct(&rest, &unmapped)) break;
      MutexLock lock(&freed_mu_);
      if (unmapped_callback_) unmapped_callback_(unmapped.token);
      return true;
    }
    case ReplyId::kFailed:
      return HandleFailed(reply, problem);
    case ReplyId::kOutput:
      if (!HandleOutput(reply)) break;
      return true;
    case ReplyId::kHostDue: {
      notice::HostDue due;
      if (!TakeStruct(&rest, &due) || due.token == kNoToken) break;
      HostDue(due.token);
      return true;
    }
  }
  *problem =
      absl::StrCat("a bad reply of kind ", static_cast<int>(reply.id), " to command ", reply.seq);
  return false;
}

bool SessionImpl::HandleRetired(const ReplyView& reply, std::string* problem) {
  std::string_view rest = reply.body;
  notice::Retired retired;
  if (!TakeStruct(&rest, &retired) || reply.seq > queue_.last_seq() ||
      !queue_.OnRetired(std::max(retired.all_seq, retired.count)) ||
      !board_.Update(retired.stream, reply.seq, retired.all_seq)) {
    *problem = absl::StrCat("a bad retirement of command ", reply.seq);
    return false;
  }
  return true;
}

bool SessionImpl::HandleFailed(const ReplyView& reply, std::string* problem) {
  std::string_view rest = reply.body;
  notice::Failed failed;
  if (!TakeStruct(&rest, &failed) || failed.call == 0 ||
      failed.call > static_cast<uint32_t>(kCommandCount)) {
    *problem = absl::StrCat("a bad failure of command ", reply.seq);
    return false;
  }
  CommandFailed(static_cast<CommandId>(failed.call), reply.seq, ErrorFromWire(failed.result), rest);
  return true;
}

bool SessionImpl::HandleOutput(const ReplyView& reply) {
  std::string_view rest = reply.body;
  notice::Output output;
  if (!TakeStruct(&rest, &output) || output.descriptor < 1 || output.descriptor > 2) return false;
  output_.Add(static_cast<int>(output.descriptor), rest);
  return true;
}

void SessionImpl::CommandFailed(CommandId command, uint64_t seq, CudaResult result,
                                std::string_view what) {
  const uint32_t id = static_cast<uint32_t>(command);
  const auto line = [&] {
    std::string text = absl::StrCat(id == 0 ? "command" : CommandName(id), " number ", seq,
                                    " failed: ", CudaResultName(result));
    if (!what.empty()) text.append(": ").append(what.substr(0, kMaxLoggedText));
    return text;
  };
  if (IsSticky(result)) {
    if (replies_.failed()) return;  // Said already.
    LogError(line(), "; every later CUDA call of this process returns this error");
    Lose(result);
    return;
  }
  if (const LogPermit permit = log_.Ask(kFailedLine)) permit.Warning(line());
  // What loading ended with is asked for: by ModuleCheck, or by the first look-up in the module.
  if (id != 0 && kCommandTable[id - 1].capability == Capability::kLoad) return;
  int none = 0;
  deferred_.compare_exchange_strong(none, static_cast<int>(result), std::memory_order_relaxed);
}

bool SessionImpl::HandleGrant(std::string_view payload, std::string* problem) {
  warpline_internal::MemoryGrant grant;
  const bool parsed = grant.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
  const auto error = static_cast<CudaResult>(grant.error());
  // Before the waiting thread goes on, which may be to the program's end.
  if (parsed && grant.bytes() == 0) {
    NoteRefusedMemory(error == CudaResult::kSuccess ? CudaResult::kOutOfMemory : error,
                      grant.message());
  }
  if (!parsed || !grants_.Answer(grant.id(), {grant.va(), grant.bytes()}, error, grant.token())) {
    if (replies_.failed()) return true;
    *problem = "a bad memory grant";
    return false;
  }
  return true;
}

bool SessionImpl::HandleReadBack(std::string_view payload) {
  warpline_internal::ReadBackDone done;
  return done.ParseFromArray(payload.data(), static_cast<int>(payload.size())) &&
         read_backs_.Answer(done.id(), static_cast<CudaResult>(done.error()), done.data());
}

void SessionImpl::HandleFault(std::string_view payload) {
  warpline_internal::Fault fault;
  CudaResult error = CudaResult::kLaunchFailed;
  std::string message = "no reason given";
  if (fault.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    if (fault.error() != 0) error = static_cast<CudaResult>(fault.error());
    message = fault.message().substr(0, kMaxLoggedText);
  }
  {
    MutexLock lock(&state_mu_);
    if (!answer_.has_value()) answer_ = StatusFromCudaResult(error, message);
    state_changed_.NotifyAll();
  }
  lost_ = true;
  if (!fault.memory_kept()) read_backs_.Fail(error);
  LogError("session lost: ", message, " (", CudaResultName(error), ")");
  Lose(error);
}

// Waiters are told last, so that what they see next is the error.
void SessionImpl::Lose(CudaResult error) {
  int none = 0;
  error_.compare_exchange_strong(none, static_cast<int>(error));
  queue_.Abort();
  replies_.Fail(error);
  grants_.Fail(error);
  HostDue(kNoToken);
}

void SessionImpl::OnClosed(const absl::Status& status) {
  const bool closing = closing_.load();
  bool opened;
  {
    MutexLock lock(&state_mu_);
    if (MayResume(status)) {
      link_ = LinkState::kDown;
      down_status_ = status;
      StartRedialer();
      return;
    }
    link_ = LinkState::kOver;
    opened = answer_.has_value() && answer_->ok();
    if (!answer_.has_value()) {
      answer_ = status.ok() ? absl::UnavailableError("the server ended the session at its opening")
                            : status;
      lost_opening_ = absl::IsUnavailable(*answer_);
    }
  }
  if (opened && !closing && !lost_) {
    LogError("session lost: ", status.ok() ? "the server ended it" : status.ToString());
  }
  Lose(closing ? CudaResult::kDeinitialized : CudaResult::kLaunchFailed);
  read_backs_.Fail(error());
  MutexLock lock(&state_mu_);
  closed_ = true;
  state_changed_.NotifyAll();
}

}  // namespace warpline::stub
