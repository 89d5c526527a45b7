#include "client_stub/session/memory/host_memory_link.h"

#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client_stub/session/testing/other_user.h"
#include "common/log/log_capture.h"
#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

constexpr char kHere[] = "127.0.0.1:1";
constexpr char kSecret[] = "the session's secret";

std::string Name() { return absl::StrCat("warpline-link-test-", getpid()); }

TEST(HostMemoryLinkTest, AServerOfThisUserIsAsked) {
  const UniqueFd listener = ListenAtName(geteuid(), Name());
  ASSERT_TRUE(listener.valid());
  std::string asked;
  std::thread server([&] {
    const UniqueFd taken(accept(listener.get(), nullptr, nullptr));
    char bytes[512];
    const ssize_t got = recv(taken.get(), bytes, sizeof(bytes), 0);
    if (got > 0) asked.assign(bytes, static_cast<size_t>(got));
    // The answer of a success has no fields.
    EXPECT_EQ(send(taken.get(), "", 1, 0), 1);
  });
  HostMemoryLink link(LocalServer(kHere), Name(), 7, kSecret);
  UniqueFd memory;
  std::string why;
  EXPECT_EQ(link.Request(HostSharing::kTake, 1 << 20, 4096, &memory, &why), CudaResult::kSuccess);
  server.join();
  EXPECT_NE(asked.find(kSecret), std::string::npos);
}

TEST(HostMemoryLinkTest, AnotherUserIsSentNothing) {
  if (!CanBeOthers()) GTEST_SKIP() << "this process cannot be another user";
  const UniqueFd listener = ListenAtName(kOtherUser, Name());
  ASSERT_TRUE(listener.valid());
  LogCapture log;
  HostMemoryLink link(LocalServer(kHere), Name(), 7, kSecret);
  UniqueFd memory;
  std::string why;
  EXPECT_EQ(link.Request(HostSharing::kTake, 1 << 20, 4096, &memory, &why),
            CudaResult::kNotSupported);
  EXPECT_EQ(link.Request(HostSharing::kTake, 1 << 20, 4096, &memory, &why),
            CudaResult::kNotSupported);
  EXPECT_EQ(log.LinesWith("no host memory is shared with the server: who listens at").size(), 1u);
  const UniqueFd taken(accept(listener.get(), nullptr, nullptr));
  char bytes[16];
  EXPECT_EQ(recv(taken.get(), bytes, sizeof(bytes), 0), 0) << "the connection ends without a word";
}

}  // namespace
}  // namespace warpline::stub
