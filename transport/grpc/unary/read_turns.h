// Which calls may read their requests. A request is in memory from its first byte on, so only some
// are read at a time, however many calls there are. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_UNARY_READ_TURNS_H_
#define WARPLINE_TRANSPORT_GRPC_UNARY_READ_TURNS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace warpline::grpc_internal {

// Peers have turns. Of one peer the newest call comes first: an older one that has not sent its
// request with its headers is not an honest client's, or its link is slow. Not thread-safe.
class ReadTurns {
 public:
  using Id = uint64_t;

  // Together with kMostFirst these are some 26 MiB, with requests of a megabyte.
  static constexpr size_t kMostReading = 8;
  // More calls that may read, each of a peer that reads no other: it does not wait for peers that
  // read slowly.
  static constexpr size_t kMostFirst = 16;
  // More than that do not wait. Each holds what its client sends ahead.
  static constexpr size_t kMostWaiting = 512;
  // The most time for reading a request while others wait. A request of a peer that reads fewer
  // than all that wait is not ended, however slow this process is.
  static constexpr absl::Duration kPatience = absl::Milliseconds(250);

  bool waits() const { return waiting_count_ > 0; }

  // A call that wants to read its request.
  void Add(Id id, const std::string& peer);
  // The call does not read, or does not want to, any more.
  void Remove(Id id);
  // Takes a call that may begin to read now.
  std::optional<Id> TakeNext(absl::Time now);
  // Takes a call that waits and has to give way because too many do: the oldest of the peer that
  // has most of them.
  std::optional<Id> TakeExcess();
  // Takes all calls that wait.
  std::vector<Id> TakeWaiting();
  // Takes the calls that have read for too long while a call waits, of their own peer or of one
  // that reads no more than theirs.
  std::vector<Id> TakeOverdue(absl::Time now);

 private:
  struct Reading {
    absl::Time since;
    std::string peer;
  };

  // Returns the peer whose turn it is among those that wait and may read, or the end.
  std::map<std::string, std::deque<Id>>::iterator NextPeer();
  // Returns how many calls a peer reads.
  size_t ReadingOf(const std::string& peer) const;

  std::map<Id, Reading> reading_;
  std::map<std::string, std::deque<Id>> waiting_;  // By peer. None of them is empty.
  size_t waiting_count_ = 0;                       // The number of calls.
  std::string last_;                               // The peer that had the latest turn.
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_UNARY_READ_TURNS_H_
