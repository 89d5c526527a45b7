#include "server/device/cuda/cuda_copies.h"

#include <vector>

#include "server/device/cuda/copy_box.h"
#include "server/device/cuda/native.h"
#include "server/device/cuda/native_mem_ops.h"

namespace warpline::device {
namespace {

// The driver fills memory with kernels.
StreamWork FillOf(uint64_t bytes) { return {1 + (bytes >> 16), false}; }

}  // namespace
CudaResult CudaCopies::CopyToDevice(uint64_t dst, const void* src, size_t bytes, StreamId stream) {
  Enter();
  const auto to = gate().Admit(dst, bytes, MemoryUse::kWrite);
  if (!to) return CudaResult::kInvalidValue;
  return IssueTo(stream, [&](CUstream on) {
    return api_->p_cuMemcpyHtoDAsync(to->address(), src, bytes, on);
  });
}

CudaResult CudaCopies::CopyFromDevice(void* dst, uint64_t src, size_t bytes, StreamId stream) {
  Enter();
  const auto from = gate().Admit(src, bytes, MemoryUse::kRead);
  if (!from) return CudaResult::kInvalidValue;
  return IssueTo(stream, [&](CUstream on) {
    return api_->p_cuMemcpyDtoHAsync(dst, from->address(), bytes, on);
  });
}

CudaResult CudaCopies::CopyOnDevice(uint64_t dst, uint64_t src, size_t bytes, StreamId stream) {
  Enter();
  const auto to = gate().Admit(dst, bytes, MemoryUse::kWrite);
  const auto from = gate().Admit(src, bytes, MemoryUse::kRead);
  if (!to || !from) return CudaResult::kInvalidValue;
  // Host memory that the device reaches has a device address, so it can be either end of these.
  if (from->kind() == MemoryKind::kHost) {
    return IssueTo(stream, [&](CUstream on) {
      return api_->p_cuMemcpyHtoDAsync(to->address(), from->host(), bytes, on);
    });
  }
  if (to->kind() == MemoryKind::kHost) {
    return IssueTo(stream, [&](CUstream on) {
      return api_->p_cuMemcpyDtoHAsync(to->host(), from->address(), bytes, on);
    });
  }
  // This copy also works when neither device reaches the other's memory.
  if (IsForeign(*to) || IsForeign(*from)) {
    return IssueTo(stream, [&](CUstream on) {
      return api_->p_cuMemcpyPeerAsync(to->address(), ContextOf(*to), from->address(),
                                       ContextOf(*from), bytes, on);
    });
  }
  return IssueTo(stream, [&](CUstream on) {
    return api_->p_cuMemcpyDtoDAsync(to->address(), from->address(), bytes, on);
  });
}

CudaResult CudaCopies::Memset(uint64_t dst, uint32_t value, int width, size_t count,
                              StreamId stream) {
  Enter();
  if (width != 1 && width != 2 && width != 4) return CudaResult::kInvalidValue;
  const auto to = gate().AdmitElements(dst, static_cast<uint64_t>(width), count, MemoryUse::kWrite);
  if (!to) return CudaResult::kInvalidValue;
  const auto fill = [&](const auto& call) { return IssueTo(stream, call, FillOf(to->bytes())); };
  switch (width) {
    case 1:
      return fill([&](CUstream on) {
        return api_->p_cuMemsetD8Async(to->address(), static_cast<uint8_t>(value), count, on);
      });
    case 2:
      return fill([&](CUstream on) {
        return api_->p_cuMemsetD16Async(to->address(), static_cast<uint16_t>(value), count, on);
      });
    default:
      return fill(
          [&](CUstream on) { return api_->p_cuMemsetD32Async(to->address(), value, count, on); });
  }
}

CudaResult CudaCopies::MemsetRows(uint64_t dst, uint64_t pitch, uint32_t value, int width,
                                  size_t columns, size_t rows, StreamId stream) {
  Enter();
  if (width != 1 && width != 2 && width != 4) return CudaResult::kInvalidValue;
  const auto to =
      gate().AdmitRows(dst, pitch, static_cast<uint64_t>(width), columns, rows, MemoryUse::kWrite);
  if (!to) return CudaResult::kInvalidValue;
  const uint64_t at = to->span().address();
  const auto fill = [&](const auto& call) {
    return IssueTo(stream, call, FillOf(static_cast<uint64_t>(width) * columns * rows));
  };
  switch (width) {
    case 1:
      return fill([&](CUstream on) {
        return api_->p_cuMemsetD2D8Async(at, pitch, static_cast<uint8_t>(value), columns, rows, on);
      });
    case 2:
      return fill([&](CUstream on) {
        return api_->p_cuMemsetD2D16Async(at, pitch, static_cast<uint16_t>(value), columns, rows,
                                          on);
      });
    default:
      return fill([&](CUstream on) {
        return api_->p_cuMemsetD2D32Async(at, pitch, value, columns, rows, on);
      });
  }
}

CudaResult CudaCopies::CopyBoxToDevice(const BoxPlace& dst, const void* src,
                                       const BoxExtent& extent, StreamId stream) {
  Enter();
  const auto to = gate().AdmitBox(dst, extent, MemoryUse::kWrite);
  if (!to) return CudaResult::kInvalidValue;
  CUDA_MEMCPY3D copy = DescribeBox(extent);
  SetSource(src, extent, &copy);
  SetTarget(*to, extent, &copy);
  return IssueTo(stream, [&](CUstream on) { return api_->p_cuMemcpy3DAsync(&copy, on); });
}

CudaResult CudaCopies::CopyBoxFromDevice(void* dst, const BoxPlace& src, const BoxExtent& extent,
                                         StreamId stream) {
  Enter();
  const auto from = gate().AdmitBox(src, extent, MemoryUse::kRead);
  if (!from) return CudaResult::kInvalidValue;
  CUDA_MEMCPY3D copy = DescribeBox(extent);
  SetSource(*from, extent, &copy);
  SetTarget(dst, extent, &copy);
  return IssueTo(stream, [&](CUstream on) { return api_->p_cuMemcpy3DAsync(&copy, on); });
}

CudaResult CudaCopies::CopyBoxOnDevice(const BoxPlace& dst, const BoxPlace& src,
                                       const BoxExtent& extent, StreamId stream) {
  Enter();
  const auto to = gate().AdmitBox(dst, extent, MemoryUse::kWrite);
  const auto from = gate().AdmitBox(src, extent, MemoryUse::kRead);
  if (!to || !from) return CudaResult::kInvalidValue;
  CUDA_MEMCPY3D copy = DescribeBox(extent);
  SetSource(*from, extent, &copy);
  SetTarget(*to, extent, &copy);
  return IssueTo(stream, [&](CUstream on) {
    return CopyBox(*api_, copy, context_, ContextOf(to->span()), ContextOf(from->span()), on);
  });
}

CudaResult CudaCopies::MemOps(absl::Span<const MemOp> operations, StreamId stream) {
  Enter();
  std::vector<CUstreamBatchMemOpParams> native;
  const CUresult result = Translate(gate(), operations, &native);
  if (result != CUDA_SUCCESS) return ToResult(result);
  return IssueTo(stream, [&](CUstream on) {
    return api_->p_cuStreamBatchMemOp(on, static_cast<unsigned>(native.size()), native.data(), 0);
  });
}

}  // namespace warpline::device
