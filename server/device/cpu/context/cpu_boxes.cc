// Boxes, rows and words.
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "server/device/cpu/context/cpu_copies.h"
#include "server/device/cpu/memory/copy_bytes.h"

namespace warpline::cpu {
namespace {

using device::MemOp;
using device::MemoryUse;
using device::StreamId;

// The values of CUstreamWaitValue_flags: the low bits say how to compare, and the bits above them
// are not supported.
constexpr uint32_t kGreaterOrEqual = 0;
constexpr uint32_t kEqual = 1;
constexpr uint32_t kAnd = 2;
constexpr uint32_t kNor = 3;
constexpr uint32_t kFlush = 1u << 30;
constexpr uint32_t kNoMemoryBarrier = 1;

constexpr int kPollsBeforeNap = 64;

void* Pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

template <typename Word, typename Signed>
bool Holds(const MemOp& op) {
  const Word now = __atomic_load_n(static_cast<const Word*>(Pointer(op.address)), __ATOMIC_ACQUIRE);
  const Word value = static_cast<Word>(op.value);
  switch (op.flags) {
    case kGreaterOrEqual:  // The comparison is cyclic.
      return static_cast<Signed>(now - value) >= 0;
    case kEqual:
      return now == value;
    case kAnd:
      return (now & value) != 0;
    default:
      return static_cast<Word>(~(now | value)) != 0;
  }
}

CudaResult Check(const MemOp& op, const device::AddressGate& gate) {
  switch (op.kind) {
    case MemOp::kBarrier:
      return op.flags <= 1 ? CudaResult::kSuccess : CudaResult::kInvalidValue;
    case MemOp::kWait64:
    case MemOp::kWait32:
      if ((op.flags & kFlush) != 0) return CudaResult::kNotSupported;
      if (op.flags > kNor) return CudaResult::kInvalidValue;
      break;
    case MemOp::kWrite64:
    case MemOp::kWrite32:
      if (op.flags > kNoMemoryBarrier) return CudaResult::kInvalidValue;
      break;
    default:
      return CudaResult::kInvalidValue;
  }
  return gate.AdmitsWord(op) ? CudaResult::kSuccess : CudaResult::kInvalidValue;
}

void Nap() {
  const timespec nap = {0, 20'000};
  nanosleep(&nap, nullptr);
}

template <typename Word>
void FillRow(uint64_t address, uint32_t value, size_t columns) {
  std::fill_n(static_cast<Word*>(Pointer(address)), columns, static_cast<Word>(value));
}

}  // namespace

CudaResult CpuCopies::MemsetRows(uint64_t dst, uint64_t pitch, uint32_t value, int width,
                                 size_t columns, size_t rows, StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  if (width != 1 && width != 2 && width != 4) return CudaResult::kInvalidValue;
  const auto unit = static_cast<size_t>(width);
  const auto to = gate_.AdmitRows(dst, pitch, unit, columns, rows, MemoryUse::kWrite);
  if (!to || dst % unit != 0 || (rows > 1 && pitch % unit != 0)) return CudaResult::kInvalidValue;
  const BoxExtent extent = {columns * unit, rows, 1};
  dst = to->span().address();
  return streams_.Submit(
      shared_->NumberOf(stream), StreamSet::When::kNowIfPossible,
      [this, dst, pitch, value, width, columns, extent, bytes = to->span().bytes()] {
        if (!memory_.Contains(dst, bytes, kWrites)) return CudaResult::kIllegalAddress;
        ForEachRow({dst, pitch, 0}, extent, [&](uint64_t address, uint64_t, uint64_t) {
          if (width == 1) FillRow<uint8_t>(address, value, columns);
          if (width == 2) FillRow<uint16_t>(address, value, columns);
          if (width == 4) FillRow<uint32_t>(address, value, columns);
        });
        return CudaResult::kSuccess;
      });
}

// The worker's own buffer, in which the rows lie without gaps.
std::optional<CpuCopies::BoxEnd> CpuCopies::OnHost(const void* at, const BoxExtent& extent) {
  const BoxPlace place = {reinterpret_cast<uint64_t>(at), extent.width,
                          extent.width * extent.height};
  BoxEnd end = {place, 0, true};
  if (!BoxSpan(place, extent, &end.bytes)) return std::nullopt;
  return end;
}

std::optional<CpuCopies::BoxEnd> CpuCopies::OnDevice(const BoxPlace& place, const BoxExtent& extent,
                                                     MemoryUse use) const {
  const auto box = gate_.AdmitBox(place, extent, use);
  if (!box) return std::nullopt;
  return BoxEnd{box->place(), box->span().bytes(), false};
}

CudaResult CpuCopies::CopyBox(const std::optional<BoxEnd>& dst, const std::optional<BoxEnd>& src,
                              const BoxExtent& extent, StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  if (!dst || !src) return CudaResult::kInvalidValue;
  return streams_.Submit(
      shared_->NumberOf(stream), StreamSet::When::kNowIfPossible,
      [this, dst = *dst, src = *src, extent] {
        const auto mapped = [this](const BoxEnd& end, AccessKind kind) {
          return end.on_host || memory_.Contains(end.place.address, end.bytes, kind);
        };
        if (!mapped(dst, kWrites) || !mapped(src, kReads)) return CudaResult::kIllegalAddress;
        for (uint64_t z = 0; z < extent.depth; ++z) {
          for (uint64_t y = 0; y < extent.height; ++y) {
            CopyBytes(Pointer(dst.place.address + z * dst.place.slice + y * dst.place.pitch),
                      Pointer(src.place.address + z * src.place.slice + y * src.place.pitch),
                      extent.width);
          }
        }
        return CudaResult::kSuccess;
      });
}

CudaResult CpuCopies::CopyBoxToDevice(const BoxPlace& dst, const void* src, const BoxExtent& extent,
                                      StreamId stream) {
  return CopyBox(OnDevice(dst, extent, MemoryUse::kWrite), OnHost(src, extent), extent, stream);
}

CudaResult CpuCopies::CopyBoxFromDevice(void* dst, const BoxPlace& src, const BoxExtent& extent,
                                        StreamId stream) {
  return CopyBox(OnHost(dst, extent), OnDevice(src, extent, MemoryUse::kRead), extent, stream);
}

CudaResult CpuCopies::CopyBoxOnDevice(const BoxPlace& dst, const BoxPlace& src,
                                      const BoxExtent& extent, StreamId stream) {
  return CopyBox(OnDevice(dst, extent, MemoryUse::kWrite), OnDevice(src, extent, MemoryUse::kRead),
                 extent, stream);
}

CudaResult CpuCopies::MemOps(absl::Span<const MemOp> operations, StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  if (operations.empty() || operations.size() > device::kMaxMemOps) {
    return CudaResult::kInvalidValue;
  }
  for (const MemOp& op : operations) {
    const CudaResult result = Check(op, gate_);
    if (result != CudaResult::kSuccess) return result;
  }
  const bool waits = std::any_of(operations.begin(), operations.end(), device::IsWait);
  std::vector<MemOp> kept(operations.begin(), operations.end());
  // A wait holds the stream's thread, never the caller's.
  return streams_.Submit(shared_->NumberOf(stream),
                         waits ? StreamSet::When::kQueued : StreamSet::When::kNowIfPossible,
                         [this, kept = std::move(kept)] {
                           for (const MemOp& op : kept) {
                             const CudaResult result = RunMemOp(op);
                             if (result != CudaResult::kSuccess) return result;
                           }
                           return CudaResult::kSuccess;
                         });
}

CudaResult CpuCopies::RunMemOp(const MemOp& op) {
  for (int polls = 0;; ++polls) {
    // The memory may have been unmapped meanwhile.
    if (Check(op, gate_) != CudaResult::kSuccess) return CudaResult::kIllegalAddress;
    switch (op.kind) {
      case MemOp::kWrite32:
        __atomic_store_n(static_cast<uint32_t*>(Pointer(op.address)),
                         static_cast<uint32_t>(op.value), __ATOMIC_RELEASE);
        return CudaResult::kSuccess;
      case MemOp::kWrite64:
        __atomic_store_n(static_cast<uint64_t*>(Pointer(op.address)), op.value, __ATOMIC_RELEASE);
        return CudaResult::kSuccess;
      case MemOp::kWait32:
        if (Holds<uint32_t, int32_t>(op)) return CudaResult::kSuccess;
        break;
      case MemOp::kWait64:
        if (Holds<uint64_t, int64_t>(op)) return CudaResult::kSuccess;
        break;
      default:
        return CudaResult::kSuccess;  // Operations are in order anyway.
    }
    if (streams_.stopping() || streams_.error() != CudaResult::kSuccess) {
      return CudaResult::kSuccess;
    }
    polls < kPollsBeforeNap ? void(sched_yield()) : Nap();
  }
}

}  // namespace warpline::cpu
