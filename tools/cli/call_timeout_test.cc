#include "tools/cli/call_timeout.h"

#include <cstdlib>

#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

TEST(CallTimeoutTest, IsWhatTheVariableSays) {
  ASSERT_EQ(unsetenv("WARPLINE_CONNECT_TIMEOUT"), 0);
  EXPECT_EQ(CallTimeout(), absl::Seconds(5));
  for (const char* const none : {"", "soon", "-1", "0", "nan"}) {
    setenv("WARPLINE_CONNECT_TIMEOUT", none, 1);
    EXPECT_EQ(CallTimeout(), absl::Seconds(5)) << none;
  }
  setenv("WARPLINE_CONNECT_TIMEOUT", "0.25", 1);
  EXPECT_EQ(CallTimeout(), absl::Milliseconds(250));
}

}  // namespace
}  // namespace warpline::cli
