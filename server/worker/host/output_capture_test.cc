#include "server/worker/host/output_capture.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>

#include "common/log/log.h"
#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

// Runs `body`, which replaces the standard descriptors, in a process of its own. Returns true if
// `body` returns true.
template <typename Body>
bool InChild(const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

std::map<int, std::string> CollectAll(OutputCapture* capture) {
  std::map<int, std::string> texts;
  capture->Collect(true, [&](int descriptor, std::string_view text) { texts[descriptor] += text; });
  return texts;
}

TEST(OutputCaptureTest, PassesEachTextOnOnceWithItsDescriptor) {
  EXPECT_TRUE(InChild([] {
    auto capture = OutputCapture::Install();
    if (!capture.ok()) return false;
    printf("one ");
    if (write(1, "two", 3) != 3) return false;
    fprintf(stderr, "three");
    const auto texts = CollectAll(capture->get());
    // Text that stdio held back was written after text that went past it.
    if (texts != std::map<int, std::string>{{1, "twoone "}, {2, "three"}}) return false;
    if (!CollectAll(capture->get()).empty()) return false;
    printf("four");
    return CollectAll(capture->get()) == std::map<int, std::string>{{1, "four"}};
  }));
}

TEST(OutputCaptureTest, TheLogStaysWhereItWas) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_TRUE(InChild([&] {
    dup2(ends[1], 2);
    auto capture = OutputCapture::Install();
    if (!capture.ok()) return false;
    LogInfo("for the operator");
    return CollectAll(capture->get()).empty();
  }));
  char line[256] = {};
  ASSERT_GT(read(ends[0], line, sizeof(line) - 1), 0);
  EXPECT_NE(std::string(line).find("for the operator"), std::string::npos);
}

TEST(OutputCaptureTest, AFloodIsCutOffAndLaterTextArrives) {
  EXPECT_TRUE(InChild([] {
    auto capture = OutputCapture::Install();
    if (!capture.ok()) return false;
    const std::string line(1 << 20, 'x');
    for (int i = 0; i < 40; ++i) {
      if (write(1, line.data(), line.size()) < 0) break;
    }
    const size_t kept = CollectAll(capture->get())[1].size();
    if (kept < static_cast<size_t>(OutputCapture::kMaxPending) ||
        kept > 2 * static_cast<size_t>(OutputCapture::kMaxPending)) {
      return false;
    }
    if (write(1, "later", 5) != 5) return false;
    return CollectAll(capture->get())[1] == "later";
  }));
}

}  // namespace
}  // namespace warpline::worker
