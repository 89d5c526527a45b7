#include "server/device/cpu/cpu_host_window.h"

#include <sys/mman.h>

#include <utility>

#include "absl/memory/memory.h"

namespace warpline::device {

absl::StatusOr<std::unique_ptr<CpuHostWindow>> CpuHostWindow::Open(int fd, uint64_t bytes) {
  auto window = absl::WrapUnique(new CpuHostWindow(bytes));
  const absl::Status taken = window->Replace(fd);
  if (!taken.ok()) return taken;
  return window;
}

void CpuHostWindow::Unmap() {
  if (host_ != nullptr) munmap(std::exchange(host_, nullptr), bytes_);
}

absl::Status CpuHostWindow::Replace(int fd) {
  Unmap();
  if (fd < 0) return absl::OkStatus();
  void* const host = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (host == MAP_FAILED) return absl::ResourceExhaustedError("cannot map memory of the host");
  host_ = host;
  return absl::OkStatus();
}

}  // namespace warpline::device
