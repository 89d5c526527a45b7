#include "server/worker/memory/file_copies.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "common/cuda/cuda_numbers.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kPiece = 1u << 20;

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

bool ReadAll(int fd, char* data, uint64_t bytes, uint64_t offset) {
  while (bytes > 0) {
    const ssize_t n = pread(fd, data, bytes, static_cast<off_t>(offset));
    if (n <= 0) return false;
    data += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<uint64_t>(n);
  }
  return true;
}

}  // namespace

FileCopies::~FileCopies() {
  if (ready_) context_->DestroyEvent(event_);
  if (staging_ != nullptr) context_->FreeStaging(staging_);
}

CudaResult FileCopies::Prepare() {
  if (ready_) return CudaResult::kSuccess;
  CudaResult result = CudaResult::kSuccess;
  if (staging_ == nullptr) result = context_->AllocStaging(kPiece, &staging_);
  if (result == CudaResult::kSuccess) result = context_->CreateEvent(kEventDisableTiming, &event_);
  ready_ = result == CudaResult::kSuccess;
  return result;
}

CudaResult FileCopies::Wait() {
  CudaResult result = context_->RecordEvent(event_, device::kLegacyStream);
  if (result != CudaResult::kSuccess) return result;
  while ((result = context_->QueryEvent(event_)) == CudaResult::kNotReady) Nap();
  return result;
}

CudaResult FileCopies::ToFile(uint64_t va, uint64_t bytes, int fd, uint64_t offset) {
  CudaResult result = Prepare();
  for (uint64_t done = 0; done < bytes && result == CudaResult::kSuccess; done += kPiece) {
    const uint64_t piece = std::min(kPiece, bytes - done);
    result = context_->CopyFromDevice(staging_, va + done, piece, device::kLegacyStream);
    if (result == CudaResult::kSuccess) result = Wait();
    if (result == CudaResult::kSuccess &&
        !WriteAll(fd, static_cast<const char*>(staging_), piece, offset + done)) {
      result = CudaResult::kOperatingSystem;
    }
  }
  return result;
}

CudaResult FileCopies::FromFile(int fd, uint64_t offset, uint64_t va, uint64_t bytes) {
  CudaResult result = Prepare();
  for (uint64_t done = 0; done < bytes && result == CudaResult::kSuccess; done += kPiece) {
    const uint64_t piece = std::min(kPiece, bytes - done);
    if (!ReadAll(fd, static_cast<char*>(staging_), piece, offset + done)) {
      return CudaResult::kOperatingSystem;
    }
    result = context_->CopyToDevice(va + done, staging_, piece, device::kLegacyStream);
    if (result == CudaResult::kSuccess) result = Wait();
  }
  return result;
}

}  // namespace warpline::worker
