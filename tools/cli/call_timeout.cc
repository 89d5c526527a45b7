#include "tools/cli/call_timeout.h"

#include <cstdlib>

#include "absl/strings/numbers.h"

namespace warpline::cli {

absl::Duration CallTimeout() {
  const char* const value = getenv("WARPLINE_CONNECT_TIMEOUT");
  double seconds = 0;
  if (value != nullptr && absl::SimpleAtod(value, &seconds) && seconds > 0) {
    return absl::Seconds(seconds);
  }
  return absl::Seconds(5);
}

}  // namespace warpline::cli
