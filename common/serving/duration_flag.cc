#include "common/serving/duration_flag.h"

namespace warpline {

bool AbslParseFlag(absl::string_view text, DurationFlag* duration, std::string* error) {
  absl::Duration parsed;
  if (!absl::ParseDuration(text, &parsed)) {
    *error = "expected a duration such as 90s, 1h30m or 100ms";
    return false;
  }
  *duration = DurationFlag(parsed);
  return true;
}

std::string AbslUnparseFlag(DurationFlag duration) { return absl::FormatDuration(duration.get()); }

}  // namespace warpline
