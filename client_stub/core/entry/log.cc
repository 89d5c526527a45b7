// The driver's log. These calls work before cuInit.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "client_stub/core/base/driver_log.h"

using namespace warpline::stub;

namespace {

// The most that CUDA's log has.
constexpr size_t kMostBytes = 25600;

// Returns the messages that an iterator, which may be null for all, still has to give.
std::string Read(CUlogIterator* iterator, size_t most_bytes) {
  const DriverLog& log = TheDriverLog();
  uint32_t next = iterator != nullptr ? *iterator : log.begin();
  std::string text = log.Read(&next, most_bytes);
  if (iterator != nullptr) *iterator = next;
  return text;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuLogsRegisterCallback(CUlogsCallback callbackFunc, void* userData,
                                        CUlogsCallbackHandle* callback_out) {
  if (callbackFunc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t handle = TheDriverLog().AddCallback(callbackFunc, userData);
  if (callback_out != nullptr) *callback_out = HandleOf<CUlogsCallbackHandle>(handle);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLogsUnregisterCallback(CUlogsCallbackHandle callback) {
  return TheDriverLog().RemoveCallback(NumberOf(callback)) ? CUDA_SUCCESS
                                                           : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuLogsCurrent(CUlogIterator* iterator_out, unsigned int flags) {
  if (iterator_out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *iterator_out = TheDriverLog().end();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLogsDumpToFile(CUlogIterator* iterator, const char* pathToFile,
                                  unsigned int flags) {
  if (pathToFile == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::FILE* const file = std::fopen(pathToFile, "we");
  if (file == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::string text = Read(iterator, kMostBytes);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && written ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuLogsDumpToMemory(CUlogIterator* iterator, char* buffer, size_t* size,
                                    unsigned int flags) {
  if (buffer == nullptr || size == nullptr || flags != 0 || *size == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const size_t room = std::min(*size - 1, kMostBytes);
  const bool any = iterator != nullptr ? *iterator != TheDriverLog().end()
                                       : TheDriverLog().begin() != TheDriverLog().end();
  const std::string text = Read(iterator, room);
  std::memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = '\0';
  *size = text.size();
  return any && text.empty() ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // extern "C"
