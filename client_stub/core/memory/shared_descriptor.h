// Descriptors that stand for memory which a session offers: real ones, which travel between
// processes as any descriptor does.
//
// Each is one end of a pair of sockets, in which the offer's token lies and from which every
// process that gets it can read without taking it. The process that made it keeps the other end and
// sees there when no copy is open any more.
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
  uint64_t bytes = 0;  // Of memory.
  // The UUID of the device whose memory it is: other sessions may number it otherwise.
  std::array<uint8_t, 16> device = {};
};

// The session's number of the device with that UUID. False, with a line in the log, where it has
// none: its memory cannot be opened.
bool FindDeviceOf(const SessionTerms& terms, const std::array<uint8_t, 16>& uuid, uint32_t* device);

// `*end` is ours, `*descriptor` the application's. False when the system has none left.
bool MakeSharedDescriptor(const SharedDescriptor& what, UniqueFd* end, UniqueFd* descriptor);
// False for any other descriptor, or none.
bool ReadSharedDescriptor(int descriptor, SharedDescriptor* what);
// True when no copy of the descriptor whose other end this is can be used any more.
bool NobodyHolds(int end);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MEMORY_SHARED_DESCRIPTOR_H_
