// Reads or writes all of something by calls of the system that may do a part of it.
#ifndef WARPLINE_COMMON_TRANSFER_ALL_H_
#define WARPLINE_COMMON_TRANSFER_ALL_H_

#include <sys/types.h>

#include <cerrno>
#include <cstdint>

namespace warpline {

struct Transfer {
  uint64_t bytes = 0;
  int error = 0;  // The errno that ended it; 0 where all is done, or nothing more comes or goes.
};

// Calls `call(done, left)`, which is a read() or write() of some kind, until `bytes` are done, an
// error comes, or a call does nothing. A call that a signal interrupted is made again. Thread-safe.
template <typename Call>
Transfer TransferAll(uint64_t bytes, const Call& call) {
  uint64_t done = 0;
  while (done < bytes) {
    const ssize_t n = call(done, bytes - done);
    if (n == 0) break;
    if (n > 0) {
      done += static_cast<uint64_t>(n);
    } else if (errno != EINTR) {
      return {done, errno};
    }
  }
  return {done, 0};
}

}  // namespace warpline

#endif  // WARPLINE_COMMON_TRANSFER_ALL_H_
