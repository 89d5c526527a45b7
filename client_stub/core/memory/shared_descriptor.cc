#include "client_stub/core/memory/shared_descriptor.h"

#include <poll.h>
#include <sys/socket.h>

#include <cstring>

#include "client_stub/core/base/call_log.h"

namespace warpline::stub {
namespace {

constexpr size_t kTokenBytes = 16;
constexpr char kMagic[8] = {'W', 'a', 'r', 'p', 'l', 'i', 'n', 'e'};

struct Content {
  char magic[sizeof(kMagic)];
  char token[kTokenBytes];
  uint64_t bytes;
  uint32_t kind;
  uint32_t reserved;
  std::array<uint8_t, 16> device;
};
static_assert(sizeof(Content) == 56);

}  // namespace

bool MakeSharedDescriptor(const SharedDescriptor& what, UniqueFd* end, UniqueFd* descriptor) {
  int pair[2];
  if (what.token.size() != kTokenBytes ||
      socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return false;
  }
  *end = UniqueFd(pair[0]);
  *descriptor = UniqueFd(pair[1]);
  Content content = {};
  std::memcpy(content.magic, kMagic, sizeof(kMagic));
  std::memcpy(content.token, what.token.data(), kTokenBytes);
  content.bytes = what.bytes;
  content.kind = static_cast<uint32_t>(what.kind);
  content.device = what.device;
  return send(pair[0], &content, sizeof(content), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof(content));
}

bool ReadSharedDescriptor(int descriptor, SharedDescriptor* what) {
  Content content;
  // With MSG_TRUNC, recv() returns the full length of a longer packet.
  if (recv(descriptor, &content, sizeof(content), MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC) !=
          static_cast<ssize_t>(sizeof(content)) ||
      std::memcmp(content.magic, kMagic, sizeof(kMagic)) != 0) {
    return false;
  }
  what->kind = static_cast<SharedDescriptor::Kind>(content.kind);
  what->token.assign(content.token, kTokenBytes);
  what->bytes = content.bytes;
  what->device = content.device;
  return true;
}

bool FindDeviceOf(const SessionTerms& terms, const std::array<uint8_t, 16>& uuid,
                  uint32_t* device) {
  for (uint32_t i = 0; i < terms.devices.size(); ++i) {
    if (terms.device(i).uuid != uuid) continue;
    *device = i;
    return true;
  }
  if (const LogPermit permit = CallLog().Ask(kForeignDeviceLine)) {
    permit.Warning("another process shares memory of a device that this session does not have");
  }
  return false;
}

bool NobodyHolds(int end) {
  pollfd entry = {end, 0, 0};
  return poll(&entry, 1, 0) == 1 && (entry.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace warpline::stub
