// The settings of core files of the device. They are kept, but no core file is made, because the
// device's state is the server's. A setting that asks for a file on an exception is refused.
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/runtime/thread_state.h"
#include "common/mutex.h"

using namespace warpline::stub;
using warpline::MutexLock;

namespace {

// A file's or pipe's name with its final 0.
constexpr size_t kMostNameBytes = 1024;

std::string DefaultName(const char* kind) {
  char host[HOST_NAME_MAX + 1] = {};
  gethostname(host, sizeof(host) - 1);
  return absl::StrCat(kind, ".cuda.", host, ".", getpid());
}

struct Settings {
  bool trigger_host = true;
  bool lightweight = false;
  unsigned int flags = CU_COREDUMP_DEFAULT_FLAGS;
  std::string file = DefaultName("core");
  std::string pipe = DefaultName("corepipe");
};

struct Kept {
  warpline::Mutex mu;
  Settings global ABSL_GUARDED_BY(mu);
  std::map<uint64_t, Settings> of_context ABSL_GUARDED_BY(mu);  // By the context's id.
};

Kept& kept() {
  static Kept* const made = new Kept;
  return *made;
}

bool IsName(CUcoredumpSettings attribute) {
  return attribute == CU_COREDUMP_FILE || attribute == CU_COREDUMP_PIPE;
}

// Returns the size of the attribute's value; 0 for an unknown attribute.
size_t BytesOf(CUcoredumpSettings attribute) {
  if (attribute < CU_COREDUMP_ENABLE_ON_EXCEPTION || attribute >= CU_COREDUMP_MAX) return 0;
  if (IsName(attribute)) return kMostNameBytes;
  return attribute == CU_COREDUMP_GENERATION_FLAGS ? sizeof(unsigned int) : sizeof(bool);
}

// Checks the arguments of all four calls. `*done` tells that only the size was asked for.
CUresult Check(CUcoredumpSettings attribute, const void* value, size_t* size, bool* done) {
  const size_t bytes = BytesOf(attribute);
  if (bytes == 0 || size == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *done = value == nullptr;
  if (*done) *size = bytes;
  const bool fits = *done || (IsName(attribute) ? *size > 0 : *size >= bytes);
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

template <typename T>
void Give(void* value, size_t* size, T given) {
  std::memcpy(value, &given, sizeof(given));
  *size = sizeof(given);
}

CUresult Get(const Settings& settings, CUcoredumpSettings attribute, void* value, size_t* size) {
  switch (attribute) {
    case CU_COREDUMP_TRIGGER_HOST:
      Give(value, size, settings.trigger_host);
      break;
    case CU_COREDUMP_LIGHTWEIGHT:
      Give(value, size, settings.lightweight);
      break;
    case CU_COREDUMP_GENERATION_FLAGS:
      Give(value, size, settings.flags);
      break;
    case CU_COREDUMP_FILE:
    case CU_COREDUMP_PIPE: {
      const std::string& name = attribute == CU_COREDUMP_FILE ? settings.file : settings.pipe;
      if (*size <= name.size()) return CUDA_ERROR_INVALID_VALUE;
      std::memcpy(value, name.c_str(), name.size() + 1);
      *size = name.size() + 1;
      break;
    }
    default:
      Give(value, size, false);
  }
  return CUDA_SUCCESS;
}

CUresult Set(Settings* settings, CUcoredumpSettings attribute, const void* value, size_t size) {
  const bool on = *static_cast<const unsigned char*>(value) != 0;
  switch (attribute) {
    case CU_COREDUMP_TRIGGER_HOST:
      settings->trigger_host = on;
      return CUDA_SUCCESS;
    case CU_COREDUMP_LIGHTWEIGHT:
      settings->lightweight = on;
      return CUDA_SUCCESS;
    case CU_COREDUMP_GENERATION_FLAGS:
      std::memcpy(&settings->flags, value, sizeof(settings->flags));
      return CUDA_SUCCESS;
    case CU_COREDUMP_FILE:
    case CU_COREDUMP_PIPE: {
      const size_t length = strnlen(static_cast<const char*>(value), size);
      if (length >= kMostNameBytes) return CUDA_ERROR_INVALID_VALUE;
      (attribute == CU_COREDUMP_FILE ? settings->file : settings->pipe)
          .assign(static_cast<const char*>(value), length);
      return CUDA_SUCCESS;
    }
    default:
      return on ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
  }
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuCoredumpGetAttributeGlobal(CUcoredumpSettings attrib, void* value,
                                              size_t* size) {
  bool done;
  WARPLINE_TRY(Check(attrib, value, size, &done));
  if (done) return CUDA_SUCCESS;
  Kept& k = kept();
  MutexLock lock(&k.mu);
  return Get(k.global, attrib, value, size);
}

CUresult CUDAAPI cuCoredumpSetAttributeGlobal(CUcoredumpSettings attrib, void* value,
                                              size_t* size) {
  bool done;
  WARPLINE_TRY(Check(attrib, value, size, &done));
  if (done) return CUDA_SUCCESS;
  Kept& k = kept();
  MutexLock lock(&k.mu);
  return Set(&k.global, attrib, value, *size);
}

CUresult CUDAAPI cuCoredumpGetAttribute(CUcoredumpSettings attrib, void* value, size_t* size) {
  WARPLINE_TRY(EnterContext());
  bool done;
  WARPLINE_TRY(Check(attrib, value, size, &done));
  if (done) return CUDA_SUCCESS;
  Kept& k = kept();
  MutexLock lock(&k.mu);
  const auto own = k.of_context.find(t_thread.current->id);
  return Get(own != k.of_context.end() ? own->second : k.global, attrib, value, size);
}

CUresult CUDAAPI cuCoredumpSetAttribute(CUcoredumpSettings attrib, void* value, size_t* size) {
  WARPLINE_TRY(EnterContext());
  bool done;
  WARPLINE_TRY(Check(attrib, value, size, &done));
  if (done) return CUDA_SUCCESS;
  // These two are the process's.
  if (attrib == CU_COREDUMP_PIPE || attrib == CU_COREDUMP_ENABLE_USER_TRIGGER) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  Kept& k = kept();
  MutexLock lock(&k.mu);
  const auto [own, added] = k.of_context.try_emplace(t_thread.current->id, k.global);
  return Set(&own->second, attrib, value, *size);
}

}  // extern "C"
