// How a loop polls before it sleeps. Polling spares it a wake-up, for as long as nobody else wants
// the processor. On a host whose processors are all wanted it takes them from threads that have
// something to do, perhaps from the very one that is waited for. So a loop yields the processor
// between its looks
//
//   - while its process has many loops awake: each belongs to a session, which has threads in two
//     more processes that are awake with it;
//   - when a moment's rest has taken as long as others have had the processor, and for as long as
//     that goes on. Who goes before others (server/hostlink/process/priority.h) does not notice.
//
// Yielding always would be simpler, but it is a system call, and the rest is part of every wait.
#ifndef WARPLINE_COMMON_LOOP_ADAPTIVE_POLL_H_
#define WARPLINE_COMMON_LOOP_ADAPTIVE_POLL_H_

#include <chrono>

namespace warpline {

// Whether there are so few processors that polling takes one from the thread that is waited for.
bool FewProcessors();

// A moment's pause, or a yield of the processor to whoever wants it.
void Relax(bool yield = FewProcessors());

// One loop's own. The loop is awake while this exists and no Sleep does.
class AdaptivePoll {
 public:
  using Clock = std::chrono::steady_clock;

  // `longest` is how long the loop polls after it has last found something.
  explicit AdaptivePoll(std::chrono::nanoseconds longest);
  ~AdaptivePoll();
  AdaptivePoll(const AdaptivePoll&) = delete;
  AdaptivePoll& operator=(const AdaptivePoll&) = delete;

  // While the loop sleeps. It polls anew afterwards.
  class Sleep {
   public:
    explicit Sleep(AdaptivePoll* poll);
    ~Sleep();
    Sleep(const Sleep&) = delete;
    Sleep& operator=(const Sleep&) = delete;

   private:
    AdaptivePoll* const poll_;
  };

  // The loop has found something to do.
  void Found(Clock::time_point now) { found_ = now; }
  // How long the loop has found nothing.
  std::chrono::nanoseconds idle(Clock::time_point now) const { return now - found_; }
  // Whether it is time to sleep.
  bool over(Clock::time_point now) const { return idle(now) >= longest_; }
  // The moment between two looks.
  void Rest();
  // Whether others want the processor, as far as is known.
  bool yields(Clock::time_point now) const;

 private:
  const std::chrono::nanoseconds longest_;
  Clock::time_point found_ = Clock::now();
  Clock::time_point yields_until_{};
};

}  // namespace warpline

#endif  // WARPLINE_COMMON_LOOP_ADAPTIVE_POLL_H_
