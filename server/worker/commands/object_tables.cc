#include "server/worker/commands/object_tables.h"

#include <utility>

namespace warpline::worker {

std::shared_ptr<Image> ObjectTables::TakeImage(uint64_t handle) {
  const auto it = images.find(handle);
  if (it == images.end() || !it->second->complete()) return nullptr;
  std::shared_ptr<Image> image = std::move(it->second);
  images.erase(it);
  return image;
}

void ObjectTables::Hold(const std::vector<std::shared_ptr<Kernel>>& kernels, ModuleHold* hold) {
  for (const std::shared_ptr<Kernel>& kernel : kernels) {
    if (kernel != nullptr && hold->held.insert(kernel->module).second) ++kernel->module->holders;
  }
}

void ObjectTables::Release(ModuleHold* hold) {
  for (const std::shared_ptr<Module>& module : hold->held) {
    if (--module->holders > 0 || !module->kept) continue;
    module_bytes -= module->image_bytes;
    hold->leaving.push_back(module);
  }
  hold->held.clear();
}

void ObjectTables::DropImage(uint64_t handle) {
  const auto it = images.find(handle);
  if (!it->second->missing()) module_bytes -= it->second->total();
  images.erase(it);
}

}  // namespace warpline::worker
