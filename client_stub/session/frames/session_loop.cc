#include "client_stub/session/frames/session_loop.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "client_stub/session/status/session_log.h"
#include "common/log/log.h"
#include "proto/frames.h"
#include "proto/session.pb.h"

namespace warpline::stub {
namespace {

constexpr size_t kMaxLoggedText = 512;

void Add(std::atomic<uint64_t>* counter, uint64_t n) {
  counter->store(counter->load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

}  // namespace

SessionLoop::SessionLoop(const ArenaCandidate& arena, const SessionParts& parts,
                         Connection* connection, OpeningAnswer* answer)
    : arena_(arena), parts_(parts), connection_(connection), answer_(answer), replies_(parts) {}

bool SessionLoop::NextFrame(Frame* frame) {
  if (connection_->awaits_resumed()) {
    uint64_t attempt;
    if (!connection_->TakeResumeDue(&attempt)) return false;
    warpline_internal::Resume resume;
    resume.set_session(welcomed_.session);
    resume.set_secret(welcomed_.secret);
    resume.set_attempt(attempt);
    resume.set_received(receipts_.taken());
    *frame = {kResume, resume.SerializeAsString()};
  } else if (!receipts_.NextAck(frame) && !parts_.control->Take(frame)) {
    if (!parts_.commands->queue().Take(&frame->payload, receipts_.InPassing())) return false;
    frame->kind = kCommands;
    receipts_.NoteSaid();
  }
  Counters& counters = parts_.commands->counters();
  Add(&counters.frames_sent, 1);
  Add(&counters.bytes_sent, frame->payload.size());
  return true;
}

Accept SessionLoop::OnFrame(Frame* frame) {
  Counters& counters = parts_.commands->counters();
  Add(&counters.frames_received, 1);
  Add(&counters.bytes_received, frame->payload.size());
  if (frame->kind == kReadBackDone && parts_.memory->HandleReadBack(frame->payload)) {
    return Accept::kTaken;
  }
  std::string problem;
  // Frames for a lost session are counted, so that the server need not keep them.
  const bool concerns = !lost_ || frame->kind == kResumed;
  if (concerns && !HandleFrame(*frame, &problem)) {
    const absl::Status status = absl::InvalidArgumentError(problem);
    answer_->Give(status);
    LogError("session lost: the server sent what it should not: ", problem);
    lost_ = true;
    memory_kept_ = false;
    parts_.Lose(CudaResult::kLaunchFailed);
    parts_.commands->channel().Close(status);
  } else if (IsCountedToClient(frame->kind)) {
    receipts_.NoteTaken(frame->payload.size());
  }
  return Accept::kTaken;
}

bool SessionLoop::HandleFrame(const Frame& frame, std::string* problem) {
  if (!welcome_seen_ && frame.kind == kRedirect) {
    answer_->Give(ParseRedirect(frame.payload));
    return true;
  }
  if (!welcome_seen_ && frame.kind != kWelcome && frame.kind != kFault) {
    *problem = absl::StrCat("frame ", frame.kind, " before the welcome");
    return false;
  }
  if (connection_->awaits_resumed() && frame.kind == kRedirect) {
    return HandleRedirect(frame.payload, problem);
  }
  if (connection_->awaits_resumed() != (frame.kind == kResumed)) {
    *problem =
        absl::StrCat("frame ", frame.kind, connection_->awaits_resumed() ? " before" : " without",
                     " the resumption");
    return false;
  }
  switch (frame.kind) {
    case kResumed:
      return HandleResumed(frame.payload, problem);
    case kWelcome:
      return HandleWelcome(frame.payload, problem);
    case kReplies:
      return replies_.Handle(frame.payload, problem);
    case kMemoryGrant:
      if (parts_.memory->HandleGrant(frame.payload) || parts_.commands->replies().failed()) {
        return true;
      }
      *problem = "a bad memory grant";
      return false;
    case kRefused:
      if (parts_.memory->HandleRefused(frame.payload)) return true;
      *problem = "a bad refusal";
      return false;
    case kFault:
      HandleFault(frame.payload);
      return true;
    case kRelay:
      if (parts_.relays->OnRelay(frame.payload)) return true;
      *problem = "a relay that was not asked for";
      return false;
    case kReceived:
      return HandleReceived(frame.payload, problem);
    default:
      *problem = absl::StrCat("frame kind ", frame.kind);
      return false;
  }
}

bool SessionLoop::HandleReceived(std::string_view payload, std::string* problem) {
  ReceivedBody body;
  CommandQueue& queue = parts_.commands->queue();
  if (!TakeStruct(&payload, &body) || !queue.OnReceived(body.seq) ||
      !parts_.control->OnReceived(body.controls)) {
    *problem = "a bad receipt";
    return false;
  }
  if (connection_->closing() && queue.AllReceived()) connection_->NoteFlushed();
  return true;
}

bool SessionLoop::HandleWelcome(std::string_view payload, std::string* problem) {
  if (welcome_seen_) {
    *problem = "a second welcome";
    return false;
  }
  welcome_seen_ = true;
  auto welcomed = ParseWelcome(payload, arena_);
  const absl::Status status = welcomed.status();
  if (status.ok()) {
    welcomed_ = *std::move(welcomed);
    if (welcomed_.resumable) receipts_.Start();
    connection_->SetUp(welcomed_.resumable);
  }
  answer_->Give(status);
  return true;
}

bool SessionLoop::HandleResumed(std::string_view payload, std::string* problem) {
  ResumedBody body;
  size_t commands = 0;
  size_t controls = 0;
  if (!TakeStruct(&payload, &body) || !parts_.commands->queue().Rewind(body.seq, &commands) ||
      !parts_.control->Rewind(body.controls, &controls)) {
    *problem = "a bad resumption";
    return false;
  }
  Counters& counters = parts_.commands->counters();
  Add(&counters.frames_again, commands + controls);
  Add(connection_->moving() ? &counters.transfers : &counters.resumes, 1);
  receipts_.NoteSaid();
  connection_->SetResumed();
  const std::string_view transport = parts_.commands->channel().transport();
  const bool by_relay = transport == "ucx" || transport == "tls";
  if (!lost_) parts_.relays->OnResumed(connection_->moving(), by_relay);
  parts_.memory->ReadBackAgain();
  return true;
}

// The connection ends, and the next attempt to resume goes there.
bool SessionLoop::HandleRedirect(std::string_view payload, std::string* problem) {
  const auto endpoint = EndpointOfRedirect(payload);
  if (!endpoint.ok()) {
    *problem = std::string(endpoint.status().message());
    return false;
  }
  if (const LogPermit permit = parts_.log->Ask(kMovedLine)) {
    permit.Warning("the session has moved to the server at ", *endpoint);
  }
  parts_.server->Set(*endpoint);
  connection_->SetRedirected();
  // Memory that the former server shared is not this one's.
  parts_.memory->host_memory().Lose();
  return true;
}

void SessionLoop::HandleFault(std::string_view payload) {
  warpline_internal::Fault fault;
  CudaResult error = CudaResult::kLaunchFailed;
  std::string message = "no reason given";
  if (fault.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    if (fault.error() != 0) error = static_cast<CudaResult>(fault.error());
    message = fault.message().substr(0, kMaxLoggedText);
  }
  answer_->Give(StatusFromCudaResult(error, message));
  lost_ = true;
  memory_kept_ = fault.memory_kept();
  if (!memory_kept_) parts_.memory->LoseWhatWasLeft(error);
  LogError("session lost: ", message, " (", CudaResultName(error), ")");
  parts_.Lose(error);
}

void SessionLoop::OnClosed(const absl::Status& status) {
  const bool closing = connection_->closing();
  if (connection_->OnClosed(status, /*sound=*/!lost_ || memory_kept_)) return;
  const bool opened = answer_->End(status);
  if (opened && !closing && !lost_) {
    LogError("session lost: ", status.ok()
                                   ? "the server ended it"
                                   : status.ToString(absl::StatusToStringMode::kWithNoExtraData));
  }
  parts_.Lose(closing ? CudaResult::kDeinitialized : CudaResult::kLaunchFailed);
  parts_.memory->LoseWhatWasLeft(parts_.commands->errors().error());
  connection_->SetClosed();
}

void SessionLoop::OnGivenUp(const absl::Status& status) {
  const bool closing = connection_->closing();
  LogError("session lost: it could not be resumed: ",
           status.ToString(absl::StatusToStringMode::kWithNoExtraData));
  parts_.Lose(closing ? CudaResult::kDeinitialized : CudaResult::kLaunchFailed);
  parts_.memory->LoseWhatWasLeft(parts_.commands->errors().error());
}

}  // namespace warpline::stub
