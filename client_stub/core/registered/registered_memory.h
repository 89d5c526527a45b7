// Memory of the application's own that it registered and whose address on the devices it asked for,
// where client and worker share a host: the pages that it lies in become pages that both share
// (shared_host_memory.h), at the address where the application has them.
//
// So kernels and host code see each other's writes at once, as with the driver's own page locking.
// The devices have the memory at another address, as cuMemHostGetDevicePointer says.
//
// The bytes are the program's, so they outlive the session, however that ends.
//
// What else lies in these pages, such as neighbours on the heap, is moved with them, and nobody
// notices: a thread that writes there meanwhile waits for a moment, and the child of a fork gets a
// copy, which its parent waits for. (A child of a bare clone() without the C library's fork()
// shares the pages with its parent. A system call that writes to a page in the moment of its move
// fails with EFAULT.)
#ifndef WARPLINE_CLIENT_STUB_CORE_REGISTERED_REGISTERED_MEMORY_H_
#define WARPLINE_CLIENT_STUB_CORE_REGISTERED_REGISTERED_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "client_stub/core/memory/shared_host_memory.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe. At most one exists in each process, and it lives as long as that.
class RegisteredMemory {
 public:
  struct Range {
    uint64_t host = 0;
    uint64_t device = 0;
    uint64_t bytes = 0;
  };

  // `shared` is borrowed.
  explicit RegisteredMemory(SharedHostMemory* shared) : shared_(shared) {}

  // Gives the devices [host, host + bytes) at `*device`; again, the same. Waits for threads that
  // block SIGSEGV for a moment. kNotSupported for memory whose pages cannot be moved: a file's,
  // shared, locked, read-only or executable ones, pages that hold a part of another such range and
  // more, and the control block of a thread. kNotSupported, too, while a thread blocks SIGSEGV for
  // good. kNotSupported and kOutOfMemory of SharedHostMemory. The memory must not be the stack of
  // another thread.
  CudaResult Share(uint64_t host, uint64_t bytes, uint64_t* device);
  // Makes the pages of the range that starts at `host` the process's own again, unless another
  // range needs them. No work under way may use them.
  void GiveBack(uint64_t host);

  // Finds the range that holds a host or device address; returns false when there is none.
  bool Find(uint64_t address, Range* range) const;
  // Translates an address of the host; returns any other address as it is.
  uint64_t ToDevice(uint64_t address) const {
    return any_.load(std::memory_order_relaxed) == 0 ? address : Translate(address);
  }

 private:
  // Pages that were moved together.
  struct Pages {
    uint64_t bytes = 0;
    uint64_t shared = 0;  // Where SharedHostMemory has them.
    int ranges = 0;
  };
  using PagesMap = std::map<uint64_t, Pages>;  // By address.
  struct Extent {
    uint64_t begin;
    uint64_t end;
  };

  uint64_t Translate(uint64_t address) const;
  // Returns whether the pages of the memory are shared already.
  bool IsShared(uint64_t host, uint64_t bytes);
  // The pages that hold all of [begin, end), or pages_.end().
  PagesMap::iterator PagesOf(uint64_t begin, uint64_t end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CudaResult Move(uint64_t begin, uint64_t end, PagesMap::iterator* moved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Pages of the stack that a fork goes on with, which are the process's own meanwhile.
  struct InUse {
    Extent extent;
    uint64_t shared;
  };
  // The parts of the pages that are still mapped where they were moved to: what the application has
  // unmapped or mapped anew since is its own business. All of them where the kernel does not tell.
  static std::vector<Extent> StillShared(uint64_t begin, const Pages& pages);
  static bool AllStillShared(const PagesMap::value_type& pages);

  void WatchForks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  static void AfterForkInParent() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  static void AfterForkInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS;

  SharedHostMemory* const shared_;
  std::atomic<int> any_{0};  // The number of ranges.
  mutable Mutex mu_;
  PagesMap pages_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Range> ranges_ ABSL_GUARDED_BY(mu_);  // By the host's address.
  bool watches_forks_ ABSL_GUARDED_BY(mu_) = false;
  // From before a fork until after it: what the child copies, which may allocate nothing for that,
  // and what it closes then.
  std::vector<Extent> to_copy_ ABSL_GUARDED_BY(mu_);
  std::vector<InUse> in_use_ ABSL_GUARDED_BY(mu_);
  int copied_[2] ABSL_GUARDED_BY(mu_) = {-1, -1};
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_REGISTERED_REGISTERED_MEMORY_H_
