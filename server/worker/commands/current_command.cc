#include "server/worker/commands/current_command.h"

#include "absl/strings/str_cat.h"
#include "common/log/log.h"

namespace warpline::worker {

void CurrentCommand::Begin(uint64_t seq, CommandId id) {
  seq_ = seq;
  id_ = id;
  refused_ = false;
}

void CurrentCommand::Refuse(CudaResult result, std::string_view why) {
  refused_ = true;
  if (completion_->fault() != CudaResult::kSuccess) result = completion_->fault();
  if (Answers(id_)) {
    sink_->Reply(seq_, result);
  } else {
    completion_->FailBecause(seq_, id_, result, why);
  }
  RetireHere();
}

void CurrentCommand::Meet(Limit limit, uint64_t most) {
  usage_->Meet(limit);
  const auto index = static_cast<size_t>(limit);
  if (std::exchange(said_limit_[index], true)) return;
  LogWarning("limit reached what=", kLimitNames[index], " limit=", most,
             " call=", id_ == CommandId{} ? "" : FindCommand(id_).name);
}

void CurrentCommand::RefuseBeyond(Limit limit, uint64_t most) {
  Meet(limit, most);
  Refuse(CudaResult::kOutOfMemory,
         absl::StrCat("the limit of ", kLimitNames[static_cast<size_t>(limit)], " is ", most));
}

}  // namespace warpline::worker
