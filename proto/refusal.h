// Why a server opens no session, where the client can do something about it: a payload of the
// status that the stream ends with. Servers and clients that do not know it go by the status alone.
#ifndef WARPLINE_PROTO_REFUSAL_H_
#define WARPLINE_PROTO_REFUSAL_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/session.pb.h"

namespace warpline {

// The payload's name. Transports carry it from server to client, up to so many bytes.
inline constexpr char kRefusalPayload[] = "warpline/refusal";
inline constexpr size_t kMaxRefusalBytes = 256;

// The worker cannot have the addresses of the client's arena; another arena may do. `why` is for
// people. Clients without typed refusals try another arena after ABORTED and FAILED_PRECONDITION
// with a text that names the arena, so the statuses about arenas are like that.
absl::Status ArenaUnavailable(absl::string_view why);

// The client's arena is larger than the server's `most_bytes`.
absl::Status ArenaTooLarge(uint64_t bytes, uint64_t most_bytes);

// There are as many sessions as `message` says that there may be.
absl::Status NoRoom(absl::string_view message);

// What `status` says to programs. The reason is UNSPECIFIED where it says nothing, and may be one
// that a newer peer knows.
warpline_internal::Refusal RefusalOf(const absl::Status& status);

}  // namespace warpline

#endif  // WARPLINE_PROTO_REFUSAL_H_
