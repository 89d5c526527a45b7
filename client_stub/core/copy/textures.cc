#include "client_stub/core/copy/textures.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "client_stub/core/copy/arrays.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/tier/tier_watch.h"
#include "common/mutex.h"

namespace warpline::stub {
namespace {

// The device; the number, which another device may use too; and whether it is a surface's.
using Key = std::tuple<uint32_t, uint64_t, bool>;

struct Table {
  Mutex mu;
  std::map<Key, TextureInfo> objects ABSL_GUARDED_BY(mu);
};

Table& table() {
  static Table* const made = new Table;
  return *made;
}

// Finds the key of the current device's object with that number, else of any other device's.
bool FindKey(const std::map<Key, TextureInfo>& objects, uint64_t object, bool is_surface,
             Key* key) {
  const uint32_t current = CurrentDevice().number;
  for (uint32_t i = 0; i < runtime().device_count; ++i) {
    *key = {(current + i) % runtime().device_count, object, is_surface};
    if (objects.contains(*key)) return true;
  }
  return false;
}

// Returns how much of the memory that holds `address` follows it. CUDA accepts textures that claim
// to be longer than their memory, and programs make them; the bytes behind the memory must stay out
// of reach.
uint64_t BytesFrom(uint64_t address) {
  DeviceMemory::Range range;
  if (!runtime().memory->Find(address, &range)) return 0;
  const uint64_t base = range.mapped ? range.mapping_base : range.base;
  const uint64_t bytes = range.mapped ? range.mapping_bytes : range.bytes;
  return base + bytes - address;
}

// `*device` becomes the device of the array or memory.
CUresult SetResource(const CUDA_RESOURCE_DESC& resource, cmd::TextureCreate* command,
                     uint32_t* device) {
  if (resource.flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *device = CurrentDevice().number;
  command->kind = static_cast<uint32_t>(resource.resType);
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY: {
      const Array* const array = FindArray(resource.res.array.hArray);
      if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
      command->resource = array->wire;
      *device = DeviceOfHandle(array->wire);
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
      const Array* const array = FindMipmappedArray(resource.res.mipmap.hMipmappedArray);
      if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
      command->resource = array->wire;
      *device = DeviceOfHandle(array->wire);
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_LINEAR: {
      const auto& linear = resource.res.linear;
      command->address = linear.devPtr;
      command->format = static_cast<uint32_t>(linear.format);
      command->channels = linear.numChannels;
      command->width = std::min<uint64_t>(linear.sizeInBytes, BytesFrom(linear.devPtr));
      // The worker knows the device by the address.
      const Device* const owner = runtime().DeviceAt(linear.devPtr);
      *device = owner == nullptr ? 0 : owner->number;
      return command->width > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
      const auto& rows = resource.res.pitch2D;
      command->address = rows.devPtr;
      command->format = static_cast<uint32_t>(rows.format);
      command->channels = rows.numChannels;
      command->width = rows.width;
      command->height = rows.height;
      command->pitch = rows.pitchInBytes;
      const Device* const owner = runtime().DeviceAt(rows.devPtr);
      *device = owner == nullptr ? 0 : owner->number;
      return rows.height > 0 && BytesFrom(rows.devPtr) > 0 ? CUDA_SUCCESS
                                                           : CUDA_ERROR_INVALID_VALUE;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

void SetOptions(const CUDA_TEXTURE_DESC& options, cmd::TextureCreate* command) {
  for (int i = 0; i < 3; ++i) {
    command->address_modes[i] = static_cast<uint32_t>(options.addressMode[i]);
  }
  command->filter = static_cast<uint32_t>(options.filterMode);
  command->flags = options.flags;
  command->anisotropy = options.maxAnisotropy;
  command->level_filter = static_cast<uint32_t>(options.mipmapFilterMode);
  command->level_bias = options.mipmapLevelBias;
  command->least_level = options.minMipmapLevelClamp;
  command->most_level = options.maxMipmapLevelClamp;
  std::copy(std::begin(options.borderColor), std::end(options.borderColor), command->border);
}

void SetView(const CUDA_RESOURCE_VIEW_DESC& view, cmd::TextureCreate* command) {
  command->has_view = 1;
  command->view_format = static_cast<uint32_t>(view.format);
  command->view_width = view.width;
  command->view_height = view.height;
  command->view_depth = view.depth;
  command->first_level = view.firstMipmapLevel;
  command->last_level = view.lastMipmapLevel;
  command->first_layer = view.firstLayer;
  command->last_layer = view.lastLayer;
}

CUresult Destroy(const Key& key) {
  {
    MutexLock lock(&table().mu);
    if (table().objects.erase(key) == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  const auto [device, object, is_surface] = key;
  return SentAs(
      runtime().commands->Send(cmd::TextureDestroy{object, is_surface ? 1u : 0u, device}));
}

}  // namespace

CUresult CreateTexture(const TextureInfo& info, uint64_t* object) {
  cmd::TextureCreate command = {};
  uint32_t device;
  WARPLINE_TRY(SetResource(info.resource, &command, &device));
  if (info.is_surface) {
    command.is_surface = 1;
  } else {
    SetOptions(info.options, &command);
    if (info.has_view) SetView(info.view, &command);
  }
  std::string reply;
  const CudaResult result = runtime().commands->Call(WaitKind::kRoundTrip, command, {}, &reply);
  if (runtime().tier_watch != nullptr) runtime().tier_watch->OnCall(result, "textures");
  WARPLINE_TRY(ToCu(result));
  std::string_view rest = reply;
  cmd::TextureCreateReply made;
  if (!TakeStruct(&rest, &made)) return CUDA_ERROR_UNKNOWN;
  {
    MutexLock lock(&table().mu);
    table().objects[{device, made.object, info.is_surface}] = info;
  }
  *object = made.object;
  return CUDA_SUCCESS;
}

bool FindTexture(uint64_t object, bool is_surface, TextureInfo* info) {
  MutexLock lock(&table().mu);
  Key key;
  if (!FindKey(table().objects, object, is_surface, &key)) return false;
  *info = table().objects[key];
  return true;
}

CUresult DestroyTexture(uint64_t object, bool is_surface) {
  Key key;
  {
    MutexLock lock(&table().mu);
    if (!FindKey(table().objects, object, is_surface, &key)) return CUDA_ERROR_INVALID_VALUE;
  }
  return Destroy(key);
}

void DestroyTexturesOf(const Context* context) {
  std::vector<Key> keys;
  {
    MutexLock lock(&table().mu);
    for (const auto& [key, info] : table().objects) {
      if (info.context == context) keys.push_back(key);
    }
  }
  for (const Key& key : keys) Destroy(key);
}

}  // namespace warpline::stub
