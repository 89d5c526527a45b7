// Captures what kernels print: device::Context writes it to the process's descriptors 1 and 2, and
// from there it goes to the client.
#ifndef WARPLINE_SERVER_WORKER_HOST_OUTPUT_CAPTURE_H_
#define WARPLINE_SERVER_WORKER_HOST_OUTPUT_CAPTURE_H_

#include <sys/types.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "server/worker/executors/print_relay.h"

namespace warpline::worker {

class OutputCapture : public OutputSource {
 public:
  // At most this much of what is printed between two Collect()s is kept for each descriptor. The
  // rest is lost, so that a flood costs its host no more than that.
  static constexpr off_t kMaxPending = 8 << 20;

  // Replaces descriptors 1 and 2 by files in memory, once in the process. The log goes on to where
  // descriptor 2 went before.
  static absl::StatusOr<std::unique_ptr<OutputCapture>> Install();

  CudaResult Collect(bool at_rest, const Emit& emit) override;

 private:
  // A file to which printing code appends and which Collect() empties from the front. It cannot
  // grow beyond its first size.
  struct Stream {
    int descriptor;
    FILE* stdio;
    UniqueFd file;
    off_t read = 0;
  };

  OutputCapture() = default;
  static absl::Status Replace(Stream* stream);
  static void Drain(Stream* stream, const std::function<void(int, std::string_view)>& emit);

  Stream streams_[2];
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_OUTPUT_CAPTURE_H_
