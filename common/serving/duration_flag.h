// A duration on the command line ("60s", "1h30m"), for ABSL_FLAG.
#ifndef WARPLINE_COMMON_SERVING_DURATION_FLAG_H_
#define WARPLINE_COMMON_SERVING_DURATION_FLAG_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace warpline {

// The duration is one word, so that Abseil keeps it in an atomic: a flag of absl::Duration itself
// is read with a fence, which ThreadSanitizer does not know and gcc refuses to compile for it.
struct DurationFlag {
  DurationFlag() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a flag's default is written as a duration.
  DurationFlag(absl::Duration duration) : ns(absl::ToInt64Nanoseconds(duration)) {}

  absl::Duration get() const { return absl::Nanoseconds(ns); }

  int64_t ns = 0;
};

bool AbslParseFlag(absl::string_view text, DurationFlag* duration, std::string* error);
std::string AbslUnparseFlag(DurationFlag duration);

}  // namespace warpline

#endif  // WARPLINE_COMMON_SERVING_DURATION_FLAG_H_
