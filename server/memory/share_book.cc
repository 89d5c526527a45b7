#include "server/memory/share_book.h"

#include <utility>

#include "common/crypto/secret.h"

namespace warpline::server {

absl::StatusOr<std::string> ShareBook::Add(Offer offer) {
  const SessionMemory* const owner = offer.owner.lock().get();
  size_t& count = counts_[owner];
  if (count >= kMostOfOneSession) {
    return absl::ResourceExhaustedError("the session has offered too much to others");
  }
  const std::string token = RandomBytes(kTokenBytes);
  ++count;
  offers_.insert_or_assign(token, Entry{std::move(offer), owner});
  return token;
}

absl::StatusOr<Offer> ShareBook::Find(const std::string& token, const std::string& domain) const {
  const auto it = offers_.find(token);
  if (it == offers_.end() || it->second.offer.domain != domain) {
    return absl::NotFoundError("no such memory or event is offered");
  }
  return it->second.offer;
}

void ShareBook::RemoveAllOf(const SessionMemory* owner) {
  if (counts_.erase(owner) == 0) return;
  std::erase_if(offers_, [owner](const auto& entry) { return entry.second.owner == owner; });
}

}  // namespace warpline::server
