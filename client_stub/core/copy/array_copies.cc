// Copies of which at least one end is an array.
#include <algorithm>
#include <string_view>

#include "client_stub/core/copy/arrays.h"
#include "client_stub/core/memory/host_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/limited_waits.h"
#include "client_stub/core/stream/streams.h"
#include "proto/frames.h"

namespace warpline::stub {
namespace {

bool Fits(uint64_t start, uint64_t extent, uint64_t size) {
  return start <= size && extent <= size - start;
}

bool IsWithin(const CopyEnd& end, const BoxExtent& extent) {
  const CUDA_ARRAY3D_DESCRIPTOR& shape = end.array->shape;
  const uint64_t element = end.array->element_bytes();
  // For other formats the device makes the check.
  if (element == 0) return true;
  return end.x % element == 0 && extent.width % element == 0 &&
         Fits(end.x, extent.width, shape.Width * element) &&
         Fits(end.y, extent.height, std::max<uint64_t>(shape.Height, 1)) &&
         Fits(end.z, extent.depth, std::max<uint64_t>(shape.Depth, 1));
}

CUresult SendToArray(Stream* stream, const CopyEnd& to, const BoxPlace& from,
                     const BoxExtent& extent, Completion completion) {
  const auto send = [&](const BoxPart& part, std::string_view rows) {
    const cmd::CopyToArray command = {stream->wire,       to.array->wire,   to.x + part.x,
                                      to.y + part.y,      to.z + part.z,    part.extent.width,
                                      part.extent.height, part.extent.depth};
    return SendOn(stream, command, rows);
  };
  WARPLINE_TRY(SendRows(from, extent, send));
  return completion == Completion::kSynchronous ? EndSynchronous(stream) : CUDA_SUCCESS;
}

CUresult ReceiveArray(Stream* stream, const BoxPlace& to, const CopyEnd& from,
                      const BoxExtent& extent, Completion completion) {
  uint64_t span, seq = 0;
  void* const target = reinterpret_cast<void*>(to.address);
  const bool pinned = BoxSpan(to, extent, &span) && runtime().host_memory->Contains(target, span);
  const bool wait = completion == Completion::kSynchronous || !pinned;
  if (wait) WARPLINE_TRY(AwaitTurn(*stream));
  const cmd::CopyFromArray command = {stream->wire, from.array->wire, from.x,        from.y,
                                      from.z,       extent.width,     extent.height, extent.depth};
  const CUresult result = ToCu(runtime().commands->CopyArrayOut(command, to, wait, &seq));
  NoteSent(stream, seq, Notice::kNoticed);
  if (!wait) runtime().host_memory->NoteCopy(target, span, seq);
  return result;
}

// Sends the copy, both ends of which have been checked.
CUresult SendArrayBox(Stream* stream, const CopyEnd& to, const CopyEnd& from,
                      const BoxExtent& extent, Completion completion) {
  const BoxPlace& target = to.box.place;
  const BoxPlace& source = from.box.place;
  if (to.array != nullptr && from.array != nullptr) {
    return SendOn(stream, cmd::CopyArrayToArray{stream->wire, to.array->wire, to.x, to.y, to.z,
                                                from.array->wire, from.x, from.y, from.z,
                                                extent.width, extent.height, extent.depth});
  }
  if (to.array != nullptr) {
    if (!from.box.device) return SendToArray(stream, to, source, extent, completion);
    return SendOn(stream, cmd::CopyDeviceToArray{stream->wire, to.array->wire, to.x, to.y, to.z,
                                                 source.address, source.pitch, source.slice,
                                                 extent.width, extent.height, extent.depth});
  }
  if (!to.box.device) return ReceiveArray(stream, target, from, extent, completion);
  return SendOn(stream, cmd::CopyArrayToDevice{stream->wire, target.address, target.pitch,
                                               target.slice, from.array->wire, from.x, from.y,
                                               from.z, extent.width, extent.height, extent.depth});
}

}  // namespace

CUresult CopyArrayBox(Stream* stream, const CopyEnd& to_end, const CopyEnd& from_end,
                      const BoxExtent& extent, Completion completion) {
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return CUDA_SUCCESS;
  CopyEnd to = to_end;
  CopyEnd from = from_end;
  MirroredMemory::Work work(runtime().mirrored);
  const auto use = [&](CopyEnd* end) {
    if (end->array == nullptr) return UseBox(stream, extent, &end->box, &work);
    return IsWithin(*end, extent) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  const HostMemory::Use use_to(runtime().host_memory, to.box.place.address);
  const HostMemory::Use use_from(runtime().host_memory, from.box.place.address);
  WARPLINE_TRY(use(&to));
  WARPLINE_TRY(use(&from));
  const auto shared = [](const CopyEnd& end) {
    return end.array == nullptr && IsReadWithoutFault(end.box.place.address);
  };
  // A synchronous copy waits, whichever end is memory that host and device share.
  if (completion == Completion::kSynchronous && (shared(to) || shared(from))) {
    WARPLINE_TRY(SendArrayBox(stream, to, from, extent, completion));
    work.End();
    return SynchronizeStream(stream);
  }
  return SendArrayBox(stream, to, from, extent, completion);
}

}  // namespace warpline::stub
