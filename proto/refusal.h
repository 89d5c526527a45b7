// Tells a client why a session or a call is refused, where the client can do something about it. A
// refusal is a payload of the status that the stream or the call ends with. Peers that do not know
// it go by the status's code alone; the text is for people.
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
inline constexpr size_t kMaxRefusalBytes = 512;

// The worker cannot have the addresses of the client's arena, but another arena may do. `why` is
// for people.
absl::Status ArenaUnavailable(absl::string_view why);

// The client's arena is larger than the server's `most_bytes`.
absl::Status ArenaTooLarge(uint64_t bytes, uint64_t most_bytes);

// There are already as many sessions as may be; `message` says how many.
absl::Status NoRoom(absl::string_view message);

// `status`, which says why a session cannot be of the tier that it asks for, as such a refusal.
// Whoever has the tier chosen for them (TierChoice::kAuto) then asks for another.
absl::Status TierRefused(absl::Status status);

// UNAVAILABLE: the scheduler has no server that is up and has a device. `message` is for people.
absl::Status NoServer(absl::string_view message);

// Returns `status` with the refusal as its payload.
absl::Status WithRefusal(absl::Status status, const warpline_internal::Refusal& refusal);

// The reason that `status` carries for programs. It is UNSPECIFIED when there is none, and may be
// one that only a newer peer knows.
warpline_internal::Refusal RefusalOf(const absl::Status& status);

}  // namespace warpline

#endif  // WARPLINE_PROTO_REFUSAL_H_
