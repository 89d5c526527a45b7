#include "client_stub/private_tables/export_tables.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "client_stub/private_tables/compile_cache.h"
#include "client_stub/private_tables/context_storage.h"
#include "client_stub/private_tables/library_tables.h"
#include "client_stub/private_tables/refused_log.h"
#include "client_stub/private_tables/table_slots.h"
#include "client_stub/private_tables/validity.h"

namespace warpline {
namespace {

// Never destroyed: the runtime calls in from handlers that run after our destructors would have.
ContextStorage* g_storage = nullptr;

// The lock is taken in one function and released in another, which the analysis cannot follow.
void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { g_storage->LockForFork(); }
void AfterFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { g_storage->UnlockAfterFork(); }

ContextStorage& Storage() {
  [[maybe_unused]] static const bool created = [] {
    g_storage = new ContextStorage;
    pthread_atfork(BeforeFork, AfterFork, AfterFork);
    return true;
  }();
  return *g_storage;
}

// ---- Names of tables, for logs.

constexpr char kCudartInterface[] = "CUDART_INTERFACE";
constexpr char kCallbackHooks[] = "TOOLS_RUNTIME_CALLBACK_HOOKS";
constexpr char kToolsTls[] = "TOOLS_TLS";
constexpr char kContextLocalStorage[] = "CONTEXT_LOCAL_STORAGE";
constexpr char kContextChecks[] = "CONTEXT_CHECKS";
constexpr char kIntegrityCheck[] = "INTEGRITY_CHECK";

// ---- CUDART_INTERFACE

CUresult PrimaryContextOf(CUcontext* context, CUdevice device) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return View().PrimaryContext(device, context);
}

// ---- TOOLS_RUNTIME_CALLBACK_HOOKS

// The flags of all runtime calls are zero: no tool subscribes to any, so no other slot is called.
// Indexed by CUPTI's numbers of the runtime's calls, of which CUDA 13.0 has 522.
uint32_t g_callback_flags[4096];
uint32_t g_other_flags[64];

void CallbackFlags(uint32_t** flags, size_t* count) {
  *flags = g_callback_flags;
  *count = std::size(g_callback_flags);
}

void OtherFlags(uint32_t** flags, size_t* count) {
  *flags = g_other_flags;
  *count = std::size(g_other_flags);
}

// ---- TOOLS_TLS

CUresult CurrentContextOf(CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return View().CurrentContext(context);
}

// ---- CONTEXT_LOCAL_STORAGE

// Replaces nullptr by the current context, which may be nullptr too.
CUresult OrCurrent(CUcontext* context) {
  return *context == nullptr ? View().CurrentContext(context) : CUDA_SUCCESS;
}

CUresult StoragePut(CUcontext context, void* key, void* value,
                    ContextStorage::Destructor destructor) {
  const CUresult result = OrCurrent(&context);
  if (result != CUDA_SUCCESS) return result;
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Storage().Put(context, key, value, destructor);
  return CUDA_SUCCESS;
}

CUresult StorageDelete(CUcontext context, void* key) {
  const CUresult result = OrCurrent(&context);
  if (result != CUDA_SUCCESS) return result;
  Storage().Delete(context, key);
  return CUDA_SUCCESS;
}

CUresult StorageGet(void** value, CUcontext context, void* key) {
  const CUresult result = OrCurrent(&context);
  if (result != CUDA_SUCCESS) return result;
  if (context == nullptr || !Storage().Get(context, key, value)) return CUDA_ERROR_INVALID_HANDLE;
  return CUDA_SUCCESS;
}

// ---- CONTEXT_CHECKS

CUresult CheckContext(CUcontext, uint32_t* flags, void** other) {
  if (flags != nullptr) *flags = 0;
  if (other != nullptr) *other = nullptr;
  return CUDA_SUCCESS;
}

uint32_t CheckMode() { return 0; }

// ---- INTEGRITY_CHECK

CUresult CheckIntegrity(uint32_t version, uint64_t unix_seconds, uint8_t* answer);

// ---- The tables: a slot 0 that is not a function is the table's size in bytes.

void* const g_cudart_interface[] = {
    Size(13),
    Slot(Refused<kCudartInterface, 1>),
    Slot(PrimaryContextOf),
    Slot(Refused<kCudartInterface, 3>),
    Slot(Refused<kCudartInterface, 4>),
    Slot(Refused<kCudartInterface, 5>),
    Slot(Refused<kCudartInterface, 6>),
    Slot(Refused<kCudartInterface, 7>),
    Slot(Refused<kCudartInterface, 8>),
    Slot(Refused<kCudartInterface, 9>),
    Slot(Refused<kCudartInterface, 10>),
    Slot(Refused<kCudartInterface, 11>),
    Slot(Refused<kCudartInterface, 12>),
};

void* const g_callback_hooks[] = {
    Size(7),
    Slot(Refused<kCallbackHooks, 1>),
    Slot(CallbackFlags),
    Slot(Refused<kCallbackHooks, 3>),
    Slot(Refused<kCallbackHooks, 4>),
    Slot(Refused<kCallbackHooks, 5>),
    Slot(OtherFlags),
};

void* const g_tools_tls[] = {
    Size(4),
    Slot(Refused<kToolsTls, 1>),
    Slot(CurrentContextOf),
    Slot(Refused<kToolsTls, 3>),
};

void* const g_context_local_storage[] = {
    Slot(StoragePut),
    Slot(StorageDelete),
    Slot(StorageGet),
    Slot(Refused<kContextLocalStorage, 3>),
};

void* const g_context_checks[] = {
    Size(4),
    Slot(Refused<kContextChecks, 1>),
    Slot(CheckContext),
    Slot(CheckMode),
};

void* const g_integrity_check[] = {
    Size(3),
    Slot(CheckIntegrity),
    Slot(Refused<kIntegrityCheck, 2>),
};

CUresult CheckIntegrity(uint32_t version, uint64_t unix_seconds, uint8_t* answer) {
  if (answer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  DriverView& view = View();
  ValidityQuestion question = {};
  question.version = version;
  question.unix_seconds = unix_seconds;
  question.driver_version = static_cast<uint32_t>(view.DriverVersion());
  question.process = static_cast<uint32_t>(getpid());
  question.thread = static_cast<uint32_t>(pthread_self());
  question.cudart_interface_table = g_cudart_interface;
  question.integrity_check_table = g_integrity_check;
  question.integrity_check_function = g_integrity_check[1];
  const int count = view.DeviceCount();
  for (CUdevice i = 0; i < count; ++i) {
    ValidityDevice device = {};
    CUresult result = view.DeviceUuid(&device.uuid, i);
    const auto attribute = [&](int32_t* value, CUdevice_attribute which) {
      if (result == CUDA_SUCCESS) result = view.DeviceAttribute(value, which, i);
    };
    attribute(&device.pci_domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
    attribute(&device.pci_bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
    attribute(&device.pci_device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
    if (result != CUDA_SUCCESS) return result;
    question.devices.push_back(device);
  }
  const Md2Digest digest = ValidityAnswer(question);
  std::copy(digest.begin(), digest.end(), answer);
  return CUDA_SUCCESS;
}

struct Table {
  uint8_t id[16];
  void* const* slots;  // nullptr: the table is known, and refused without a log line.
};

constexpr Table kTables[] = {
    {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
      0xf9},
     g_cudart_interface},
    {{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a,
      0x66},
     g_callback_hooks},
    {{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec,
      0xdc},
     g_tools_tls},
    {{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95,
      0x93},
     g_context_local_storage},
    {{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa,
      0x7e},
     g_context_checks},
    {{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1,
      0xf2},
     g_integrity_check},
    // This is the error log. Every runtime since 12.9 asks for it and does without.
    {{0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e, 0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d,
      0xd9},
     nullptr},
};

constexpr uint8_t kCompileCacheId[16] = {0xda, 0x91, 0x51, 0xd3, 0x3a, 0xe6, 0xcc, 0x41,
                                         0xa5, 0xc0, 0x4f, 0x26, 0xd5, 0x33, 0xe3, 0x28};

// Finds a table of this file or of the libraries above the runtime. Returns false for an unknown
// one.
bool FindTable(const CUuuid& id, void* const** slots) {
  for (const Table& table : kTables) {
    if (std::memcmp(table.id, id.bytes, sizeof(table.id)) != 0) continue;
    *slots = table.slots;
    return true;
  }
  const bool compile_cache = std::memcmp(kCompileCacheId, id.bytes, sizeof(id.bytes)) == 0;
  *slots = compile_cache ? CompileCacheTable() : LibraryTable(id);
  return *slots != nullptr;
}

}  // namespace

CUresult GetExportTable(DriverView* view, const CUuuid* id, const void** table) {
  if (view == nullptr || id == nullptr || table == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  void* const* slots = nullptr;
  if (!FindTable(*id, &slots)) {
    static RefusedLog* const refused = new RefusedLog;
    refused->Add(*id);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (slots == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SetView(view);
  *table = slots;
  return CUDA_SUCCESS;
}

void ForgetContext(CUcontext context) { Storage().Forget(context); }

}  // namespace warpline
