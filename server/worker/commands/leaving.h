// Counts the objects that a session's client has given up while commands that wait still need them.
//
// A handle is free at once when its object is destroyed, but the object lives until the executors
// are through with it, and an executor waits for as long as its client wishes. So what an object
// takes stays counted here until it is gone:
//
//   leaving.Add(image, image->total());
//   if (!leaving.AtMost(most)) <refuse>           // Nothing new until enough of it is gone.
//
// A client that destroys and creates by turns does not wait for its executors, so what leaves has
// the limit once more, and is no part of what exists.
#ifndef WARPLINE_SERVER_WORKER_COMMANDS_LEAVING_H_
#define WARPLINE_SERVER_WORKER_COMMANDS_LEAVING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace warpline::worker {

// Sums what such objects take, in whatever unit. Thread-compatible; the objects may go on any
// thread.
class Leaving {
 public:
  // `object` takes so much until nobody has it any more. Null takes nothing.
  void Add(const std::shared_ptr<const void>& object, uint64_t takes);

  // Of all objects that were there at the last look.
  uint64_t sum() const { return sum_; }
  // Whether what leaves is `most` or less. It only looks again where that is in doubt.
  bool AtMost(uint64_t most);

 private:
  struct Entry {
    std::weak_ptr<const void> object;
    uint64_t takes;
  };

  // Forgets those that are gone; takes as long as there are objects.
  void Sweep();

  std::vector<Entry> entries_;
  uint64_t sum_ = 0;
  size_t sweep_at_ = 16;  // So many entries: each is looked at twice on average.
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_COMMANDS_LEAVING_H_
