// Parts of a device, and green contexts on them. Whatever a device has of multiprocessors, its
// smallest part can be made at least once, so that everything is done with one; where there are
// two, both are used.
#include <vector>

#include "setting.h"

namespace conformance {
namespace {

constexpr size_t kBytes = 4096;

CUdevResource g_whole = {};

// Splits off groups of the smallest size, at most `most`.
std::vector<CUdevResource> SmallestGroups(unsigned most, CUdevResource* rest) {
  std::vector<CUdevResource> groups(most);
  unsigned made = most;
  Mark("cuDevSmResourceSplitByCount", "setup");
  if (!Setup(CU(cuDevSmResourceSplitByCount)(groups.data(), &made, &g_whole, rest, 0,
                                             g_whole.sm.minSmPartitionSize))) {
    made = 0;
  }
  groups.resize(made);
  return groups;
}

// Begins, and describes the device's multiprocessors.
bool BeginWhole() {
  if (!Begin()) return false;
  Mark("cuDeviceGetDevResource", "setup");
  return Setup(CU(cuDeviceGetDevResource)(g_device, &g_whole, CU_DEV_RESOURCE_TYPE_SM));
}

bool Create(CUdevResource* resources, unsigned count, CUgreenCtx* green) {
  CUdevResourceDesc descriptor = nullptr;
  Mark("cuDevResourceGenerateDesc", "setup");
  if (!Setup(CU(cuDevResourceGenerateDesc)(&descriptor, resources, count))) return false;
  Mark("cuGreenCtxCreate", "setup");
  return Setup(CU(cuGreenCtxCreate)(green, descriptor, g_device, CU_GREEN_CTX_DEFAULT_STREAM));
}

// Begins with a green context of the smallest part.
bool BeginGreen(CUgreenCtx* green, CUcontext* context) {
  CUdevResource rest = {};
  if (!BeginWhole()) return false;
  std::vector<CUdevResource> groups = SmallestGroups(1, &rest);
  if (groups.empty() || !Create(groups.data(), 1, green)) return false;
  Mark("cuCtxFromGreenCtx", "setup");
  return Setup(CU(cuCtxFromGreenCtx)(context, *green));
}

void Splits() {
  if (!BeginWhole()) return;
  const unsigned smallest = g_whole.sm.minSmPartitionSize;
  std::vector<CUdevResource> groups(256);
  CUdevResource rest = {};
  unsigned made = 256, counted = 0;
  CALL("smallest groups", CUDA_SUCCESS, cuDevSmResourceSplitByCount, groups.data(), &made, &g_whole,
       &rest, 0, smallest);
  HOLDS(cuDevSmResourceSplitByCount, "at least one", made >= 1 && made <= 256, "%u", made);
  unsigned sum = rest.type == CU_DEV_RESOURCE_TYPE_SM ? rest.sm.smCount : 0;
  bool alike = true;
  for (unsigned i = 0; i < made && i < 256; ++i) {
    sum += groups[i].sm.smCount;
    alike &= groups[i].type == CU_DEV_RESOURCE_TYPE_SM &&
             groups[i].sm.smCount == groups[0].sm.smCount && groups[i].sm.smCount >= smallest;
  }
  HOLDS(cuDevSmResourceSplitByCount, "groups are alike", alike, "%u", groups[0].sm.smCount);
  EQUAL(cuDevSmResourceSplitByCount, "nothing is lost", sum, g_whole.sm.smCount);
  CALL("only counted", CUDA_SUCCESS, cuDevSmResourceSplitByCount, nullptr, &counted, &g_whole,
       nullptr, 0, smallest);
  EQUAL(cuDevSmResourceSplitByCount, "as many as are made", counted, made);
  made = 1;
  CALL("one group", CUDA_SUCCESS, cuDevSmResourceSplitByCount, groups.data(), &made, &g_whole,
       nullptr, 0, smallest);
  EQUAL(cuDevSmResourceSplitByCount, "no more than asked for", made, 1u);
  CALL("no place for the count", CUDA_ERROR_INVALID_VALUE, cuDevSmResourceSplitByCount,
       groups.data(), nullptr, &g_whole, &rest, 0, smallest);
  CALL("no input", CUDA_ERROR_INVALID_VALUE, cuDevSmResourceSplitByCount, groups.data(), &made,
       nullptr, &rest, 0, smallest);
}

void Descriptors() {
  CUdevResource rest = {};
  if (!BeginWhole()) return;
  std::vector<CUdevResource> groups = SmallestGroups(2, &rest);
  if (groups.empty()) return;
  CUdevResourceDesc descriptor = nullptr;
  CALL("all groups", CUDA_SUCCESS, cuDevResourceGenerateDesc, &descriptor, groups.data(),
       static_cast<unsigned>(groups.size()));
  HOLDS(cuDevResourceGenerateDesc, "a descriptor", descriptor != nullptr, "null");
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuDevResourceGenerateDesc, nullptr,
       groups.data(), 1);
  CALL("no resources", CUDA_ERROR_INVALID_VALUE, cuDevResourceGenerateDesc, &descriptor, nullptr,
       1);
  CUdevResource made_up = {};
  made_up.type = CU_DEV_RESOURCE_TYPE_SM;
  made_up.sm.smCount = g_whole.sm.smCount;
  CALL("made up", CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, cuDevResourceGenerateDesc, &descriptor,
       &made_up, 1);
  CUgreenCtx green = nullptr;
  CALL("without the required flag", CUDA_ERROR_INVALID_VALUE, cuGreenCtxCreate, &green, descriptor,
       g_device, 0);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuGreenCtxCreate, nullptr, descriptor,
       g_device, CU_GREEN_CTX_DEFAULT_STREAM);
}

void Contexts() {
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr, again = nullptr, current = nullptr;
  if (!BeginGreen(&green, &context)) return;
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuCtxFromGreenCtx, nullptr, green);
  CALL("again", CUDA_SUCCESS, cuCtxFromGreenCtx, &again, green);
  HOLDS(cuCtxFromGreenCtx, "the same context", again == context && again != g_context, "%p",
        (void*)again);
  CUdevResource of_green = {}, of_context = {};
  CALL("its multiprocessors", CUDA_SUCCESS, cuGreenCtxGetDevResource, green, &of_green,
       CU_DEV_RESOURCE_TYPE_SM);
  HOLDS(cuGreenCtxGetDevResource, "a part",
        of_green.sm.smCount >= g_whole.sm.minSmPartitionSize &&
            of_green.sm.smCount <= g_whole.sm.smCount,
        "%u", of_green.sm.smCount);
  CALL("its context's", CUDA_SUCCESS, cuCtxGetDevResource, context, &of_context,
       CU_DEV_RESOURCE_TYPE_SM);
  EQUAL(cuCtxGetDevResource, "as the green context's", of_context.sm.smCount, of_green.sm.smCount);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuGreenCtxGetDevResource, green, nullptr,
       CU_DEV_RESOURCE_TYPE_SM);
  unsigned long long id = 0, of_current = 0;
  CALL("its id", CUDA_SUCCESS, cuGreenCtxGetId, green, &id);
  CALL("current", CUDA_SUCCESS, cuCtxSetCurrent, context);
  CALL("of the current one", CUDA_SUCCESS, cuGreenCtxGetId, nullptr, &of_current);
  EQUAL(cuGreenCtxGetId, "the same", of_current, id);
  CALL("is current", CUDA_SUCCESS, cuCtxGetCurrent, &current);
  HOLDS(cuCtxGetCurrent, "the green context's", current == context, "%p", (void*)current);
  int of_device = 0, while_current = 0;
  SETUP(cuCtxSetCurrent, g_context);
  SETUP(cuDeviceGetAttribute, &of_device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, g_device);
  SETUP(cuCtxSetCurrent, context);
  SETUP(cuDeviceGetAttribute, &while_current, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, g_device);
  EQUAL(cuDeviceGetAttribute, "the device stays as it is", while_current, of_device);
  SETUP(cuCtxSetCurrent, g_context);
  CALL("end", CUDA_SUCCESS, cuGreenCtxDestroy, green);
}

void Streams() {
  CUgreenCtx green = nullptr, found = nullptr;
  CUcontext context = nullptr, of_stream = nullptr;
  CUmodule module = nullptr;
  CUfunction nothing = nullptr;
  if (!BeginGreen(&green, &context) || !LoadModule(&module) ||
      !Kernel(&nothing, module, "nothing")) {
    return;
  }
  CUstream stream = nullptr;
  CALL("not non-blocking", CUDA_ERROR_INVALID_VALUE, cuGreenCtxStreamCreate, &stream, green,
       CU_STREAM_DEFAULT, 0);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuGreenCtxStreamCreate, nullptr, green,
       CU_STREAM_NON_BLOCKING, 0);
  CALL("non-blocking", CUDA_SUCCESS, cuGreenCtxStreamCreate, &stream, green, CU_STREAM_NON_BLOCKING,
       0);
  CALL("its green context", CUDA_SUCCESS, cuStreamGetGreenCtx, stream, &found);
  HOLDS(cuStreamGetGreenCtx, "the one", found == green, "%p", (void*)found);
  CALL("no green context", CUDA_SUCCESS, cuStreamGetGreenCtx, nullptr, &found);
  HOLDS(cuStreamGetGreenCtx, "none", found == nullptr, "%p", (void*)found);
  CALL("both contexts", CUDA_SUCCESS, cuStreamGetCtx_v2, stream, &of_stream, &found);
  HOLDS(cuStreamGetCtx_v2, "the primary and the green one",
        of_stream == g_context && found == green, "%p %p", (void*)of_stream, (void*)found);
  CUdeviceptr memory = 0;
  std::vector<unsigned char> bytes(kBytes, 0);
  SETUP(cuMemAlloc, &memory, kBytes);
  CALL("launch in it", CUDA_SUCCESS, cuLaunchKernel, nothing, 1, 1, 1, 32, 1, 1, 0, stream, nullptr,
       nullptr);
  CALL("fill in it", CUDA_SUCCESS, cuMemsetD8Async, memory, 0x5c, kBytes, stream);
  CALL("wait for it", CUDA_SUCCESS, cuStreamSynchronize, stream);
  SETUP(cuMemcpyDtoH, bytes.data(), memory, kBytes);
  HOLDS(cuMemsetD8Async, "is filled", bytes[0] == 0x5c && bytes[kBytes - 1] == 0x5c, "%d",
        bytes[0]);
  SETUP(cuCtxSetCurrent, context);
  CALL("of its default stream", CUDA_SUCCESS, cuStreamGetGreenCtx, nullptr, &found);
  HOLDS(cuStreamGetGreenCtx, "the current one", found == green, "%p", (void*)found);
  CALL("its default stream", CUDA_SUCCESS, cuLaunchKernel, nothing, 1, 1, 1, 32, 1, 1, 0, nullptr,
       nullptr, nullptr);
  CALL("fill there", CUDA_SUCCESS, cuMemsetD8Async, memory, 0x21, kBytes, nullptr);
  CALL("wait for all of it", CUDA_SUCCESS, cuCtxSynchronize);
  SETUP(cuMemcpyDtoH, bytes.data(), memory, kBytes);
  HOLDS(cuMemsetD8Async, "is filled again", bytes[0] == 0x21 && bytes[kBytes - 1] == 0x21, "%d",
        bytes[0]);
  SETUP(cuCtxSetCurrent, g_context);
  CALL("end of the stream", CUDA_SUCCESS, cuStreamDestroy, stream);
  CALL("end", CUDA_SUCCESS, cuGreenCtxDestroy, green);
  CALL("memory that outlives it", CUDA_SUCCESS, cuMemFree, memory);
}

void Events() {
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  if (!BeginGreen(&green, &context)) return;
  CUstream stream = nullptr, other = nullptr;
  CUevent event = nullptr;
  CUdeviceptr memory = 0;
  std::vector<unsigned char> bytes(kBytes, 0);
  SETUP(cuGreenCtxStreamCreate, &stream, green, CU_STREAM_NON_BLOCKING, 0);
  SETUP(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
  SETUP(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  SETUP(cuMemAlloc, &memory, kBytes);
  SETUP(cuMemsetD8Async, memory, 0x31, kBytes, stream);
  CALL("all of its work", CUDA_SUCCESS, cuGreenCtxRecordEvent, green, event);
  CALL("another stream waits", CUDA_SUCCESS, cuStreamWaitEvent, other, event, 0);
  SETUP(cuMemcpyDtoHAsync, bytes.data(), memory, kBytes, other);
  SETUP(cuStreamSynchronize, other);
  HOLDS(cuGreenCtxRecordEvent, "its work is done", bytes[0] == 0x31 && bytes[kBytes - 1] == 0x31,
        "%d", bytes[0]);
  SETUP(cuMemsetD8Async, memory, 0x47, kBytes, other);
  SETUP(cuEventRecord, event, other);
  CALL("waits for another stream", CUDA_SUCCESS, cuGreenCtxWaitEvent, green, event);
  SETUP(cuMemcpyDtoHAsync, bytes.data(), memory, kBytes, stream);
  SETUP(cuStreamSynchronize, stream);
  HOLDS(cuGreenCtxWaitEvent, "the other's work is done",
        bytes[0] == 0x47 && bytes[kBytes - 1] == 0x47, "%d", bytes[0]);
  CALL("no event", CUDA_ERROR_INVALID_HANDLE, cuGreenCtxRecordEvent, green, nullptr);
  CALL("no event", CUDA_ERROR_INVALID_HANDLE, cuGreenCtxWaitEvent, green, nullptr);
  CALL("end of the stream", CUDA_SUCCESS, cuStreamDestroy, stream);
  CALL("end", CUDA_SUCCESS, cuGreenCtxDestroy, green);
}

// Two green contexts of one split, or one twice where the device has but one part, work beside each
// other and beside the primary context.
void Together() {
  CUdevResource rest = {};
  if (!BeginWhole()) return;
  std::vector<CUdevResource> groups = SmallestGroups(2, &rest);
  if (groups.empty()) return;
  CUgreenCtx greens[2] = {};
  CUstream streams[3] = {};
  CUdeviceptr memory[3] = {};
  for (int i = 0; i < 2; ++i) {
    if (!Create(&groups[i % groups.size()], 1, &greens[i])) return;
    SETUP(cuGreenCtxStreamCreate, &streams[i], greens[i], CU_STREAM_NON_BLOCKING, 0);
  }
  SETUP(cuStreamCreate, &streams[2], CU_STREAM_NON_BLOCKING);
  for (int i = 0; i < 3; ++i) SETUP(cuMemAlloc, &memory[i], kBytes);
  for (int round = 0; round < 8; ++round) {
    for (int i = 0; i < 3; ++i) {
      SETUP(cuMemsetD8Async, memory[i], static_cast<unsigned char>(16 * i + round), kBytes,
            streams[i]);
    }
  }
  for (int i = 0; i < 3; ++i) SETUP(cuStreamSynchronize, streams[i]);
  bool right = true;
  for (int i = 0; i < 3; ++i) {
    std::vector<unsigned char> bytes(kBytes, 0);
    SETUP(cuMemcpyDtoH, bytes.data(), memory[i], kBytes);
    for (const unsigned char byte : bytes) right &= byte == 16 * i + 7;
  }
  HOLDS(cuGreenCtxStreamCreate, "each has its own work", right, "not so");
  for (int i = 0; i < 2; ++i) {
    SETUP(cuStreamDestroy, streams[i]);
    CALL("end of each", CUDA_SUCCESS, cuGreenCtxDestroy, greens[i]);
  }
}

// A part of a part.
void Nested() {
  CUgreenCtx outer = nullptr, inner = nullptr;
  if (!BeginWhole() || !Create(&g_whole, 1, &outer)) return;
  CUdevResource of_outer = {}, part = {}, of_inner = {};
  SETUP(cuGreenCtxGetDevResource, outer, &of_outer, CU_DEV_RESOURCE_TYPE_SM);
  EQUAL(cuGreenCtxGetDevResource, "all multiprocessors", of_outer.sm.smCount, g_whole.sm.smCount);
  unsigned made = 1;
  CALL("of a green context's", CUDA_SUCCESS, cuDevSmResourceSplitByCount, &part, &made, &of_outer,
       nullptr, 0, of_outer.sm.minSmPartitionSize);
  if (!Create(&part, 1, &inner)) return;
  SETUP(cuGreenCtxGetDevResource, inner, &of_inner, CU_DEV_RESOURCE_TYPE_SM);
  EQUAL(cuGreenCtxGetDevResource, "a part of it", of_inner.sm.smCount, part.sm.smCount);
  CALL("end of the outer", CUDA_SUCCESS, cuGreenCtxDestroy, outer);
  CUstream stream = nullptr;
  CALL("in the inner", CUDA_SUCCESS, cuGreenCtxStreamCreate, &stream, inner, CU_STREAM_NON_BLOCKING,
       0);
  CALL("works", CUDA_SUCCESS, cuStreamSynchronize, stream);
  CALL("end of the stream", CUDA_SUCCESS, cuStreamDestroy, stream);
  CALL("end of the inner", CUDA_SUCCESS, cuGreenCtxDestroy, inner);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "green_contexts",
             {{"splits", Splits},
              {"descriptors", Descriptors},
              {"contexts", Contexts},
              {"streams", Streams},
              {"events", Events},
              {"together", Together},
              {"nested", Nested}});
}
