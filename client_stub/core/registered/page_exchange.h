// Puts other pages in the place of a process's own, behind the back of the code that uses them.
#ifndef WARPLINE_CLIENT_STUB_CORE_REGISTERED_PAGE_EXCHANGE_H_
#define WARPLINE_CLIENT_STUB_CORE_REGISTERED_PAGE_EXCHANGE_H_

#include <cstdint>

namespace warpline::stub {

// Copies the bytes of [at, at + bytes) to the mapping at `with`, and moves that mapping to `at`.
// All are whole pages that may be read and written. Returns false, with everything as it was but
// the bytes at `with`, when the kernel does not do it.
//
// Meanwhile the pages may be read but not written: a thread that writes there gets SIGSEGV, and a
// system call EFAULT. The caller sees to the former (WritesHeld). The pages may be those of the
// calling thread's stack, so the calling thread must have all signals blocked.
bool ExchangePages(uint64_t at, uint64_t with, uint64_t bytes);

// Blocks all signals of the calling thread while it lives.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  uint64_t before_ = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_REGISTERED_PAGE_EXCHANGE_H_
