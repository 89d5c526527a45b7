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

  // Of requests of a megabyte, these are some 32 MiB.
  static constexpr size_t kMostReading = 24;
  // While others wait, a request is read for so long at most.
  static constexpr absl::Duration kPatience = absl::Milliseconds(250);

  bool waits() const { return !waiting_.empty(); }

  // A call that wants to read its request.
  void Add(Id id, const std::string& peer);
  // The call does not read, or does not want to, any more.
  void Remove(Id id);
  // Takes a call that may begin to read now.
  std::optional<Id> TakeNext(absl::Time now);
  // Takes all calls that wait.
  std::vector<Id> TakeWaiting();
  // Takes the calls that have read for too long while others wait.
  std::vector<Id> TakeOverdue(absl::Time now);

 private:
  std::map<Id, absl::Time> reading_;               // Since when.
  std::map<std::string, std::deque<Id>> waiting_;  // By peer. None of them is empty.
  std::string last_;                               // The peer that had the latest turn.
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_UNARY_READ_TURNS_H_
