// warpline-worker: executes a session's commands on its devices. warpline-server starts it and
// speaks proto/worker.proto on descriptor 3; it is of no use by hand.
#include <malloc.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "common/log/log.h"
#include "server/worker/host/control_socket.h"
#include "server/worker/host/host_process.h"
#include "server/worker/host/output_capture.h"

namespace {

// The descriptor of the socket to the server.
constexpr int kControlFd = 3;

// Freed memory that libc keeps. What a row of commands takes while it waits goes and comes again
// with the next row, and pages that come anew take longer than the commands.
constexpr int kKeptBytes = 16 << 20;
// Larger pieces, such as images of modules, are memory of their own, which goes at once.
constexpr int kLargeBytes = 4 << 20;

}  // namespace

int main(int argc, char**) {
  warpline::SetLogName("worker");
  if (argc > 1) {
    warpline::LogError("warpline-worker is started by warpline-server and takes no arguments");
    return 64;
  }
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
  mallopt(M_MMAP_THRESHOLD, kLargeBytes);
  // Replaces the descriptors before anything else prints.
  auto output = warpline::worker::OutputCapture::Install();
  if (!output.ok()) {
    warpline::LogError(output.status().ToString());
    return 1;
  }
  warpline::worker::HostProcess::Options options;
  options.control_fd = kControlFd;
  options.output = output->release();
  options.on_ended = [](uint64_t session, const absl::Status& why) {
    warpline::worker::SendSessionEnded(kControlFd, session, why);
  };
  // Never destroyed, because decoders use it until the process ends.
  auto* const process = new warpline::worker::HostProcess(std::move(options));
  warpline::worker::ServeControlSocket(kControlFd, process);
  _exit(0);
}
