// A host window of a guarded worker as the server knows it: memory of the host, in a sealed file of
// its own, that the process has locked for its device (server/worker/host/host_windows.h). One
// session at a time has it, and shares it with its client.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_HOST_WINDOW_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_HOST_WINDOW_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "common/unique_fd.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

struct HostWindow {
  uint32_t number = 0;  // In its process, from 1 on.
  uint64_t bytes = 0;
  // Of the session that has the window, and of the process's books: a session takes it along to its
  // next worker, whatever becomes of the former one.
  std::shared_ptr<const UniqueFd> file = nullptr;
};

// What a session asks of its worker. What it gets is its own for as long as it has that worker.
class HostWindowSource {
 public:
  virtual ~HostWindowSource() = default;
  // A window that nobody has had; nothing where there is none, or the session has one already.
  virtual std::optional<HostWindow> TakeWindow() RUNS_ON(control_loop) { return std::nullopt; }
  // Makes room for the window that the session had in its former worker: it gets another number.
  // The process has to be given its file. Nothing where there are no windows.
  virtual std::optional<HostWindow> BringWindow(const HostWindow& former) RUNS_ON(control_loop) {
    (void)former;
    return std::nullopt;
  }
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_HOST_WINDOW_H_
