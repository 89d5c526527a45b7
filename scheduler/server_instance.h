// Which process it is that reports by a server's name.
#ifndef WARPLINE_SCHEDULER_SERVER_INSTANCE_H_
#define WARPLINE_SCHEDULER_SERVER_INSTANCE_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/time/time.h"

namespace warpline::scheduler {

// Thread-compatible. A server makes its instance number at its start, so two processes with one
// name and credential, as a copied image of a machine has them, have two. Number 0 is of a version
// that has none, and nothing is known of it.
class ServerInstance {
 public:
  // Whether a report of `instance`, which clients reach at `endpoint`, is the server's: that of the
  // process that reported last, or of one that comes in its place. The latter is so when the former
  // one has said goodbye, or was silent for `silence`, or had the same endpoint. One in whose place
  // another came is not taken back while that one reports.
  bool Takes(uint64_t instance, const std::string& endpoint, absl::Time now,
             absl::Duration silence) const;
  // Notes a report that was taken. `goodbye` says that none follows.
  void Note(uint64_t instance, const std::string& endpoint, bool goodbye, absl::Time now);

  // Of the report that was taken last.
  const std::string& endpoint() const { return endpoint_; }
  uint64_t number() const { return current_; }

 private:
  uint64_t current_ = 0;
  std::string endpoint_;
  bool gone_ = false;
  absl::Time heard_;
  std::deque<uint64_t> former_;  // The latest.
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_SERVER_INSTANCE_H_
