#include <elf.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/testing/core_fixture.h"
#include "client_stub/private_tables/compiled_ptx.h"
#include "client_stub/private_tables/export_tables.h"
#include "common/log/log_capture.h"

namespace warpline::stub {
namespace {

using ModuleCallsTest = CoreTest;

TEST_F(ModuleCallsTest, JitOptionsAreSentAndTheLogComesBack) {
  char info[16], errors[3];
  CUjit_option options[] = {CU_JIT_MAX_REGISTERS,
                            CU_JIT_INFO_LOG_BUFFER,
                            CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_WALL_TIME};
  void* values[] = {reinterpret_cast<void*>(32),
                    info,
                    reinterpret_cast<void*>(sizeof(info)),
                    errors,
                    reinterpret_cast<void*>(sizeof(errors)),
                    nullptr};
  CUmodule module;
  ASSERT_EQ(cuModuleLoadDataEx(&module, kPtx, 6, options, values), CUDA_SUCCESS);
  std::string tail;
  session().Latest<cmd::ModuleLoadJit>(&tail);
  const uint32_t expected[2] = {CU_JIT_MAX_REGISTERS, 32};
  ASSERT_EQ(tail.size(), sizeof(expected));
  EXPECT_EQ(std::memcmp(tail.data(), expected, sizeof(expected)), 0);
  EXPECT_STREQ(info, "info");
  EXPECT_EQ(values[2], reinterpret_cast<void*>(4));
  // The text is cut to the buffer's size.
  EXPECT_STREQ(errors, "er");
  EXPECT_EQ(values[4], reinterpret_cast<void*>(2));
  float wall_ms;
  std::memcpy(&wall_ms, &values[5], sizeof(wall_ms));
  EXPECT_EQ(wall_ms, 2.5f);
}

TEST_F(ModuleCallsTest, TheLogOfAFailedLoadReachesTheCaller) {
  session().SetAnswer(CommandId::kModuleCheck, [](const FakeSession::Sent&, std::string*) {
    return CudaResult::kInvalidPtx;
  });
  char errors[64] = "before";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {errors, reinterpret_cast<void*>(sizeof(errors))};
  CUmodule module;
  EXPECT_EQ(cuModuleLoadDataEx(&module, kPtx, 2, options, values), CUDA_ERROR_INVALID_PTX);
  EXPECT_STREQ(errors, "error");
}

// Machine code without sections.
std::string MachineCode(char flags) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = EM_CUDA;
  header.e_flags = flags;
  header.e_ehsize = sizeof(header);
  header.e_shoff = sizeof(header);
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header));
}

TEST_F(ModuleCallsTest, PtxIsLoadedWhereTheMachineCodeThatWasCompiledFromItDoesNotRun) {
  const std::string code = MachineCode(1);
  CompiledPtx::Source source;
  ASSERT_TRUE(ProcessCompiledPtx().Describe(kPtx, &source));
  ASSERT_TRUE(ProcessCompiledPtx().NoteCode(source, code));
  if (PtxBehind(code) == nullptr) GTEST_SKIP() << "a build without private tables";
  CudaResult of_ptx = CudaResult::kSuccess;
  const auto answer = [&](const FakeSession::Sent&, std::string*) {
    std::string image;
    session().Latest<cmd::ImageData>(&image);
    return image.starts_with(ELFMAG) ? CudaResult::kNoBinaryForGpu : of_ptx;
  };
  session().SetAnswer(CommandId::kModuleCheck, answer);
  CUmodule module;
  ASSERT_EQ(cuModuleLoadData(&module, code.data()), CUDA_SUCCESS);
  std::string image;
  session().Latest<cmd::ImageData>(&image);
  EXPECT_EQ(image, kPtx);
  EXPECT_EQ(session().Count(CommandId::kModuleLoad), 2);
  EXPECT_EQ(session().Count(CommandId::kModuleUnload), 1);
  // Nothing is known about other code.
  LogCapture log;
  const std::string other = MachineCode(2);
  EXPECT_EQ(cuModuleLoadData(&module, other.data()), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(log.LinesWith("a module has no code that the device runs: CUDA error 209").size(), 1u);
  // Where the PTX does not run either, the program is told of its code.
  of_ptx = CudaResult::kInvalidPtx;
  EXPECT_EQ(cuModuleLoadData(&module, code.data()), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(log.LinesWith("refused with CUDA error 218").size(), 1u);
  of_ptx = CudaResult::kOutOfMemory;
  EXPECT_EQ(cuModuleLoadData(&module, code.data()), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(ModuleCallsTest, OptionsThatCudaDoesNotKnowOrWeCannotPassOnAreRefused) {
  CUjit_option option = static_cast<CUjit_option>(77);
  void* value = nullptr;
  CUmodule module;
  EXPECT_EQ(cuModuleLoadDataEx(&module, kPtx, 1, &option, &value), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuModuleLoadDataEx(&module, kPtx, 1, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  option = CU_JIT_GLOBAL_SYMBOL_NAMES;
  EXPECT_EQ(cuModuleLoadDataEx(&module, kPtx, 1, &option, &value), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_TRUE(session().sent().empty());
}

TEST_F(ModuleCallsTest, AProgramThatIsRefusedAllTheTimeDoesNotFillItsLog) {
  LogCapture log;
  CUjit_option option = CU_JIT_GLOBAL_SYMBOL_NAMES;
  void* value = nullptr;
  CUmodule module;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(cuModuleLoadDataEx(&module, kPtx, 1, &option, &value), CUDA_ERROR_NOT_SUPPORTED);
  }
  const size_t lines = log.LinesWith("is not supported").size();
  EXPECT_GE(lines, 5u);
  EXPECT_LE(lines, 20u);
}

TEST_F(ModuleCallsTest, WhatNvccWrapsIsALibraryAndNoModule) {
  const uint64_t container[2] = {0x100001ba55ed50, 0};
  const struct {
    uint32_t magic, version;
    const void *data, *more;
  } wrapper = {0x466243b1, 1, container, nullptr};
  CUmodule module;
  EXPECT_EQ(cuModuleLoadData(&module, &wrapper), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(cuModuleLoadFatBinary(&module, &wrapper), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(session().Count(CommandId::kModuleLoad), 0);
  CUlibrary library;
  EXPECT_EQ(cuLibraryLoadData(&library, &wrapper, nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_SUCCESS);
}

TEST_F(ModuleCallsTest, NoFunctionIsAWrongValueForSomeCalls) {
  const char* name;
  size_t offset;
  CUmodule module;
  EXPECT_EQ(cuFuncGetName(&name, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncGetModule(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncGetParamInfo(nullptr, 0, &offset, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncLoad(nullptr), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleCallsTest, KernelsAreCountedAndEnumerated) {
  CUlibrary library, owner;
  ASSERT_EQ(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_SUCCESS);
  unsigned int count = 0;
  EXPECT_EQ(cuLibraryGetKernelCount(&count, library), CUDA_SUCCESS);
  EXPECT_EQ(count, 1u);
  CUkernel kernels[2] = {};
  EXPECT_EQ(cuLibraryEnumerateKernels(kernels, 2, library), CUDA_SUCCESS);
  CUkernel found;
  EXPECT_EQ(cuLibraryGetKernel(&found, library, "kernel"), CUDA_SUCCESS);
  EXPECT_EQ(kernels[0], found);
  EXPECT_EQ(kernels[1], nullptr);
  EXPECT_EQ(cuKernelGetLibrary(&owner, found), CUDA_SUCCESS);
  EXPECT_EQ(owner, library);
  EXPECT_EQ(cuLibraryGetManaged(nullptr, nullptr, library, "global"), CUDA_ERROR_NOT_FOUND);
  void* unified;
  EXPECT_EQ(cuLibraryGetUnifiedFunction(&unified, library, "kernel"), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  EXPECT_EQ(cuKernelGetLibrary(&owner, found), CUDA_ERROR_INVALID_HANDLE);

  CUmodule module;
  ASSERT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleGetFunctionCount(&count, module), CUDA_SUCCESS);
  EXPECT_EQ(count, 1u);
  CUfunction function = nullptr;
  EXPECT_EQ(cuModuleEnumerateFunctions(&function, 1, module), CUDA_SUCCESS);
  EXPECT_EQ(cuKernelGetLibrary(&owner, HandleOf<CUkernel>(NumberOf(function))),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleCallsTest, ALibraryIsSentAgainAfterAResetAndItsKernelsGoOn) {
  CUlibrary library;
  ASSERT_EQ(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_SUCCESS);
  CUkernel kernel;
  ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "kernel"), CUDA_SUCCESS);
  const auto function = HandleOf<CUfunction>(NumberOf(kernel));
  ASSERT_EQ(
      cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60 << 10, kernel, 0),
      CUDA_SUCCESS);
  CUdeviceptr global;
  ASSERT_EQ(cuLibraryGetGlobal(&global, nullptr, library, "global"), CUDA_SUCCESS);
  const uint64_t old_wire = session().Latest<cmd::KernelFind>().kernel;

  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kModuleUnload), 1);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
  session().Clear();

  uint64_t first = 1;
  uint32_t second = 2;
  void* parameters[] = {&first, &second};
  ASSERT_EQ(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 60 << 10, nullptr, parameters, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kModuleLoad), 1);
  const auto set = session().Latest<cmd::KernelSetAttribute>();
  EXPECT_EQ(set.value, 60 << 10);
  const auto launch = session().Latest<cmd::Launch>();
  EXPECT_NE(launch.kernel, old_wire);
  EXPECT_EQ(launch.kernel, session().Latest<cmd::KernelFind>().kernel);
  ASSERT_EQ(cuLibraryGetGlobal(&global, nullptr, library, "global"), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kVariableFind), 1);
  EXPECT_EQ(session().Count(CommandId::kModuleLoad), 1);
  ASSERT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
}

TEST_F(ModuleCallsTest, OlderServersAreAskedForVariablesAsTheyKnowIt) {
  session().SetAnswer(CommandId::kVariableFind, [](const FakeSession::Sent&, std::string*) {
    return CudaResult::kNotSupported;
  });
  CUlibrary library;
  ASSERT_EQ(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_SUCCESS);
  CUdeviceptr global = 0;
  size_t bytes = 0;
  ASSERT_EQ(cuLibraryGetGlobal(&global, &bytes, library, "global"), CUDA_SUCCESS);
  EXPECT_EQ(global, FakeSession::kGlobalAddress);
  EXPECT_EQ(bytes, FakeSession::kGlobalBytes);
  EXPECT_EQ(cuLibraryGetManaged(&global, &bytes, library, "global"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(session().Count(CommandId::kGlobalFind), 1);
}

// A kernel may give the program the address of a text, which has no name.
TEST_F(ModuleCallsTest, MemoryWithoutANameIsTheModulesToo) {
  constexpr CUdeviceptr kText = FakeSession::kBlockAddress + 0x2008;
  CUlibrary library;
  ASSERT_EQ(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_SUCCESS);
  CUdeviceptr global = 0;
  ASSERT_EQ(cuLibraryGetGlobal(&global, nullptr, library, "global"), CUDA_SUCCESS);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  ASSERT_EQ(cuMemGetAddressRange_v2(&base, &bytes, kText), CUDA_SUCCESS);
  EXPECT_EQ(base, FakeSession::kBlockAddress);
  EXPECT_EQ(bytes, FakeSession::kBlockBytes);
  unsigned int type = 0;
  uint64_t start = 0;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, kText), CUDA_SUCCESS);
  EXPECT_EQ(type, static_cast<unsigned int>(CU_MEMORYTYPE_DEVICE));
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
  void* out[] = {&start};
  EXPECT_EQ(cuPointerGetAttributes(1, which, out, kText), CUDA_SUCCESS);
  EXPECT_EQ(start, FakeSession::kBlockAddress);
  // A variable is itself, also in such a block.
  ASSERT_EQ(cuMemGetAddressRange_v2(&base, &bytes, global + 5), CUDA_SUCCESS);
  EXPECT_EQ(base, global);
  EXPECT_EQ(bytes, FakeSession::kGlobalBytes);
  EXPECT_EQ(session().Count(CommandId::kVariableBlockFind), 1);
  // Once a module has gone, so may have the block.
  ASSERT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  session().SetAnswer(CommandId::kVariableBlockFind,
                      [](const FakeSession::Sent&, std::string*) { return CudaResult::kNotFound; });
  base = 1;
  EXPECT_EQ(cuMemGetAddressRange_v2(&base, &bytes, kText), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(base, 0u);
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(session().Count(CommandId::kVariableBlockFind), 2);
}

TEST_F(ModuleCallsTest, CopiesReachMemoryWithoutAName) {
  constexpr CUdeviceptr kText = FakeSession::kBlockAddress + 0x2008;
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 64), CUDA_SUCCESS);
  char text[16] = {};
  EXPECT_EQ(cuMemcpyDtoH_v2(text, kText, 16), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpy(reinterpret_cast<CUdeviceptr>(text), kText, 16), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoD_v2(memory, kText, 16), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kVariableBlockFind), 1);
  EXPECT_EQ(cuMemcpyDtoH_v2(text, FakeSession::kBlockAddress + FakeSession::kBlockBytes - 8, 16),
            CUDA_ERROR_INVALID_VALUE);
}

// Libraries ask about every pointer that they are given.
TEST_F(ModuleCallsTest, TheServerIsNotAskedAboutTheProcesssOwnMemory) {
  int local = 0;
  unsigned int type = 0;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
  void* out[] = {&type};
  EXPECT_EQ(cuPointerGetAttributes(1, which, out, reinterpret_cast<CUdeviceptr>(&local)),
            CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetAddressRange_v2(nullptr, nullptr, reinterpret_cast<CUdeviceptr>(&local)),
            CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(session().Count(CommandId::kVariableBlockFind), 0);
}

// The driver puts managed variables close to each other, and tells of each by itself.
TEST_F(ModuleCallsTest, ManagedVariablesMayShareAPage) {
  constexpr uint64_t kBase = 0x567230000000;  // Where sanitizers keep no shadow.
  const std::map<std::string, std::pair<uint64_t, uint64_t>> variables = {
      {"counter", {kBase, 4}}, {"table", {kBase + 0x200, 20000}}, {"other", {kBase + 0x5200, 4}}};
  session().SetAnswer(CommandId::kVariableFind,
                      [&](const FakeSession::Sent& sent, std::string* fields) {
                        const auto [address, bytes] = variables.at(sent.tail);
                        const cmd::VariableFindReply found = {address, bytes, address, bytes};
                        fields->assign(reinterpret_cast<const char*>(&found), sizeof(found));
                        return CudaResult::kSuccess;
                      });
  CUlibrary first, second;
  for (CUlibrary* library : {&first, &second}) {
    ASSERT_EQ(cuLibraryLoadData(library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
              CUDA_SUCCESS);
  }
  const auto byte = [](uint64_t address) {
    return *reinterpret_cast<volatile unsigned char*>(address);
  };
  CUdeviceptr counter, table, other;
  ASSERT_EQ(cuLibraryGetManaged(&counter, nullptr, first, "counter"), CUDA_SUCCESS);
  *reinterpret_cast<volatile unsigned char*>(counter) = 7;
  ASSERT_EQ(cuLibraryGetManaged(&table, nullptr, first, "table"), CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetManaged(&other, nullptr, second, "other"), CUDA_SUCCESS);
  EXPECT_EQ(table, kBase + 0x200);
  EXPECT_EQ(byte(counter), 7);  // As the host left it.
  for (const uint64_t address : {counter + 1, table, table + 19999, other}) {
    EXPECT_EQ(byte(address), 0x5a) << std::hex << address;  // Fetched from the device.
  }
  EXPECT_EQ(byte(counter + 4), 0);  // It belongs to none of them.
  ASSERT_EQ(cuLibraryUnload(first), CUDA_SUCCESS);
  EXPECT_EQ(byte(other), 0x5a);
  ASSERT_EQ(cuLibraryUnload(second), CUDA_SUCCESS);
}

TEST_F(ModuleCallsTest, LimitsAreTheDevicesWhereItKnowsThem) {
  uint64_t device_value = 1024;
  session().SetAnswer(CommandId::kLimitGet, [&](const FakeSession::Sent&, std::string* fields) {
    fields->assign(reinterpret_cast<const char*>(&device_value), sizeof(device_value));
    return CudaResult::kSuccess;
  });
  session().SetAnswer(CommandId::kLimitSet, [&](const FakeSession::Sent& sent, std::string*) {
    std::memcpy(&device_value, sent.body.data(), sizeof(device_value));
    return CudaResult::kSuccess;
  });
  size_t value;
  ASSERT_EQ(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 5000), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE), CUDA_SUCCESS);
  EXPECT_EQ(value, 5000u);
  // A new primary context has what the device had.
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(device_value, 1024u);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_SHMEM_SIZE, 1), CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 1), CUDA_ERROR_UNSUPPORTED_LIMIT);
  EXPECT_EQ(cuCtxSetLimit(static_cast<CUlimit>(10), 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ModuleCallsTest, AContextsEventsCoverItsStreams) {
  CUstream stream;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  CUevent event;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  CUdeviceptr memory;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 64), CUDA_SUCCESS);
  session().Clear();
  session().SetComplete(false);
  ASSERT_EQ(cuMemsetD8Async(memory, 0, 64, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxRecordEvent(context_, event), CUDA_SUCCESS);
  // One record is on the stream, for the legacy stream to wait for; the other is the event itself,
  // on the legacy stream.
  EXPECT_EQ(session().Count(CommandId::kEventRecord), 2);
  EXPECT_EQ(session().Latest<cmd::EventRecord>().stream, 1u);
  EXPECT_EQ(session().Latest<cmd::StreamWaitEvent>().stream, 1u);
  // An idle stream has nothing to wait for.
  session().Clear();
  ASSERT_EQ(cuCtxRecordEvent(context_, event), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kEventRecord), 1);
  session().SetComplete(false);
  ASSERT_EQ(cuCtxRecordEvent(context_, event), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxWaitEvent(context_, event), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::StreamBarrier>().stream, 1u);
  EXPECT_EQ(cuCtxRecordEvent(nullptr, event), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxRecordEvent(context_, nullptr), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleCallsTest, AttachedContextsLiveUntilTheLastDetach) {
  CUcontext context, attached;
  ASSERT_EQ(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxAttach(&attached, 0), CUDA_SUCCESS);
  EXPECT_EQ(attached, context);
  EXPECT_EQ(cuCtxAttach(&attached, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxDetach(context), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDetach(context), CUDA_SUCCESS);
  CUcontext current;
  ASSERT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, context_);
}

}  // namespace
}  // namespace warpline::stub
