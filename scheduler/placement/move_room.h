// The ids of what a pool has taken for leases on the move.
#ifndef WARPLINE_SCHEDULER_PLACEMENT_MOVE_ROOM_H_
#define WARPLINE_SCHEDULER_PLACEMENT_MOVE_ROOM_H_

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace warpline::placement {

// No lease has an id that begins with "#".
inline constexpr absl::string_view kMoveRoom = "#move.";

// Returns the id of the Allocation that is the room at the server to which a lease moves.
inline std::string MoveRoomOf(const std::string& lease) { return absl::StrCat(kMoveRoom, lease); }

inline bool IsMoveRoom(absl::string_view id) { return absl::StartsWith(id, kMoveRoom); }

}  // namespace warpline::placement

#endif  // WARPLINE_SCHEDULER_PLACEMENT_MOVE_ROOM_H_
