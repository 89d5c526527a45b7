// The output of kernels, on its way to the application's own stdout and stderr.
//
// The loop adds it as it arrives, before any report that the kernels are complete; the thread that
// waited for them writes it before its call returns. The loop writes by itself only when no thread
// waits and much output has come.
#ifndef WARPLINE_CLIENT_STUB_SESSION_STATUS_OUTPUT_BUFFER_H_
#define WARPLINE_CLIENT_STUB_SESSION_STATUS_OUTPUT_BUFFER_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "common/mutex.h"
#include "transport/channel_loop.h"

namespace warpline::stub {

// Thread-safe.
class OutputBuffer {
 public:
  // Writes with the application's stdio to `descriptor`, 1 or 2. With `wait` 0 it gives up, and
  // returns 0, when a thread of the application holds that stream locked.
  using Printer = int (*)(int descriptor, const char* text, size_t bytes, int wait);

  static constexpr size_t kMaxHeldBytes = 1u << 20;
  // The bound while a thread of the application writes. Output beyond it is lost.
  static constexpr size_t kMaxBehindWriterBytes = 16u << 20;

  // Null drops everything. Called before anything else.
  void SetPrinter(Printer printer) { printer_ = printer; }

  // Empty text only notes that some may follow.
  void Add(int descriptor, std::string_view text) RUNS_ON(channel_loop);
  // Writes everything that was added before. One load when there is nothing.
  void Write() {
    if (pending_.load(std::memory_order_acquire)) WriteAndWait();
  }
  // Returns true when kernels of this session may print.
  bool expected() const { return expected_.load(std::memory_order_relaxed); }

 private:
  void WriteAndWait();
  void WriteHeld(bool wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mu_);

  Printer printer_ = nullptr;
  std::atomic<bool> expected_{false};
  // Stays set until all is written, so that a second thread does not return before the first has
  // written.
  std::atomic<bool> pending_{false};

  Mutex write_mu_;  // Held while the application's stdio is called. Taken before mu_.
  Mutex mu_;
  std::deque<std::pair<int, std::string>> held_ ABSL_GUARDED_BY(mu_);
  size_t held_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_STATUS_OUTPUT_BUFFER_H_
