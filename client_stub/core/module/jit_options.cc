#include "client_stub/core/module/jit_options.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "client_stub/core/base/call_log.h"
#include "client_stub/core/base/enum_value.h"

namespace warpline::stub {
namespace {

void AppendOption(int id, uint32_t value, std::string* wire) {
  const uint32_t option[2] = {static_cast<uint32_t>(id), value};
  wire->append(reinterpret_cast<const char*>(option), sizeof(option));
}

void SayNotSupported(int id) {
  if (const LogPermit permit = CallLog().Ask(kOptionLine)) {
    permit.Warning("CUjit_option ", id, " is not supported");
  }
}

}  // namespace

CUresult JitOptions::Read(unsigned int count, CUjit_option* options, void** values) {
  if (count != 0 && (options == nullptr || values == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned int i = 0; i < count; ++i) {
    const int id = ValueOf(options[i]);
    switch (id) {
      case CU_JIT_WALL_TIME:
        wall_time_ = &values[i];
        break;
      case CU_JIT_INFO_LOG_BUFFER:
        info_.text = static_cast<char*>(values[i]);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        info_.bytes = static_cast<uint32_t>(NumberOf(values[i]));
        info_.size = &values[i];
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        errors_.text = static_cast<char*>(values[i]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        errors_.bytes = static_cast<uint32_t>(NumberOf(values[i]));
        errors_.size = &values[i];
        break;
      case CU_JIT_MAX_REGISTERS:
      case CU_JIT_THREADS_PER_BLOCK:
      case CU_JIT_OPTIMIZATION_LEVEL:
      case CU_JIT_TARGET_FROM_CUCONTEXT:
      case CU_JIT_TARGET:
      case CU_JIT_FALLBACK_STRATEGY:
      case CU_JIT_GENERATE_DEBUG_INFO:
      case CU_JIT_LOG_VERBOSE:
      case CU_JIT_GENERATE_LINE_INFO:
      case CU_JIT_CACHE_MODE:
      case CU_JIT_POSITION_INDEPENDENT_CODE:
      case CU_JIT_MIN_CTA_PER_SM:
      case CU_JIT_MAX_THREADS_PER_BLOCK:
      case CU_JIT_OVERRIDE_DIRECTIVE_VALUES:
        AppendOption(id, static_cast<uint32_t>(NumberOf(values[i])), &wire_);
        break;
      case CU_JIT_GLOBAL_SYMBOL_NAMES:
      case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
      case CU_JIT_GLOBAL_SYMBOL_COUNT:
        SayNotSupported(id);
        return CUDA_ERROR_NOT_SUPPORTED;
      default:
        if (id < 0 || id >= CU_JIT_NUM_OPTIONS) {
          SayNotSupported(id);
          return CUDA_ERROR_INVALID_VALUE;
        }
        break;
    }
  }
  wants_log_ = wall_time_ != nullptr || (info_.text != nullptr && info_.bytes > 0) ||
               (errors_.text != nullptr && errors_.bytes > 0);
  // Any option at all makes the server keep the log.
  if (wants_log_ && wire_.empty()) AppendOption(CU_JIT_TARGET_FROM_CUCONTEXT, 0, &wire_);
  return CUDA_SUCCESS;
}

void JitOptions::Buffer::Write(std::string_view what) {
  size_t written = 0;
  if (text != nullptr && bytes > 0) {
    written = std::min(what.size(), bytes - 1);
    std::memcpy(text, what.data(), written);
    text[written] = '\0';
  }
  if (size != nullptr) *size = reinterpret_cast<void*>(written);
}

void JitOptions::WriteLog(float wall_ms, std::string_view info, std::string_view errors) {
  info_.Write(info);
  errors_.Write(errors);
  if (wall_time_ != nullptr) std::memcpy(wall_time_, &wall_ms, sizeof(wall_ms));
}

}  // namespace warpline::stub
