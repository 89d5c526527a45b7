#include "server/gpu_server/memory/share_book.h"

#include <utility>

#include "common/crypto/secret.h"

namespace warpline::server {

absl::StatusOr<std::string> ShareBook::Add(Offer offer) {
  const SessionMemory* const owner = offer.owner.lock().get();
  Own& own = own_[owner];
  if (offer.handle != 0) {
    const auto found = own.handles.find(offer.handle);
    if (found != own.handles.end()) return found->second;
  } else if (!offer.is_event()) {
    const auto found = own.ranges.find({offer.va, offer.bytes});
    if (found != own.ranges.end()) return found->second;
  }
  if (own.size() >= kMostOfOneSession) {
    return absl::ResourceExhaustedError("the session has offered too much to others");
  }
  const std::string token = RandomBytes(kTokenBytes);
  if (offer.handle != 0) {
    own.handles.emplace(offer.handle, token);
  } else if (offer.is_event()) {
    own.events.insert(token);
  } else {
    own.ranges.emplace(Range(offer.va, offer.bytes), token);
    own.merged.reset();
  }
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

bool ShareBook::OffersMemory(const SessionMemory* owner) const {
  const auto own = own_.find(owner);
  return own != own_.end() && !(own->second.handles.empty() && own->second.ranges.empty());
}

void ShareBook::Remove(const std::string& token, const SessionMemory* owner) {
  const auto found = offers_.find(token);
  if (found == offers_.end() || found->second.owner != owner) return;
  const Offer& offer = found->second.offer;
  Own& own = own_[owner];
  own.events.erase(token);
  if (offer.handle != 0) own.handles.erase(offer.handle);
  own.ranges.erase({offer.va, offer.bytes});
  own.merged.reset();
  offers_.erase(found);
}

void ShareBook::RemoveHandle(const SessionMemory* owner, uint64_t handle) {
  const auto own = own_.find(owner);
  if (own == own_.end()) return;
  const auto found = own->second.handles.find(handle);
  if (found == own->second.handles.end()) return;
  offers_.erase(found->second);
  own->second.handles.erase(found);
}

bool ShareBook::Knows(const Offer& offer) const {
  const auto own = own_.find(offer.owner.lock().get());
  if (own == own_.end() || offer.is_event()) return false;
  return offer.handle != 0 ? own->second.handles.contains(offer.handle)
                           : own->second.ranges.contains({offer.va, offer.bytes});
}

bool ShareBook::OffersHandle(const SessionMemory* owner, uint64_t handle) const {
  const auto own = own_.find(owner);
  return own != own_.end() && own->second.handles.contains(handle);
}

absl::Span<const ArenaRange> ShareBook::OfferedRanges(const SessionMemory* owner) const {
  const auto own = own_.find(owner);
  if (own == own_.end()) return {};
  std::optional<std::vector<ArenaRange>>& merged = own->second.merged;
  if (merged.has_value()) return *merged;
  merged.emplace();
  for (const auto& [range, token] : own->second.ranges) {
    const auto& [va, bytes] = range;
    if (merged->empty() || va > merged->back().base + merged->back().bytes) {
      merged->push_back({va, bytes});
    } else {
      ArenaRange& last = merged->back();
      last.bytes = std::max(last.bytes, va + bytes - last.base);
    }
  }
  return *merged;
}

void ShareBook::RemoveRange(const SessionMemory* owner, uint64_t va, uint64_t bytes) {
  const auto own = own_.find(owner);
  if (own == own_.end()) return;
  own->second.merged.reset();
  std::erase_if(own->second.ranges, [&](const auto& entry) {
    control_loop.AssertOnLoop();
    const auto& [range, token] = entry;
    if (range.first >= va + bytes || va >= range.first + range.second) return false;
    offers_.erase(token);
    return true;
  });
}

void ShareBook::RemoveAllOf(const SessionMemory* owner) {
  const auto own = own_.find(owner);
  if (own == own_.end()) return;
  for (const auto& [handle, token] : own->second.handles) offers_.erase(token);
  for (const auto& [range, token] : own->second.ranges) offers_.erase(token);
  for (const std::string& token : own->second.events) offers_.erase(token);
  own_.erase(own);
}

}  // namespace warpline::server
