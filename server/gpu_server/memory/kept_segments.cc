#include "server/gpu_server/memory/kept_segments.h"

#include <utility>

#include "common/sealed_memory.h"

namespace warpline::server {

void HostSegment::Empty() { EmptyMemory(fd.get(), bytes); }

void KeptSegments::Add(uint64_t va, HostSegment segment) { segments_[va] = std::move(segment); }

bool KeptSegments::GiveBack(uint64_t va, uint64_t bytes) {
  const auto found = segments_.find(va);
  if (found == segments_.end() || found->second.bytes != bytes) return false;
  found->second.Empty();
  segments_.erase(found);
  return true;
}

void KeptSegments::EmptyAll() {
  for (auto& [va, segment] : segments_) segment.Empty();
  segments_.clear();
}

}  // namespace warpline::server
