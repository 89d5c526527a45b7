// Frame kinds of a session and the constants of its protocol.
//
//   client                                      server                      worker
//     kHello ------------------------------------> admits, starts worker
//     <---------------------------------- kWelcome
//     kCommands (numbered) ----------------------> passes on unparsed ------> decodes, executes
//     <--------------------------------- kReceived
//     <---------------------------------- kReplies <------------------------- replies, retirements
//     kMemoryRequest ----------------------------> books, keeper -----------> maps
//     <------------------------------ kMemoryGrant
//     kClose ------------------------------------> ends the session
//     <------------------------------------ kFault    (worker died, session revoked)
//     kReadBack ---------------------------------> after a fault: reads what is left of the memory
//     <----------------------------- kReadBackDone
#ifndef WARPLINE_PROTO_FRAMES_H_
#define WARPLINE_PROTO_FRAMES_H_

#include <cstdint>

namespace warpline {

inline constexpr uint32_t kProtocolVersion = 1;

// Feature bits of Hello and Welcome. None yet beyond version 1.
enum Feature : uint64_t { kFeatureNone = 0 };

enum FrameKind : uint32_t {
  // Client to server.
  kHello = 1,
  kCommands = 2,  // CommandsHeader, then `count` commands (proto/calls.toml).
  kMemoryRequest = 3,
  kMemoryReturn = 4,
  kClose = 5,
  kReadBack = 10,
  // Server to client.
  kWelcome = 16,
  kReceived = 17,  // ReceivedBody
  kReplies = 18,   // The worker's replies (proto/calls.toml), unparsed.
  kMemoryGrant = 19,
  kFault = 20,
  kReadBackDone = 26,
};

// Starts the payload of kCommands. Commands of a session are numbered from 1, without gaps.
struct CommandsHeader {
  uint64_t first_seq;
  uint32_t count;
  uint32_t reserved;  // 0
};
static_assert(sizeof(CommandsHeader) == 16);

// All commands up to and including `seq` have reached the worker's ring.
struct ReceivedBody {
  uint64_t seq;
};

// The largest kCommands payload; longer data is split by the client.
inline constexpr uint32_t kMaxCommandsPayload = 1u << 20;

// The largest piece of memory that one kReadBack may ask for: its answer is one frame.
inline constexpr uint64_t kMaxReadBack = 512u << 10;

// Smallest unit of physical memory.
inline constexpr uint64_t kChunkGranularity = 2ull << 20;

}  // namespace warpline

#endif  // WARPLINE_PROTO_FRAMES_H_
