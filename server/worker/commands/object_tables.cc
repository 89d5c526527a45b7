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

void ObjectTables::DropImage(uint64_t handle) {
  const auto it = images.find(handle);
  if (!it->second->missing()) module_bytes -= it->second->total();
  images.erase(it);
}

}  // namespace warpline::worker
