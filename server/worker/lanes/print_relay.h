// Sends what a session's kernels printed to its client.
#ifndef WARPLINE_SERVER_WORKER_LANES_PRINT_RELAY_H_
#define WARPLINE_SERVER_WORKER_LANES_PRINT_RELAY_H_

#include <atomic>
#include <functional>
#include <string_view>

#include "common/mutex.h"
#include "server/worker/lanes/device_set.h"
#include "server/worker/replies/reply_sink.h"

namespace warpline::worker {

// The source of the text. Thread-compatible: its user calls it under one lock.
class OutputSource {
 public:
  virtual ~OutputSource() = default;
  // Passes what is new to `emit`, in pieces: the descriptor (1 or 2) and the text.
  virtual void Collect(const std::function<void(int descriptor, std::string_view text)>& emit) = 0;
};

// Thread-safe.
class PrintRelay {
 public:
  // All are borrowed. Without a source nothing is sent.
  PrintRelay(OutputSource* source, const DeviceSet* devices, ReplySink* sink)
      : source_(source), devices_(devices), sink_(sink) {}

  // Notes that a module was loaded whose kernels may print.
  void ExpectPrints();
  // Sends what complete kernels printed, before anything that is sent from now on.
  void Send();

 private:
  OutputSource* const source_;
  const DeviceSet* const devices_;
  ReplySink* const sink_;
  std::atomic<bool> expected_{false};
  // Held while text is sent, so that none is overtaken. Acquired before the sink's lock.
  Mutex mu_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_PRINT_RELAY_H_
