// Sends what a session's kernels printed to its client.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_PRINT_RELAY_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_PRINT_RELAY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/worker/executors/device_set.h"
#include "server/worker/replies/reply_sink.h"

namespace warpline::worker {

// The source of the text. Thread-compatible: its user calls it under one lock.
class OutputSource {
 public:
  virtual ~OutputSource() = default;
  using Emit = std::function<void(int descriptor, std::string_view text)>;
  // Passes what is new to `emit`, in pieces: the descriptor (1 or 2) and the text. `at_rest` says
  // that no kernel is running which may print. Returns the error with which a kernel ended of which
  // the device does not know that it has failed, or kSuccess.
  virtual CudaResult Collect(bool at_rest, const Emit& emit) = 0;
  // Passes on what the source has to say whether or not kernels have run.
  virtual void CollectNotes(const Emit&) {}
};

// Thread-safe.
class PrintRelay {
 public:
  // All are borrowed. Without a source nothing is sent.
  PrintRelay(OutputSource* source, const DeviceSet* devices, ReplySink* sink)
      : source_(source), devices_(devices), sink_(sink) {}

  // Notes that a module was loaded whose kernels may print.
  void ExpectPrints();
  // A kernel that may print is about to be launched.
  void Launching();
  // Sends what complete kernels printed, before anything that is sent from now on. `complete` more
  // of the launches have ended. Returns what OutputSource::Collect() does.
  CudaResult Send(uint64_t complete);
  // Sends what the source has to say besides.
  void SendNotes();

 private:
  OutputSource* const source_;
  const DeviceSet* const devices_;
  ReplySink* const sink_;
  std::atomic<bool> expected_{false};
  // Held while text is sent, so that none is overtaken. Acquired before the sink's lock.
  Mutex mu_;
  uint64_t running_ ABSL_GUARDED_BY(mu_) = 0;  // Launches that have not ended
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_PRINT_RELAY_H_
