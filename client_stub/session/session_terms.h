// The terms that client and server agreed on when the session was opened. They do not change
// afterwards.
#ifndef WARPLINE_CLIENT_STUB_SESSION_SESSION_TERMS_H_
#define WARPLINE_CLIENT_STUB_SESSION_SESSION_TERMS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/frames.h"

namespace warpline::stub {

// Device memory keeps this distance from either end of each device's part of the arena. The server
// makes the worker map the distance before the first allocation to a sink, so that programs that
// access a little before that allocation do no harm.
inline constexpr uint64_t kArenaMargin = 8ull << 20;

// The server's description of one of the session's devices.
struct RemoteDevice {
  std::string name;
  std::array<uint8_t, 16> uuid{};
  uint64_t total_bytes = 0;     // The session's quota.
  uint64_t resident_bytes = 0;  // The part of it that may be on the device at a time; 0 for all.
  // Returns what the application sees as the device's memory.
  uint64_t ShownBytes() const {
    return resident_bytes == 0 || resident_bytes > total_bytes ? total_bytes : resident_bytes;
  }
  int driver_version = 0;
  int least_stream_priority = 0;
  int greatest_stream_priority = 0;
  std::string pci_bus_id;
  std::array<int, 256> attributes{};  // By CUdevice_attribute; 0 where the server knows none.
  uint32_t peers = 0;  // One bit for each other device of the session whose memory it can access.
};

// Memory that the server backed: [va, va + bytes) in the arena.
struct Grant {
  uint64_t va = 0;
  uint64_t bytes = 0;
};

struct SessionTerms {
  std::vector<RemoteDevice> devices;  // At least one; indexed by number (proto/devices.h).
  uint64_t arena_base = 0;
  uint64_t arena_bytes = 0;
  Grant initial_grant;       // A grant of the first device's memory.
  uint64_t features = 0;     // Those that both have (proto/frames.h, Feature).
  uint64_t max_streams = 0;  // 0 from a server that does not tell.
  uint64_t max_handles = 0;  // Of all kinds together; 0 likewise.
  bool same_host = true;     // No network lies between client and server.

  // Whether the session is of the guarded tier, in which it has all its memory from the start.
  bool HasAllMemory() const { return (features & kFeatureTiers) != 0; }
  // Whether the server says by itself why it refused memory.
  bool TellsRefusals() const { return (features & kFeatureRefusals) != 0; }
  const RemoteDevice& device(uint32_t number = 0) const { return devices[number]; }
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_SESSION_TERMS_H_
