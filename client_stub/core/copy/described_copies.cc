#include "client_stub/core/copy/described_copies.h"

#include "client_stub/core/copy/arrays.h"
#include "client_stub/core/graph/capture.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"

namespace warpline::stub {
namespace {

// One end of a copy, as a descriptor gives it.
struct End {
  CUmemorytype type;
  uint64_t host;
  uint64_t device;
  uint64_t x;
  uint64_t y;
  uint64_t z;
  uint64_t pitch;
  uint64_t height;
  CUarray array;
};

CUresult FindBox(const End& end, const BoxExtent& extent, Box* box) {
  uint64_t base;
  switch (end.type) {
    case CU_MEMORYTYPE_HOST:
      base = end.host;
      box->device = false;
      break;
    case CU_MEMORYTYPE_DEVICE:
      base = end.device;
      box->device = true;
      break;
    case CU_MEMORYTYPE_UNIFIED:
      base = end.device;
      box->device = runtime().memory->IsDevice(base);
      break;
    case CU_MEMORYTYPE_ARRAY:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  const auto max_pitch =
      static_cast<uint64_t>(CurrentDevice().attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH));
  uint64_t last_row, offset;
  if ((max_pitch != 0 && end.pitch > max_pitch) ||
      __builtin_add_overflow(end.y, extent.height, &last_row)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  BoxPlace& place = box->place;
  place.pitch = end.pitch != 0 ? end.pitch : end.x + extent.width;
  const uint64_t rows = end.height != 0 ? end.height : last_row;
  if (place.pitch < extent.width || end.x > place.pitch - extent.width ||
      (extent.depth > 1 && rows < last_row) ||
      __builtin_mul_overflow(place.pitch, rows, &place.slice) ||
      __builtin_mul_overflow(place.slice, end.z, &offset) ||
      __builtin_add_overflow(offset, end.y * place.pitch + end.x, &offset)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  place.address = base + offset;
  return CUDA_SUCCESS;
}

CUresult FindEnd(const End& end, const BoxExtent& extent, CopyEnd* found) {
  if (end.type != CU_MEMORYTYPE_ARRAY) return FindBox(end, extent, &found->box);
  found->array = FindArray(end.array);
  found->x = end.x;
  found->y = end.y;
  found->z = end.z;
  return found->array == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

// The form in which a graph's node keeps a copy.
CUDA_MEMCPY3D Plain(const CUDA_MEMCPY3D& c) { return c; }
CUDA_MEMCPY3D Plain(const CUDA_MEMCPY3D_PEER& c) {
  CUDA_MEMCPY3D plain = {};
  plain.srcXInBytes = c.srcXInBytes;
  plain.srcY = c.srcY;
  plain.srcZ = c.srcZ;
  plain.srcMemoryType = c.srcMemoryType;
  plain.srcHost = c.srcHost;
  plain.srcDevice = c.srcDevice;
  plain.srcArray = c.srcArray;
  plain.srcPitch = c.srcPitch;
  plain.srcHeight = c.srcHeight;
  plain.dstXInBytes = c.dstXInBytes;
  plain.dstY = c.dstY;
  plain.dstZ = c.dstZ;
  plain.dstMemoryType = c.dstMemoryType;
  plain.dstHost = c.dstHost;
  plain.dstDevice = c.dstDevice;
  plain.dstArray = c.dstArray;
  plain.dstPitch = c.dstPitch;
  plain.dstHeight = c.dstHeight;
  plain.WidthInBytes = c.WidthInBytes;
  plain.Height = c.Height;
  plain.Depth = c.Depth;
  return plain;
}

// `Descriptor` is CUDA_MEMCPY3D or CUDA_MEMCPY3D_PEER.
template <typename Descriptor>
CUresult CopyBetween(Stream* stream, const Descriptor& c, Completion completion) {
  if (c.srcLOD != 0 || c.dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
  const End to = {c.dstMemoryType, reinterpret_cast<uint64_t>(c.dstHost),
                  c.dstDevice,     c.dstXInBytes,
                  c.dstY,          c.dstZ,
                  c.dstPitch,      c.dstHeight,
                  c.dstArray};
  const End from = {c.srcMemoryType, reinterpret_cast<uint64_t>(c.srcHost),
                    c.srcDevice,     c.srcXInBytes,
                    c.srcY,          c.srcZ,
                    c.srcPitch,      c.srcHeight,
                    c.srcArray};
  const BoxExtent extent = {c.WidthInBytes, c.Height, c.Depth};
  const bool captured = completion == Completion::kAsynchronous && Captured(*stream);
  if (!captured && (extent.width == 0 || extent.height == 0 || extent.depth == 0)) {
    return CUDA_SUCCESS;
  }
  CopyEnd to_end, from_end;
  WARPLINE_TRY(FindEnd(to, extent, &to_end));
  WARPLINE_TRY(FindEnd(from, extent, &from_end));
  if (captured) return CaptureCopy(stream, Plain(c));
  if (to_end.array != nullptr || from_end.array != nullptr) {
    return CopyArrayBox(stream, to_end, from_end, extent, completion);
  }
  return CopyBox(stream, to_end.box, from_end.box, extent, completion);
}

}  // namespace

CUresult CopyDescribed(Stream* stream, const CUDA_MEMCPY3D& copy, Completion completion) {
  return CopyBetween(stream, copy, completion);
}

CUresult CopyDescribed(Stream* stream, const CUDA_MEMCPY3D_PEER& copy, Completion completion) {
  return CopyBetween(stream, copy, completion);
}

}  // namespace warpline::stub
