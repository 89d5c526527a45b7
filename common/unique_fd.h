// A file descriptor that closes itself. Thread-compatible.
#ifndef WARPLINE_COMMON_UNIQUE_FD_H_
#define WARPLINE_COMMON_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace warpline {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    Reset(other.Release());
    return *this;
  }
  ~UniqueFd() { Reset(-1); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace warpline

#endif  // WARPLINE_COMMON_UNIQUE_FD_H_
