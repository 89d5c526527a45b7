#include "server/device/cpu/context/cpu_arrays.h"

#include "server/device/cpu/memory/copy_bytes.h"

namespace warpline::cpu {
namespace {

using device::ArrayEnd;
using device::MemoryUse;

}  // namespace

CudaResult CpuArrays::CreateArray(device::ArrayShape* shape, device::ArrayId* array) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return arrays_.Create(shape, array);
}

// Queued work keeps the arrays that it uses.
CudaResult CpuArrays::DestroyArray(device::ArrayId array) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return arrays_.Destroy(array);
}

CudaResult CpuArrays::ArrayLevel(device::ArrayId array, uint32_t level, device::ArrayShape* shape,
                                 device::ArrayId* part) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return arrays_.Level(array, level, shape, part);
}

// None of the formats that this device has has planes.
CudaResult CpuArrays::ArrayPlane(device::ArrayId, uint32_t, device::ArrayShape*, device::ArrayId*) {
  return CudaResult::kInvalidValue;
}

bool CpuArrays::FindEnd(const ArrayEnd& end, const BoxExtent& extent, MemoryUse use,
                        FoundEnd* found) {
  switch (end.kind) {
    case ArrayEnd::Kind::kArray:
      found->array = arrays_.Find(end.array);
      return found->array != nullptr &&
             found->array->Find(end.x, end.y, end.z, extent, &found->place);
    case ArrayEnd::Kind::kDevice: {
      const auto box = gate_.AdmitBox(end.place, extent, use);
      if (!box) return false;
      found->place = box->place();
      found->bytes = box->span().bytes();
      return true;
    }
    case ArrayEnd::Kind::kHost: {
      uint64_t bytes;
      found->place = {reinterpret_cast<uint64_t>(end.host), extent.width,
                      extent.width * extent.height};
      return BoxSpan(found->place, extent, &bytes);
    }
  }
  return false;
}

CudaResult CpuArrays::CopyArray(const ArrayEnd& to, const ArrayEnd& from, const BoxExtent& extent,
                                device::StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  FoundEnd target, source;
  if (!FindEnd(to, extent, MemoryUse::kWrite, &target) ||
      !FindEnd(from, extent, MemoryUse::kRead, &source)) {
    return CudaResult::kInvalidValue;
  }
  return streams_.Submit(
      shared_->NumberOf(stream), StreamSet::When::kNowIfPossible, [this, target, source, extent] {
        // The memory may have been unmapped meanwhile.
        const auto mapped = [this](const FoundEnd& end, AccessKind kind) {
          return end.bytes == 0 || memory_.Contains(end.place.address, end.bytes, kind);
        };
        if (!mapped(target, kWrites) || !mapped(source, kReads)) return CudaResult::kIllegalAddress;
        for (uint64_t z = 0; z < extent.depth; ++z) {
          for (uint64_t y = 0; y < extent.height; ++y) {
            const auto row = [&](const BoxPlace& place) {
              return reinterpret_cast<void*>(place.address + z * place.slice + y * place.pitch);
            };
            CopyBytes(row(target.place), row(source.place), extent.width);
          }
        }
        return CudaResult::kSuccess;
      });
}

}  // namespace warpline::cpu
