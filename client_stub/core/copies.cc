#include "client_stub/core/copies.h"

#include <algorithm>
#include <cstring>

#include "client_stub/core/runtime.h"
#include "client_stub/core/streams.h"

namespace warpline::stub {
namespace {

// Of a copy to the device in one command.
constexpr uint64_t kPartBytes = kMaxTail;

bool IsHost(const void* address) {
  return address != nullptr && !runtime().memory->InArena(reinterpret_cast<uint64_t>(address));
}

CUresult SendToDevice(Stream* stream, uint64_t to, const char* from, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes; done += kPartBytes) {
    const std::string_view part(from + done, std::min(kPartBytes, bytes - done));
    WARPLINE_TRY(SendOn(stream, cmd::CopyToDevice{stream->wire, to + done}, part));
  }
  return CUDA_SUCCESS;
}

CUresult Receive(Stream* stream, void* to, uint64_t from, uint64_t bytes, bool wait) {
  uint64_t seq = 0;
  const CUresult result =
      ToCu(runtime().session->CopyOut(stream->wire, to, from, bytes, wait, &seq));
  stream->NoteSent(seq);
  if (!wait) runtime().host_memory->NoteCopy(to, seq);
  return result;
}

CUresult CopyOnHost(Stream* stream, void* to, const void* from, uint64_t bytes) {
  if (!IsHost(to) || !IsHost(from)) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(SynchronizeStream(stream));
  std::memmove(to, from, bytes);
  return CUDA_SUCCESS;
}

// Bytes from a box's first to its last; false on overflow.
bool BoxBytes(const Box& box, uint64_t width, uint64_t height, uint64_t depth, uint64_t* bytes) {
  uint64_t rows, slices;
  return !__builtin_mul_overflow(box.pitch, height - 1, &rows) &&
         !__builtin_mul_overflow(box.slice, depth - 1, &slices) &&
         !__builtin_add_overflow(rows, slices, bytes) &&
         !__builtin_add_overflow(*bytes, width, bytes);
}

bool CheckBox(const Box& box, uint64_t width, uint64_t height, uint64_t depth) {
  uint64_t bytes;
  if ((height > 1 && box.pitch < width) || !BoxBytes(box, width, height, depth, &bytes)) {
    return false;
  }
  return box.device ? runtime().memory->Contains(box.address, bytes)
                    : IsHost(reinterpret_cast<const void*>(box.address));
}

CUresult CopyRow(Stream* stream, const Box& to, const Box& from, uint64_t offset_to,
                 uint64_t offset_from, uint64_t bytes) {
  const uint64_t target = to.address + offset_to;
  const uint64_t source = from.address + offset_from;
  if (to.device && from.device) {
    return SendOn(stream, cmd::CopyOnDevice{stream->wire, target, source, bytes});
  }
  if (to.device) {
    return SendToDevice(stream, target, reinterpret_cast<const char*>(source), bytes);
  }
  if (from.device) {
    return Receive(stream, reinterpret_cast<void*>(target), source, bytes, /*wait=*/false);
  }
  std::memmove(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), bytes);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult CopyToDevice(Stream* stream, uint64_t to, const void* from, uint64_t bytes,
                      Completion completion) {
  if (bytes == 0) return CUDA_SUCCESS;
  const uint64_t address = reinterpret_cast<uint64_t>(from);
  if (runtime().memory->InArena(address)) return CopyOnDevice(stream, to, address, bytes);
  if (from == nullptr || !runtime().memory->Contains(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(SendToDevice(stream, to, static_cast<const char*>(from), bytes));
  return completion == Completion::kSynchronous ? OrderOtherStreamsAfter(stream) : CUDA_SUCCESS;
}

CUresult CopyFromDevice(Stream* stream, void* to, uint64_t from, uint64_t bytes,
                        Completion completion) {
  if (bytes == 0) return CUDA_SUCCESS;
  const uint64_t address = reinterpret_cast<uint64_t>(to);
  if (runtime().memory->InArena(address)) return CopyOnDevice(stream, address, from, bytes);
  if (to == nullptr || !runtime().memory->Contains(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const bool wait =
      completion == Completion::kSynchronous || !runtime().host_memory->Contains(to, bytes);
  return Receive(stream, to, from, bytes, wait);
}

CUresult CopyOnDevice(Stream* stream, uint64_t to, uint64_t from, uint64_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  const DeviceMemory& memory = *runtime().memory;
  if (!memory.Contains(to, bytes) || !memory.Contains(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return SendOn(stream, cmd::CopyOnDevice{stream->wire, to, from, bytes});
}

CUresult CopyByAddress(Stream* stream, uint64_t to, uint64_t from, uint64_t bytes,
                       Completion completion) {
  if (bytes == 0) return CUDA_SUCCESS;
  const bool to_device = runtime().memory->IsDevice(to);
  const bool from_device = runtime().memory->IsDevice(from);
  void* const host_to = reinterpret_cast<void*>(to);
  const void* const host_from = reinterpret_cast<const void*>(from);
  if (to_device && from_device) return CopyOnDevice(stream, to, from, bytes);
  if (to_device) return CopyToDevice(stream, to, host_from, bytes, completion);
  if (from_device) return CopyFromDevice(stream, host_to, from, bytes, completion);
  return CopyOnHost(stream, host_to, host_from, bytes);
}

CUresult Fill(Stream* stream, uint64_t to, uint32_t value, uint32_t width, uint64_t count) {
  if (count == 0) return CUDA_SUCCESS;
  uint64_t bytes;
  if (to % width != 0 || __builtin_mul_overflow(count, width, &bytes) ||
      !runtime().memory->Contains(to, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return SendOn(stream, cmd::Memset{stream->wire, to, count, value, width});
}

CUresult FillRows(Stream* stream, uint64_t to, uint64_t pitch, uint32_t value, uint32_t width,
                  uint64_t columns, uint64_t rows) {
  if (columns == 0 || rows == 0) return CUDA_SUCCESS;
  uint64_t row_bytes, bytes;
  const Box box = {to, pitch, 0, true};
  if (__builtin_mul_overflow(columns, width, &row_bytes) || to % width != 0 ||
      (rows > 1 && (pitch < row_bytes || pitch % width != 0)) ||
      !BoxBytes(box, row_bytes, rows, 1, &bytes) || !runtime().memory->Contains(to, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (rows == 1 || pitch == row_bytes) {
    return SendOn(stream, cmd::Memset{stream->wire, to, columns * rows, value, width});
  }
  for (uint64_t row = 0; row < rows; ++row) {
    WARPLINE_TRY(
        SendOn(stream, cmd::Memset{stream->wire, to + row * pitch, columns, value, width}));
  }
  return CUDA_SUCCESS;
}

CUresult CopyBox(Stream* stream, const Box& to, const Box& from, uint64_t width, uint64_t height,
                 uint64_t depth, Completion completion) {
  if (width == 0 || height == 0 || depth == 0) return CUDA_SUCCESS;
  if (!CheckBox(to, width, height, depth) || !CheckBox(from, width, height, depth)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!to.device && !from.device) WARPLINE_TRY(SynchronizeStream(stream));
  const bool whole_slices = height == 1 || (to.pitch == width && from.pitch == width);
  const uint64_t row_bytes = whole_slices ? width * height : width;
  const uint64_t rows = whole_slices ? 1 : height;
  for (uint64_t z = 0; z < depth; ++z) {
    for (uint64_t y = 0; y < rows; ++y) {
      WARPLINE_TRY(CopyRow(stream, to, from, z * to.slice + y * to.pitch,
                           z * from.slice + y * from.pitch, row_bytes));
    }
  }
  if (to.device && !from.device && completion == Completion::kSynchronous) {
    return OrderOtherStreamsAfter(stream);
  }
  if (to.device || !from.device) return CUDA_SUCCESS;
  const uint64_t bytes = to.slice * (depth - 1) + to.pitch * (height - 1) + width;
  const bool wait =
      completion == Completion::kSynchronous ||
      !runtime().host_memory->Contains(reinterpret_cast<const void*>(to.address), bytes);
  return wait ? SynchronizeStream(stream) : CUDA_SUCCESS;
}

}  // namespace warpline::stub
