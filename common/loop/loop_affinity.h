// Lets clang's thread-safety analysis check what belongs to one loop: the code that runs on a
// loop's thread "holds" the loop's LoopAffinity, as it would hold a lock.
//
//   class Book {
//    public:
//     void Enter(Name name) RUNS_ON(on_loop_) { names_.push_back(name); }
//     void EnterLater(Name name) {             // From any thread.
//       loop_.Post([this, name] {
//         on_loop_.AssertOnLoop();             // The analysis takes its word, and it looks.
//         Enter(name);
//       });
//     }
//
//    private:
//     LoopAffinity on_loop_;
//     std::vector<Name> names_ ABSL_GUARDED_BY(on_loop_);
//     EventLoop loop_{"book", &on_loop_};
//   };
//
// The analysis follows calls, but not what is called back. So members are ABSL_GUARDED_BY() the
// affinity, functions RUNS_ON() it, and what is posted, set as a timer or handed over as a callback
// begins with AssertOnLoop(). A lambda that the function which makes it calls at once, through an
// algorithm or std::visit(), is RUNS_ON() the loop itself and asserts nothing.
//
// Where several classes share a loop, one object stands for it everywhere, so that they can name it
// to each other: server/hostlink/process/control_loop.h, transport/channel_loop.h,
// server/worker/executors/decoder_thread.h. If a process has several loops of such a kind, their
// threads enter the same object. Then it tells them from all other threads but not from each other.
// A class whose members no other class names has an affinity of its own, and tells its objects'
// threads apart.
//
// A thread that is no loop's, but that does a loop's work while there is no loop, is the loop for
// as long as it has a LoopScope.
#ifndef WARPLINE_COMMON_LOOP_LOOP_AFFINITY_H_
#define WARPLINE_COMMON_LOOP_LOOP_AFFINITY_H_

#include <atomic>

#include "absl/base/thread_annotations.h"

// A function that is called on this loop only. clang refuses a call from a function that neither is
// marked so nor asserts it. Without a prefix, since it stands on hundreds of lines.
#define RUNS_ON(loop) ABSL_EXCLUSIVE_LOCKS_REQUIRED(loop)

namespace warpline {

class ABSL_LOCKABLE LoopAffinity {
 public:
  constexpr LoopAffinity() = default;
  LoopAffinity(const LoopAffinity&) = delete;
  LoopAffinity& operator=(const LoopAffinity&) = delete;

  // Ends the process when the loop's thread is another than the calling one. While no thread has
  // entered, every thread may, because there is nobody to disagree with: a test that calls a class
  // directly, or the destruction of what outlived its loop.
  //
  // It ends the process in all builds, because it tells of our own mistake alone: on which thread a
  // function runs is settled where it is posted or called, and nothing that a tenant, a network or
  // a driver says chooses the thread. Going on would be a data race in tables of all tenants. The
  // costs are two loads.
  void AssertOnLoop() const ABSL_ASSERT_EXCLUSIVE_LOCK() {
    if (current_ != this && threads_.load(std::memory_order_relaxed) != 0) Fail();
  }

 private:
  friend class LoopScope;
  [[noreturn]] static void Fail();

  static constinit thread_local const LoopAffinity* current_;
  std::atomic<int> threads_{0};
};

// The calling thread is the loop's, and that of no other loop, for a scope; afterwards it is again
// what it was before. Several threads may be the same loop's at a time.
class ABSL_SCOPED_LOCKABLE LoopScope {
 public:
  explicit LoopScope(LoopAffinity* loop) ABSL_EXCLUSIVE_LOCK_FUNCTION(loop);
  ~LoopScope() ABSL_UNLOCK_FUNCTION();
  LoopScope(const LoopScope&) = delete;
  LoopScope& operator=(const LoopScope&) = delete;

 private:
  LoopAffinity* const loop_;
  const LoopAffinity* const outer_;
};

}  // namespace warpline

#endif  // WARPLINE_COMMON_LOOP_LOOP_AFFINITY_H_
