#include <memory>
#include <utility>

#include "proto/devices.h"
#include "server/worker/commands/families.h"

namespace warpline::worker {

void ArrayCommands::On(const cmd::TensorMapEncode& command, std::string_view tail) {
  order().ToControl<cmd::TensorMapEncode>(NewTask(command, tail));
}

void ArrayCommands::On(const cmd::LinearTextureWidth& command, std::string_view tail) {
  if (command.device >= parts_.devices->size()) return Refuse(CudaResult::kInvalidDevice);
  order().ToControl<cmd::LinearTextureWidth>(NewTask(command, tail));
}

void ArrayCommands::On(const cmd::ArrayCreate& command, std::string_view tail) {
  if (tables().arrays.contains(command.array) || !HasDeviceOf(command.array)) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  if (!HandlesLeft()) return;
  Task task = NewTask(command, tail);
  task.array = std::make_shared<Array>();
  task.array->ticket = order().NextControlTicket();
  task.array->device = DeviceOfHandle(command.array);
  task.array->shape = {command.width,    command.height, command.depth, command.format,
                       command.channels, command.flags,  command.levels};
  tables().arrays.emplace(command.array, task.array);
  order().ToControl<cmd::ArrayCreate>(std::move(task));
}

void ArrayCommands::On(const cmd::ArrayPart& command, std::string_view tail) {
  std::shared_ptr<Array> whole = FindIn(tables().arrays, command.whole);
  if (whole == nullptr || whole->whole != nullptr || tables().arrays.contains(command.part) ||
      DeviceOfHandle(command.part) != whole->device) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  if (!HandlesLeft()) return;
  Task task = NewTask(command, tail);
  task.array = std::make_shared<Array>();
  task.array->ticket = order().NextControlTicket();
  task.array->device = whole->device;
  task.array->whole = std::move(whole);
  tables().arrays.emplace(command.part, task.array);
  order().ToControl<cmd::ArrayPart>(std::move(task));
}

void ArrayCommands::On(const cmd::ArrayDestroy& command, std::string_view tail) {
  const std::shared_ptr<Array> array = FindIn(tables().arrays, command.array);
  if (array == nullptr || array->whole != nullptr) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  task.array = array;
  absl::erase_if(tables().arrays, [&](const auto& entry) {
    return entry.second == array || entry.second->whole == array;
  });
  order().ToControl<cmd::ArrayDestroy>(std::move(task));
}

template <typename Command>
Stream* ArrayCommands::Copy(const Command& command, std::string_view tail,
                            std::shared_ptr<Array> array, std::shared_ptr<Array> second) {
  Stream* const stream = FindStream(command.stream);
  if (stream == nullptr || array == nullptr || second == nullptr) {
    Refuse(CudaResult::kInvalidHandle);
    return nullptr;
  }
  Task task = NewTask(command, tail);
  task.array = std::move(array);
  task.second_array = std::move(second);
  order().ToStream<Command>(stream, std::move(task));
  return stream;
}

void ArrayCommands::On(const cmd::CopyToArray& command, std::string_view tail) {
  const auto array = FindIn(tables().arrays, command.array);
  Copy(command, tail, array, array);
}

void ArrayCommands::On(const cmd::CopyFromArray& command, std::string_view tail) {
  const auto array = FindIn(tables().arrays, command.array);
  if (Stream* const stream = Copy(command, tail, array, array)) order().SendsData(stream);
}

void ArrayCommands::On(const cmd::CopyDeviceToArray& command, std::string_view tail) {
  const auto array = FindIn(tables().arrays, command.array);
  Copy(command, tail, array, array);
}

void ArrayCommands::On(const cmd::CopyArrayToDevice& command, std::string_view tail) {
  const auto array = FindIn(tables().arrays, command.array);
  Copy(command, tail, array, array);
}

void ArrayCommands::On(const cmd::CopyArrayToArray& command, std::string_view tail) {
  Copy(command, tail, FindIn(tables().arrays, command.to), FindIn(tables().arrays, command.from));
}

void ArrayCommands::On(const cmd::TextureCreate& command, std::string_view tail) {
  cmd::TextureCreate bound = command;
  if (command.resource == 0 && parts_.arena_bytes > 0) {
    const uint32_t devices = parts_.devices->size();
    const uint64_t device =
        DeviceOfAddress(command.address, parts_.arena_base, parts_.arena_bytes, devices);
    // Number 0 is no array; the executor takes the device from the handle.
    if (device < devices) bound.resource = HandleOnDevice(static_cast<uint32_t>(device), 0);
  }
  Task task = NewTask(bound, tail);
  if (command.resource != 0) {
    task.array = FindIn(tables().arrays, command.resource);
    if (task.array == nullptr) return Refuse(CudaResult::kInvalidHandle);
  }
  order().ToControl<cmd::TextureCreate>(std::move(task));
}

void ArrayCommands::On(const cmd::TextureDestroy& command, std::string_view tail) {
  if (command.device >= parts_.devices->size()) return Refuse(CudaResult::kInvalidDevice);
  order().ToControl<cmd::TextureDestroy>(NewTask(command, tail));
}

}  // namespace warpline::worker
