// The status with which a scheduler that does not lead answers, and which names the one that does.
// The address is in the status's refusal (proto/refusal.h); the text is for people.
#ifndef WARPLINE_PROTO_LEADER_HINT_H_
#define WARPLINE_PROTO_LEADER_HINT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace warpline {

// UNAVAILABLE: the scheduler that was asked does not lead. `leader` is the address of the one that
// does, or empty; `why` is said with it.
absl::Status AnotherScheduler(const std::string& leader, absl::string_view why = "");

// The leader's address in such a status that came from elsewhere; empty when it names none, or what
// it names is no address ("host:port").
std::string LeaderIn(const absl::Status& status);

}  // namespace warpline

#endif  // WARPLINE_PROTO_LEADER_HINT_H_
