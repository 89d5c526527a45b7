#include "server/device/cpu/memory/array_store.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "common/cuda/array_format.h"

namespace warpline::cpu {
namespace {

using device::ArrayId;
using device::ArrayShape;

// Flags of CUDA_ARRAY3D_*.
constexpr uint32_t kLayered = 0x01, kSurface = 0x02, kCubemap = 0x04, kGather = 0x08;
constexpr uint32_t kDepthTexture = 0x10, kColorAttachment = 0x20;

// The bounds of the GPUs of today.
constexpr uint64_t kMaxWidth1D = 131072, kMaxWidth2D = 131072, kMaxHeight2D = 65536;
constexpr uint64_t kMaxExtent3D = 16384, kMaxExtentLayered = 32768, kMaxLayers = 2048;

bool IsWithin(const ArrayShape& s, uint64_t width, uint64_t height, uint64_t depth) {
  return s.width <= width && s.height <= height && s.depth <= depth;
}

CudaResult Check(const ArrayShape& s) {
  constexpr uint32_t kKnown =
      kLayered | kSurface | kCubemap | kGather | kDepthTexture | kColorAttachment;
  if ((s.flags & (ArrayShape::kSparse | ArrayShape::kDeferredMapping)) != 0) {
    return CudaResult::kNotSupported;
  }
  if ((s.flags & ~kKnown) != 0 || s.width == 0) return CudaResult::kInvalidValue;
  const bool plain = ArrayComponentBytes(s.format) != 0;
  if (plain && s.channels != 1 && s.channels != 2 && s.channels != 4) {
    return CudaResult::kInvalidValue;
  }
  if (ArrayElementBytes(s.format, s.channels) == 0) {
    // Compressed and planar formats have these numbers; any other number is no format.
    const bool known = s.format >= 0x91 && s.format <= 0xb5;
    return known ? CudaResult::kNotSupported : CudaResult::kInvalidValue;
  }
  const bool layered = (s.flags & kLayered) != 0;
  if ((s.flags & kCubemap) != 0 &&
      (s.width != s.height || (layered ? s.depth == 0 || s.depth % 6 != 0 : s.depth != 6))) {
    return CudaResult::kInvalidValue;
  }
  bool fits;
  if (layered || (s.flags & kCubemap) != 0) {
    fits = s.depth > 0 && IsWithin(s, kMaxExtentLayered, kMaxExtentLayered, kMaxLayers);
  } else if (s.depth > 0) {
    fits = s.height > 0 && IsWithin(s, kMaxExtent3D, kMaxExtent3D, kMaxExtent3D);
  } else if (s.height > 0) {
    fits = IsWithin(s, kMaxWidth2D, kMaxHeight2D, 0);
  } else {
    fits = IsWithin(s, kMaxWidth1D, 0, 0);
  }
  return fits ? CudaResult::kSuccess : CudaResult::kInvalidValue;
}

std::shared_ptr<CpuArray> Allocate(const ArrayShape& shape) {
  auto array = std::make_shared<CpuArray>();
  array->shape = shape;
  array->shape.levels = 0;
  array->pitch = shape.width * ArrayElementBytes(shape.format, shape.channels);
  array->slice = array->pitch * std::max<uint64_t>(shape.height, 1);
  char* const bytes = static_cast<char*>(
      std::calloc(std::max<uint64_t>(shape.depth, 1), static_cast<size_t>(array->slice)));
  if (bytes == nullptr) return nullptr;
  array->bytes = std::unique_ptr<char, void (*)(void*)>(bytes, std::free);
  return array;
}

// The extent of a level; 0 stays 0.
uint64_t Shrink(uint64_t extent, uint32_t level) {
  return extent == 0 ? 0 : device::LevelExtent(extent, level);
}

}  // namespace

bool CpuArray::Find(uint64_t x, uint64_t y, uint64_t z, const BoxExtent& extent,
                    BoxPlace* place) const {
  const auto fits = [](uint64_t start, uint64_t length, uint64_t size) {
    return length > 0 && start <= size && length <= size - start;
  };
  const uint64_t element = ArrayElementBytes(shape.format, shape.channels);
  if (bytes == nullptr || x % element != 0 || extent.width % element != 0 ||
      !fits(x, extent.width, pitch) ||
      !fits(y, extent.height, std::max<uint64_t>(shape.height, 1)) ||
      !fits(z, extent.depth, std::max<uint64_t>(shape.depth, 1))) {
    return false;
  }
  *place = {reinterpret_cast<uint64_t>(bytes.get()) + z * slice + y * pitch + x, pitch, slice};
  return true;
}

uint64_t ArrayStore::Keep(std::shared_ptr<CpuArray> array) {
  MutexLock lock(&mu_);
  arrays_[next_id_] = std::move(array);
  return next_id_++;
}

CudaResult ArrayStore::Create(ArrayShape* shape, ArrayId* id) {
  const CudaResult valid = Check(*shape);
  if (valid != CudaResult::kSuccess) return valid;
  if (shape->levels == 0) {
    std::shared_ptr<CpuArray> array = Allocate(*shape);
    if (array == nullptr) return CudaResult::kOutOfMemory;
    *id = ArrayId{Keep(std::move(array))};
    return CudaResult::kSuccess;
  }
  auto whole = std::make_shared<CpuArray>();
  whole->shape = *shape;
  const bool layered = (shape->flags & (kLayered | kCubemap)) != 0;
  std::vector<std::shared_ptr<CpuArray>> levels;
  for (uint32_t level = 0; level < std::min(shape->levels, 32u); ++level) {
    ArrayShape part = *shape;
    part.width = Shrink(shape->width, level);
    part.height = Shrink(shape->height, level);
    if (!layered) part.depth = Shrink(shape->depth, level);
    levels.push_back(Allocate(part));
    if (levels.back() == nullptr) return CudaResult::kOutOfMemory;
  }
  for (auto& level : levels) whole->levels.push_back(Keep(std::move(level)));
  *id = ArrayId{Keep(std::move(whole))};
  return CudaResult::kSuccess;
}

CudaResult ArrayStore::Destroy(ArrayId id) {
  MutexLock lock(&mu_);
  const auto it = arrays_.find(static_cast<uint64_t>(id));
  if (it == arrays_.end()) return CudaResult::kInvalidHandle;
  const std::vector<uint64_t> levels = it->second->levels;
  arrays_.erase(it);
  for (const uint64_t level : levels) arrays_.erase(level);
  return CudaResult::kSuccess;
}

CudaResult ArrayStore::Level(ArrayId id, uint32_t level, ArrayShape* shape, ArrayId* part) {
  const std::shared_ptr<CpuArray> whole = Find(id);
  if (whole == nullptr) return CudaResult::kInvalidHandle;
  if (level >= whole->levels.size()) return CudaResult::kInvalidValue;
  *part = ArrayId{whole->levels[level]};
  const std::shared_ptr<CpuArray> found = Find(*part);
  if (found == nullptr) return CudaResult::kInvalidHandle;
  *shape = found->shape;
  return CudaResult::kSuccess;
}

std::shared_ptr<CpuArray> ArrayStore::Find(ArrayId id) {
  MutexLock lock(&mu_);
  const auto it = arrays_.find(static_cast<uint64_t>(id));
  return it == arrays_.end() ? nullptr : it->second;
}

}  // namespace warpline::cpu
