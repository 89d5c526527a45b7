// Which of a listener's connections, or of its streams, belong to peers that have not shown yet
// that they may be there, and which of these have to go when there are too many.
//
// Room is made for a newcomer, who may have something to show, at the cost of who has been there
// longest without showing anything: a peer that holds all its places in silence keeps nobody out.
// What has to go is the peer's own while it has too many, and otherwise that of the peer that has
// the most, so that one peer's flood costs the others nothing.
#ifndef WARPLINE_COMMON_SERVING_STRANGER_BOOK_H_
#define WARPLINE_COMMON_SERVING_STRANGER_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

namespace warpline {

// Thread-compatible.
class StrangerBook {
 public:
  using Id = uint64_t;

  // A peer has at most `most_of_peer`, at least one.
  explicit StrangerBook(size_t most_of_peer);

  // Notes `id`, which is new, as the newest of `peer`. When the peer has too many, its oldest is
  // struck off and returned: it has to go.
  std::optional<Id> Add(Id id, const std::string& peer);
  // Strikes off the oldest of the peer that has the most. Nothing when the book is empty.
  std::optional<Id> TakeOldest();
  // Makes `id` the newest of its peer again, if it is in the book.
  void Touch(Id id);
  // False when it was not in the book.
  bool Remove(Id id);

  size_t size() const { return places_.size(); }

 private:
  using Peers = std::map<std::string, std::list<Id>>;  // The oldest first; none is empty.
  struct Place {
    Peers::iterator peer;
    std::list<Id>::iterator at;
  };

  Id TakeOldestOf(Peers::iterator peer);

  const size_t most_of_peer_;
  Peers peers_;
  std::unordered_map<Id, Place> places_;
};

}  // namespace warpline

#endif  // WARPLINE_COMMON_SERVING_STRANGER_BOOK_H_
