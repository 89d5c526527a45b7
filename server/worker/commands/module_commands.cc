#include <memory>
#include <utility>

#include "common/crypto/content_hash.h"
#include "proto/devices.h"
#include "server/worker/commands/families.h"
#include "server/worker/executors/session_log.h"

namespace warpline::worker {
namespace {

// Makes a module of an image that is complete, or of one that the client has yet to send; commands
// that use the module then say so. `task` is that of the command.
bool MakeModule(uint64_t handle, uint64_t image_handle, uint64_t ticket, ObjectTables* tables,
                Task* task) RUNS_ON(decoder_thread) {
  const auto image = tables->images.find(image_handle);
  if (image == tables->images.end() || tables->modules.contains(handle) ||
      !(image->second->complete() || image->second->missing())) {
    return false;
  }
  task->image = std::move(image->second);
  tables->images.erase(image);
  auto module = std::make_shared<Module>();
  module->device = DeviceOfHandle(handle);
  module->image_bytes = task->image->missing() ? 0 : task->image->total();
  module->image = task->image;
  module->ticket = ticket;
  tables->modules.emplace(handle, module);
  task->module = std::move(module);
  return true;
}

}  // namespace

bool ModuleCommands::IsVetted(uint64_t handle) {
  if (parts_.vetted == nullptr) return true;
  const std::shared_ptr<Image> image = FindIn(tables().images, handle);
  // An image that is not there, or not complete, becomes no module.
  if (image == nullptr || !image->complete() || parts_.vetted->Has(image->bytes())) return true;
  if (const LogPermit permit = parts_.log->Ask(kNotVettedLine)) {
    ContentHash hash;
    permit.Warning("not vetted, and not loaded: an image of bytes=", image->total(),
                   " sha256=", HashContent(image->bytes(), &hash) ? HashText(hash) : "");
  }
  return false;
}

template <typename Command>
void ModuleCommands::Load(const Command& command, std::string_view tail) {
  Task task = NewTask(command, tail);
  if (!IsVetted(command.image)) {
    tables().DropImage(command.image);
    tables().unvetted_modules.Note(command.module);
    return Refuse(CudaResult::kNotPermitted);
  }
  if (!HasDeviceOf(command.module) ||
      !MakeModule(command.module, command.image, order().NextControlTicket(), &tables(), &task)) {
    if (!tables().refused_images.Has(command.image)) return Refuse(CudaResult::kInvalidHandle);
    tables().refused_modules.Note(command.module);
    return Refuse(CudaResult::kOutOfMemory);
  }
  order().ToControl<Command>(std::move(task));
}

void ModuleCommands::On(const cmd::ModuleLoad& command, std::string_view tail) {
  Load(command, tail);
}
void ModuleCommands::On(const cmd::ModuleLoadJit& command, std::string_view tail) {
  Load(command, tail);
}

template <typename Command>
void ModuleCommands::ToModule(const Command& command, std::string_view tail) {
  Task task = NewTask(command, tail);
  task.module = FindIn(tables().modules, command.module);
  if (task.module == nullptr) return Refuse(tables().WhyNoModule(command.module));
  order().ToControl<Command>(std::move(task));
}

void ModuleCommands::On(const cmd::ModuleJitLog& command, std::string_view tail) {
  ToModule(command, tail);
}
void ModuleCommands::On(const cmd::ModuleKernels& command, std::string_view tail) {
  ToModule(command, tail);
}
void ModuleCommands::On(const cmd::ModuleCheck& command, std::string_view tail) {
  ToModule(command, tail);
}
void ModuleCommands::On(const cmd::GlobalFind& command, std::string_view tail) {
  ToModule(command, tail);
}
void ModuleCommands::On(const cmd::VariableFind& command, std::string_view tail) {
  ToModule(command, tail);
}

void ModuleCommands::On(const cmd::ModuleUnload& command, std::string_view tail) {
  Task task = NewTask(command, tail);
  task.module = FindIn(tables().modules, command.module);
  if (task.module == nullptr) return Refuse(CudaResult::kInvalidHandle);
  task.module->kept = task.module->holders > 0;
  if (!task.module->kept) tables().module_bytes -= task.module->image_bytes;
  tables().leaving_bytes.Add(task.module->image.lock(), task.module->image_bytes);
  // Kernels end with their module.
  absl::erase_if(tables().kernels,
                 [&](const auto& kernel) { return kernel.second->module == task.module; });
  tables().modules.erase(command.module);
  order().AfterAllIsComplete(&task);
  order().ToControl<cmd::ModuleUnload>(std::move(task));
}

}  // namespace warpline::worker
