#include "client_stub/core/copy/copies.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "client_stub/core/bulk/bulk_copies.h"
#include "client_stub/core/graph/capture.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/memory/host_memory.h"
#include "client_stub/core/pinned/pinned_memory.h"
#include "client_stub/core/registered/registered_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/host_calls.h"
#include "client_stub/core/stream/limited_waits.h"
#include "client_stub/core/stream/streams.h"
#include "proto/frames.h"

namespace warpline::stub {
namespace {

// The bytes that one command copies to the device: whole elements of any array.
constexpr uint64_t kPartBytes = kMaxTail;
// The most bytes that a command takes along though the devices reach the memory where they are.
constexpr uint64_t kMostTaken = 32u << 10;

constexpr CUmemorytype kHost = CU_MEMORYTYPE_HOST;
constexpr CUmemorytype kDevice = CU_MEMORYTYPE_DEVICE;

uint64_t Address(const void* address) { return reinterpret_cast<uint64_t>(address); }

// The device's address of host memory that has another one there; any other address as it is.
uint64_t OnDevice(uint64_t address) {
  return runtime().registered->ToDevice(runtime().mirrored->ToDevice(address));
}

// For commands that do not go through SendOn(): CUDA_ERROR_NOT_SUPPORTED where commands are only
// recorded.
CUresult CheckSendable(const Stream* stream) {
  if (stream->recorder != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return AnyCapture() ? CheckUncaptured(stream) : CUDA_SUCCESS;
}

// Synchronous copies are unsafe while something captures.
CUresult CheckSynchronous(const Stream* stream, Completion completion) {
  if (completion != Completion::kSynchronous) return CUDA_SUCCESS;
  WARPLINE_TRY(CheckUncaptured(stream));
  return CheckUnsafe();
}

// Called before a command of this stream accesses the device's side of [address, address + bytes).
// For a command that is only recorded, the launch does this.
CUresult BeforeAccess(const Stream* stream, uint64_t address, uint64_t bytes) {
  if (stream->recorder != nullptr) return CUDA_SUCCESS;
  return runtime().mirrored->BeforeAccess(address, bytes);
}

// Called before a command of this stream that may write the device's side of
// [address, address + bytes). `work` lives until the command is sent.
CUresult BeforeWrite(const Stream* stream, MirroredMemory::Work* work, uint64_t address,
                     uint64_t bytes) {
  return stream->recorder != nullptr ? CUDA_SUCCESS : work->ForAccess(address, bytes);
}

// Returns the device whose memory is at `address`; the stream's device where that is unknown.
Device* DeviceOf(const Stream* stream, uint64_t address) {
  DeviceMemory::Range range;
  if (!runtime().memory->Find(address, &range)) return stream->device;
  return &runtime().devices[range.device];
}

// Orders a synchronous copy between devices after the work that both were given. `*across` tells
// whether it is such a copy.
CUresult JoinDevices(Stream* stream, uint64_t to, uint64_t from, Completion completion,
                     bool* across) {
  *across = false;
  if (!runtime().several_devices() || completion != Completion::kSynchronous) return CUDA_SUCCESS;
  Device* const target = DeviceOf(stream, to);
  Device* const source = DeviceOf(stream, from);
  *across = target != stream->device || source != stream->device;
  if (!*across) return CUDA_SUCCESS;
  if (AnyCapture()) WARPLINE_TRY(CheckSynchronous(stream, completion));
  WARPLINE_TRY(JoinDevice(stream->device, nullptr, stream));
  if (target != stream->device) WARPLINE_TRY(JoinDevice(target, nullptr, stream));
  const bool third = source != stream->device && source != target;
  return third ? JoinDevice(source, nullptr, stream) : CUDA_SUCCESS;
}

// Returns true for an address of the arena that is the host's alone, even where a call took it for
// the device's.
bool HostsArena(uint64_t address) { return runtime().host_memory->HostsArena(address); }

bool IsHost(const void* address) {
  const uint64_t value = Address(address);
  return value != 0 && (!runtime().memory->InArena(value) || HostsArena(value));
}

// Returns true when [address, address + bytes) is memory of a device. The server is asked about
// memory of modules that has no name.
bool IsOnDevice(uint64_t address, uint64_t bytes) {
  DeviceMemory& memory = *runtime().memory;
  return memory.Contains(address, bytes) ||
         (memory.LearnBlock(address) && memory.Contains(address, bytes));
}

// Returns true for page-locked memory of this process that no device reaches.
bool IsPageLocked(uint64_t address, uint64_t bytes) {
  return !runtime().memory->IsDevice(address) &&
         runtime().host_memory->Contains(reinterpret_cast<const void*>(address), bytes);
}

// Commands that are only recorded are carried out later, again and again, and keep their bytes.
bool MayBeStaged(const Stream* stream) { return stream->recorder == nullptr; }

// Returns true for a copy on the device that returns when it is done, because one end or both are
// host memory that the devices reach.
bool WaitsForCopy(const Stream* stream, uint64_t to, uint64_t from, Completion completion) {
  if (stream->recorder != nullptr) return false;
  const bool synchronous = completion == Completion::kSynchronous;
  return synchronous ? IsReadWithoutFault(to) || InHostArena(from)
                     : InHostArena(to) && InHostArena(from);
}

// Tells of a copy to `address`, whose bytes the call takes. The host sees memory that it shares
// with the device.
Notice NoticeAt(uint64_t address) {
  MirroredMemory::Range range;
  const MirroredMemory& mirrored = *runtime().mirrored;
  const bool is_seen = InHostArena(address) || (mirrored.any() && mirrored.Find(address, &range));
  return is_seen ? Notice::kNoticed : Notice::kUnnoticed;
}

CUresult SendToDevice(Stream* stream, uint64_t to, const char* from, uint64_t bytes) {
  const Notice notice = NoticeAt(to);
  uint64_t done = 0;
  if (MayBeStaged(stream) && runtime().bulk_copies->PaysIn(bytes)) {
    WARPLINE_TRY(runtime().bulk_copies->CopyIn(stream, to, from, bytes, notice, &done));
  }
  for (; done < bytes; done += kPartBytes) {
    const std::string_view part(from + done, std::min(kPartBytes, bytes - done));
    const cmd::CopyToDevice command = {stream->wire, to + done};
    WARPLINE_TRY(SendOn(stream, command, part, nullptr, notice));
  }
  return CUDA_SUCCESS;
}

// Returns true if the call may read the source of a copy now, so that a wait for the copy need not
// ask the server. The source is memory that host and devices share, and no work before the copy
// still writes there.
bool MayTake(const Stream& stream, uint64_t to, uint64_t from, uint64_t bytes) {
  HostMemory::Range range;
  return bytes <= kMostTaken && stream.recorder == nullptr && InHostArena(from) &&
         !runtime().several_devices() && NoticeAt(to) == Notice::kUnnoticed &&
         runtime().host_memory->Find(reinterpret_cast<const void*>(from), &range) && range.shared &&
         NothingToNotice();
}

CUresult Receive(Stream* stream, void* to, uint64_t from, uint64_t bytes, bool wait) {
  WARPLINE_TRY(CheckSendable(stream));
  if (wait) WARPLINE_TRY(AwaitTurn(*stream));
  if (wait && MayBeStaged(stream) && runtime().bulk_copies->PaysOut(bytes)) {
    uint64_t done;
    WARPLINE_TRY(runtime().bulk_copies->CopyOut(stream, to, from, bytes, &done));
    if (done == bytes) return CUDA_SUCCESS;
    to = static_cast<char*>(to) + done;
    from += done;
    bytes -= done;
  }
  uint64_t seq = 0;
  if (!wait && MayBeStaged(stream) && bytes >= BulkCopies::kLeastOut) {
    uint64_t done;
    WARPLINE_TRY(runtime().bulk_copies->CopyOutLater(stream, to, from, bytes, &seq, &done));
    if (done > 0) runtime().host_memory->NoteCopy(to, done, seq);
    if (done == bytes) return CUDA_SUCCESS;
    to = static_cast<char*>(to) + done;
    from += done;
    bytes -= done;
  }
  const CUresult result =
      ToCu(runtime().commands->CopyOut(stream->wire, to, from, bytes, wait, &seq));
  NoteSent(stream, seq, Notice::kNoticed);
  if (!wait) runtime().host_memory->NoteCopy(to, bytes, seq);
  return result;
}

CUresult CopyOnHost(Stream* stream, void* to, const void* from, uint64_t bytes,
                    Completion completion) {
  if (!IsHost(to) || !IsHost(from)) return CUDA_ERROR_INVALID_VALUE;
  if (completion == Completion::kAsynchronous && Captured(*stream)) {
    return CaptureCopy(stream, LinearCopy(kHost, Address(to), kHost, Address(from), bytes));
  }
  WARPLINE_TRY(SynchronizeStream(stream));
  std::memmove(to, from, bytes);
  return CUDA_SUCCESS;
}

// Copies between two ends that the application calls the device's. At least one of them is
// page-locked memory, which CUDA takes there as well, but no other memory of the host.
CUresult CopyWithPageLocked(Stream* stream, uint64_t to, uint64_t from, uint64_t bytes,
                            Completion completion) {
  for (const uint64_t end : {to, from}) {
    if (!runtime().memory->IsDevice(end) && !IsPageLocked(end, bytes)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CopyByAddress(stream, to, from, bytes, completion);
}

// A synchronous fill of host memory that the devices reach returns when it is done.
CUresult EndFill(Stream* stream, uint64_t to, Completion completion) {
  const bool waits = completion == Completion::kSynchronous && IsReadWithoutFault(to);
  return waits ? SynchronizeStream(stream) : CUDA_SUCCESS;
}

// Turns rows that lie without gaps on both sides into one row, and slices of one row into rows.
void Flatten(BoxPlace* to, BoxPlace* from, BoxExtent* extent) {
  while (extent->height == 1 || (to->pitch == extent->width && from->pitch == extent->width)) {
    extent->width *= extent->height;
    extent->height = extent->depth;
    extent->depth = 1;
    if (extent->height == 1) return;
    to->pitch = to->slice;
    from->pitch = from->slice;
  }
}

CUresult CopyRun(Stream* stream, const Box& to, const Box& from, uint64_t bytes,
                 Completion completion) {
  const uint64_t target = to.place.address;
  const uint64_t source = from.place.address;
  if (to.device && from.device) return CopyOnDevice(stream, target, source, bytes, completion);
  if (to.device) {
    return CopyToDevice(stream, target, reinterpret_cast<const void*>(source), bytes, completion);
  }
  return CopyFromDevice(stream, reinterpret_cast<void*>(target), source, bytes, completion);
}

CUresult SendBoxToDevice(Stream* stream, const BoxPlace& to, const BoxPlace& from,
                         const BoxExtent& extent) {
  const Notice notice = NoticeAt(to.address);
  return SendRows(from, extent, [&](const BoxPart& part, std::string_view rows) {
    const BoxPlace place = part.In(to);
    const BoxExtent& e = part.extent;
    const cmd::CopyBoxToDevice command = {stream->wire, place.address, place.pitch, place.slice,
                                          e.width,      e.height,      e.depth};
    return SendOn(stream, command, rows, nullptr, notice);
  });
}

CUresult ReceiveBox(Stream* stream, const BoxPlace& to, const BoxPlace& from,
                    const BoxExtent& extent, Completion completion) {
  WARPLINE_TRY(CheckSendable(stream));
  uint64_t span, seq = 0;
  void* const target = reinterpret_cast<void*>(to.address);
  const bool pinned = BoxSpan(to, extent, &span) && runtime().host_memory->Contains(target, span);
  const bool wait = completion == Completion::kSynchronous || !pinned;
  if (wait) WARPLINE_TRY(AwaitTurn(*stream));
  const CUresult result =
      ToCu(runtime().commands->CopyBoxOut(stream->wire, to, from, extent, wait, &seq));
  NoteSent(stream, seq, Notice::kNoticed);
  if (!wait) runtime().host_memory->NoteCopy(target, span, seq);
  return result;
}

void CopyBoxOnHost(const BoxPlace& to, const BoxPlace& from, const BoxExtent& extent) {
  for (uint64_t z = 0; z < extent.depth; ++z) {
    for (uint64_t y = 0; y < extent.height; ++y) {
      std::memmove(reinterpret_cast<void*>(to.address + z * to.slice + y * to.pitch),
                   reinterpret_cast<const void*>(from.address + z * from.slice + y * from.pitch),
                   extent.width);
    }
  }
}

}  // namespace

// As far as an application can tell, page-locked memory is read in the order of the stream: earlier
// copies and host functions that are still to write there come first. (CUDA may read other memory
// at once, too.)
CUresult AwaitSource(const void* from, uint64_t bytes) {
  HostMemory::Range range;
  if (!runtime().host_memory->Find(from, &range)) return CUDA_SUCCESS;
  // Kernels may still write there, too.
  if (range.shared) return SynchronizeSession();
  if (runtime().host_calls->any()) runtime().host_calls->Await();
  const uint64_t begin = reinterpret_cast<uint64_t>(from);
  const bool being_written = range.last_copy != 0 && begin < range.copied_end &&
                             begin + bytes > range.copied_begin &&
                             !runtime().commands->Retired(kNoStream, range.last_copy);
  return being_written ? SynchronizeSession() : CUDA_SUCCESS;
}

CUresult SendRows(const BoxPlace& from, const BoxExtent& extent,
                  absl::FunctionRef<CUresult(const BoxPart& part, std::string_view rows)> send) {
  uint64_t span;
  if (!BoxSpan(from, extent, &span)) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(AwaitSource(reinterpret_cast<const void*>(from.address), span));
  std::string rows;
  for (uint64_t offset = 0; offset < extent.bytes(); offset += rows.size()) {
    const BoxPart part = PartOfBox(extent, offset, kPartBytes);
    rows.resize(part.extent.bytes());
    ForEachRow(part.In(from), part.extent, [&](uint64_t address, uint64_t at, uint64_t bytes) {
      std::memcpy(rows.data() + at, reinterpret_cast<const void*>(address), bytes);
    });
    WARPLINE_TRY(send(part, rows));
  }
  return CUDA_SUCCESS;
}

bool IsReadWithoutFault(uint64_t address) {
  if (InHostArena(address)) return true;
  MirroredMemory::Range range;
  return runtime().mirrored->any() && runtime().mirrored->Find(address, &range) &&
         range.kind == MirroredMemory::Kind::kRegistered;
}

CUresult UseBox(const Stream* stream, const BoxExtent& extent, Box* box,
                MirroredMemory::Work* work) {
  uint64_t bytes;
  if (!BoxSpan(box->place, extent, &bytes)) return CUDA_ERROR_INVALID_VALUE;
  DeviceMemory& memory = *runtime().memory;
  MirroredMemory::Range range;
  const MirroredMemory& mirrored = *runtime().mirrored;
  uint64_t* const address = &box->place.address;
  const bool mirror = mirrored.any() && mirrored.Find(*address, &range);
  const uint64_t named = std::exchange(*address, OnDevice(*address));
  if (named != *address && !memory.Contains(*address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const bool called_device = box->device;
  // Memory that both share and that lies in several allocations is still the host's.
  box->device =
      mirror || (InHostArena(*address) ? called_device || memory.Contains(*address, bytes)
                                       : memory.IsDevice(*address) || memory.LearnBlock(*address));
  if (box->device) {
    if (!memory.Contains(*address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    return BeforeWrite(stream, work, *address, bytes);
  }
  const bool usable = called_device ? IsPageLocked(*address, bytes)
                                    : IsHost(reinterpret_cast<const void*>(*address));
  return usable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CopyToDevice(Stream* stream, uint64_t to, const void* from, uint64_t bytes,
                      Completion completion) {
  if (bytes == 0) return CUDA_SUCCESS;
  to = OnDevice(to);
  const uint64_t address = OnDevice(reinterpret_cast<uint64_t>(from));
  if (runtime().memory->IsDevice(address)) {
    return CopyOnDevice(stream, to, address, bytes, completion);
  }
  if (IsPageLocked(to, bytes)) return CopyByAddress(stream, to, address, bytes, completion);
  if (from == nullptr || !IsOnDevice(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (AnyCapture()) {
    WARPLINE_TRY(CheckSynchronous(stream, completion));
    if (Captured(*stream) && completion == Completion::kAsynchronous) {
      return CaptureCopy(stream, LinearCopy(kDevice, to, kHost, address, bytes));
    }
  }
  if (completion == Completion::kSynchronous) WARPLINE_TRY(AwaitTurn(*stream));
  WARPLINE_TRY(AwaitSource(from, bytes));
  WARPLINE_TRY(runtime().pinned->BeforeCopy(to, {static_cast<const char*>(from), bytes}));
  const HostMemory::Use use(runtime().host_memory, address);
  // The device may have been given the source just now.
  if (runtime().memory->IsDevice(OnDevice(address))) {
    return CopyOnDevice(stream, to, address, bytes, completion);
  }
  {
    MirroredMemory::Work work(runtime().mirrored);
    WARPLINE_TRY(BeforeWrite(stream, &work, to, bytes));
    WARPLINE_TRY(SendToDevice(stream, to, static_cast<const char*>(from), bytes));
  }
  return completion == Completion::kSynchronous ? EndSynchronous(stream) : CUDA_SUCCESS;
}

CUresult CopyFromDevice(Stream* stream, void* to, uint64_t from, uint64_t bytes,
                        Completion completion) {
  if (bytes == 0) return CUDA_SUCCESS;
  from = OnDevice(from);
  const HostMemory::Use use(runtime().host_memory, reinterpret_cast<uint64_t>(to));
  const uint64_t address = OnDevice(reinterpret_cast<uint64_t>(to));
  if (runtime().memory->IsDevice(address)) {
    return CopyOnDevice(stream, address, from, bytes, completion);
  }
  if (IsPageLocked(from, bytes)) return CopyByAddress(stream, address, from, bytes, completion);
  if (to == nullptr || !IsOnDevice(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (AnyCapture()) {
    WARPLINE_TRY(CheckSynchronous(stream, completion));
    if (Captured(*stream) && completion == Completion::kAsynchronous) {
      return CaptureCopy(stream, LinearCopy(kHost, address, kDevice, from, bytes));
    }
  }
  WARPLINE_TRY(BeforeAccess(stream, from, bytes));
  const bool wait =
      completion == Completion::kSynchronous || !runtime().host_memory->Contains(to, bytes);
  return Receive(stream, to, from, bytes, wait);
}

// If an end may be host memory that the devices reach, a synchronous copy waits, whichever end that
// is. If both are, every copy waits.
CUresult CopyOnDevice(Stream* stream, uint64_t to, uint64_t from, uint64_t bytes,
                      Completion completion) {
  if (bytes == 0) return CUDA_SUCCESS;
  to = OnDevice(to);
  from = OnDevice(from);
  if (IsPageLocked(to, bytes) || IsPageLocked(from, bytes)) {
    return CopyWithPageLocked(stream, to, from, bytes, completion);
  }
  const bool waits = WaitsForCopy(stream, to, from, completion);
  if (waits && AnyCapture()) WARPLINE_TRY(CheckSynchronous(stream, completion));
  if (!IsOnDevice(to, bytes) || !IsOnDevice(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (Captured(*stream)) {
    return CaptureCopy(stream, LinearCopy(kDevice, to, kDevice, from, bytes));
  }
  if (MayTake(*stream, to, from, bytes)) {
    WARPLINE_TRY(SendToDevice(stream, to, reinterpret_cast<const char*>(from), bytes));
    return completion == Completion::kSynchronous ? EndSynchronous(stream) : CUDA_SUCCESS;
  }
  bool across;
  WARPLINE_TRY(JoinDevices(stream, to, from, completion, &across));
  {
    MirroredMemory::Work work(runtime().mirrored);
    WARPLINE_TRY(BeforeWrite(stream, &work, to, bytes));
    WARPLINE_TRY(BeforeWrite(stream, &work, from, bytes));
    WARPLINE_TRY(SendOn(stream, cmd::CopyOnDevice{stream->wire, to, from, bytes}));
  }
  if (across) WARPLINE_TRY(OrderOtherStreamsAfter(stream));
  return waits ? SynchronizeStream(stream) : CUDA_SUCCESS;
}

CUresult CopyByAddress(Stream* stream, uint64_t to, uint64_t from, uint64_t bytes,
                       Completion completion) {
  if (bytes == 0) return CUDA_SUCCESS;
  to = OnDevice(to);
  from = OnDevice(from);
  const bool to_device = runtime().memory->IsDevice(to);
  const bool from_device = runtime().memory->IsDevice(from);
  void* const host_to = reinterpret_cast<void*>(to);
  const void* const host_from = reinterpret_cast<const void*>(from);
  if (to_device && from_device) return CopyOnDevice(stream, to, from, bytes, completion);
  if (to_device) return CopyToDevice(stream, to, host_from, bytes, completion);
  if (from_device) return CopyFromDevice(stream, host_to, from, bytes, completion);
  const bool learned_to = runtime().memory->LearnBlock(to);
  const bool learned_from = runtime().memory->LearnBlock(from);
  if (learned_to || learned_from) return CopyByAddress(stream, to, from, bytes, completion);
  return CopyOnHost(stream, host_to, host_from, bytes, completion);
}

CUresult Fill(Stream* stream, uint64_t to, uint32_t value, uint32_t width, uint64_t count,
              Completion completion) {
  if (count == 0) return CUDA_SUCCESS;
  uint64_t bytes;
  WARPLINE_TRY(runtime().pinned->GiveAt(&to));
  to = OnDevice(to);
  if (to % width != 0 || __builtin_mul_overflow(count, width, &bytes) ||
      !runtime().memory->Contains(to, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (Captured(*stream)) return CaptureMemset(stream, {to, 0, value, width, count, 1, nullptr});
  MirroredMemory::Work work(runtime().mirrored);
  WARPLINE_TRY(BeforeWrite(stream, &work, to, bytes));
  WARPLINE_TRY(SendOn(stream, cmd::Memset{stream->wire, to, count, value, width}));
  work.End();
  return EndFill(stream, to, completion);
}

CUresult FillRows(Stream* stream, uint64_t to, uint64_t pitch, uint32_t value, uint32_t width,
                  uint64_t columns, uint64_t rows, Completion completion) {
  if (columns == 0 || rows == 0) return CUDA_SUCCESS;
  uint64_t bytes;
  BoxExtent extent = {0, rows, 1};
  WARPLINE_TRY(runtime().pinned->GiveAt(&to));
  to = OnDevice(to);
  if (__builtin_mul_overflow(columns, width, &extent.width) || to % width != 0 ||
      (rows > 1 && pitch % width != 0) ||
      !BoxSpan({to, rows > 1 ? pitch : extent.width, 0}, extent, &bytes) ||
      !runtime().memory->Contains(to, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (Captured(*stream)) {
    return CaptureMemset(stream, {to, pitch, value, width, columns, rows, nullptr});
  }
  MirroredMemory::Work work(runtime().mirrored);
  WARPLINE_TRY(BeforeWrite(stream, &work, to, bytes));
  if (rows == 1 || pitch == extent.width) {
    WARPLINE_TRY(SendOn(stream, cmd::Memset{stream->wire, to, columns * rows, value, width}));
  } else {
    WARPLINE_TRY(
        SendOn(stream, cmd::MemsetRows{stream->wire, to, pitch, columns, rows, value, width}));
  }
  work.End();
  return EndFill(stream, to, completion);
}

namespace {

// Copies rows with gaps between them. Host memory stays the host's alone meanwhile, if it is.
CUresult CopyRows(Stream* stream, Box to, Box from, BoxExtent extent, Completion completion) {
  const HostMemory::Use use_to(runtime().host_memory, to.place.address);
  const HostMemory::Use use_from(runtime().host_memory, from.place.address);
  MirroredMemory::Work work(runtime().mirrored);
  WARPLINE_TRY(UseBox(stream, extent, &to, &work));
  WARPLINE_TRY(UseBox(stream, extent, &from, &work));
  Flatten(&to.place, &from.place, &extent);
  if (!to.device) return ReceiveBox(stream, to.place, from.place, extent, completion);
  if (!from.device) {
    WARPLINE_TRY(SendBoxToDevice(stream, to.place, from.place, extent));
    work.End();
    return completion == Completion::kSynchronous ? EndSynchronous(stream) : CUDA_SUCCESS;
  }
  const cmd::CopyBoxOnDevice command = {
      stream->wire,     to.place.address, to.place.pitch, to.place.slice, from.place.address,
      from.place.pitch, from.place.slice, extent.width,   extent.height,  extent.depth};
  const bool waits = WaitsForCopy(stream, to.place.address, from.place.address, completion);
  if (waits && AnyCapture()) WARPLINE_TRY(CheckSynchronous(stream, completion));
  bool across;
  WARPLINE_TRY(JoinDevices(stream, to.place.address, from.place.address, completion, &across));
  WARPLINE_TRY(SendOn(stream, command));
  work.End();
  if (across) WARPLINE_TRY(OrderOtherStreamsAfter(stream));
  return waits ? SynchronizeStream(stream) : CUDA_SUCCESS;
}

}  // namespace

CUresult CopyBox(Stream* stream, const Box& to_box, const Box& from_box, const BoxExtent& size,
                 Completion completion) {
  Box to = to_box;
  Box from = from_box;
  BoxExtent extent = size;
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return CUDA_SUCCESS;
  {
    MirroredMemory::Work work(runtime().mirrored);
    WARPLINE_TRY(UseBox(stream, extent, &to, &work));
    WARPLINE_TRY(UseBox(stream, extent, &from, &work));
  }
  if (!to.device && !from.device) {
    WARPLINE_TRY(SynchronizeStream(stream));
    CopyBoxOnHost(to.place, from.place, extent);
    return CUDA_SUCCESS;
  }
  Flatten(&to.place, &from.place, &extent);
  if (extent.height == 1 && extent.depth == 1) {
    return CopyRun(stream, to, from, extent.width, completion);
  }
  return CopyRows(stream, to_box, from_box, size, completion);
}

}  // namespace warpline::stub
