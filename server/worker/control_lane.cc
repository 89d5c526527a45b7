#include "server/worker/control_lane.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace warpline::worker {
namespace {

template <typename Fields>
std::string_view Bytes(const Fields& fields) {
  return {reinterpret_cast<const char*>(&fields), sizeof(fields)};
}

}  // namespace

Lane::Step ControlLane::Issue(Task& task) {
  const CudaResult fault = host_->fault();
  if (fault != CudaResult::kSuccess) {
    if (Answers(task.id)) {
      host_->sink()->Reply(task.seq, fault);
    }
    return Step::kDone;
  }
  std::visit([&](const auto& command) { Do(command, task); }, task.command);
  return Step::kDone;
}

void ControlLane::Do(const cmd::ModuleLoad&, Task& task) {
  task.module->result = host_->context()->LoadModule(task.image->bytes, &task.module->id);
  task.module->has_variables = host_->HasVariables(task.image->bytes);
  // The image is often tens of megabytes and nobody needs it again.
  task.image.reset();
  if (IsSticky(task.module->result)) host_->Fail(task.seq, task.id, task.module->result);
}

void ControlLane::Do(const cmd::ModuleCheck&, Task& task) {
  CudaResult& result = task.module->result;
  if (result == CudaResult::kSuccess) result = host_->context()->CheckModule(task.module->id);
  host_->sink()->Reply(task.seq, result);
}

void ControlLane::Do(const cmd::ModuleUnload&, Task& task) {
  if (task.module->result != CudaResult::kSuccess) return;
  const CudaResult result = host_->context()->UnloadModule(task.module->id);
  if (result != CudaResult::kSuccess) host_->Fail(task.seq, task.id, result);
}

CudaResult ControlLane::Find(Kernel* kernel, std::string_view name, std::string* fields,
                             std::string* tail) {
  device::Context* const context = host_->context();
  if (kernel->module->result != CudaResult::kSuccess) return kernel->module->result;
  CudaResult result = context->FindKernel(kernel->module->id, std::string(name), &kernel->id);
  if (result != CudaResult::kSuccess) return result;
  std::vector<device::ParamLayout> params;
  result = context->Params(kernel->id, &params);
  if (result != CudaResult::kSuccess) return result;
  for (const device::ParamLayout& param : params) {
    kernel->param_bytes = std::max(kernel->param_bytes, param.offset + param.size);
    tail->append(Bytes(param));
  }
  cmd::KernelFindReply reply;
  for (int i = 0; i < static_cast<int>(std::size(reply.attributes)); ++i) {
    // Older drivers know fewer; what they do not know reads as 0.
    if (context->GetKernelAttribute(kernel->id, i, &reply.attributes[i]) != CudaResult::kSuccess) {
      reply.attributes[i] = 0;
    }
  }
  fields->assign(Bytes(reply));
  return CudaResult::kSuccess;
}

void ControlLane::Do(const cmd::KernelFind&, Task& task) {
  std::string fields;
  std::string tail;
  task.kernel->result = Find(task.kernel.get(), task.tail, &fields, &tail);
  // Whoever looks a kernel up is about to launch it.
  if (task.kernel->module->has_variables) host_->OnVariablesAtRisk();
  host_->sink()->Reply(task.seq, task.kernel->result, fields, tail);
}

void ControlLane::Do(const cmd::GlobalFind&, Task& task) {
  cmd::GlobalFindReply reply;
  CudaResult result = task.module->result;
  if (result == CudaResult::kSuccess) {
    result = host_->context()->FindGlobal(task.module->id, std::string(task.tail), &reply.address,
                                          &reply.bytes);
  }
  if (result == CudaResult::kSuccess) host_->OnVariableFound(task, reply.address, reply.bytes);
  host_->sink()->Reply(task.seq, result, Bytes(reply));
}

void ControlLane::Do(const cmd::KernelSetAttribute& command, Task& task) {
  CudaResult result = task.kernel->result;
  if (result == CudaResult::kSuccess) {
    result =
        host_->context()->SetKernelAttribute(task.kernel->id, command.attribute, command.value);
  }
  host_->sink()->Reply(task.seq, result);
}

void ControlLane::Do(const cmd::MaxActiveBlocks& command, Task& task) {
  cmd::MaxActiveBlocksReply reply;
  CudaResult result = task.kernel->result;
  if (result == CudaResult::kSuccess) {
    result = host_->context()->MaxActiveBlocks(
        task.kernel->id, static_cast<int>(command.block_threads), command.dynamic_shared_bytes,
        command.flags, &reply.blocks);
  }
  host_->sink()->Reply(task.seq, result, Bytes(reply));
}

void ControlLane::Do(const cmd::EventElapsed&, Task& task) {
  using State = worker::EventRecord::State;
  cmd::EventElapsedReply reply;
  CudaResult result = CudaResult::kInvalidHandle;
  const State start = task.event->state();
  const State end = task.second_event->state();
  if (start != State::kFailed && end != State::kFailed && start != State::kPending &&
      end != State::kPending) {
    if (task.event->restored || task.second_event->restored) {
      // The device event went with its worker; the host's clock saw both.
      reply.milliseconds = static_cast<float>(
          static_cast<double>(task.second_event->host_ns - task.event->host_ns) / 1e6);
      result = CudaResult::kSuccess;
    } else {
      result = host_->context()->ElapsedMs(task.event->id(), task.second_event->id(),
                                           &reply.milliseconds);
    }
  }
  host_->sink()->Reply(task.seq, result, Bytes(reply));
}

}  // namespace warpline::worker
