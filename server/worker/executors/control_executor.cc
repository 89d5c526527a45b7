#include "server/worker/executors/control_executor.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/cuda_numbers.h"
#include "common/fatbin/fatbin.h"
#include "proto/graph_definition.h"
#include "server/worker/executors/graph.h"
#include "server/worker/executors/jit_options.h"
#include "server/worker/executors/launch_attributes.h"
#include "server/worker/executors/partition.h"

namespace warpline::worker {
namespace {

// The bytes of names in one reply.
constexpr size_t kMaxNames = 256u << 10;
// The bytes of one launch attribute on the wire.
constexpr size_t kAttributeBytes = 72;

}  // namespace

Executor::Step ControlExecutor::Issue(Task& task) {
  const CudaResult fault = host_->reports->fault();
  if (fault != CudaResult::kSuccess) {
    if (Answers(task.id)) {
      host_->sink->Reply(task.seq, fault);
    }
    return Step::kDone;
  }
  std::visit([&](const auto& command) RUNS_ON(on_executor_) { Do(command, task); }, task.command);
  return Step::kDone;
}

void ControlExecutor::Loaded(CudaResult result, Task& task) {
  const std::string_view image = task.image->bytes();
  task.module->result = result;
  if (result == CudaResult::kSuccess) task.module->at_risk = host_->state->OnModuleLoaded(task);
  if (result == CudaResult::kSuccess &&
      (host_->devices->code(task.module->device)->LeavesRecords(task.module->id) ||
       (!host_->shares_device && fatbin::MayPrint(image)))) {
    task.module->prints = true;
    host_->prints->ExpectPrints();
  }
  if (result == CudaResult::kSuccess) host_->images->OnLoaded(*task.image);
  // The image often has tens of megabytes and is not needed again.
  task.image.reset();
  if (result != CudaResult::kSuccess) host_->prints->SendNotes();
  if (IsSticky(result)) host_->reports->Fail(task.seq, task.id, result);
}

bool ControlExecutor::Missing(const Task& task) {
  if (task.image->missing()) task.module->result = CudaResult::kNotReady;
  return task.image->missing();
}

CudaResult ControlExecutor::Load(const std::function<CudaResult(device::ModuleId*)>& load,
                                 Task& task) {
  const uint64_t bytes = host_->state->VariableBytes(task);
  CudaResult result = host_->outside->Take(task.module->device, bytes);
  if (result != CudaResult::kSuccess) return result;
  result = load(&task.module->id);
  if (result == CudaResult::kSuccess) result = host_->state->PlaceVariables(task, load);
  if (result == CudaResult::kSuccess) {
    task.module->variable_bytes = bytes;
  } else {
    host_->outside->Give(task.module->device, bytes);
  }
  return result;
}

void ControlExecutor::Do(const cmd::ModuleLoad&, Task& task) {
  if (Missing(task)) return;
  const auto load = [&](device::ModuleId* module) {
    return host_->devices->code(task.module->device)->LoadModule(task.image->bytes(), module);
  };
  Loaded(Load(load, task), task);
}

void ControlExecutor::Do(const cmd::ModuleLoadJit&, Task& task) {
  if (Missing(task)) return;
  std::vector<device::JitOption> options;
  const auto load = [&](device::ModuleId* module) {
    return host_->devices->code(task.module->device)
        ->LoadModuleJit(task.image->bytes(), options, &task.module->log, module);
  };
  CudaResult result = CudaResult::kInvalidValue;
  if (ReadJitOptions(task.tail, &options)) result = Load(load, task);
  // The log of a device whose compiler keeps none says at least this much.
  if (result != CudaResult::kSuccess && task.module->log.errors.empty()) {
    task.module->log.errors = CudaResultName(result);
  }
  Loaded(result, task);
}

void ControlExecutor::Do(const cmd::ModuleJitLog&, Task& task) {
  if (task.module->result == CudaResult::kNotReady) {
    return host_->sink->Reply(task.seq, CudaResult::kNotReady);
  }
  const device::JitLog& log = task.module->log;
  const std::string info = log.info.substr(0, kMaxJitLog);
  const cmd::ModuleJitLogReply reply = {log.wall_ms, static_cast<uint32_t>(info.size())};
  host_->sink->Reply(task.seq, CudaResult::kSuccess, BytesOf(reply),
                     info + log.errors.substr(0, kMaxJitLog));
}

void ControlExecutor::Do(const cmd::ModuleKernels& command, Task& task) {
  CudaResult result = task.module->result;
  std::vector<std::string> names;
  if (result == CudaResult::kSuccess) {
    result = host_->devices->code(task.module->device)->Kernels(task.module->id, &names);
  }
  cmd::ModuleKernelsReply reply = {static_cast<uint32_t>(names.size()), 0};
  std::string tail;
  for (size_t i = command.first; i < names.size(); ++i) {
    if (tail.size() + names[i].size() > kMaxNames && reply.count > 0) break;
    tail.append(names[i]).push_back('\0');
    ++reply.count;
  }
  host_->sink->Reply(task.seq, result, BytesOf(reply), tail);
}

void ControlExecutor::Do(const cmd::ClusterOccupancy& command, Task& task) {
  device::LaunchConfig config = {{command.grid_x, command.grid_y, command.grid_z},
                                 {command.block_x, command.block_y, command.block_z},
                                 command.dynamic_shared_bytes};
  cmd::ClusterOccupancyReply reply;
  CudaResult result = task.kernel->result;
  std::string_view rest = task.tail;
  const auto count = static_cast<uint32_t>(rest.size() / kAttributeBytes);
  if (result == CudaResult::kSuccess && (rest.size() % kAttributeBytes != 0 || command.what > 1 ||
                                         !TakeAttributes(&rest, count, &config))) {
    result = CudaResult::kInvalidValue;
  }
  if (result == CudaResult::kSuccess) {
    device::Context* const context = host_->devices->context(task.kernel->module->device);
    result = host_->gate->With({&task.kernel, 1}, [&] {
      return command.what == 0 ? context->MaxActiveClusters(task.kernel->id, config, &reply.value)
                               : context->MaxClusterSize(task.kernel->id, config, &reply.value);
    });
  }
  host_->sink->Reply(task.seq, result, BytesOf(reply));
}

void ControlExecutor::Do(const cmd::VariableBlockFind& command, Task& task) {
  cmd::VariableBlockFindReply reply;
  const CudaResult result =
      context_->FindVariables(command.address, &reply.base, &reply.bytes, &reply.device);
  host_->sink->Reply(task.seq, result, BytesOf(reply));
}

void ControlExecutor::Do(const cmd::LimitGet& command, Task& task) {
  cmd::LimitGetReply reply;
  const CudaResult result =
      host_->devices->context(command.device)->GetLimit(command.limit, &reply.value);
  host_->sink->Reply(task.seq, result, BytesOf(reply));
}

ControlExecutor::LimitMemory& ControlExecutor::LimitOf(uint32_t device, int limit) {
  const auto [at, added] = limits_.try_emplace({device, limit});
  if (added) {
    host_->devices->context(device)->GetLimit(limit, &at->second.first_value);
    at->second.value = at->second.first_value;
  }
  return at->second;
}

CudaResult ControlExecutor::TakeFor(uint32_t device, int limit, LimitMemory* next) {
  const auto bytes_of = [&](uint64_t value) {
    return host_->devices->BytesOfLimit(device, limit, value);
  };
  const uint64_t all = bytes_of(std::max(next->value, next->local_bytes));
  const uint64_t beyond = all - std::min(all, bytes_of(next->first_value));
  const uint64_t taken = std::exchange(next->taken, beyond);
  return beyond <= taken ? CudaResult::kSuccess : host_->outside->Take(device, beyond - taken);
}

CudaResult ControlExecutor::SetLimit(uint32_t device, int limit, uint64_t value) {
  LimitMemory& memory = LimitOf(device, limit);
  LimitMemory next = memory;
  next.value = value;
  CudaResult result = TakeFor(device, limit, &next);
  if (result != CudaResult::kSuccess) return result;
  result = host_->devices->context(device)->SetLimit(limit, value);
  const uint64_t most = std::max(next.taken, memory.taken);
  if (result == CudaResult::kSuccess) memory = next;
  host_->outside->Give(device, most - memory.taken);
  return result;
}

CudaResult ControlExecutor::TakeForKernel(uint32_t device, uint64_t local_bytes) {
  if (local_bytes == 0) return CudaResult::kSuccess;
  LimitMemory& memory = LimitOf(device, kLimitStackSize);
  if (local_bytes <= memory.local_bytes) return CudaResult::kSuccess;
  LimitMemory next = memory;
  next.local_bytes = local_bytes;
  const CudaResult result = TakeFor(device, kLimitStackSize, &next);
  if (result == CudaResult::kSuccess) memory = next;
  return result;
}

void ControlExecutor::Do(const cmd::LimitSet& command, Task& task) {
  cmd::LimitSetReply reply;
  const uint64_t most = host_->devices->MostOfLimit(command.device, command.limit);
  CudaResult result = CudaResult::kUnsupportedLimit;
  if (most > 0) {
    const CudaResult refusal =
        command.limit == kLimitStackSize ? CudaResult::kInvalidValue : CudaResult::kOutOfMemory;
    result =
        command.value > most ? refusal : SetLimit(command.device, command.limit, command.value);
  }
  if (result == CudaResult::kSuccess) {
    result = host_->devices->context(command.device)->GetLimit(command.limit, &reply.value);
  }
  host_->sink->Reply(task.seq, result, BytesOf(reply));
}

void ControlExecutor::Do(const cmd::ModuleCheck&, Task& task) {
  CudaResult& result = task.module->result;
  if (result == CudaResult::kSuccess) {
    result = host_->devices->code(task.module->device)->CheckModule(task.module->id);
  }
  host_->sink->Reply(task.seq, result);
}

void ControlExecutor::Do(const cmd::ModuleUnload& command, Task& task) {
  if (task.module->result != CudaResult::kSuccess) return;
  host_->state->OnModuleUnloading(command.module);
  if (!task.module->kept) Unload(task, task.module.get());
}

void ControlExecutor::Unload(const Task& task, Module* module) {
  const CudaResult result = host_->devices->code(module->device)->UnloadModule(module->id);
  if (result != CudaResult::kSuccess) return host_->reports->Fail(task.seq, task.id, result);
  host_->outside->Give(module->device, std::exchange(module->variable_bytes, 0));
}

// The driver keeps the kernels of a graph's nodes as they are, and does not notice when they go.
void ControlExecutor::UnloadLeaving(const Task& task, ModuleHold* hold) {
  for (const std::shared_ptr<Module>& module : hold->leaving) {
    if (module->result == CudaResult::kSuccess) Unload(task, module.get());
  }
  hold->leaving.clear();
}

CudaResult ControlExecutor::Find(Kernel* kernel, std::string_view name, std::string* fields,
                                 std::string* tail) {
  device::Context* const context = host_->devices->context(kernel->module->device);
  if (kernel->module->result != CudaResult::kSuccess) return kernel->module->result;
  device::Modules* const code = host_->devices->code(kernel->module->device);
  CudaResult result = code->FindKernel(kernel->module->id, std::string(name), &kernel->id);
  if (result != CudaResult::kSuccess) return result;
  std::vector<device::ParamLayout> params;
  result = context->Params(kernel->id, &params);
  if (result != CudaResult::kSuccess) return result;
  kernel->added = code->added_parameter();
  if (kernel->added != nullptr && !kernel->added->TakeOff(&params)) {
    return CudaResult::kInvalidImage;
  }
  for (const device::ParamLayout& param : params) {
    kernel->param_bytes = std::max(kernel->param_bytes, param.offset + param.size);
    tail->append(BytesOf(param));
  }
  if (host_->pointers != nullptr) {
    kernel->params = std::make_shared<const std::vector<device::ParamLayout>>(std::move(params));
  }
  cmd::KernelFindReply reply;
  for (int i = 0; i < static_cast<int>(std::size(reply.attributes)); ++i) {
    // Older drivers know fewer attributes; one that they do not know reads as 0.
    if (context->GetKernelAttribute(kernel->id, i, &reply.attributes[i]) != CudaResult::kSuccess) {
      reply.attributes[i] = 0;
    }
  }
  const int ptx_version = code->PtxVersion(kernel->module->id);
  if (ptx_version != 0) reply.attributes[kFunctionPtxVersion] = ptx_version;
  const auto local_bytes =
      static_cast<uint64_t>(std::max(reply.attributes[kFunctionLocalBytes], 0));
  result = TakeForKernel(kernel->module->device, local_bytes);
  if (result != CudaResult::kSuccess) return result;
  KernelSettings settings;
  static_assert(kFirstSetting + std::tuple_size_v<KernelSettings> == std::size(reply.attributes));
  std::copy_n(reply.attributes + kFirstSetting, settings.size(), settings.begin());
  LaunchGate::Found(context, settings, kernel);
  dispatch::KernelFacts& facts = kernel->on_device->facts;
  facts.name = dispatch::KernelNameHash(name);
  facts.registers = static_cast<uint32_t>(std::max(reply.attributes[kFunctionRegisters], 0));
  facts.shared_bytes = static_cast<uint32_t>(std::max(reply.attributes[kFunctionSharedBytes], 0));
  fields->assign(BytesOf(reply));
  return CudaResult::kSuccess;
}

void ControlExecutor::Do(const cmd::KernelFind&, Task& task) {
  std::string fields;
  std::string tail;
  task.kernel->result = Find(task.kernel.get(), task.tail, &fields, &tail);
  if (task.kernel->result != CudaResult::kSuccess) host_->prints->SendNotes();
  // A program that looks a kernel up is about to launch it.
  if (task.kernel->module->at_risk != 0) host_->state->OnAtRisk(task.kernel->module->at_risk);
  host_->sink->Reply(task.seq, task.kernel->result, fields, tail);
}

CudaResult ControlExecutor::FindVariable(const Task& task, uint64_t* address, uint64_t* bytes) {
  if (task.module->result != CudaResult::kSuccess) return task.module->result;
  const CudaResult result =
      host_->devices->code(task.module->device)
          ->FindGlobal(task.module->id, std::string(task.tail), address, bytes);
  if (result == CudaResult::kSuccess) {
    host_->state->OnVariableFound(task, *address, *bytes);
  } else {
    host_->prints->SendNotes();
  }
  return result;
}

void ControlExecutor::Do(const cmd::GlobalFind&, Task& task) {
  cmd::GlobalFindReply reply;
  const CudaResult result = FindVariable(task, &reply.address, &reply.bytes);
  host_->sink->Reply(task.seq, result, BytesOf(reply));
}

void ControlExecutor::Do(const cmd::VariableFind&, Task& task) {
  cmd::VariableFindReply reply;
  CudaResult result = FindVariable(task, &reply.address, &reply.bytes);
  if (result == CudaResult::kSuccess) {
    result = host_->devices->code(task.module->device)
                 ->ManagedBlock(reply.address, &reply.block, &reply.block_bytes);
  }
  host_->sink->Reply(task.seq, result, BytesOf(reply));
}

void ControlExecutor::Do(const cmd::KernelSetAttribute& command, Task& task) {
  const CudaResult result =
      host_->gate->Set(*task.former_kernel, command.attribute, command.value, task.kernel.get());
  host_->sink->Reply(task.seq, result);
}

void ControlExecutor::Do(const cmd::MaxActiveBlocks& command, Task& task) {
  cmd::MaxActiveBlocksReply reply;
  CudaResult result = task.kernel->result;
  if (result == CudaResult::kSuccess) {
    result = host_->gate->With({&task.kernel, 1}, [&] {
      return host_->devices->context(task.kernel->module->device)
          ->MaxActiveBlocks(task.kernel->id, static_cast<int>(command.block_threads),
                            command.dynamic_shared_bytes, command.flags, &reply.blocks);
    });
  }
  host_->sink->Reply(task.seq, result, BytesOf(reply));
}

void ControlExecutor::Do(const cmd::EventElapsed&, Task& task) {
  using State = worker::EventRecord::State;
  cmd::EventElapsedReply reply;
  CudaResult result = CudaResult::kInvalidHandle;
  const State start = task.event->state();
  const State end = task.second_event->state();
  if (start != State::kFailed && end != State::kFailed && start != State::kPending &&
      end != State::kPending &&
      task.event->executor->device() == task.second_event->executor->device()) {
    if (task.event->restored || task.second_event->restored) {
      // The device event is gone with its worker, but the host's clock saw both.
      reply.milliseconds = static_cast<float>(
          static_cast<double>(task.second_event->host_ns - task.event->host_ns) / 1e6);
      result = CudaResult::kSuccess;
    } else {
      device::Context* const context = host_->devices->context(task.event->executor->device());
      result = context->ElapsedMs(task.event->id(), task.second_event->id(), &reply.milliseconds);
    }
  }
  host_->sink->Reply(task.seq, result, BytesOf(reply));
}

// Once for all launches of the graph, whose nodes keep their parameters.
void ControlExecutor::LookAtParams(const Graph& graph) {
  if (host_->pointers == nullptr) return;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Kernel* const kernel = graph.kernels[i].get();
    if (kernel == nullptr || kernel->params == nullptr) continue;
    const absl::Span<const std::byte> params = graph.nodes[i].params;
    host_->pointers->Look(*kernel->params,
                          {reinterpret_cast<const char*>(params.data()), params.size()});
  }
}

void ControlExecutor::CreateGraph(Task& task) {
  Graph* const graph = task.graph.get();
  const uint64_t bytes = OutsideMemory::GraphBytes(graph->nodes.size(), graph->image->total());
  graph->result = host_->outside->Take(graph->device, bytes);
  if (graph->result == CudaResult::kSuccess) {
    graph->result = MakeGraph(host_->devices->context(graph->device), host_->gate, graph);
    LookAtParams(*graph);
    if (graph->native) {
      graph->outside_bytes = bytes;
    } else {
      host_->outside->Give(graph->device, bytes);
    }
  }
  if (IsSticky(graph->result)) host_->reports->Fail(task.seq, task.id, graph->result);
  host_->sink->Reply(task.seq, graph->result);
}

void ControlExecutor::Do(const cmd::GraphCreate&, Task& task) { CreateGraph(task); }

void ControlExecutor::Do(const cmd::GraphCreateIn&, Task& task) {
  CreateGraph(task);
  if (!task.graph->native) return;
  ++frames_;
  NoteObjects();
}

void ControlExecutor::Do(const cmd::ConditionalCreate& command, Task& task) {
  Frame& frame = *task.frame;
  cmd::ConditionalCreateReply reply;
  CudaResult result = CudaResult::kSuccess;
  if (frame.filled || frame.conditionals.size() >= kMaxGraphBodies) {
    result = frame.filled ? CudaResult::kNotSupported : CudaResult::kOutOfMemory;
  } else if (!frame.created) {
    result = host_->devices->context(frame.device)->CreateFrame(&frame.id);
    frame.created = result == CudaResult::kSuccess;
    frames_ += frame.created ? 1 : 0;
    NoteObjects();
  }
  if (result == CudaResult::kSuccess) {
    result = host_->devices->context(frame.device)
                 ->AddConditional(frame.id, command.first_value, command.flags, &reply.conditional);
  }
  if (result == CudaResult::kSuccess) frame.conditionals.insert(reply.conditional);
  host_->sink->Reply(task.seq, result, BytesOf(reply));
}

void ControlExecutor::Do(const cmd::ConditionalDestroy&, Task& task) {
  if (task.frame->created) {
    const CudaResult result =
        host_->devices->context(task.frame->device)->DestroyFrame(task.frame->id);
    --frames_;
    NoteObjects();
    // Commands that were queued before this and name it find nothing there.
    task.frame->created = false;
    if (result != CudaResult::kSuccess) host_->reports->Fail(task.seq, task.id, result);
  }
  UnloadLeaving(task, &task.frame->hold);
}

void ControlExecutor::Do(const cmd::GraphDestroy&, Task& task) {
  if (task.graph->native) {
    if (task.graph->frame != nullptr) {
      --frames_;
      NoteObjects();
    }
    const CudaResult result =
        host_->devices->context(task.graph->device)->DestroyGraph(task.graph->id);
    if (result != CudaResult::kSuccess) host_->reports->Fail(task.seq, task.id, result);
    host_->outside->Give(task.graph->device, std::exchange(task.graph->outside_bytes, 0));
  }
  for (const auto& partition : task.graph->partitions) {
    if (partition != nullptr) EndUse(partition.get(), *host_);
  }
  UnloadLeaving(task, &task.graph->hold);
}

}  // namespace warpline::worker
