#include "client_stub/private_tables/export_tables.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace warpline {
namespace {

char g_context;
const auto kPrimary = reinterpret_cast<CUcontext>(&g_context);
CUcontext g_current = nullptr;

class FakeView : public DriverView {
 public:
  int DriverVersion() override { return 13000; }
  int DeviceCount() override { return device_count; }
  CUresult DeviceAttribute(int* value, CUdevice_attribute, CUdevice) override {
    *value = 0;
    return CUDA_SUCCESS;
  }
  CUresult DeviceUuid(CUuuid* uuid, CUdevice) override {
    *uuid = {};
    return uuid_result;
  }
  CUresult PrimaryContext(CUdevice device, CUcontext* context) override {
    *context = kPrimary;
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
  }
  CUresult CurrentContext(CUcontext* context) override {
    *context = g_current;
    return CUDA_SUCCESS;
  }
  CUresult ContextId(CUcontext context, uint64_t* id) override {
    *id = 41;
    return context == kPrimary ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  }
  CUresult StreamId(CUcontext context, CUstream, bool per_thread, uint64_t* id) override {
    stream_context = context;
    *id = per_thread ? 8 : 7;
    return stream_result;
  }
  CUresult Functions(CUmodule module, std::vector<CUfunction>* functions) override {
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    functions->assign({reinterpret_cast<CUfunction>(1), reinterpret_cast<CUfunction>(2)});
    return CUDA_SUCCESS;
  }
  int device_count = 1;
  CUresult stream_result = CUDA_SUCCESS;
  CUcontext stream_context = nullptr;
  CUresult uuid_result = CUDA_SUCCESS;
};

FakeView g_view;

CUuuid Id(std::string_view hex) {
  CUuuid id = {};
  size_t digits = 0;
  for (const char c : hex) {
    if (c == '-') continue;
    const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
    id.bytes[digits / 2] = static_cast<char>(id.bytes[digits / 2] * 16 + digit);
    ++digits;
  }
  return id;
}

const void* const* Table(std::string_view hex) {
  const CUuuid id = Id(hex);
  const void* table = nullptr;
  EXPECT_EQ(GetExportTable(&g_view, &id, &table), CUDA_SUCCESS) << hex;
  return static_cast<const void* const*>(table);
}

template <typename Function>
Function* Slot(const void* const* table, int slot) {
  return reinterpret_cast<Function*>(const_cast<void*>(table[slot]));
}

size_t Slots(const void* const* table) {
  return reinterpret_cast<size_t>(table[0]) / sizeof(void*);
}

constexpr char kCudartInterface[] = "6bd5fb6c-5bf4-e74a-8987-d93912fd9df9";
constexpr char kCallbackHooks[] = "a094798c-2e74-2e74-93f2-0800200c0a66";
constexpr char kToolsTls[] = "42d85a81-23f6-cb47-8298-f6e78a3aecdc";
constexpr char kContextLocalStorage[] = "c693336e-1121-df11-a8c3-68f355d89593";
constexpr char kContextChecks[] = "263e8860-7cd2-6143-92f6-bbd5006dfa7e";
constexpr char kIntegrityCheck[] = "d4082055-bde6-704b-8d34-ba123c66e1f2";

TEST(ExportTablesTest, RefusedTablesGiveNullAndInvalidValue) {
  for (const char* hex :
       {"f8cff951-2146-8b4e-b9e2-fb469e7c0dd9", "00000000-0000-0000-0000-000000000001"}) {
    const CUuuid id = Id(hex);
    const void* table = &id;
    EXPECT_EQ(GetExportTable(&g_view, &id, &table), CUDA_ERROR_INVALID_VALUE) << hex;
    EXPECT_EQ(table, nullptr) << hex;
    EXPECT_EQ(GetExportTable(&g_view, &id, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(GetExportTable(&g_view, nullptr, &table), CUDA_ERROR_INVALID_VALUE);
  }
}

TEST(ExportTablesTest, CudartInterfaceGivesThePrimaryContext) {
  const auto* table = Table(kCudartInterface);
  EXPECT_EQ(Slots(table), 13u);
  auto* primary = Slot<CUresult(CUcontext*, CUdevice)>(table, 2);
  CUcontext context = nullptr;
  EXPECT_EQ(primary(&context, 0), CUDA_SUCCESS);
  EXPECT_EQ(context, kPrimary);
  EXPECT_EQ(primary(&context, 7), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(primary(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Slot<CUresult()>(table, 12)(), CUDA_ERROR_NOT_SUPPORTED);
}

TEST(ExportTablesTest, NoToolListensToAnyRuntimeCall) {
  const auto* table = Table(kCallbackHooks);
  EXPECT_GT(reinterpret_cast<size_t>(table[0]), 0x30u);
  for (const auto& [slot, least] : {std::pair<int, size_t>(2, 523), {6, 14}}) {
    uint32_t* flags = nullptr;
    size_t count = 0;
    Slot<void(uint32_t**, size_t*)>(table, slot)(&flags, &count);
    ASSERT_GE(count, least);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(flags[i], 0u);
  }
}

TEST(ExportTablesTest, ToolsTlsGivesTheCurrentContext) {
  auto* current = Slot<CUresult(CUcontext*)>(Table(kToolsTls), 2);
  g_current = kPrimary;
  CUcontext context = nullptr;
  EXPECT_EQ(current(&context), CUDA_SUCCESS);
  EXPECT_EQ(context, kPrimary);
}

class ContextLocalStorageTest : public testing::Test {
 protected:
  using Destructor = void(CUcontext, void*, void*);
  CUresult Put(CUcontext c, void* key, void* value, Destructor* destructor) {
    return Slot<CUresult(CUcontext, void*, void*, Destructor*)>(table_, 0)(c, key, value,
                                                                           destructor);
  }
  CUresult Delete(CUcontext c, void* key) {
    return Slot<CUresult(CUcontext, void*)>(table_, 1)(c, key);
  }
  CUresult Get(void** value, CUcontext c, void* key) {
    return Slot<CUresult(void**, CUcontext, void*)>(table_, 2)(value, c, key);
  }
  const void* const* table_ = Table(kContextLocalStorage);
  char key_ = 0;
  char value_ = 0;
};

TEST_F(ContextLocalStorageTest, NoContextMeansTheCurrentOne) {
  g_current = nullptr;
  void* value = nullptr;
  EXPECT_EQ(Get(&value, nullptr, &key_), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(Put(nullptr, &key_, &value_, nullptr), CUDA_ERROR_INVALID_CONTEXT);
  g_current = kPrimary;
  EXPECT_EQ(Get(&value, nullptr, &key_), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(Put(nullptr, &key_, &value_, nullptr), CUDA_SUCCESS);
  g_current = nullptr;
  EXPECT_EQ(Get(&value, kPrimary, &key_), CUDA_SUCCESS);
  EXPECT_EQ(value, &value_);
  EXPECT_EQ(Delete(kPrimary, &key_), CUDA_SUCCESS);
  EXPECT_EQ(Get(&value, kPrimary, &key_), CUDA_ERROR_INVALID_HANDLE);
}

bool g_destroyed;

TEST_F(ContextLocalStorageTest, ForgottenContextRunsDestructors) {
  g_destroyed = false;
  EXPECT_EQ(Put(kPrimary, &key_, &value_, [](CUcontext, void*, void*) { g_destroyed = true; }),
            CUDA_SUCCESS);
  ForgetContext(kPrimary);
  EXPECT_TRUE(g_destroyed);
  void* value = nullptr;
  EXPECT_EQ(Get(&value, kPrimary, &key_), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ContextLocalStorageTest, WorksInTheChildOfAFork) {
  EXPECT_EQ(Put(kPrimary, &key_, &value_, nullptr), CUDA_SUCCESS);
  const pid_t child = fork();
  if (child == 0) {
    void* value = nullptr;
    _exit(Delete(kPrimary, &key_) == CUDA_SUCCESS &&
                  Get(&value, kPrimary, &key_) == CUDA_ERROR_INVALID_HANDLE
              ? 0
              : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Delete(kPrimary, &key_), CUDA_SUCCESS);
}

TEST(ExportTablesTest, LibrariesGetNumbersOfContextsAndStreams) {
  const auto* table = Table("21318c60-9714-3248-8ca6-41ff7324c8f2");
  ASSERT_GT(Slots(table), 51u);
  auto* context_id = Slot<CUresult(CUcontext, uint64_t*)>(table, 4);
  uint64_t id = 0;
  EXPECT_EQ(context_id(kPrimary, &id), CUDA_SUCCESS);
  EXPECT_EQ(id, 41u);
  // NVIDIA's driver gives these answers to a thread without a context, and to a call without an
  // output.
  EXPECT_EQ(context_id(nullptr, &id), CUDA_SUCCESS);
  EXPECT_EQ(id, 0u);
  EXPECT_EQ(context_id(kPrimary, nullptr), CUDA_ERROR_INVALID_VALUE);

  auto* object_of = Slot<CUresult(CUcontext, CUstream, void**, int)>(table, 51);
  auto* stream_id = Slot<CUresult(CUcontext, void*, uint64_t*)>(table, 39);
  void* legacy = nullptr;
  void* per_thread = nullptr;
  EXPECT_EQ(object_of(kPrimary, nullptr, &legacy, 0), CUDA_SUCCESS);
  EXPECT_EQ(object_of(kPrimary, CU_STREAM_PER_THREAD, &per_thread, 1), CUDA_SUCCESS);
  EXPECT_NE(legacy, per_thread);
  EXPECT_EQ(stream_id(kPrimary, legacy, &id), CUDA_SUCCESS);
  EXPECT_EQ(id, 7u);
  EXPECT_EQ(stream_id(kPrimary, per_thread, &id), CUDA_SUCCESS);
  EXPECT_EQ(id, 8u);
  EXPECT_EQ(stream_id(kPrimary, nullptr, &id), CUDA_ERROR_INVALID_VALUE);
  g_view.stream_result = CUDA_ERROR_INVALID_HANDLE;
  EXPECT_EQ(object_of(kPrimary, nullptr, &legacy, 0), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(g_view.stream_context, kPrimary);
  g_view.stream_result = CUDA_SUCCESS;
  EXPECT_EQ(Slot<CUresult()>(table, 50)(), CUDA_ERROR_NOT_SUPPORTED);
}

TEST(ExportTablesTest, LibrariesVisitEveryKernelOfAModule) {
  const auto* table = Table("6e163fbe-b958-444d-835c-e182aff1991e");
  ASSERT_GT(Slots(table), 7u);
  using Visit = void(void*, CUfunction);
  auto* visit = Slot<int(CUcontext, CUmodule, Visit*, void*)>(table, 7);
  std::vector<CUfunction> seen;
  Visit* const note = [](void* data, CUfunction function) {
    static_cast<std::vector<CUfunction>*>(data)->push_back(function);
  };
  EXPECT_EQ(visit(kPrimary, reinterpret_cast<CUmodule>(5), note, &seen), 1);
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_EQ(visit(kPrimary, nullptr, note, &seen), 0);
  EXPECT_EQ(visit(kPrimary, reinterpret_cast<CUmodule>(5), nullptr, &seen), 0);
}

TEST(ExportTablesTest, TopologyIsThereAndSaysNothing) {
  auto* ask = Slot<CUresult(void**, size_t*)>(Table("1734dc26-800d-4745-8726-c0f1e7dd8bca"), 4);
  void* list = &list;
  size_t count = 3;
  EXPECT_EQ(ask(&list, &count), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(list, nullptr);
  EXPECT_EQ(count, 0u);
}

TEST(ExportTablesTest, ContextChecksFindNothing) {
  const auto* table = Table(kContextChecks);
  uint32_t flags = 1;
  void* other = &flags;
  auto* check = Slot<CUresult(CUcontext, uint32_t*, void**)>(table, 2);
  EXPECT_EQ(check(kPrimary, &flags, &other), CUDA_SUCCESS);
  EXPECT_EQ(flags, 0u);
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(Slot<uint32_t()>(table, 3)(), 0u);
}

TEST(ExportTablesTest, IntegrityCheckPassesOnWhatTheDriverFails) {
  auto* check = Slot<CUresult(uint32_t, uint64_t, uint8_t*)>(Table(kIntegrityCheck), 1);
  uint8_t answer[16];
  EXPECT_EQ(check(13002, 1700000000, answer), CUDA_SUCCESS);
  EXPECT_EQ(check(13002, 1700000000, nullptr), CUDA_ERROR_INVALID_VALUE);
  g_view.uuid_result = CUDA_ERROR_SYSTEM_NOT_READY;
  EXPECT_EQ(check(13002, 1700000000, answer), CUDA_ERROR_SYSTEM_NOT_READY);
  g_view.uuid_result = CUDA_SUCCESS;
}

}  // namespace
}  // namespace warpline
