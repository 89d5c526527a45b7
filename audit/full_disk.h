// A disk that is full, for tests: the system's own limit on the size of files stands for it.
#ifndef WARPLINE_AUDIT_FULL_DISK_H_
#define WARPLINE_AUDIT_FULL_DISK_H_

#include <signal.h>
#include <sys/resource.h>

namespace warpline::audit {

// While it lives, no file of this process grows beyond so many bytes. Call it from one thread;
// there is one at a time.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_ = {};
};

}  // namespace warpline::audit

#endif  // WARPLINE_AUDIT_FULL_DISK_H_
