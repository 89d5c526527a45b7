#include <memory>
#include <utility>

#include "server/worker/commands/families.h"

namespace warpline::worker {

void KernelCommands::On(const cmd::KernelFind& command, std::string_view tail) {
  const std::shared_ptr<Module> module = FindIn(tables().modules, command.module);
  if (module == nullptr) return Refuse(tables().WhyNoModule(command.module));
  if (tables().kernels.contains(command.kernel)) return Refuse(CudaResult::kInvalidHandle);
  if (!HandlesLeft()) return;
  Task task = NewTask(command, tail);
  task.kernel = std::make_shared<Kernel>();
  task.kernel->module = module;
  task.kernel->ticket = order().NextControlTicket();
  tables().kernels.emplace(command.kernel, task.kernel);
  order().ToControl<cmd::KernelFind>(std::move(task));
}

// Launches that were made before keep the kernel as it was.
void KernelCommands::On(const cmd::KernelSetAttribute& command, std::string_view tail) {
  const auto kernel = tables().kernels.find(command.kernel);
  if (kernel == tables().kernels.end()) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  task.kernel = std::make_shared<Kernel>();
  task.kernel->module = kernel->second->module;
  task.kernel->ticket = order().NextControlTicket();
  task.former_kernel = std::exchange(kernel->second, task.kernel);
  order().ToControl<cmd::KernelSetAttribute>(std::move(task));
}

template <typename Command>
void KernelCommands::ToKernel(const Command& command, std::string_view tail) {
  Task task = NewTask(command, tail);
  task.kernel = FindIn(tables().kernels, command.kernel);
  if (task.kernel == nullptr) return Refuse(CudaResult::kInvalidHandle);
  order().ToControl<Command>(std::move(task));
}

void KernelCommands::On(const cmd::MaxActiveBlocks& command, std::string_view tail) {
  ToKernel(command, tail);
}
void KernelCommands::On(const cmd::ClusterOccupancy& command, std::string_view tail) {
  ToKernel(command, tail);
}

template <typename Command>
void KernelCommands::Launch(const Command& command, std::string_view tail) {
  Stream* const stream = FindStream(command.stream);
  const auto kernel = tables().kernels.find(command.kernel);
  if (stream == nullptr || kernel == tables().kernels.end() ||
      kernel->second->module->device != stream->executor->device()) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  Task task = NewTask(command, tail);
  task.kernel = kernel->second;
  order().ToStream<Command>(stream, std::move(task));
}

void KernelCommands::On(const cmd::Launch& command, std::string_view tail) {
  Launch(command, tail);
}
void KernelCommands::On(const cmd::LaunchEx& command, std::string_view tail) {
  Launch(command, tail);
}

}  // namespace warpline::worker
