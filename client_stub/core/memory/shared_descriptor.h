// Descriptors that stand for memory that a session offers: real ones, which travel between
// processes as any descriptor does.
//
// Each is one end of a pair of sockets that holds the offer's token. Every process that gets a copy
// can read the token without removing it. The process that made the pair keeps the other end, on
// which it sees when the last copy has been closed.
#ifndef WARPLINE_CLIENT_STUB_CORE_MEMORY_SHARED_DESCRIPTOR_H_
#define WARPLINE_CLIENT_STUB_CORE_MEMORY_SHARED_DESCRIPTOR_H_

#include <array>
#include <cstdint>
#include <string>

#include "client_stub/session/session_terms.h"
#include "common/unique_fd.h"

namespace warpline::stub {

// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
inline constexpr uint64_t kPosixDescriptor = 1;

struct SharedDescriptor {
  enum class Kind : uint32_t { kMemory = 1, kPool = 2 };
  Kind kind = Kind::kMemory;
  std::string token;   // 16 bytes.
  uint64_t bytes = 0;  // For kMemory.
  // The UUID of the device whose memory it is; other sessions may number the device differently.
  std::array<uint8_t, 16> device = {};
};

// Finds the session's number of the device with that UUID. Returns false, with a line in the log,
// where the session has no such device: its memory cannot be opened.
bool FindDeviceOf(const SessionTerms& terms, const std::array<uint8_t, 16>& uuid, uint32_t* device);

// Makes a pair: `*end` is ours, `*descriptor` the application's. Returns false when the system has
// no descriptors left.
bool MakeSharedDescriptor(const SharedDescriptor& what, UniqueFd* end, UniqueFd* descriptor);
// Reads what a descriptor stands for. Returns false for any other descriptor, or none.
bool ReadSharedDescriptor(int descriptor, SharedDescriptor* what);
// Returns true when no open copy is left of the descriptor whose other end is `end`.
bool NobodyHolds(int end);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MEMORY_SHARED_DESCRIPTOR_H_
