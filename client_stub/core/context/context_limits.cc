#include "client_stub/core/context/context_limits.h"

#include <atomic>
#include <string>

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/session/session.h"
#include "common/mutex.h"
#include "proto/wire.h"

namespace warpline::stub {
namespace {

// The local memory of a thread, on any device.
constexpr size_t kMaxStackBytes = 512 << 10;

struct FirstLimits {
  Mutex mu;
  bool known[CU_LIMIT_MAX] ABSL_GUARDED_BY(mu) = {};
  uint64_t value[CU_LIMIT_MAX] ABSL_GUARDED_BY(mu) = {};
};

FirstLimits& first_limits(const Device& device) {
  static FirstLimits* const limits = new FirstLimits[kMaxSessionDevices];
  return limits[device.number];
}

// CUDA_ERROR_UNSUPPORTED_LIMIT for limits that CUDA knows but recent devices do not have.
CUresult CheckLimit(CUlimit limit) {
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  const bool unsupported = limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH || limit > CU_LIMIT_CIG_ENABLED;
  return unsupported ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_SUCCESS;
}

// Limits that are fixed and cannot be set.
bool Fixed(CUlimit limit) { return limit == CU_LIMIT_SHMEM_SIZE || limit == CU_LIMIT_CIG_ENABLED; }

CUresult Ask(const Device& device, CUlimit limit, uint64_t* value) {
  std::string reply;
  WARPLINE_TRY(ToCu(runtime().commands->Call(
      WaitKind::kRoundTrip, cmd::LimitGet{static_cast<int32_t>(limit), device.number}, {},
      &reply)));
  std::string_view rest = reply;
  cmd::LimitGetReply answer;
  if (!TakeStruct(&rest, &answer)) return CUDA_ERROR_UNKNOWN;
  *value = answer.value;
  return CUDA_SUCCESS;
}

// Remembers the value that the server's context had before the application set it.
void RememberFirst(const Device& device, CUlimit limit) {
  FirstLimits& first = first_limits(device);
  {
    MutexLock lock(&first.mu);
    if (first.known[limit]) return;
  }
  uint64_t value;
  if (Ask(device, limit, &value) != CUDA_SUCCESS) return;
  MutexLock lock(&first.mu);
  if (!first.known[limit]) first.value[limit] = value;
  first.known[limit] = true;
}

CUresult Change(const Device& device, CUlimit limit, uint64_t value) {
  const CudaResult result = runtime().commands->Call(
      WaitKind::kRoundTrip, cmd::LimitSet{value, static_cast<int32_t>(limit), device.number});
  if (result == CudaResult::kOutOfMemory && !runtime().session->terms().TellsRefusals()) {
    runtime().session->memory().NoteRefusedMemory(
        result, "the quota leaves too little for the stacks, heap or printf buffer of a limit");
  }
  return ToCu(result);
}

}  // namespace

void InitializeLimits(Context* context) {
  context->limits[CU_LIMIT_STACK_SIZE] = 1024;
  context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 8650752;
  context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
  context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
  context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
  context->limits[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 0;
  context->limits[CU_LIMIT_SHMEM_SIZE] =
      context->device->attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  context->limits[CU_LIMIT_CIG_ENABLED] = 0;
}

CUresult GetLimit(Context* context, CUlimit limit, size_t* value) {
  WARPLINE_TRY(CheckLimit(limit));
  uint64_t asked = 0;
  const CUresult result =
      Fixed(limit) ? CUDA_ERROR_UNSUPPORTED_LIMIT : Ask(*context->device, limit, &asked);
  // Where the device does not know the limit, the value that the application set or found is the
  // answer.
  if (result == CUDA_ERROR_UNSUPPORTED_LIMIT) asked = context->limits[limit];
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_UNSUPPORTED_LIMIT) return result;
  *value = asked;
  return CUDA_SUCCESS;
}

CUresult SetLimit(Context* context, CUlimit limit, size_t value) {
  WARPLINE_TRY(CheckLimit(limit));
  if (Fixed(limit)) return CUDA_ERROR_NOT_PERMITTED;
  if (limit == CU_LIMIT_STACK_SIZE && value > kMaxStackBytes) return CUDA_ERROR_INVALID_VALUE;
  RememberFirst(*context->device, limit);
  const CUresult result = Change(*context->device, limit, value);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_UNSUPPORTED_LIMIT) return result;
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

void ResetLimits(const Device& device) {
  FirstLimits& first = first_limits(device);
  for (int limit = 0; limit < CU_LIMIT_MAX; ++limit) {
    uint64_t value;
    {
      MutexLock lock(&first.mu);
      if (!first.known[limit]) continue;
      first.known[limit] = false;
      value = first.value[limit];
    }
    Change(device, static_cast<CUlimit>(limit), value);
  }
}

}  // namespace warpline::stub
