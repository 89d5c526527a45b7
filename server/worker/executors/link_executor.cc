#include "server/worker/executors/link_executor.h"

#include <algorithm>
#include <string>
#include <vector>

#include "server/worker/executors/jit_options.h"

namespace warpline::worker {
namespace {

// The bytes of linked code in one reply.
constexpr uint64_t kPartBytes = 256u << 10;

void AppendLog(const device::JitLog& part, device::JitLog* log) {
  log->wall_ms = std::max(log->wall_ms, part.wall_ms);
  log->info.append(part.info, 0, kMaxJitLog - std::min(kMaxJitLog, log->info.size()));
  log->errors.append(part.errors, 0, kMaxJitLog - std::min(kMaxJitLog, log->errors.size()));
}

}  // namespace

Executor::Step LinkExecutor::Issue(Task& task) {
  const CudaResult fault = host_->reports->fault();
  if (fault != CudaResult::kSuccess) {
    if (Answers(task.id)) host_->sink->Reply(task.seq, fault);
    return Step::kDone;
  }
  std::visit([&](const auto& command) RUNS_ON(on_executor_) { Do(command, task); }, task.command);
  return Step::kDone;
}

void LinkExecutor::Do(const cmd::LinkCreate&, Task& task) {
  std::vector<device::JitOption> options;
  CudaResult result = CudaResult::kInvalidValue;
  if (ReadJitOptions(task.tail, &options)) {
    result = host_->devices->context(task.link->device)->CreateLink(options, &task.link->id);
  }
  task.link->created = result == CudaResult::kSuccess;
  host_->sink->Reply(task.seq, result);
}

void LinkExecutor::Do(const cmd::LinkAdd& command, Task& task) {
  Link& link = *task.link;
  std::vector<device::JitOption> options;
  CudaResult result = CudaResult::kInvalidValue;
  // The decoder has made sure that the name is there.
  const std::string_view name = task.tail.substr(0, command.name_bytes);
  if (!link.created) {
    result = CudaResult::kInvalidHandle;
  } else if (ReadJitOptions(task.tail.substr(command.name_bytes), &options)) {
    device::JitLog log;
    result = host_->devices->context(link.device)
                 ->AddToLink(link.id, command.type, task.image->bytes(), std::string(name), options,
                             &log);
    AppendLog(log, &link.log);
  }
  task.image.reset();
  if (IsSticky(result)) host_->reports->Fail(task.seq, task.id, result);
  host_->sink->Reply(task.seq, result);
}

void LinkExecutor::Do(const cmd::LinkComplete&, Task& task) {
  Link& link = *task.link;
  CudaResult result = CudaResult::kInvalidHandle;
  if (link.created) {
    device::JitLog log;
    link.code.clear();
    result = host_->devices->context(link.device)->CompleteLink(link.id, &link.code, &log);
    AppendLog(log, &link.log);
  }
  if (IsSticky(result)) host_->reports->Fail(task.seq, task.id, result);
  host_->sink->Reply(task.seq, result, BytesOf(cmd::LinkCompleteReply{link.code.size()}));
}

void LinkExecutor::Do(const cmd::LinkRead& command, Task& task) {
  const std::string& code = task.link->code;
  const CudaResult result =
      command.offset < code.size() ? CudaResult::kSuccess : CudaResult::kInvalidValue;
  const uint64_t offset = std::min<uint64_t>(command.offset, code.size());
  host_->sink->Reply(task.seq, result, {}, std::string_view(code).substr(offset, kPartBytes));
}

void LinkExecutor::Do(const cmd::LinkLog&, Task& task) {
  const device::JitLog& log = task.link->log;
  const cmd::LinkLogReply reply = {log.wall_ms, static_cast<uint32_t>(log.info.size())};
  host_->sink->Reply(task.seq, CudaResult::kSuccess, BytesOf(reply), log.info + log.errors);
}

void LinkExecutor::Do(const cmd::LinkDestroy&, Task& task) {
  if (task.link->created) host_->devices->context(task.link->device)->DestroyLink(task.link->id);
  task.link->created = false;
}

}  // namespace warpline::worker
