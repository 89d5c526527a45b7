// Another tenant's session, in a process of its own (successor_main.cc), at the addresses that a
// former one had.
//
//   { auto former = Successor::Start(target, arena); }  // Its session ends here.
//   auto next = Successor::Start(target, arena);
//   ...
//   if ((*next)->End() != "intact") ...
#ifndef WARPLINE_TESTS_ATTACK_TIER_SUCCESSOR_H_
#define WARPLINE_TESTS_ATTACK_TIER_SUCCESSOR_H_

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tests/attack/tier/attack.h"

namespace warpline::attack {

// Thread-compatible.
class Successor {
 public:
  // A place that no other process of this test is likely to ask for.
  static uint64_t OwnArena();

  // UNAVAILABLE, with what it said, when it does not come to hold anything.
  static absl::StatusOr<std::unique_ptr<Successor>> Start(const TierTarget& target, uint64_t arena);
  ~Successor();
  Successor(const Successor&) = delete;
  Successor& operator=(const Successor&) = delete;

  // Where its secrets are.
  uint64_t memory() const { return memory_; }
  // Lets it end. Returns "intact" or what has become of its secrets.
  std::string End();

 private:
  Successor(pid_t pid, int input, FILE* output) : pid_(pid), input_(input), output_(output) {}
  std::string ReadLine();

  pid_t pid_;
  int input_;
  FILE* output_;
  uint64_t memory_ = 0;
};

}  // namespace warpline::attack

#endif  // WARPLINE_TESTS_ATTACK_TIER_SUCCESSOR_H_
