#include "client_stub/session/frames/reply_handler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client_stub/session/status/session_log.h"
#include "common/log/log.h"

namespace warpline::stub {
namespace {

constexpr size_t kMaxLoggedText = 512;

std::string CommandName(uint32_t id) {
  if (id >= 1 && id <= static_cast<uint32_t>(kCommandCount)) return kCommandTable[id - 1].name;
  return absl::StrCat("command ", id);
}

// Never returns success, since the server says that something failed.
CudaResult ErrorFromWire(int32_t value) {
  return value == 0 ? CudaResult::kUnknown : static_cast<CudaResult>(value);
}

}  // namespace

bool ReplyHandler::Handle(std::string_view payload, std::string* problem) {
  ReplyReader reader(payload);
  while (!reader.Done()) {
    absl::StatusOr<ReplyView> reply = reader.Next();
    if (!reply.ok()) {
      *problem = std::string(reply.status().message());
      return false;
    }
    if (!HandleReply(*reply, problem)) return false;
    if (IsOrdered(reply->id)) parts_.commands->shared_board().OnOrdered();
  }
  return true;
}

bool ReplyHandler::HandleReply(const ReplyView& reply, std::string* problem) {
  std::string_view rest = reply.body;
  ReplyTable& replies = parts_.commands->replies();
  switch (reply.id) {
    case ReplyId::kReply: {
      ReplyBody body;
      CommandId command{};
      if (!TakeStruct(&rest, &body)) break;
      const auto result = static_cast<CudaResult>(body.result);
      // Done before the waiter goes on, so that it and every thread after it see the same error.
      if (IsSticky(result) && !replies.failed()) {
        CommandFailed(CommandId{}, reply.seq, result, "");
        return true;
      }
      const auto outcome = replies.Reply(reply.seq, result, rest, &command);
      // A later wait does not fail because the application has cancelled something.
      if (outcome == ReplyTable::Outcome::kUnclaimed && result != kCancelled)
        CommandFailed(command, reply.seq, result, "");
      if (outcome == ReplyTable::Outcome::kUnexpected && !replies.failed()) break;
      return true;
    }
    case ReplyId::kCopyData: {
      notice::CopyData data;
      if (!TakeStruct(&rest, &data)) break;
      if (replies.CopyData(reply.seq, data.offset, rest) == ReplyTable::Outcome::kUnexpected &&
          !replies.failed()) {
        break;
      }
      return true;
    }
    case ReplyId::kRetired:
      return HandleRetired(reply, problem);
    case ReplyId::kFreed: {
      notice::Freed freed;
      if (!TakeStruct(&rest, &freed)) break;
      if (!parts_.notices->Freed(freed.token)) break;
      return true;
    }
    case ReplyId::kUnmapped: {
      notice::Unmapped unmapped;
      if (!TakeStruct(&rest, &unmapped)) break;
      parts_.notices->Unmapped(unmapped.token);
      return true;
    }
    case ReplyId::kFailed:
      return HandleFailed(reply, problem);
    case ReplyId::kOutput:
      if (!HandleOutput(reply)) break;
      return true;
    case ReplyId::kBoardBegins: {
      notice::BoardBegins board;
      if (!TakeStruct(&rest, &board)) break;
      parts_.commands->shared_board().OnBegins(board.generation);
      return true;
    }
    case ReplyId::kHostDue: {
      notice::HostDue due;
      if (!TakeStruct(&rest, &due) || due.token == Notices::kNoToken) break;
      parts_.notices->HostDue(due.token);
      return true;
    }
  }
  *problem =
      absl::StrCat("a bad reply of kind ", static_cast<int>(reply.id), " to command ", reply.seq);
  return false;
}

bool ReplyHandler::HandleRetired(const ReplyView& reply, std::string* problem) {
  std::string_view rest = reply.body;
  notice::Retired retired;
  CommandQueue& queue = parts_.commands->queue();
  const bool is_known = TakeStruct(&rest, &retired) && reply.seq <= queue.last_seq();
  if (is_known) {
    parts_.commands->replies().BeforeRetired(retired.stream, reply.seq, retired.all_seq);
  }
  if (!is_known || !queue.OnRetired(std::max(retired.all_seq, retired.count)) ||
      !parts_.commands->board().Update(retired.stream, reply.seq, retired.all_seq)) {
    *problem = absl::StrCat("a bad retirement of command ", reply.seq);
    return false;
  }
  return true;
}

bool ReplyHandler::HandleFailed(const ReplyView& reply, std::string* problem) {
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

bool ReplyHandler::HandleOutput(const ReplyView& reply) {
  std::string_view rest = reply.body;
  notice::Output output;
  if (!TakeStruct(&rest, &output) || output.descriptor < 1 || output.descriptor > 2) return false;
  parts_.commands->errors().output().Add(static_cast<int>(output.descriptor), rest);
  return true;
}

void ReplyHandler::CommandFailed(CommandId command, uint64_t seq, CudaResult result,
                                 std::string_view what) {
  const uint32_t id = static_cast<uint32_t>(command);
  const auto line = [&] {
    std::string text = absl::StrCat(id == 0 ? "command" : CommandName(id), " number ", seq,
                                    " failed: ", CudaResultName(result));
    if (!what.empty()) text.append(": ").append(what.substr(0, kMaxLoggedText));
    return text;
  };
  if (IsSticky(result)) {
    if (parts_.commands->replies().failed()) return;  // This was logged already.
    LogError(line(), "; every later CUDA call of this process returns this error");
    parts_.Lose(result);
    return;
  }
  if (const LogPermit permit = parts_.log->Ask(kFailedLine)) permit.Warning(line());
  // The outcome of loading is asked for: by ModuleCheck, or by the first look-up in the module.
  if (id != 0 && kCommandTable[id - 1].capability == Capability::kLoad) return;
  parts_.commands->errors().Defer(seq, result);
}

}  // namespace warpline::stub
