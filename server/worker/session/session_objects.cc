// Links, arrays, textures and tensor maps: the rest of the decoder.
#include <utility>

#include "server/worker/lanes/link_lane.h"
#include "server/worker/session/session.h"

namespace warpline::worker {

CudaResult Session::Charge(uint32_t device, uint64_t bytes) {
  return charger_ == nullptr ? CudaResult::kSuccess : charger_->Charge(device, bytes);
}

void Session::Uncharge(uint32_t device, uint64_t bytes) {
  if (charger_ != nullptr) charger_->Uncharge(device, bytes);
}

void Session::AfterAllIssued(Task* task) {
  const auto wait_for = [&](const std::shared_ptr<Lane>& lane) {
    if (lane->issued() < lane->appended()) task->after.push_back({lane, lane->appended()});
  };
  for (const auto& [stream, lane] : lanes_) wait_for(lane);
  for (const auto& lane : leaving_) wait_for(lane);
}

void Session::On(const cmd::TensorMapEncode& command, std::string_view tail) {
  ToControl(NewTask(command, tail));
}

// --- Links

template <typename Command>
void Session::ToLink(const Command& command, std::string_view tail) {
  const auto link = links_.find(command.link);
  if (link == links_.end()) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  task.link = link->second;
  linker_->Append(std::move(task));
}

void Session::On(const cmd::LinkCreate& command, std::string_view tail) {
  if (links_.contains(command.link) || !HasDevice(command.link)) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  if (!HandlesLeft()) return;
  if (linker_ == nullptr) {
    auto lane = std::make_shared<LinkLane>(this);
    if (!lane->Start()) return Refuse(CudaResult::kOutOfMemory);
    linker_ = lane;
    MutexLock lock(&mu_);
    all_lanes_.push_back(std::move(lane));
  }
  auto link = std::make_shared<Link>();
  link->device = DeviceOfHandle(command.link);
  links_.emplace(command.link, std::move(link));
  ToLink(command, tail);
}

void Session::On(const cmd::LinkAdd& command, std::string_view tail) {
  const auto link = links_.find(command.link);
  const auto image = images_.find(command.image);
  if (link == links_.end() || image == images_.end() || !image->second->complete()) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  if (command.name_bytes > tail.size()) return Refuse(CudaResult::kInvalidValue);
  Task task = NewTask(command, tail);
  task.link = link->second;
  task.image = std::move(image->second);
  task.link->image_bytes += task.image->total();
  images_.erase(image);
  // The client has it still, for a worker that does not know the link.
  if (recorder_ != nullptr) recorder_->journal()->Forget(JournalKind::kImage, command.image);
  linker_->Append(std::move(task));
}

void Session::On(const cmd::LinkComplete& command, std::string_view tail) { ToLink(command, tail); }
void Session::On(const cmd::LinkRead& command, std::string_view tail) { ToLink(command, tail); }
void Session::On(const cmd::LinkLog& command, std::string_view tail) { ToLink(command, tail); }

void Session::On(const cmd::LinkDestroy& command, std::string_view tail) {
  const auto link = links_.find(command.link);
  // One that a former worker had is gone with it.
  if (link == links_.end()) return RetireHere();
  Task task = NewTask(command, tail);
  task.link = link->second;
  module_bytes_ -= link->second->image_bytes;
  links_.erase(link);
  linker_->Append(std::move(task));
}

// --- Arrays and textures

std::shared_ptr<Array> Session::FindArray(uint64_t handle) {
  const auto it = arrays_.find(handle);
  return it == arrays_.end() ? nullptr : it->second;
}

void Session::On(const cmd::ArrayCreate& command, std::string_view tail) {
  if (arrays_.contains(command.array) || !HasDevice(command.array)) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  if (!HandlesLeft()) return;
  Task task = NewTask(command, tail);
  auto array = std::make_shared<Array>();
  array->ticket = control_->appended() + 1;
  array->device = DeviceOfHandle(command.array);
  array->shape = {command.width,    command.height, command.depth, command.format,
                  command.channels, command.flags,  command.levels};
  arrays_.emplace(command.array, array);
  task.array = std::move(array);
  ToControl(std::move(task));
}

void Session::On(const cmd::ArrayPart& command, std::string_view tail) {
  std::shared_ptr<Array> whole = FindArray(command.whole);
  if (whole == nullptr || whole->whole != nullptr || arrays_.contains(command.part) ||
      DeviceOfHandle(command.part) != whole->device) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  if (!HandlesLeft()) return;
  Task task = NewTask(command, tail);
  auto part = std::make_shared<Array>();
  part->ticket = control_->appended() + 1;
  part->device = whole->device;
  part->whole = std::move(whole);
  arrays_.emplace(command.part, part);
  task.array = std::move(part);
  ToControl(std::move(task));
}

void Session::On(const cmd::ArrayDestroy& command, std::string_view tail) {
  const std::shared_ptr<Array> array = FindArray(command.array);
  if (array == nullptr || array->whole != nullptr) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  task.array = array;
  AfterAllIssued(&task);
  absl::erase_if(arrays_, [&](const auto& entry) {
    return entry.second == array || entry.second->whole == array;
  });
  ToControl(std::move(task));
}

template <typename Command>
void Session::CopyOn(const Command& command, std::string_view tail, std::shared_ptr<Array> array,
                     std::shared_ptr<Array> second) {
  const std::shared_ptr<Lane> lane = FindLane(command.stream);
  if (lane == nullptr || array == nullptr || second == nullptr) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  Task task = NewTask(command, tail);
  for (const auto& used : {array, second}) {
    if (control_->issued() < used->ticket) task.after.push_back({control_, used->ticket});
  }
  task.array = std::move(array);
  task.second_array = std::move(second);
  Enqueue(lane, std::move(task));
}

void Session::On(const cmd::CopyToArray& command, std::string_view tail) {
  const auto array = FindArray(command.array);
  CopyOn(command, tail, array, array);
}

void Session::On(const cmd::CopyFromArray& command, std::string_view tail) {
  const auto array = FindArray(command.array);
  CopyOn(command, tail, array, array);
  if (const auto lane = FindLane(command.stream)) lane->data_ticket = lane->appended();
}

void Session::On(const cmd::CopyDeviceToArray& command, std::string_view tail) {
  const auto array = FindArray(command.array);
  CopyOn(command, tail, array, array);
}

void Session::On(const cmd::CopyArrayToDevice& command, std::string_view tail) {
  const auto array = FindArray(command.array);
  CopyOn(command, tail, array, array);
}

void Session::On(const cmd::CopyArrayToArray& command, std::string_view tail) {
  CopyOn(command, tail, FindArray(command.to), FindArray(command.from));
}

void Session::On(const cmd::TextureCreate& command, std::string_view tail) {
  cmd::TextureCreate bound = command;
  if (command.resource == 0 && arena_bytes_ > 0) {
    const auto devices = static_cast<uint32_t>(devices_.size());
    const uint64_t device = DeviceOfAddress(command.address, arena_base_, arena_bytes_, devices);
    // Number 0 is no array; the lane asks the handle for the device.
    if (device < devices) bound.resource = HandleOnDevice(static_cast<uint32_t>(device), 0);
  }
  Task task = NewTask(bound, tail);
  if (command.resource != 0) {
    task.array = FindArray(command.resource);
    if (task.array == nullptr) return Refuse(CudaResult::kInvalidHandle);
  }
  ToControl(std::move(task));
}

void Session::On(const cmd::TextureDestroy& command, std::string_view tail) {
  if (command.device >= devices_.size()) return Refuse(CudaResult::kInvalidDevice);
  Task task = NewTask(command, tail);
  AfterAllIssued(&task);
  ToControl(std::move(task));
}

}  // namespace warpline::worker
