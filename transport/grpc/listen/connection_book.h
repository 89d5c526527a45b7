// The connections that a listener has handed to gRPC: how many there are, whose they are, and which
// have carried nothing yet that their peer was admitted with. When there are too many of these the
// oldest is shut down. Private to transport/grpc.
//
// A peer is an address (of IPv6 the network, its first 64 bits) or, on unix sockets, a user.
#ifndef WARPLINE_TRANSPORT_GRPC_LISTEN_CONNECTION_BOOK_H_
#define WARPLINE_TRANSPORT_GRPC_LISTEN_CONNECTION_BOOK_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "common/serving/stranger_book.h"

namespace warpline::grpc_internal {

struct ConnectionLimits {
  size_t most = 1024;
  // Of one peer, without those that carry a session that was admitted.
  size_t most_strange_of_peer = 256;
};

// Returns the peer at the other end of a connection.
std::string PeerOfOtherEnd(int fd);

// Returns gRPC's name for the other end of a connection, or its peer where gRPC has none.
std::string NameOfOtherEnd(int fd);

// Thread-safe.
class ConnectionBook {
 public:
  explicit ConnectionBook(const ConnectionLimits& limits)
      : limits_(limits), strangers_(limits.most_strange_of_peer) {}

  // Whether `fd`, a connection that has just come, may be handed to gRPC. May shut another down for
  // it; then `*made_room` is true.
  bool Add(int fd, bool* made_room);

  // The peer at the other end of `name`, which is gRPC's name for a connection; empty when the book
  // does not know it.
  std::string PeerOf(const std::string& name) const;
  // A session on the connection is admitted. Each call is followed by one of Leave().
  void Admit(const std::string& name);
  // That session ends.
  void Leave(const std::string& name);
  // The connection is in use: others of the same peer are older.
  void Touch(const std::string& name);

  size_t size() const;

 private:
  struct Connection {
    StrangerBook::Id id = 0;
    int fd = -1;
    ino_t inode = 0;  // What the descriptor must still be for the connection to be open.
    std::string peer;
    int admitted = 0;  // Sessions.
  };
  using Connections = std::map<std::string, Connection>;  // By name.

  // gRPC closes connections without a word.
  void DropClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Drop(Connections::iterator connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ShutDown(StrangerBook::Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MakeRoomFor(const std::string& peer, bool nameless, bool* made_room)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ConnectionLimits limits_;
  mutable Mutex mu_;
  StrangerBook::Id last_id_ ABSL_GUARDED_BY(mu_) = 0;
  Connections connections_ ABSL_GUARDED_BY(mu_);
  std::map<StrangerBook::Id, std::string> names_ ABSL_GUARDED_BY(mu_);
  // Of connections that have a name. What streams of the others carry is not known, so these are
  // never shut down.
  StrangerBook strangers_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, size_t> nameless_ ABSL_GUARDED_BY(mu_);  // By peer.
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_LISTEN_CONNECTION_BOOK_H_
