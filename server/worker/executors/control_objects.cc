// The rest of the control executor: arrays, textures, tensor maps and libraries.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "common/cuda/array_format.h"
#include "proto/adapters/cublas_slots.h"
#include "proto/adapters/library_call.h"
#include "proto/adapters/lt_types.h"
#include "server/worker/executors/control_executor.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kMaxExtent = 1u << 18;
constexpr size_t kMaxTextures = 1u << 20;

template <typename Reply>
Reply Describe(const device::ArrayShape& shape) {
  return {shape.width,    shape.height, shape.depth, shape.format,
          shape.channels, shape.flags,  shape.levels};
}

template <typename To, typename From>
void CopyAll(const From& from, To* to) {
  std::copy(std::begin(from), std::end(from), std::begin(*to));
}

device::Texture ToTexture(const cmd::TextureCreate& command) {
  device::Texture texture;
  texture.is_surface = command.is_surface != 0;
  texture.kind = command.kind;
  texture.address = command.address;
  texture.format = command.format;
  texture.channels = command.channels;
  texture.width = command.width;
  texture.height = command.height;
  texture.pitch = command.pitch;
  CopyAll(command.address_modes, &texture.address_modes);
  texture.filter = command.filter;
  texture.flags = command.flags;
  texture.anisotropy = command.anisotropy;
  texture.level_filter = command.level_filter;
  texture.level_bias = command.level_bias;
  texture.least_level = command.least_level;
  texture.most_level = command.most_level;
  CopyAll(command.border, &texture.border);
  texture.has_view = command.has_view != 0;
  texture.view_format = command.view_format;
  texture.view_width = command.view_width;
  texture.view_height = command.view_height;
  texture.view_depth = command.view_depth;
  texture.first_level = command.first_level;
  texture.last_level = command.last_level;
  texture.first_layer = command.first_layer;
  texture.last_layer = command.last_layer;
  return texture;
}

template <typename T>
void AppendAll(const std::vector<T>& from, std::string* to) {
  to->append(reinterpret_cast<const char*>(from.data()), from.size() * sizeof(T));
}

}  // namespace

void ControlExecutor::Do(const cmd::TensorMapEncode& command, Task& task) {
  device::TensorMap map;
  map.kind = command.kind;
  map.data_type = command.data_type;
  map.rank = command.rank;
  map.address = command.address;
  CopyAll(command.sizes, &map.sizes);
  CopyAll(command.strides, &map.strides);
  CopyAll(command.box, &map.box);
  CopyAll(command.element_strides, &map.element_strides);
  CopyAll(command.lower, &map.lower);
  CopyAll(command.upper, &map.upper);
  map.channels = command.channels;
  map.pixels = command.pixels;
  map.interleave = command.interleave;
  map.swizzle = command.swizzle;
  map.promotion = command.promotion;
  map.fill = command.fill;
  map.mode = command.mode;
  // The driver wants it aligned.
  alignas(64) device::TensorMapBytes bytes{};
  CudaResult result = CudaResult::kSuccess;
  if (map.kind == device::TensorMap::kReplaceAddress) {
    if (task.tail.size() == sizeof(bytes)) {
      std::memcpy(bytes.data(), task.tail.data(), sizeof(bytes));
    } else {
      result = CudaResult::kInvalidValue;
    }
  }
  if (result == CudaResult::kSuccess) result = context_->EncodeTensorMap(map, &bytes);
  cmd::TensorMapEncodeReply reply;
  CopyAll(bytes, &reply.map);
  host_->sink->Reply(task.seq, result, BytesOf(reply));
}

void ControlExecutor::Do(const cmd::LibraryFind& command, Task& task) {
  cmd::LibraryFindReply reply;
  reply.functions = static_cast<uint32_t>(AllLibraryFunctions().size());
  const CudaResult result = host_->devices->context(command.device)->LibraryVersion(&reply.version);
  host_->sink->Reply(task.seq, result, BytesOf(reply));
}

void ControlExecutor::Do(const cmd::LibraryAsk& command, Task& task) {
  std::array<uint64_t, kMostLibraryValues> values;
  LibraryCall call;
  std::vector<LtAlgorithm> algorithms;
  std::vector<LtKind> kinds;
  CudaResult result = CudaResult::kInvalidValue;
  const size_t count = task.tail.size() / sizeof(uint64_t);
  if (command.function != kLtMatmulNumber) {
    result = CudaResult::kNotSupported;
  } else if (count == kLtMatmulValues && task.tail.size() % sizeof(uint64_t) == 0) {
    std::memcpy(values.data(), task.tail.data(), task.tail.size());
    const absl::Span<const uint64_t> all(values.data(), count);
    result = ReadLibraryCall(*FindLibraryFunction(command.function), command.modes, all, &call);
    device::Context* const context = host_->devices->context(command.device);
    if (result == CudaResult::kSuccess && command.question == kLtAskAlgorithms) {
      result = context->LibraryAlgorithms(command.modes, all, &algorithms);
    } else if (result == CudaResult::kSuccess && command.question == kLtAskKinds) {
      result = context->LibraryKinds(all, &kinds);
    } else if (result == CudaResult::kSuccess) {
      result = CudaResult::kNotSupported;
    }
  }
  cmd::LibraryAskReply reply;
  reply.count = static_cast<uint32_t>(algorithms.size() + kinds.size());
  std::string bytes(BytesOf(reply));
  AppendAll(algorithms, &bytes);
  AppendAll(kinds, &bytes);
  host_->sink->Reply(task.seq, result, bytes);
}

void ControlExecutor::Do(const cmd::LinearTextureWidth& command, Task& task) {
  cmd::LinearTextureWidthReply reply;
  const CudaResult result =
      host_->devices->context(command.device)
          ->LinearTextureWidth(command.format, command.channels, &reply.elements);
  host_->sink->Reply(task.seq, result, BytesOf(reply));
}

void ControlExecutor::NoteObjects() {
  host_->state->OnLostWithWorker(arrays_ > 0 || frames_ > 0 || !textures_.empty());
}

CudaResult ControlExecutor::Create(Array* array) {
  device::ArrayShape& shape = array->shape;
  if (shape.levels > 0) {
    // CUDA clamps it in the same way.
    const uint64_t longest = std::max({shape.width, shape.height, shape.depth});
    shape.levels = std::min<uint32_t>(shape.levels,
                                      std::max(static_cast<uint32_t>(std::bit_width(longest)), 1u));
  }
  // An array that no device can have is refused as such, whatever the quota leaves.
  if (std::max({shape.width, shape.height, shape.depth}) > kMaxExtent) {
    return CudaResult::kInvalidValue;
  }
  const uint64_t bytes = ArrayChargedBytes(shape.extents());
  CudaResult result = host_->charger->Charge(array->device, bytes);
  if (result != CudaResult::kSuccess) return result;
  result = host_->devices->context(array->device)->CreateArray(&shape, &array->id);
  if (result != CudaResult::kSuccess) {
    host_->charger->Uncharge(array->device, bytes);
    return result;
  }
  array->charged_bytes = bytes;
  ++arrays_;
  NoteObjects();
  return CudaResult::kSuccess;
}

void ControlExecutor::Do(const cmd::ArrayCreate&, Task& task) {
  task.array->result = Create(task.array.get());
  host_->sink->Reply(task.seq, task.array->result,
                     BytesOf(Describe<cmd::ArrayCreateReply>(task.array->shape)));
}

void ControlExecutor::Do(const cmd::ArrayPart& command, Task& task) {
  Array& part = *task.array;
  const Array& whole = *part.whole;
  part.result = whole.result;
  if (part.result == CudaResult::kSuccess) {
    device::Context* const context = host_->devices->context(part.device);
    part.result = command.what == 0
                      ? context->ArrayLevel(whole.id, command.index, &part.shape, &part.id)
                      : context->ArrayPlane(whole.id, command.index, &part.shape, &part.id);
  }
  host_->sink->Reply(task.seq, part.result, BytesOf(Describe<cmd::ArrayPartReply>(part.shape)));
}

void ControlExecutor::Do(const cmd::ArrayDestroy&, Task& task) {
  if (task.array->result != CudaResult::kSuccess) return;
  const CudaResult result =
      host_->devices->context(task.array->device)->DestroyArray(task.array->id);
  if (result != CudaResult::kSuccess) return host_->reports->Fail(task.seq, task.id, result);
  host_->charger->Uncharge(task.array->device, task.array->charged_bytes);
  --arrays_;
  NoteObjects();
}

void ControlExecutor::Do(const cmd::TextureCreate& command, Task& task) {
  device::Texture texture = ToTexture(command);
  const uint32_t device =
      task.array != nullptr ? task.array->device : DeviceOfHandle(command.resource);
  cmd::TextureCreateReply reply;
  CudaResult result = CudaResult::kSuccess;
  const bool of_array =
      texture.kind == device::Texture::kArray || texture.kind == device::Texture::kMipmapped;
  if (of_array && task.array == nullptr) result = CudaResult::kInvalidValue;
  if (of_array && task.array != nullptr) {
    result = task.array->result;
    texture.array = task.array->id;
  }
  if (textures_.size() >= kMaxTextures) result = CudaResult::kOutOfMemory;
  if (result == CudaResult::kSuccess) {
    result = host_->devices->context(device)->CreateTexture(texture, &reply.object);
  }
  if (result == CudaResult::kSuccess) {
    textures_.insert({device, reply.object, texture.is_surface});
    NoteObjects();
  }
  host_->sink->Reply(task.seq, result, BytesOf(reply));
}

void ControlExecutor::Do(const cmd::TextureDestroy& command, Task& task) {
  const bool is_surface = command.is_surface != 0;
  CudaResult result = CudaResult::kInvalidValue;
  // Other numbers are not passed to the driver.
  if (textures_.erase({command.device, command.object, is_surface}) > 0) {
    result = host_->devices->context(command.device)->DestroyTexture(command.object, is_surface);
    NoteObjects();
  }
  if (result != CudaResult::kSuccess) host_->reports->Fail(task.seq, task.id, result);
}

}  // namespace warpline::worker
