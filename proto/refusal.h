// Tells a client why a server opens no session, where the client can do something about it. A
// refusal is a payload of the status that the stream ends with. Servers and clients that do not
// know it go by the status alone.
#ifndef WARPLINE_PROTO_REFUSAL_H_
#define WARPLINE_PROTO_REFUSAL_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/session.pb.h"

namespace warpline {

// The payload's name. Transports carry the payload from server to client, up to kMaxRefusalBytes.
inline constexpr char kRefusalPayload[] = "warpline/refusal";
inline constexpr size_t kMaxRefusalBytes = 256;

// The worker cannot have the addresses of the client's arena, but another arena may do. `why` is
// for people. Clients without typed refusals try another arena after ABORTED, and after
// FAILED_PRECONDITION with a text that names the arena; the statuses about arenas keep to that.
absl::Status ArenaUnavailable(absl::string_view why);

// The client's arena is larger than the server's `most_bytes`.
absl::Status ArenaTooLarge(uint64_t bytes, uint64_t most_bytes);

// There are already as many sessions as may be; `message` says how many.
absl::Status NoRoom(absl::string_view message);

// `status`, which says why a session cannot be of the tier that it asks for, as such a refusal.
// Whoever has the tier chosen for them (TierChoice::kAuto) then asks for another.
absl::Status TierRefused(absl::Status status);

// The reason that `status` carries for programs. It is UNSPECIFIED when there is none, and may be
// one that only a newer peer knows.
warpline_internal::Refusal RefusalOf(const absl::Status& status);

}  // namespace warpline

#endif  // WARPLINE_PROTO_REFUSAL_H_
