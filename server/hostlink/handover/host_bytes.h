// Host memory that a session takes of the server and its worker, and what of it is charged.
#ifndef WARPLINE_SERVER_HOSTLINK_HANDOVER_HOST_BYTES_H_
#define WARPLINE_SERVER_HOSTLINK_HANDOVER_HOST_BYTES_H_

#include <cstdint>

namespace warpline {

// What each session may have without asking for it: of module images and the journal together, and
// of commands that wait in its worker, which is twice what a client's window lets it send. The
// server counts this for a session from its start, beside the rings and the frames that it keeps.
inline constexpr uint64_t kFreeImageBytes = 16u << 20;
inline constexpr uint64_t kFreeQueuedBytes = 32u << 20;
// The rings of its connection, where that is through shared memory (transport/shm).
inline constexpr uint64_t kConnectionBytes = 8u << 20;

// In place of a device's number in ChargeMemory and UnchargeMemory: host memory.
inline constexpr uint32_t kHostMemoryNumber = ~uint32_t{0};

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_HANDOVER_HOST_BYTES_H_
