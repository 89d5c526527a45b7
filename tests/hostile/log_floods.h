// What a client can repeat for which a server writes a log line.
#ifndef WARPLINE_TESTS_HOSTILE_LOG_FLOODS_H_
#define WARPLINE_TESTS_HOSTILE_LOG_FLOODS_H_

#include <string>

#include "absl/status/status.h"

namespace warpline::hostile {

// Repeats `what` `count` times, as fast as it goes.
//
// `commands`: one session of so many one-way commands that are all refused; ends when the server
// has executed the last one. `strangers`: so many first messages that make no sense. `hellos`: so
// many that ask for a device that there is not. `resumptions`: a session that loses its connection
// and comes back so many times. `sessions`: so many that open and close in order.
//
// OK when the server answered each as it should; INVALID_ARGUMENT for anything else.
absl::Status Flood(const std::string& endpoint, const std::string& what, int count);

}  // namespace warpline::hostile

#endif  // WARPLINE_TESTS_HOSTILE_LOG_FLOODS_H_
