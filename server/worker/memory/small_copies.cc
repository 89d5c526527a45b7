#include "server/worker/memory/small_copies.h"

#include <time.h>

#include <algorithm>
#include <cstring>

#include "common/cuda/cuda_numbers.h"

namespace warpline::worker {
namespace {

constexpr size_t kPiece = 64u << 10;
constexpr uint32_t kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING

void Nap() {
  const timespec nap = {0, 10'000};
  nanosleep(&nap, nullptr);
}

}  // namespace

SmallCopies::~SmallCopies() {
  if (ready_) {
    context_->DestroyEvent(event_);
    context_->DestroyStream(stream_);
  }
  if (staging_ != nullptr) context_->FreeStaging(staging_);
}

CudaResult SmallCopies::Prepare() {
  if (ready_) return CudaResult::kSuccess;
  CudaResult result = CudaResult::kSuccess;
  if (staging_ == nullptr) result = context_->AllocStaging(kPiece, &staging_);
  if (result == CudaResult::kSuccess) result = context_->CreateStream(kNonBlocking, 0, &stream_);
  if (result != CudaResult::kSuccess) return result;
  result = context_->CreateEvent(kEventDisableTiming, &event_);
  if (result != CudaResult::kSuccess) context_->DestroyStream(stream_);
  ready_ = result == CudaResult::kSuccess;
  return result;
}

CudaResult SmallCopies::Wait() {
  CudaResult result = context_->RecordEvent(event_, stream_);
  if (result != CudaResult::kSuccess) return result;
  while ((result = context_->QueryEvent(event_)) == CudaResult::kNotReady) Nap();
  return result;
}

CudaResult SmallCopies::Write(uint64_t address, std::string_view bytes) {
  CudaResult result = Prepare();
  for (size_t done = 0; done < bytes.size() && result == CudaResult::kSuccess; done += kPiece) {
    const std::string_view piece = bytes.substr(done, kPiece);
    result = context_->CopyToDevice(address + done, piece.data(), piece.size(), stream_);
    if (result == CudaResult::kSuccess) result = Wait();
  }
  return result;
}

CudaResult SmallCopies::WriteVariable(device::ModuleId module, const std::string& name,
                                      std::string_view bytes) {
  CudaResult result = Prepare();
  if (result == CudaResult::kSuccess) {
    result = context_->WriteVariable(module, name, bytes, stream_);
  }
  return result == CudaResult::kSuccess ? Wait() : result;
}

CudaResult SmallCopies::Zero(uint64_t address, uint64_t bytes) {
  CudaResult result = Prepare();
  if (result == CudaResult::kSuccess) result = context_->Memset(address, 0, 1, bytes, stream_);
  return result == CudaResult::kSuccess ? Wait() : result;
}

CudaResult SmallCopies::Read(uint64_t address, void* out, size_t bytes) {
  CudaResult result = Prepare();
  for (size_t done = 0; done < bytes && result == CudaResult::kSuccess; done += kPiece) {
    const size_t piece = std::min(kPiece, bytes - done);
    result = context_->CopyFromDevice(staging_, address + done, piece, stream_);
    if (result == CudaResult::kSuccess) result = Wait();
    if (result == CudaResult::kSuccess) {
      std::memcpy(static_cast<char*>(out) + done, staging_, piece);
    }
  }
  return result;
}

}  // namespace warpline::worker
