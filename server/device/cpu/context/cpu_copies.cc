#include "server/device/cpu/context/cpu_copies.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "server/device/cpu/memory/copy_bytes.h"

namespace warpline::cpu {
namespace {

using device::MemoryUse;
using device::StreamId;

void* Pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

CudaResult CpuCopies::CopyToDevice(uint64_t dst, const void* src, size_t bytes, StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  const auto to = gate_.Admit(dst, bytes, MemoryUse::kWrite);
  if (!to) return CudaResult::kInvalidValue;
  if (bytes == 0) return CudaResult::kSuccess;
  dst = to->address();
  const bool done = streams_.RunIfIdle(shared_->NumberOf(stream), [dst, src, bytes] {
    CopyBytes(Pointer(dst), src, bytes);
    return CudaResult::kSuccess;
  });
  if (done) return streams_.error();
  // The copy has to wait, and the source may be gone when this returns.
  auto claim = shared_->kept().Take(bytes);
  std::vector<char> kept(static_cast<const char*>(src), static_cast<const char*>(src) + bytes);
  return streams_.Submit(shared_->NumberOf(stream), StreamSet::When::kNowIfPossible,
                         [this, dst, claim = std::move(claim), kept = std::move(kept)] {
                           if (!memory_.Contains(dst, kept.size(), kWrites)) {
                             return CudaResult::kIllegalAddress;
                           }
                           CopyBytes(Pointer(dst), kept.data(), kept.size());
                           return CudaResult::kSuccess;
                         });
}

CudaResult CpuCopies::CopyFromDevice(void* dst, uint64_t src, size_t bytes, StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  const auto from = gate_.Admit(src, bytes, MemoryUse::kRead);
  if (!from) return CudaResult::kInvalidValue;
  if (bytes == 0) return CudaResult::kSuccess;
  src = from->address();
  return streams_.Submit(shared_->NumberOf(stream), StreamSet::When::kNowIfPossible,
                         [this, dst, src, bytes] {
                           if (!memory_.Contains(src, bytes)) return CudaResult::kIllegalAddress;
                           CopyBytes(dst, Pointer(src), bytes);
                           return CudaResult::kSuccess;
                         });
}

CudaResult CpuCopies::CopyOnDevice(uint64_t dst, uint64_t src, size_t bytes, StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  const auto from = gate_.Admit(src, bytes, MemoryUse::kRead);
  const auto to = gate_.Admit(dst, bytes, MemoryUse::kWrite);
  if (!from || !to) return CudaResult::kInvalidValue;
  if (bytes == 0) return CudaResult::kSuccess;
  src = from->address();
  dst = to->address();
  return streams_.Submit(
      shared_->NumberOf(stream), StreamSet::When::kNowIfPossible, [this, dst, src, bytes] {
        if (!memory_.Contains(src, bytes) || !memory_.Contains(dst, bytes, kWrites)) {
          return CudaResult::kIllegalAddress;
        }
        CopyBytes(Pointer(dst), Pointer(src), bytes);
        return CudaResult::kSuccess;
      });
}

CudaResult CpuCopies::Memset(uint64_t dst, uint32_t value, int width, size_t count,
                             StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  if (width != 1 && width != 2 && width != 4) return CudaResult::kInvalidValue;
  const auto unit = static_cast<size_t>(width);
  const auto to = gate_.AdmitElements(dst, unit, count, MemoryUse::kWrite);
  if (!to || dst % unit != 0) return CudaResult::kInvalidValue;
  if (count == 0) return CudaResult::kSuccess;
  dst = to->address();
  return streams_.Submit(shared_->NumberOf(stream), StreamSet::When::kNowIfPossible,
                         [this, dst, value, width, count, bytes = to->bytes()] {
                           if (!memory_.Contains(dst, bytes, kWrites)) {
                             return CudaResult::kIllegalAddress;
                           }
                           switch (width) {
                             case 1:
                               std::memset(Pointer(dst), static_cast<int>(value & 0xff), count);
                               break;
                             case 2:
                               std::fill_n(static_cast<uint16_t*>(Pointer(dst)), count,
                                           static_cast<uint16_t>(value));
                               break;
                             default:
                               std::fill_n(static_cast<uint32_t*>(Pointer(dst)), count, value);
                               break;
                           }
                           return CudaResult::kSuccess;
                         });
}

}  // namespace warpline::cpu
