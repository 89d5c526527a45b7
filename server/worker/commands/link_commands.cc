#include <memory>
#include <utility>

#include "proto/devices.h"
#include "server/worker/commands/families.h"

namespace warpline::worker {

void LinkCommands::On(const cmd::LinkCreate& command, std::string_view tail) {
  if (tables().links.contains(command.link) || !HasDeviceOf(command.link)) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  if (!HandlesLeft()) return;
  auto link = std::make_shared<Link>();
  link->device = DeviceOfHandle(command.link);
  Task task = NewTask(command, tail);
  task.link = link;
  if (!order().ToLinker<cmd::LinkCreate>(std::move(task))) {
    return Refuse(CudaResult::kOutOfMemory);
  }
  tables().links.emplace(command.link, std::move(link));
}

template <typename Command>
void LinkCommands::ToLink(const Command& command, std::string_view tail) {
  Task task = NewTask(command, tail);
  task.link = FindIn(tables().links, command.link);
  if (task.link == nullptr) return Refuse(CudaResult::kInvalidHandle);
  if (!order().ToLinker<Command>(std::move(task))) Refuse(CudaResult::kOutOfMemory);
}

void LinkCommands::On(const cmd::LinkAdd& command, std::string_view tail) {
  const std::shared_ptr<Link> link = FindIn(tables().links, command.link);
  const std::shared_ptr<Image> known = FindIn(tables().images, command.image);
  if (link == nullptr || known == nullptr || !known->complete()) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  if (command.name_bytes > tail.size()) return Refuse(CudaResult::kInvalidValue);
  Task task = NewTask(command, tail);
  task.link = link;
  task.image = tables().TakeImage(command.image);
  link->image_bytes += task.image->total();
  // The client still has it, for a worker that does not know the link.
  if (parts_.recorder != nullptr) {
    parts_.recorder->journal()->Forget(JournalKind::kImage, command.image);
  }
  if (!order().ToLinker<cmd::LinkAdd>(std::move(task))) Refuse(CudaResult::kOutOfMemory);
}

void LinkCommands::On(const cmd::LinkComplete& command, std::string_view tail) {
  ToLink(command, tail);
}
void LinkCommands::On(const cmd::LinkRead& command, std::string_view tail) {
  ToLink(command, tail);
}
void LinkCommands::On(const cmd::LinkLog& command, std::string_view tail) { ToLink(command, tail); }

void LinkCommands::On(const cmd::LinkDestroy& command, std::string_view tail) {
  const auto link = tables().links.find(command.link);
  // A link that a former worker had is gone with that worker.
  if (link == tables().links.end()) return RetireHere();
  tables().leaving_bytes.Add(link->second, link->second->image_bytes);
  tables().module_bytes -= link->second->image_bytes;
  ToLink(command, tail);
  tables().links.erase(link);
}

}  // namespace warpline::worker
