#include "transport/tls/tls_end.h"

#include <sys/socket.h>

#include <memory>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

constexpr char kSecret[] = "0123456789abcdef";

std::pair<std::unique_ptr<TlsEnd>, std::unique_ptr<TlsEnd>> Ends() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  auto one = *TlsStream::Create(UniqueFd(fds[0]), TlsStream::Role::kConnects, kSecret);
  auto other = *TlsStream::Create(UniqueFd(fds[1]), TlsStream::Role::kAccepts, kSecret);
  const absl::Time until = absl::Now() + absl::Seconds(60);
  std::thread thread([&] { EXPECT_TRUE(other->AwaitHandshake(until).ok()); });
  EXPECT_TRUE(one->AwaitHandshake(until).ok());
  thread.join();
  return {*TlsEnd::Create(std::move(one)), *TlsEnd::Create(std::move(other))};
}

// The other end's last word counts, though nothing reaches that end any more.
TEST(TlsEndTest, TheLastWordIsHeardAfterASendThatFails) {
  const LoopScope scope(&channel_loop);
  auto [one, other] = Ends();
  other->Put({.kind = 7, .payload = "before"});
  other->PutEnd(absl::PermissionDeniedError("no"));
  std::thread gone([other = std::move(other)]() mutable { other = nullptr; });
  for (int i = 0; i < 100; ++i) {
    if (one->HasRoom()) one->Put({.kind = 1, .payload = std::string(100'000, 'x')});
  }
  Frame frame;
  absl::Status why;
  EXPECT_EQ(one->Take(&frame, &why), LinkEnd::Taken::kFrame);
  EXPECT_EQ(frame.payload, "before");
  EXPECT_EQ(one->Take(&frame, &why), LinkEnd::Taken::kEnd);
  EXPECT_TRUE(absl::IsPermissionDenied(why));
  one->Break();
  gone.join();
}

}  // namespace
}  // namespace warpline
