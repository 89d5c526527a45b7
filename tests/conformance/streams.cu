// Streams: life, order, priorities, attributes, waits for memory.
#include "setting.h"

namespace conformance {
namespace {

void Life() {
  if (!Begin()) return;
  CUstream stream = nullptr;
  unsigned flags = 99;
  CALL("default", CUDA_SUCCESS, cuStreamCreate, &stream, CU_STREAM_DEFAULT);
  CALL("default", CUDA_SUCCESS, cuStreamGetFlags, stream, &flags);
  EQUAL(cuStreamGetFlags, "default flags", flags, CU_STREAM_DEFAULT);
  CALL("nothing to do", CUDA_SUCCESS, cuStreamQuery, stream);
  CALL("nothing to do", CUDA_SUCCESS, cuStreamSynchronize, stream);
  CALL("default", CUDA_SUCCESS, cuStreamDestroy, stream);
  CALL("not blocking", CUDA_SUCCESS, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  CALL("not blocking", CUDA_SUCCESS, cuStreamGetFlags, stream, &flags);
  EQUAL(cuStreamGetFlags, "not blocking", flags, CU_STREAM_NON_BLOCKING);
  CUcontext context = nullptr;
  CALL("context", CUDA_SUCCESS, cuStreamGetCtx, stream, &context);
  HOLDS(cuStreamGetCtx, "gives the context", context == g_context, "another one");
  CUdevice device = -1;
  CALL("device", CUDA_SUCCESS, cuStreamGetDevice, stream, &device);
  EQUAL(cuStreamGetDevice, "gives the device", device, g_device);
  unsigned long long id = 0, other_id = 0;
  CALL("id", CUDA_SUCCESS, cuStreamGetId, stream, &id);
  CALL("id of the legacy stream", CUDA_SUCCESS, cuStreamGetId, nullptr, &other_id);
  HOLDS(cuStreamGetId, "ids differ", id != other_id, "both are %llu", id);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuStreamGetId, stream, nullptr);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuStreamGetFlags, stream, nullptr);
  CALL("not blocking", CUDA_SUCCESS, cuStreamDestroy, stream);
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE, cuStreamCreate, &stream, 0x100);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuStreamCreate, nullptr, 0);
  CALL("the legacy stream", CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy, nullptr);
  CALL("legacy", CUDA_SUCCESS, cuStreamSynchronize, nullptr);
  CALL("legacy by name", CUDA_SUCCESS, cuStreamSynchronize, CU_STREAM_LEGACY);
  CALL("per-thread", CUDA_SUCCESS, cuStreamSynchronize, CU_STREAM_PER_THREAD);
  CALL("per-thread", CUDA_SUCCESS, cuStreamQuery, CU_STREAM_PER_THREAD);
}

// A server gives a session some number of streams; a GPU alone has them as long as it has memory.
void Many() {
  if (!Begin() || native()) return;
  std::vector<CUstream> streams;
  CUstream stream = nullptr;
  CUresult result = CUDA_SUCCESS;
  while (streams.size() < 3000 &&
         (result = CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING)) == CUDA_SUCCESS) {
    streams.push_back(stream);
  }
  Mark("cuStreamCreate", "beyond the limit");
  Judge(CUDA_ERROR_OUT_OF_MEMORY, result);
  HOLDS(cuStreamCreate, "there are as many as a server promises", streams.size() >= 8, "%zu",
        streams.size());
  CALL("after a refusal", CUDA_SUCCESS, cuCtxSynchronize);
  for (const CUstream made : streams) SETUP(cuStreamSynchronize, made);
  SETUP(cuStreamDestroy, streams.back());
  CALL("in the place of another", CUDA_SUCCESS, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  CALL("in the place of another", CUDA_SUCCESS, cuStreamSynchronize, stream);
  CALL("once more", CUDA_ERROR_OUT_OF_MEMORY, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
}

void Priorities() {
  if (!Begin()) return;
  int least = 0, greatest = 0, priority = 99;
  SETUP(cuCtxGetStreamPriorityRange, &least, &greatest);
  CUstream stream = nullptr;
  CALL("greatest", CUDA_SUCCESS, cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING,
       greatest);
  CALL("greatest", CUDA_SUCCESS, cuStreamGetPriority, stream, &priority);
  EQUAL(cuStreamGetPriority, "greatest", priority, greatest);
  SETUP(cuStreamDestroy, stream);
  CALL("beyond the greatest", CUDA_SUCCESS, cuStreamCreateWithPriority, &stream, 0, greatest - 100);
  CALL("clamped", CUDA_SUCCESS, cuStreamGetPriority, stream, &priority);
  EQUAL(cuStreamGetPriority, "clamped to the greatest", priority, greatest);
  SETUP(cuStreamDestroy, stream);
  CALL("beyond the least", CUDA_SUCCESS, cuStreamCreateWithPriority, &stream, 0, least + 100);
  CALL("clamped", CUDA_SUCCESS, cuStreamGetPriority, stream, &priority);
  EQUAL(cuStreamGetPriority, "clamped to the least", priority, least);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuStreamGetPriority, stream, nullptr);
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE, cuStreamCreateWithPriority, &stream, 0x100, 0);
}

// A query reports that work is left, and none after a synchronize; streams keep their order.
void Order() {
  if (!Begin()) return;
  CUmodule module = nullptr;
  CUfunction busy = nullptr, add_step = nullptr;
  if (!LoadModule(&module) || !Kernel(&busy, module, "busy") ||
      !Kernel(&add_step, module, "add_step")) {
    return;
  }
  CUstream stream = nullptr, other = nullptr;
  CUevent event = nullptr;
  CUdeviceptr out = 0;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  SETUP(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
  SETUP(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  SETUP(cuMemAlloc, &out, 4);
  unsigned iterations = BusyIterations();
  void* parameters[] = {&iterations, &out};
  SETUP(cuLaunchKernel, busy, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  CALL("busy", CUDA_ERROR_NOT_READY, cuStreamQuery, stream);
  CALL("idle", CUDA_SUCCESS, cuStreamQuery, other);
  CALL("busy", CUDA_SUCCESS, cuStreamSynchronize, stream);
  CALL("after it", CUDA_SUCCESS, cuStreamQuery, stream);

  // The other stream sees the work before the event.
  SETUP(cuLaunchKernel, busy, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  SETUP(cuMemsetD32Async, out, 1000, 1, stream);
  SETUP(cuEventRecord, event, stream);
  CALL("event of another stream", CUDA_SUCCESS, cuStreamWaitEvent, other, event, 0);
  void* total[] = {&out};
  SETUP(cuLaunchKernel, add_step, 1, 1, 1, 10, 1, 1, 0, other, total, nullptr);
  SETUP(cuStreamSynchronize, other);
  unsigned value = 0;
  SETUP(cuMemcpyDtoH, &value, out, 4);
  EQUAL(cuStreamWaitEvent, "work comes after the event", value, 1070u);
  CALL("no event", CUDA_ERROR_INVALID_HANDLE, cuStreamWaitEvent, other, nullptr, 0);
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent, other, event, 0x100);

  // A stream that is destroyed finishes its work.
  SETUP(cuLaunchKernel, busy, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  SETUP(cuMemsetD32Async, out, 5, 1, stream);
  CALL("busy", CUDA_SUCCESS, cuStreamDestroy, stream);
  SETUP(cuCtxSynchronize);
  SETUP(cuMemcpyDtoH, &value, out, 4);
  EQUAL(cuStreamDestroy, "its work is done all the same", value, 5u);
}

void Attributes() {
  if (!Begin()) return;
  CUstream stream = nullptr, other = nullptr;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  SETUP(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
  CUstreamAttrValue value = {};
  value.syncPolicy = CU_SYNC_POLICY_YIELD;
  CALL("SYNCHRONIZATION_POLICY", CUDA_SUCCESS, cuStreamSetAttribute, stream,
       CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
  value = {};
  CALL("SYNCHRONIZATION_POLICY", CUDA_SUCCESS, cuStreamGetAttribute, stream,
       CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
  EQUAL(cuStreamGetAttribute, "policy as set", value.syncPolicy, CU_SYNC_POLICY_YIELD);
  CUdeviceptr memory = 0;
  SETUP(cuMemAlloc, &memory, 65536);
  value = {};
  value.accessPolicyWindow.base_ptr = reinterpret_cast<void*>(memory);
  value.accessPolicyWindow.num_bytes = 4096;
  value.accessPolicyWindow.hitRatio = 0.5f;
  value.accessPolicyWindow.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
  value.accessPolicyWindow.missProp = CU_ACCESS_PROPERTY_STREAMING;
  int window = 0;
  SETUP(cuDeviceGetAttribute, &window, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, g_device);
  if (on_cpu() && window == 0) {
    CALL("window of a device without any", CUDA_ERROR_INVALID_VALUE, cuStreamSetAttribute, stream,
         CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value);
    CALL("to another stream", CUDA_SUCCESS, cuStreamCopyAttributes, other, stream);
  } else {
    CALL("ACCESS_POLICY_WINDOW", CUDA_SUCCESS, cuStreamSetAttribute, stream,
         CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value);
    value = {};
    CALL("ACCESS_POLICY_WINDOW", CUDA_SUCCESS, cuStreamGetAttribute, stream,
         CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value);
    EQUAL(cuStreamGetAttribute, "window as set", value.accessPolicyWindow.num_bytes, 4096u);
    CALL("to another stream", CUDA_SUCCESS, cuStreamCopyAttributes, other, stream);
    value = {};
    CALL("copied", CUDA_SUCCESS, cuStreamGetAttribute, other,
         CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value);
    EQUAL(cuStreamCopyAttributes, "window as copied", value.accessPolicyWindow.num_bytes, 4096u);
  }
  value = {};
  CALL("copied policy", CUDA_SUCCESS, cuStreamGetAttribute, other,
       CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
  EQUAL(cuStreamCopyAttributes, "policy as copied", value.syncPolicy, CU_SYNC_POLICY_YIELD);
  value = {};
  CALL("PRIORITY", CUDA_SUCCESS, cuStreamGetAttribute, stream, CU_STREAM_ATTRIBUTE_PRIORITY,
       &value);
  EQUAL(cuStreamGetAttribute, "priority at first", value.priority, 0);
  CALL("MEM_SYNC_DOMAIN", CUDA_SUCCESS, cuStreamGetAttribute, stream,
       CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN, &value);
  CALL("unknown attribute", CUDA_ERROR_INVALID_VALUE, cuStreamGetAttribute, stream,
       static_cast<CUstreamAttrID>(4711), &value);
  CALL("unknown attribute", CUDA_ERROR_INVALID_VALUE, cuStreamSetAttribute, stream,
       static_cast<CUstreamAttrID>(4711), &value);
  if (!native()) {  // NVIDIA's driver ends the process.
    CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuStreamGetAttribute, stream,
         CU_STREAM_ATTRIBUTE_PRIORITY, nullptr);
  }
}

// Waits for and writes of words in device memory.
void Words() {
  if (!Begin()) return;
  CUstream stream = nullptr, other = nullptr;
  CUdeviceptr word = 0;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  SETUP(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
  SETUP(cuMemAlloc, &word, 64);
  SETUP(cuMemsetD32, word, 0, 16);
  SETUP(cuCtxSynchronize);  // Neither stream waits for the legacy one.
  CALL("for 7", CUDA_SUCCESS, cuStreamWaitValue32, stream, word, 7, CU_STREAM_WAIT_VALUE_EQ);
  CALL("behind the wait", CUDA_SUCCESS, cuStreamWriteValue32, stream, word + 4, 1, 0);
  CALL("waiting", CUDA_ERROR_NOT_READY, cuStreamQuery, stream);
  CALL("7", CUDA_SUCCESS, cuStreamWriteValue32, other, word, 7, 0);
  CALL("no longer waiting", CUDA_SUCCESS, cuStreamSynchronize, stream);
  unsigned value = 0;
  SETUP(cuMemcpyDtoH, &value, word + 4, 4);
  EQUAL(cuStreamWaitValue32, "work behind it is done", value, 1u);
  CALL("64 bits", CUDA_SUCCESS, cuStreamWriteValue64, stream, word + 8, 1ULL << 40, 0);
  CALL("64 bits", CUDA_SUCCESS, cuStreamWaitValue64, stream, word + 8, 1ULL << 40,
       CU_STREAM_WAIT_VALUE_GEQ);
  CUstreamBatchMemOpParams operations[2] = {};
  operations[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operations[0].writeValue.address = word + 16;
  operations[0].writeValue.value = 55;
  operations[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operations[1].waitValue.address = word + 16;
  operations[1].waitValue.value = 55;
  operations[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  CALL("a write and a wait", CUDA_SUCCESS, cuStreamBatchMemOp, stream, 2, operations, 0);
  CALL("after words", CUDA_SUCCESS, cuStreamSynchronize, stream);
  SETUP(cuMemcpyDtoH, &value, word + 16, 4);
  EQUAL(cuStreamBatchMemOp, "the word", value, 55u);
  CALL("odd address", CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32, stream, word + 1, 1, 0);
  CALL("no such memory", CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32, stream, kBadAddress, 1, 0);
  if (!native()) {  // NVIDIA's driver ends the process.
    CALL("no operations", CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp, stream, 2, nullptr, 0);
  }
}

void Capture() {
  if (!Begin()) return;
  CUstream stream = nullptr;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  CALL("no capture", CUDA_SUCCESS, cuStreamIsCapturing, stream, &status);
  EQUAL(cuStreamIsCapturing, "is not", status, CU_STREAM_CAPTURE_STATUS_NONE);
  status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  CALL("no capture", CUDA_SUCCESS, cuStreamGetCaptureInfo, stream, &status, nullptr, nullptr,
       nullptr, nullptr, nullptr);
  EQUAL(cuStreamGetCaptureInfo, "is not capturing", status, CU_STREAM_CAPTURE_STATUS_NONE);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CALL("relaxed", CUDA_SUCCESS, cuThreadExchangeStreamCaptureMode, &mode);
  EQUAL(cuThreadExchangeStreamCaptureMode, "was global", mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuStreamIsCapturing, stream, nullptr);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "streams",
             {{"life", Life},
              {"many", Many},
              {"priorities", Priorities},
              {"order", Order},
              {"attributes", Attributes},
              {"words", Words},
              {"capture", Capture}});
}
