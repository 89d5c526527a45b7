// The linker: one input and several, logs and options, and refusals.
#include "setting.h"

namespace conformance {
namespace {

constexpr char kCaller[] = R"(
.version 7.0
.target sm_75
.address_size 64
.extern .func (.param .b32 result) twice(.param .b32 value);
.visible .entry caller(.param .u64 out, .param .u32 value)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  ld.param.u32 %r1, [value];
  {
    .param .b32 given;
    .param .b32 got;
    st.param.b32 [given], %r1;
    call.uni (got), twice, (given);
    ld.param.b32 %r2, [got];
  }
  st.global.u32 [%rd2], %r2;
  ret;
}
)";

constexpr char kTwice[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .func (.param .b32 result) twice(.param .b32 value)
{
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [value];
  add.u32 %r2, %r1, %r1;
  st.param.b32 [result], %r2;
  ret;
}
)";

constexpr char kBroken[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry broken()
{
  this is ( no PTX;
)";

void* Text(const char* text) { return const_cast<char*>(text); }

// Whether the device has the architecture that the cubins are for.
bool OfImages() {
  int major = 0, minor = 0;
  CU(cuDeviceGetAttribute)(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, g_device);
  CU(cuDeviceGetAttribute)(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, g_device);
  return major == 9 && minor == 0;
}

// The sum that `caller` or `affine` of the linked code gives.
void OneInput() {
  if (!Begin()) return;
  std::vector<char> ptx = Image("ptx/kernels.ptx");
  if (ptx.empty()) return;
  CUlinkState state = nullptr;
  char info[4096] = {}, errors[4096] = {};
  CUjit_option options[] = {CU_JIT_WALL_TIME,
                            CU_JIT_INFO_LOG_BUFFER,
                            CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_LOG_VERBOSE,
                            CU_JIT_OPTIMIZATION_LEVEL};
  void* values[] = {nullptr,
                    info,
                    reinterpret_cast<void*>(sizeof(info)),
                    errors,
                    reinterpret_cast<void*>(sizeof(errors)),
                    reinterpret_cast<void*>(1),
                    reinterpret_cast<void*>(3)};
  if (!CALL("logs and options", CUDA_SUCCESS, cuLinkCreate, 7, options, values, &state)) return;
  CALL("PTX", CUDA_SUCCESS, cuLinkAddData, state, CU_JIT_INPUT_PTX, ptx.data(), ptx.size(),
       "kernels.ptx", 0, nullptr, nullptr);
  void* code = nullptr;
  size_t size = 0;
  if (!CALL("one input", CUDA_SUCCESS, cuLinkComplete, state, &code, &size)) return;
  HOLDS(cuLinkComplete, "code", code != nullptr && size > 0, "%zu bytes at %p", size, code);
  if (!on_cpu()) {
    HOLDS(cuLinkComplete, "information", std::strlen(info) > 0, "nothing was said");
  }
  HOLDS(cuLinkComplete, "no errors", std::strlen(errors) == 0, "says %s", errors);
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  if (!CALL("linked code", CUDA_SUCCESS, cuModuleLoadData, &module, code)) return;
  CALL("complete", CUDA_SUCCESS, cuLinkDestroy, state);
  if (!Kernel(&kernel, module, "affine")) return;
  CUdeviceptr in = 0, out = 0;
  SETUP(cuMemAlloc, &in, 4);
  SETUP(cuMemAlloc, &out, 4);
  SETUP(cuMemsetD32, in, 5, 1);
  unsigned a = 3, b = 4, n = 1, got = 0;
  void* parameters[] = {&out, &in, &a, &b, &n};
  SETUP(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  SETUP(cuMemcpyDtoH, &got, out, 4);
  EQUAL(cuLinkComplete, "the linked kernel computes", got, 19u);
}

void SeveralInputs() {
  if (!Begin()) return;
  CUlinkState state = nullptr;
  if (!CALL("no options", CUDA_SUCCESS, cuLinkCreate, 0, nullptr, nullptr, &state)) return;
  CUjit_option option = CU_JIT_MAX_REGISTERS;
  void* value = reinterpret_cast<void*>(32);
  CALL("with an option", CUDA_SUCCESS, cuLinkAddData, state, CU_JIT_INPUT_PTX, Text(kCaller),
       sizeof(kCaller), "caller", 1, &option, &value);
  if (on_cpu()) {
    REFUSED("second input", CUDA_SUCCESS, cuLinkAddData, state, CU_JIT_INPUT_PTX, Text(kTwice),
            sizeof(kTwice), "twice", 0, nullptr, nullptr);
    return;
  }
  CALL("second input", CUDA_SUCCESS, cuLinkAddData, state, CU_JIT_INPUT_PTX, Text(kTwice),
       sizeof(kTwice), "twice", 0, nullptr, nullptr);
  void* code = nullptr;
  size_t size = 0;
  if (!CALL("two inputs", CUDA_SUCCESS, cuLinkComplete, state, &code, &size)) return;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  SETUP(cuModuleLoadData, &module, code);
  if (!Kernel(&kernel, module, "caller")) return;
  CUdeviceptr out = 0;
  SETUP(cuMemAlloc, &out, 4);
  unsigned given = 21, got = 0;
  void* parameters[] = {&out, &given};
  SETUP(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  SETUP(cuMemcpyDtoH, &got, out, 4);
  EQUAL(cuLinkComplete, "a call from one input to the other", got, 42u);
  CALL("two inputs", CUDA_SUCCESS, cuLinkDestroy, state);
}

void Files() {
  if (!Begin()) return;
  CUlinkState state = nullptr;
  SETUP(cuLinkCreate, 0, nullptr, nullptr, &state);
  CALL("PTX", CUDA_SUCCESS, cuLinkAddFile, state, CU_JIT_INPUT_PTX,
       ImagePath("ptx/kernels.ptx").c_str(), 0, nullptr, nullptr);
  CALL("no such file", CUDA_ERROR_FILE_NOT_FOUND, cuLinkAddFile, state, CU_JIT_INPUT_PTX,
       "/no/such/file.ptx", 0, nullptr, nullptr);
  void* code = nullptr;
  CALL("without a size", CUDA_SUCCESS, cuLinkComplete, state, &code, nullptr);
  CALL("a file", CUDA_SUCCESS, cuLinkDestroy, state);
  if (on_cpu()) return;
  // The driver refuses a cubin that is linked already, also on a device that it runs on.
  SETUP(cuLinkCreate, 0, nullptr, nullptr, &state);
  CALL("linked cubin", CUDA_ERROR_NO_BINARY_FOR_GPU, cuLinkAddFile, state, CU_JIT_INPUT_CUBIN,
       ImagePath("cubin/kernels.cubin").c_str(), 0, nullptr, nullptr);
  CALL("linked cubin", CUDA_SUCCESS, cuLinkDestroy, state);
  SETUP(cuLinkCreate, 0, nullptr, nullptr, &state);
  CALL("relocatable cubin", OfImages() ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU, cuLinkAddFile,
       state, CU_JIT_INPUT_CUBIN, ImagePath("cubin_relocatable/kernels.cubin").c_str(), 0, nullptr,
       nullptr);
  CALL("relocatable cubin", CUDA_SUCCESS, cuLinkDestroy, state);
}

void Errors() {
  if (!Begin()) return;
  CUlinkState state = nullptr;
  char errors[4096] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {errors, reinterpret_cast<void*>(sizeof(errors))};
  SETUP(cuLinkCreate, 2, options, values, &state);
  CALL("broken PTX", CUDA_ERROR_INVALID_PTX, cuLinkAddData, state, CU_JIT_INPUT_PTX, Text(kBroken),
       sizeof(kBroken), "broken.ptx", 0, nullptr, nullptr);
  HOLDS(cuLinkAddData, "says what is wrong", std::strlen(errors) > 0, "the log is empty");
  CALL("no data", CUDA_ERROR_INVALID_VALUE, cuLinkAddData, state, CU_JIT_INPUT_PTX, nullptr, 0,
       nullptr, 0, nullptr, nullptr);
  CALL("broken", CUDA_SUCCESS, cuLinkDestroy, state);
  CALL("no place for the state", CUDA_ERROR_INVALID_VALUE, cuLinkCreate, 0, nullptr, nullptr,
       nullptr);
  CALL("no options where some are due", CUDA_ERROR_INVALID_VALUE, cuLinkCreate, 1, nullptr, nullptr,
       &state);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "linker",
             {{"one_input", OneInput},
              {"several_inputs", SeveralInputs},
              {"files", Files},
              {"errors", Errors}});
}
