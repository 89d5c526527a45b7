#include "client_stub/arena/testing/fake_session.h"

namespace warpline::stub {

FakeSession::FakeSession(uint64_t quota, uint64_t initial_bytes, uint64_t arena_bytes,
                         uint32_t devices)
    : FakeWork(&counters_), FakeGrants(&terms_, this, &counters_) {
  SetParts({.terms = &terms_,
            .commands = this,
            .status = this,
            .memory = this,
            .notices = this,
            .counters = &counters_});
  terms_.arena_base = kArenaBase;
  terms_.arena_bytes = arena_bytes;
  terms_.devices.resize(devices);
  for (RemoteDevice& device : terms_.devices) device.total_bytes = quota;
  if (initial_bytes != 0) terms_.initial_grant = {kArenaBase + kArenaMargin, initial_bytes};
  Begin(quota * devices);
}

}  // namespace warpline::stub
