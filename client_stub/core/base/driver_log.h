// The driver's log as the application reads it through cuLogs*: the warnings and errors that this
// driver writes to the process's log.
//
// Thread-safe. A message has a number; an iterator is the number of the first message that is still
// to be read. Only the latest messages are kept.
//
//   DriverLog& log = TheDriverLog();
//   uint32_t next = log.end();
//   ... calls fail ...
//   std::string text = log.Read(&next);  // What was said since.
#ifndef WARPLINE_CLIENT_STUB_CORE_BASE_DRIVER_LOG_H_
#define WARPLINE_CLIENT_STUB_CORE_BASE_DRIVER_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "client_stub/core/base/cuda_api.h"
#include "common/log/log.h"
#include "common/mutex.h"

namespace warpline::stub {

class DriverLog {
 public:
  // The messages that are kept.
  static constexpr size_t kMostMessages = 100;

  // Adds a line of the process's log, unless it is only information, and calls the callbacks with
  // it on this thread. CUDA does not allow a callback to make calls of CUDA.
  void Add(LogLevel level, std::string_view line);

  // The number that the next message gets.
  uint32_t end() const;
  // Returns the messages from `*next` on, one a line, oldest first, and sets `*next` behind them.
  // When they have more than `most_bytes` bytes, the oldest are left out. A first line says when
  // messages are missing.
  std::string Read(uint32_t* next, size_t most_bytes = ~size_t{0}) const;
  // The number of the oldest message that is kept.
  uint32_t begin() const;

  // Returns the callback's handle.
  uint64_t AddCallback(CUlogsCallback callback, void* data);
  // Returns false when there is no such callback. A call of it may still be under way.
  bool RemoveCallback(uint64_t handle);

 private:
  struct Callback {
    CUlogsCallback function;
    void* data;
  };

  mutable Mutex mu_;
  std::deque<std::string> messages_ ABSL_GUARDED_BY(mu_);  // Each ends with a newline.
  uint32_t end_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, Callback> callbacks_ ABSL_GUARDED_BY(mu_);  // By handle.
  uint64_t next_handle_ ABSL_GUARDED_BY(mu_) = 1;
};

// Returns the process's log. It reads the process's log lines from the first call on.
DriverLog& TheDriverLog();

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BASE_DRIVER_LOG_H_
