#include "server/gpu_server/children/workers/host_windows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/sealed_memory.h"

namespace warpline::server {
namespace {

constexpr uint64_t kPageBytes = 4096;

}  // namespace

Reservation HostWindows::Charge(uint64_t bytes) const {
  return options_.quota == nullptr ? Reservation()
                                   : options_.quota->Reserve(bytes, bytes, kPageBytes);
}

bool HostWindows::Renew(uint32_t number, Window* window) {
  auto file = NewSealedMemory("warpline-window", window->bytes);
  if (!file.ok()) return false;
  warpline_internal::ToWorker message;
  message.mutable_window()->set_number(number);
  message.mutable_window()->set_bytes(window->bytes);
  const int fd = file->get();
  if (!send_(std::move(message), {&fd, 1}).ok()) return false;
  window->file = std::make_shared<const UniqueFd>(*std::move(file));
  window->state = State::kComing;
  return true;
}

size_t HostWindows::Start() {
  for (size_t i = 0; i < options_.count; ++i) {
    Window window;
    window.bytes = options_.bytes;
    window.charge = Charge(window.bytes);
    if (options_.quota != nullptr && window.charge.bytes() != window.bytes) break;
    const uint32_t number = last_number_ + 1;
    if (!Renew(number, &window)) break;
    last_number_ = number;
    windows_[number] = std::move(window);
  }
  return windows_.size();
}

std::optional<HostWindow> HostWindows::Take() {
  for (auto& [number, window] : windows_) {
    if (window.state != State::kFree) continue;
    window.state = State::kTaken;
    return HostWindow{number, window.bytes, window.file};
  }
  return std::nullopt;
}

// Where nothing is left of the host memory, the session goes on all the same: its former worker has
// let go of as much, or will.
std::optional<HostWindow> HostWindows::Bring(const HostWindow& former) {
  Window window;
  window.state = State::kTaken;
  window.bytes = former.bytes;
  window.file = former.file;
  window.charge = Charge(window.bytes);
  windows_[++last_number_] = std::move(window);
  return HostWindow{last_number_, former.bytes, former.file};
}

void HostWindows::GiveBack(uint32_t number) {
  const auto found = windows_.find(number);
  if (found == windows_.end() || found->second.state != State::kTaken) return;
  Window& window = found->second;
  window.file = nullptr;
  const auto staying =
      static_cast<size_t>(std::count_if(windows_.begin(), windows_.end(), [](const auto& entry) {
        return entry.second.state != State::kGoing;
      }));
  if (staying <= options_.count && window.bytes == options_.bytes && Renew(number, &window)) return;
  window.state = State::kGoing;
  warpline_internal::ToWorker message;
  message.mutable_window()->set_number(number);
  // A process that does not hear of it keeps the memory, and stays charged for it.
  (void)send_(std::move(message), {});
}

absl::Status HostWindows::OnDone(const warpline_internal::WindowDone& done) {
  const auto found = windows_.find(done.number());
  const bool due = found != windows_.end() &&
                   (found->second.state == State::kComing || found->second.state == State::kGoing);
  if (!due) return absl::InvalidArgumentError("a window that was not due");
  const bool came = done.error() == 0 && found->second.state == State::kComing;
  if (came) {
    found->second.state = State::kFree;
  } else {
    windows_.erase(found);
  }
  return done.error() == 0 ? absl::OkStatus() : absl::ResourceExhaustedError(done.message());
}

size_t HostWindows::free() const {
  return static_cast<size_t>(std::count_if(windows_.begin(), windows_.end(), [](const auto& entry) {
    return entry.second.state == State::kFree;
  }));
}

}  // namespace warpline::server
