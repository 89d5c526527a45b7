// The driver itself: initialization, versions, entry points, error texts.
#include "setting.h"

// cudaProfiler.h declares these, but not every toolkit has it.
extern "C" CUresult cuProfilerStart();
extern "C" CUresult cuProfilerStop();
// The type of cuGetProcAddress as it first was, without a status.
extern "C" CUresult FirstGetProcAddress(const char*, void**, int, cuuint64_t);

namespace conformance {
namespace {

void BeforeInit() {
  int number = 0;
  CUdevice device;
  CUcontext context;
  CUdeviceptr address;
  CALL("before cuInit", CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount, &number);
  CALL("before cuInit", CUDA_ERROR_NOT_INITIALIZED, cuDeviceGet, &device, 0);
  CALL("before cuInit", CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent, &context);
  CALL("before cuInit", CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc, &address, 256);
  CALL("before cuInit", CUDA_SUCCESS, cuDriverGetVersion, &number);
  CALL("flags other than 0", CUDA_ERROR_INVALID_VALUE, cuInit, 1);
  CALL("first", CUDA_SUCCESS, cuInit, 0);
  CALL("again", CUDA_SUCCESS, cuInit, 0);
  CALL("after cuInit", CUDA_SUCCESS, cuDeviceGetCount, &number);
  HOLDS(cuDeviceGetCount, "at least one device", number >= 1, "%d devices", number);
}

void Versions() {
  int version = 0;
  SETUP(cuInit, 0);
  CALL("version", CUDA_SUCCESS, cuDriverGetVersion, &version);
  HOLDS(cuDriverGetVersion, "is 13.0 or later", version >= 13000 && version < 20000, "%d", version);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuDriverGetVersion, nullptr);
}

void ErrorTexts() {
  const char* text = nullptr;
  const struct {
    CUresult code;
    const char *name, *words;
  } kKnown[] = {
      {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
      {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
      {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
      {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
      {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
       "an illegal memory access was encountered"},
      {CUDA_ERROR_ASSERT, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
      {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
  };
  for (const auto& known : kKnown) {
    const std::string check = known.name;
    if (CALL(check.c_str(), CUDA_SUCCESS, cuGetErrorName, known.code, &text)) {
      HOLDS(cuGetErrorName, (check + " text").c_str(), std::strcmp(text, known.name) == 0, "'%s'",
            text);
    }
    if (CALL(check.c_str(), CUDA_SUCCESS, cuGetErrorString, known.code, &text)) {
      HOLDS(cuGetErrorString, (check + " text").c_str(), std::strcmp(text, known.words) == 0,
            "'%s', expected '%s'", text, known.words);
    }
  }
  text = "left";
  CALL("unknown code", CUDA_ERROR_INVALID_VALUE, cuGetErrorName, static_cast<CUresult>(12345),
       &text);
  HOLDS(cuGetErrorName, "unknown code gives no text", text == nullptr, "'%s'", text);
  text = "left";
  CALL("unknown code", CUDA_ERROR_INVALID_VALUE, cuGetErrorString, static_cast<CUresult>(12345),
       &text);
  HOLDS(cuGetErrorString, "unknown code gives no text", text == nullptr, "'%s'", text);
}

void EntryPoints() {
  SETUP(cuInit, 0);
  void* found = nullptr;
  CUdriverProcAddressQueryResult status;
  if (CALL("by name", CUDA_SUCCESS, cuGetProcAddress, "cuDriverGetVersion", &found, 13000,
           CU_GET_PROC_ADDRESS_DEFAULT, &status)) {
    int version = 0;
    const CUresult got = reinterpret_cast<CUresult (*)(int*)>(found)(&version);
    HOLDS(cuGetProcAddress, "the function found works", got == CUDA_SUCCESS && version >= 13000,
          "gives %d, version %d", int(got), version);
    EQUAL(cuGetProcAddress, "status of a function found", status, CU_GET_PROC_ADDRESS_SUCCESS);
  }
  // A missing function is no error: the status tells, and the address is NULL.
  CALL("unknown name", CUDA_SUCCESS, cuGetProcAddress, "cuNoSuchFunction", &found, 13000,
       CU_GET_PROC_ADDRESS_DEFAULT, &status);
  HOLDS(cuGetProcAddress, "address of an unknown name", found == nullptr, "%p", found);
  EQUAL(cuGetProcAddress, "status of an unknown name", status,
        CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  found = &status;
  CALL("version too old", CUDA_SUCCESS, cuGetProcAddress, "cuMemAllocAsync", &found, 9000,
       CU_GET_PROC_ADDRESS_DEFAULT, &status);
  HOLDS(cuGetProcAddress, "address in a version too old", found == nullptr, "%p", found);
  EQUAL(cuGetProcAddress, "status of a version too old", status,
        CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  CALL("unknown name, no status wanted", CUDA_SUCCESS, cuGetProcAddress, "cuNoSuchFunction", &found,
       13000, CU_GET_PROC_ADDRESS_DEFAULT, nullptr);
  CALL_SYMBOL("unknown name", CUDA_ERROR_NOT_FOUND, FirstGetProcAddress, "cuGetProcAddress",
              "cuNoSuchFunction", &found, 13000, CU_GET_PROC_ADDRESS_DEFAULT);
  CALL_SYMBOL("by name", CUDA_SUCCESS, FirstGetProcAddress, "cuGetProcAddress", "cuInit", &found,
              13000, CU_GET_PROC_ADDRESS_DEFAULT);
  CALL("no status wanted", CUDA_SUCCESS, cuGetProcAddress, "cuInit", &found, 13000,
       CU_GET_PROC_ADDRESS_DEFAULT, nullptr);
  if (!native()) {  // NVIDIA's driver ends the process.
    CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuGetProcAddress, "cuInit", nullptr, 13000,
         CU_GET_PROC_ADDRESS_DEFAULT, &status);
    CALL("no name", CUDA_ERROR_INVALID_VALUE, cuGetProcAddress, nullptr, &found, 13000,
         CU_GET_PROC_ADDRESS_DEFAULT, &status);
  }
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE, cuGetProcAddress, "cuInit", &found, 13000,
       cuuint64_t{1} << 40, &status);
  void *legacy = nullptr, *per_thread = nullptr;
  CALL("legacy stream", CUDA_SUCCESS, cuGetProcAddress, "cuLaunchKernel", &legacy, 13000,
       CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);
  CALL("per-thread stream", CUDA_SUCCESS, cuGetProcAddress, "cuLaunchKernel", &per_thread, 13000,
       CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status);
  HOLDS(cuGetProcAddress, "legacy and per-thread differ", legacy != per_thread, "both are %p",
        legacy);
}

// Every function of the families that these programs check can be found.
void EveryName() {
  SETUP(cuInit, 0);
  for (const char* name : {"cuCtxCreate",
                           "cuCtxGetApiVersion",
                           "cuCtxGetLimit",
                           "cuCtxSetLimit",
                           "cuDeviceGetUuid",
                           "cuDevicePrimaryCtxGetState",
                           "cuEventElapsedTime",
                           "cuEventRecordWithFlags",
                           "cuFuncGetParamInfo",
                           "cuFuncSetAttribute",
                           "cuKernelGetAttribute",
                           "cuLaunchCooperativeKernel",
                           "cuLaunchHostFunc",
                           "cuLaunchKernelEx",
                           "cuLibraryLoadData",
                           "cuMemAllocAsync",
                           "cuMemAllocFromPoolAsync",
                           "cuMemAllocManaged",
                           "cuMemCreate",
                           "cuMemHostRegister",
                           "cuMemPoolCreate",
                           "cuMemcpy2D",
                           "cuMemcpy3D",
                           "cuMemsetD2D32Async",
                           "cuModuleLoadDataEx",
                           "cuOccupancyMaxActiveClusters",
                           "cuPointerGetAttributes",
                           "cuStreamAddCallback",
                           "cuStreamBatchMemOp",
                           "cuStreamBeginCapture",
                           "cuStreamGetCaptureInfo",
                           "cuStreamGetId",
                           "cuStreamSetAttribute",
                           "cuStreamWaitValue32",
                           "cuTensorMapEncodeTiled",
                           "cuTexObjectCreate",
                           "cuGraphCreate",
                           "cuIpcGetMemHandle"}) {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status;
    CALL(name, CUDA_SUCCESS, cuGetProcAddress, name, &found, 13000, CU_GET_PROC_ADDRESS_DEFAULT,
         &status);
  }
}

void Profiler() {
  if (!Begin()) return;
  CALL("start", CUDA_SUCCESS, cuProfilerStart);
  CALL("stop", CUDA_SUCCESS, cuProfilerStop);
}

void ExportTable() {
  SETUP(cuInit, 0);
  const void* table = nullptr;
  CUuuid unknown = {};
  CALL("unknown table", CUDA_ERROR_INVALID_VALUE, cuGetExportTable, &table, &unknown);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "init",
             {{"before_init", BeforeInit},
              {"versions", Versions},
              {"error_texts", ErrorTexts},
              {"entry_points", EntryPoints},
              {"every_name", EveryName},
              {"profiler", Profiler},
              {"export_table", ExportTable}});
}
