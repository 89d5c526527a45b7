#include "server/worker/memory_reader.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace warpline::worker {
namespace {

constexpr uint64_t kPiece = 1u << 20;
constexpr uint32_t kDisableTiming = 2;

void Nap() {
  const timespec nap = {0, 20'000};
  nanosleep(&nap, nullptr);
}

bool WriteAll(int fd, const char* data, uint64_t bytes, uint64_t offset) {
  while (bytes > 0) {
    const ssize_t n = pwrite(fd, data, bytes, static_cast<off_t>(offset));
    if (n <= 0) return false;
    data += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<uint64_t>(n);
  }
  return true;
}

CudaResult CopyPiece(device::Context* context, void* staging, uint64_t va, uint64_t bytes,
                     device::EventId event) {
  CudaResult result = context->CopyFromDevice(staging, va, bytes, device::kLegacyStream);
  if (result == CudaResult::kSuccess) result = context->RecordEvent(event, device::kLegacyStream);
  if (result != CudaResult::kSuccess) return result;
  while ((result = context->QueryEvent(event)) == CudaResult::kNotReady) Nap();
  return result;
}

}  // namespace

CudaResult CopyMemoryToFile(device::Context* context, uint64_t va, uint64_t bytes, int fd) {
  void* staging = nullptr;
  CudaResult result = context->AllocStaging(kPiece, &staging);
  if (result != CudaResult::kSuccess) return result;
  device::EventId event{};
  result = context->CreateEvent(kDisableTiming, &event);
  if (result == CudaResult::kSuccess) {
    for (uint64_t done = 0; done < bytes && result == CudaResult::kSuccess; done += kPiece) {
      const uint64_t piece = std::min(kPiece, bytes - done);
      result = CopyPiece(context, staging, va + done, piece, event);
      if (result == CudaResult::kSuccess &&
          !WriteAll(fd, static_cast<const char*>(staging), piece, done)) {
        result = CudaResult::kOperatingSystem;
      }
    }
    context->DestroyEvent(event);
  }
  context->FreeStaging(staging);
  return result;
}

}  // namespace warpline::worker
