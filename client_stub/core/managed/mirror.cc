#include "client_stub/core/managed/mirror.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace warpline::stub {
namespace {

// A round trip is most of the cost of a touch, so fetching this many pages costs little more than
// one.
constexpr size_t kLeastWindow = 16;
constexpr size_t kMostWindow = 1024;

// Writes to memory of this process whatever its protection, so that no other thread sees a page
// that is half filled. Where the system does not allow it, pages are opened first.
bool WriteProtected(uint64_t to, const char* from, uint64_t bytes) {
  static const int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  while (bytes > 0) {
    const ssize_t written = pwrite(fd, from, bytes, static_cast<off_t>(to));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    to += static_cast<uint64_t>(written);
    from += written;
    bytes -= static_cast<uint64_t>(written);
  }
  return true;
}

}  // namespace

Mirror::Mirror(const Place& place, State state, MirrorLink* link)
    : host_(place.host),
      device_(place.device),
      extents_(place.extents),
      link_(link),
      states_((place.bytes + kPageBytes - 1) / kPageBytes, kDevice),
      window_(kLeastWindow) {
  SetStates(0, states_.size(), state);
  if (state == kHost) return;
  Protect(0, states_.size(), state == kSame ? PROT_READ : PROT_NONE);
}

size_t Mirror::RunEnd(size_t first, size_t end) const {
  size_t last = first + 1;
  while (last < end && states_[last] == states_[first]) ++last;
  return last;
}

void Mirror::SetStates(size_t first, size_t end, State state) {
  for (size_t i = first; i < end; ++i) {
    host_pages_ -= states_[i] != kDevice ? 1 : 0;
    host_pages_ += state != kDevice ? 1 : 0;
    states_[i] = state;
  }
}

bool Mirror::Protect(size_t first, size_t end, int protection) const {
  return mprotect(reinterpret_cast<void*>(host_ + first * kPageBytes), (end - first) * kPageBytes,
                  protection) == 0;
}

CUresult Mirror::GiveToDevice(uint64_t offset, uint64_t bytes) {
  if (host_pages_ == 0 || bytes == 0 || offset >= this->bytes()) return CUDA_SUCCESS;
  const size_t first = offset / kPageBytes;
  const size_t end =
      std::min<uint64_t>(states_.size(), (offset + bytes + kPageBytes - 1) / kPageBytes);
  for (size_t i = first; i < end;) {
    const size_t run = RunEnd(i, end);
    if (states_[i] == kHost) {
      // A thread that writes meanwhile waits for us in the handler of its fault.
      Protect(i, run, PROT_READ);
      const CUresult pushed = Push(i, run);
      SetStates(i, run, kSame);
      if (pushed != CUDA_SUCCESS) return pushed;
    }
    i = run;
  }
  if (!Protect(first, end, PROT_NONE)) {
    // The system has no more mappings for a process; all in one need but one.
    if (end - first == states_.size()) return CUDA_ERROR_OPERATING_SYSTEM;
    return GiveToDevice(0, this->bytes());
  }
  SetStates(first, end, kDevice);
  return CUDA_SUCCESS;
}

CUresult Mirror::Touch(uint64_t offset, bool write) {
  const size_t page = offset / kPageBytes;
  const State state = states_[page];
  // Another thread was faster.
  if (state == kHost || (state == kSame && !write)) return CUDA_SUCCESS;
  window_ = page == next_page_ ? std::min(window_ * 2, kMostWindow) : kLeastWindow;
  const size_t end = RunEnd(page, std::min(page + window_, states_.size()));
  next_page_ = end;
  return Allow(page, end, write);
}

CUresult Mirror::Fetch(uint64_t offset, uint64_t bytes, bool write) {
  if (bytes == 0 || offset >= this->bytes()) return CUDA_SUCCESS;
  const size_t end =
      std::min<uint64_t>(states_.size(), (offset + bytes + kPageBytes - 1) / kPageBytes);
  CUresult first_error = CUDA_SUCCESS;
  for (size_t i = offset / kPageBytes; i < end;) {
    const size_t run = RunEnd(i, std::min(end, i + kMostWindow));
    const bool ready = states_[i] == kHost || (states_[i] == kSame && !write);
    const CUresult result = ready ? CUDA_SUCCESS : Allow(i, run, write);
    if (first_error == CUDA_SUCCESS) first_error = result;
    i = run;
  }
  return first_error;
}

void Mirror::Discard(uint64_t offset, uint64_t bytes, bool to_host) {
  const size_t end = std::min<uint64_t>(states_.size(), (offset + bytes) / kPageBytes);
  for (size_t i = offset / kPageBytes; i < end;) {
    const size_t run = RunEnd(i, end);
    const bool is_hosts = states_[i] == kHost || (states_[i] == kDevice && to_host);
    // Where the system has no more mappings for a process, the pages stay what they are.
    if (is_hosts && Protect(i, run, PROT_READ)) SetStates(i, run, kSame);
    i = run;
  }
}

bool Mirror::AnyOnDevice(uint64_t offset, uint64_t bytes) const {
  const auto first = states_.begin() + static_cast<ptrdiff_t>(offset / kPageBytes);
  const auto end = states_.begin() + static_cast<ptrdiff_t>(std::min<uint64_t>(
                                         states_.size(), (offset + bytes) / kPageBytes));
  return std::find(first, end, kDevice) != end;
}

// Goes through the pages in runs of one state.
CUresult Mirror::Allow(size_t first, size_t end, bool write) {
  CUresult result = CUDA_SUCCESS;
  if (states_[first] == kDevice) result = Pull(first, end, write);
  if (Protect(first, end, write ? PROT_READ | PROT_WRITE : PROT_READ)) {
    SetStates(first, end, write ? kHost : kSame);
    return result;
  }
  // The system has no more mappings for a process; all in one need but one.
  for (size_t i = 0; i < states_.size();) {
    const size_t run = RunEnd(i, std::min(states_.size(), i + kMostWindow));
    const bool pulled = i >= first && i < end;
    if (states_[i] == kDevice && !pulled) Pull(i, run, /*write=*/true);
    i = run;
  }
  if (!Protect(0, states_.size(), PROT_READ | PROT_WRITE)) return CUDA_ERROR_OPERATING_SYSTEM;
  SetStates(0, states_.size(), kHost);
  return result;
}

std::vector<Mirror::Extent> Mirror::Shared(size_t first, size_t end) const {
  const Extent pages = {device_ + first * kPageBytes, device_ + end * kPageBytes};
  if (extents_.empty()) return {pages};
  std::vector<Extent> shared;
  for (const Extent& extent : extents_) {
    const Extent part = {std::max(extent.begin, pages.begin), std::min(extent.end, pages.end)};
    if (part.begin < part.end) shared.push_back(part);
  }
  return shared;
}

CUresult Mirror::Push(size_t first, size_t end) {
  for (const Extent& part : Shared(first, end)) {
    const auto* bytes = reinterpret_cast<const char*>(host_ + (part.begin - device_));
    const CUresult result = link_->Push(part.begin, {bytes, part.end - part.begin});
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult Mirror::Pull(size_t first, size_t end, bool write) {
  for (const Extent& part : Shared(first, end)) {
    std::vector<char> bytes(part.end - part.begin);
    const uint64_t to = host_ + (part.begin - device_);
    const CUresult result = link_->Pull(bytes.data(), part.begin, bytes.size());
    if (result != CUDA_SUCCESS) return result;
    if (WriteProtected(to, bytes.data(), bytes.size())) continue;
    if (!Protect(first, end, PROT_READ | PROT_WRITE)) return CUDA_ERROR_OPERATING_SYSTEM;
    std::memcpy(reinterpret_cast<void*>(to), bytes.data(), bytes.size());
    if (!write) Protect(first, end, PROT_READ);
  }
  return CUDA_SUCCESS;
}

}  // namespace warpline::stub
