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
//     <----------------------------------- kRefused   (memory that no frame asked for)
//     kAck --------------------------------------> forgets what the client has
//     kClose ------------------------------------> ends the session
//     <------------------------------------ kFault    (worker died, session revoked)
//     kReadBack ---------------------------------> after a fault: reads what is left of the memory
//     <----------------------------- kReadBackDone
//
// A scheduler answers kHello with kRedirect.
//
// A session outlives its connection (kFeatureResume). In each direction the frames that must arrive
// once and in order are counted, and kept until the other side has acknowledged them:
//
//   to the server   commands, by their numbers, and memory frames, which are counted apart;
//   to the client   kReplies, kMemoryGrant and kFault, counted together.
//
// On a new connection:
//
//     kResume (what the client has) -------------> finds the session, ends its former channel
//     <-------------------- kResumed (what the server has)
//     both send again what the other lacks, and go on
//
// A session may have bulk connections besides (kFeatureBulk). The bytes of large copies go through
// them, between the client and host memory of the session on the server's host. Several connections
// carry more than one, and each has a thread of the server's. Commands then copy between that
// memory and the device. Nothing here is counted or sent again: a client that loses a
// bulk connection copies in another way what was under way on it.
//
//     kBulkHello --------------------------------> finds the session, ends the slot's former
//     channel
//     <--------------------------------- kBulkReady
//     kBulkMemory -------------------------------> host memory at addresses that the client chose
//     <---------------------------- kBulkMemoryDone
//     kBulkPut (bytes) --------------------------> writes them there
//     <--------------------------------- kBulkTaken (of puts so far)
//     kBulkGet ----------------------------------> reads
//     <--------------------------------- kBulkBytes (in the order of gets)
//
// A session may go on over UCX where the operator allows it (kFeatureRelays). Each connection has a
// relay, a process of its own on the server's host, which passes frames on between UCX and the
// server:
//
//     kRelayAsk ----------------------------------> starts a relay
//     <-------------------------------------- kRelay (its address and its secret, or why there is
//     none)
//     kResume, at the relay ----------------------> as on any other connection
#ifndef WARPLINE_PROTO_FRAMES_H_
#define WARPLINE_PROTO_FRAMES_H_

#include <cstdint>

namespace warpline {

// Client and server each speak a range of versions, and use the newest one that both know. What a
// version added is used only where that version was agreed on: the table of calls says it for
// commands ([[version]]), and a client refuses to send one that the server does not know. Frames,
// and notices that no command asked for, are guarded by feature bits instead. The least version
// goes up when support for old peers is given up.
inline constexpr uint32_t kLeastProtocolVersion = 1;
inline constexpr uint32_t kProtocolVersion = 4;

// The newest version in both ranges; 0 when they do not overlap.
constexpr uint32_t AgreedVersion(uint32_t least, uint32_t newest) {
  const uint32_t version = newest < kProtocolVersion ? newest : kProtocolVersion;
  return version < kLeastProtocolVersion || version < least ? 0 : version;
}

// Feature bits of Hello and Welcome.
enum Feature : uint64_t {
  kFeatureNone = 0,
  // The session can be resumed on another connection.
  kFeatureResume = 1,
  // The client may ask for a module image by its hash (ImageFind) before it sends it.
  kFeatureModuleCache = 2,
  // Parts of images may come compressed (ImageZstd).
  kFeatureCompressedImages = 4,
  // The server says why memory was refused to a command (kRefused).
  kFeatureRefusals = 8,
  // The worker also reports what is complete on a board in shared memory (transport/shm_board.h),
  // which a client on the same host asks for where it asks for host memory.
  kFeatureBoard = 16,
  // The session may have bulk connections.
  kFeatureBulk = 32,
  // The session may ask for relays.
  kFeatureRelays = 64,
  // Host memory may outlive the session (HostMemoryRequest.outlives).
  kFeatureOutlives = 128,
  // The session's kernels are guarded as Hello.guard asks.
  kFeatureGuard = 256,
  // The session is of the tier that Hello.tier asks for.
  kFeatureTiers = 512,
  // The client follows a session that has moved to another server.
  kFeatureMoves = 1024,
};

enum FrameKind : uint32_t {
  // Client to server, from 1.
  kHello = 1,
  kCommands = 2,  // CommandsHeader, then `count` commands (proto/calls.toml).
  kMemoryRequest = 3,
  kMemoryReturn = 4,
  kClose = 5,
  kAck = 6,     // AckBody.
  kResume = 7,  // Resume; the first frame on another connection of a session.
  kReadBack = 8,
  kBulkHello = 9,    // BulkHello; the first frame on a bulk connection.
  kBulkMemory = 10,  // HostMemoryRequest, without the session and its secret.
  kBulkPut = 11,     // BulkHeader, then the bytes.
  kBulkGet = 12,     // BulkHeader.
  kRelayAsk = 13,    // Empty.
  // From a server whose sessions move to this one.
  kMove = 14,       // MoveHello; the first frame.
  kMoveBytes = 15,  // Bytes of the sessions (server/gpu_server/moves).
  // Server to client, from 16.
  kWelcome = 16,
  kReceived = 17,  // ReceivedBody.
  kReplies = 18,   // The worker's replies (proto/calls.toml), unparsed.
  kMemoryGrant = 19,
  kFault = 20,
  kResumed = 21,  // ResumedBody; the answer to kResume.
  kReadBackDone = 22,
  kRedirect = 23,
  kRefused = 24,
  kBulkReady = 25,       // Empty.
  kBulkMemoryDone = 26,  // HostMemoryAnswer.
  kBulkTaken = 27,       // BulkTakenBody.
  kBulkBytes = 28,       // The bytes.
  kRelay = 29,           // Relay.
  kMoveDone = 30,        // The lease's token: the sessions are this server's.
};

// The key of the completion board under which the whole session is reported; the other keys are
// streams.
inline constexpr uint64_t kWholeSession = ~uint64_t{0};

// The commands that say that a host function has run (HostDone) may go beyond
// Welcome.window_commands by so many: what fills the window may wait for them.
inline constexpr uint64_t kHostDoneWindow = 64;

// Starts the payload of kCommands. The commands of a session are numbered from 1, without gaps.
struct CommandsHeader {
  uint64_t first_seq;
  uint32_t count;
  // The lower half of what an AckBody would say, so that most acknowledgements travel for free. It
  // is 0 without kFeatureResume, and on the way from the server to the worker.
  uint32_t acked;
};
static_assert(sizeof(CommandsHeader) == 16);

// Says that all commands up to and including `seq` have reached the worker's ring, and that
// `controls` memory frames have been taken.
struct ReceivedBody {
  uint64_t seq;
  uint64_t controls;
};
static_assert(sizeof(ReceivedBody) == 16);

// Says how many of the server's counted frames the client has handled.
struct AckBody {
  uint64_t frames;
};

// Says the same as ReceivedBody, for the moment of the resumption.
using ResumedBody = ReceivedBody;

// A place in the session's host memory.
struct BulkHeader {
  uint64_t va;
  uint64_t bytes;
};
static_assert(sizeof(BulkHeader) == 16);

// Says how many puts of this connection have been written.
struct BulkTakenBody {
  uint64_t puts;
};

// Bulk connections that a session may have at a time, each in a slot of its own.
inline constexpr uint32_t kMaxBulkConnections = 4;
// The most bytes of one put or get.
inline constexpr uint64_t kMaxBulkPiece = 512u << 10;

// Whether a frame of the server is counted.
constexpr bool IsCountedToClient(uint32_t kind) {
  return kind == kReplies || kind == kMemoryGrant || kind == kFault;
}

// Whether a frame of the client is counted; commands are counted apart.
constexpr bool IsCountedControl(uint32_t kind) {
  return kind == kMemoryRequest || kind == kMemoryReturn;
}

// A client acknowledges after this many bytes or frames at the latest, whichever comes first.
inline constexpr uint64_t kAckBytes = 1u << 20;
inline constexpr uint64_t kAckFrames = 1024;

// The largest kCommands payload; the client splits longer data.
inline constexpr uint32_t kMaxCommandsPayload = 1u << 20;

// The largest piece of memory that one kReadBack may ask for, since its answer is one frame.
inline constexpr uint64_t kMaxReadBack = 512u << 10;

// The most tokens of shared events that one request takes back (ShareMemory.withdrawn).
inline constexpr int kMostWithdrawn = 1024;

// Module images from this size on are asked for by hash, and are kept.
inline constexpr uint64_t kMinCachedImage = 16u << 10;

// The most bytes that a compressed part of an image may expand to.
inline constexpr uint64_t kMaxImagePart = 1u << 20;
// The most bytes that may lie before the first allocation of a device to take stray accesses
// (OpenWorker.sink_bytes).
inline constexpr uint64_t kMostSinkBytes = 64u << 20;

// Host memory that a client and a worker of one host share lies at the same addresses in both, in a
// range that arenas do not use and where systems and sanitizers place nothing by themselves.
inline constexpr uint64_t kHostArenaBase = 0x500000000000;
inline constexpr uint64_t kHostArenaBytes = 1ull << 40;
inline constexpr uint64_t kHostPageBytes = 4096;
constexpr bool InHostArena(uint64_t address) { return address - kHostArenaBase < kHostArenaBytes; }

// The smallest unit of physical memory.
inline constexpr uint64_t kChunkGranularity = 2ull << 20;

}  // namespace warpline

#endif  // WARPLINE_PROTO_FRAMES_H_
