// Events with all flags.
#include <cmath>

#include "setting.h"

namespace conformance {
namespace {

void Flags() {
  if (!Begin()) return;
  CUevent event = nullptr;
  const struct {
    unsigned flags;
    const char* name;
  } kGood[] = {{CU_EVENT_DEFAULT, "DEFAULT"},
               {CU_EVENT_BLOCKING_SYNC, "BLOCKING_SYNC"},
               {CU_EVENT_DISABLE_TIMING, "DISABLE_TIMING"},
               {CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING, "BLOCKING_SYNC, no timing"}};
  for (const auto& good : kGood) {
    CALL(good.name, CUDA_SUCCESS, cuEventCreate, &event, good.flags);
    CALL(good.name, CUDA_SUCCESS, cuEventRecord, event, nullptr);
    CALL(good.name, CUDA_SUCCESS, cuEventSynchronize, event);
    CALL(good.name, CUDA_SUCCESS, cuEventQuery, event);
    CALL(good.name, CUDA_SUCCESS, cuEventDestroy, event);
  }
  CALL("INTERPROCESS with timing", CUDA_ERROR_INVALID_VALUE, cuEventCreate, &event,
       CU_EVENT_INTERPROCESS);
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE, cuEventCreate, &event, 0x100);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuEventCreate, nullptr, 0);
  CALL("none", CUDA_ERROR_INVALID_HANDLE, cuEventDestroy, nullptr);
  CALL("none", CUDA_ERROR_INVALID_HANDLE, cuEventRecord, nullptr, nullptr);
  CALL("none", CUDA_ERROR_INVALID_HANDLE, cuEventQuery, nullptr);
  CALL("none", CUDA_ERROR_INVALID_HANDLE, cuEventSynchronize, nullptr);
}

void States() {
  if (!Begin()) return;
  CUmodule module = nullptr;
  CUfunction busy = nullptr;
  if (!LoadModule(&module) || !Kernel(&busy, module, "busy")) return;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUdeviceptr out = 0;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  SETUP(cuEventCreate, &event, CU_EVENT_DEFAULT);
  SETUP(cuMemAlloc, &out, 4);
  CALL("never recorded", CUDA_SUCCESS, cuEventQuery, event);
  CALL("never recorded", CUDA_SUCCESS, cuEventSynchronize, event);
  CALL("never recorded", CUDA_SUCCESS, cuStreamWaitEvent, stream, event, 0);
  unsigned iterations = BusyIterations();
  void* parameters[] = {&iterations, &out};
  SETUP(cuLaunchKernel, busy, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  CALL("behind work", CUDA_SUCCESS, cuEventRecord, event, stream);
  CALL("behind work", CUDA_ERROR_NOT_READY, cuEventQuery, event);
  CALL("behind work", CUDA_SUCCESS, cuEventSynchronize, event);
  CALL("after it", CUDA_SUCCESS, cuEventQuery, event);
  CALL("default flags", CUDA_SUCCESS, cuEventRecordWithFlags, event, stream,
       CU_EVENT_RECORD_DEFAULT);
  CALL("external, outside a capture", CUDA_ERROR_ILLEGAL_STATE, cuEventRecordWithFlags, event,
       stream, CU_EVENT_RECORD_EXTERNAL);
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE, cuEventRecordWithFlags, event, stream, 0x100);
  // NVIDIA's driver may crash on an invalid stream; ours must not.
  if (!native()) {
    CALL("wrong stream", CUDA_ERROR_INVALID_HANDLE, cuEventRecord, event, Garbage<CUstream>());
  }
  // Destroying an event that has not been reached yet does not disturb the stream.
  SETUP(cuLaunchKernel, busy, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  SETUP(cuEventRecord, event, stream);
  CALL("not reached yet", CUDA_SUCCESS, cuEventDestroy, event);
  CALL("with an event that is gone", CUDA_SUCCESS, cuStreamSynchronize, stream);
}

void Times() {
  if (!Begin()) return;
  CUmodule module = nullptr;
  CUfunction busy = nullptr;
  if (!LoadModule(&module) || !Kernel(&busy, module, "busy")) return;
  CUevent start = nullptr, stop = nullptr, untimed = nullptr;
  CUdeviceptr out = 0;
  float ms = -1;
  SETUP(cuMemAlloc, &out, 4);
  SETUP(cuEventCreate, &start, CU_EVENT_DEFAULT);
  SETUP(cuEventCreate, &stop, CU_EVENT_DEFAULT);
  SETUP(cuEventCreate, &untimed, CU_EVENT_DISABLE_TIMING);
  CALL("never recorded", CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime, &ms, start, stop);
  unsigned iterations = BusyIterations();
  void* parameters[] = {&iterations, &out};
  SETUP(cuEventRecord, start, nullptr);
  SETUP(cuLaunchKernel, busy, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  SETUP(cuEventRecord, stop, nullptr);
  SETUP(cuEventRecord, untimed, nullptr);
  CALL("not reached yet", CUDA_ERROR_NOT_READY, cuEventElapsedTime, &ms, start, stop);
  SETUP(cuEventSynchronize, stop);
  CALL("around a kernel", CUDA_SUCCESS, cuEventElapsedTime, &ms, start, stop);
  HOLDS(cuEventElapsedTime, "is positive", ms > 0 && ms < 60000, "%f ms", ms);
  CALL("backwards", CUDA_SUCCESS, cuEventElapsedTime, &ms, stop, start);
  HOLDS(cuEventElapsedTime, "backwards is negative", ms < 0, "%f ms", ms);
  CALL_SYMBOL("first version", CUDA_SUCCESS, cuEventElapsedTime, "cuEventElapsedTime", &ms, start,
              stop);
  SETUP(cuEventSynchronize, untimed);
  CALL("event without timing", CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime, &ms, start, untimed);
  CALL("no event", CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime, &ms, start, nullptr);
  CALL("nowhere to write", CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime, nullptr, start, stop);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "events", {{"flags", Flags}, {"states", States}, {"times", Times}});
}
