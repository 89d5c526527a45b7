// How many of a session's commands may be in flight: passed on to its worker, and not complete by
// the worker's own count.
//
// The client keeps to a window that it was told, and the worker to a bound of its own. This is the
// server's, between the two, for whoever does not. A worker that counts falsely lets its own client
// go on, or holds it up, and nobody else.
#ifndef WARPLINE_SERVER_HOSTLINK_HANDOVER_COMMAND_WINDOW_H_
#define WARPLINE_SERVER_HOSTLINK_HANDOVER_COMMAND_WINDOW_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "server/hostlink/handover/journal_file.h"

namespace warpline {

// Thread-safe.
class CommandWindow {
 public:
  // `most` commands at a time, of the session whose workers count in `journal`.
  CommandWindow(uint64_t most, std::shared_ptr<const JournalFile> journal)
      : most_(most), journal_(std::move(journal)) {}

  uint64_t most() const { return most_; }
  // Whether `count` more may be passed on after `passed`. The worker counts a command as complete
  // before its client hears of it, so a client that keeps to its window finds room.
  bool HasRoom(uint64_t passed, uint64_t count) const {
    const uint64_t complete = journal_->commands_complete();
    const uint64_t in_flight = passed > complete ? passed - complete : 0;
    return count <= most_ && in_flight <= most_ - count;
  }

 private:
  const uint64_t most_;
  const std::shared_ptr<const JournalFile> journal_;
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_HANDOVER_COMMAND_WINDOW_H_
