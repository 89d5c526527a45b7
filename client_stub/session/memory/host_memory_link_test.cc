#include "client_stub/session/memory/host_memory_link.h"

#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client_stub/session/testing/other_user.h"
#include "common/log/log_capture.h"
#include "common/packets/packet_socket.h"
#include "common/sealed_memory.h"
#include "gtest/gtest.h"
#include "proto/session.pb.h"

namespace warpline::stub {
namespace {

using warpline_internal::HostMemoryAnswer;
using warpline_internal::HostMemoryRequest;

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
  HostMemoryLink link({LocalServer(kHere), Name(), 7, kSecret});
  UniqueFd memory;
  std::string why;
  EXPECT_EQ(link.Request(HostSharing::kTake, 1 << 20, 4096, &memory, &why), CudaResult::kSuccess);
  server.join();
  EXPECT_NE(asked.find(kSecret), std::string::npos);
}

// A server that answers requests with success, and notes what it is handed.
class Server {
 public:
  Server() : listener_(ListenAtName(geteuid(), Name())) {}

  void Accept() { client_ = UniqueFd(accept(listener_.get(), nullptr, nullptr)); }
  HostMemoryRequest Receive(std::vector<UniqueFd>* fds = nullptr) {
    HostMemoryRequest request;
    EXPECT_TRUE(ReceivePacket(client_.get(), &request, fds).ok());
    return request;
  }
  void Answer(CudaResult result = CudaResult::kSuccess) {
    HostMemoryAnswer answer;
    answer.set_error(static_cast<int>(result));
    EXPECT_TRUE(SendPacket(client_.get(), answer, {}).ok());
  }
  // Gives the client memory for the next server.
  void Give(uint64_t va, int fd) {
    HostMemoryAnswer answer;
    answer.add_kept()->set_va(va);
    answer.mutable_kept(0)->set_bytes(4096);
    EXPECT_TRUE(SendPacket(client_.get(), answer, {&fd, 1}).ok());
  }
  void End() { client_ = UniqueFd(); }

 private:
  const UniqueFd listener_;
  UniqueFd client_;
};

HostMemoryLink::Place Here() { return {LocalServer(kHere), Name(), 7, kSecret}; }

CudaResult Take(HostMemoryLink* link, uint64_t va) {
  UniqueFd memory;
  std::string why;
  return link->Request(HostSharing::kTake, va, 4096, &memory, &why);
}

TEST(HostMemoryLinkTest, TheNextServerGetsWhatTheFormerOneSharedAndThenTheRequest) {
  const UniqueFd memory = *NewSealedMemory("given", 4096);
  HostMemoryLink link(Here());
  EXPECT_TRUE(link.HandOver().ok()) << "there is nothing yet";
  std::optional<Server> server(std::in_place);
  std::thread program([&link] {
    EXPECT_EQ(Take(&link, 1 << 20), CudaResult::kSuccess);
    EXPECT_EQ(Take(&link, 2 << 20), CudaResult::kSuccess) << "the next server answers it";
  });
  server->Accept();
  server->Receive();
  server->Answer();
  server->Receive();
  server->Give(1 << 20, memory.get());
  server.reset();
  // The redialer tries again and again, as it does for the session's own connection.
  while (!absl::IsUnavailable(link.HandOver())) std::this_thread::yield();
  EXPECT_TRUE(absl::IsUnavailable(link.HandOver())) << "no server listens";
  server.emplace();
  std::thread redialer([&link] { EXPECT_TRUE(link.HandOver().ok()); });
  server->Accept();
  std::vector<UniqueFd> fds;
  const HostMemoryRequest handed = server->Receive(&fds);
  ASSERT_EQ(handed.kept_size(), 1);
  EXPECT_EQ(handed.kept(0).va(), uint64_t{1} << 20);
  EXPECT_EQ(handed.secret(), kSecret);
  ASSERT_EQ(fds.size(), 1u);
  EXPECT_EQ(*SealedBytes(fds[0].get()), 4096u);
  server->Answer();
  redialer.join();
  EXPECT_EQ(server->Receive().va(), uint64_t{2} << 20);
  server->Answer();
  program.join();
}

TEST(HostMemoryLinkTest, MemoryThatTheNextServerRefusesEndsTheSession) {
  const UniqueFd memory = *NewSealedMemory("given", 4096);
  HostMemoryLink link(Here());
  std::optional<Server> server(std::in_place);
  std::thread program([&link] { EXPECT_EQ(Take(&link, 1 << 20), CudaResult::kSuccess); });
  server->Accept();
  server->Receive();
  server->Answer();
  program.join();
  server->Give(1 << 20, memory.get());
  server.reset();
  server.emplace();
  std::thread redialer([&link] { EXPECT_TRUE(absl::IsFailedPrecondition(link.HandOver())); });
  server->Accept();
  server->Receive();
  server->Answer(CudaResult::kOutOfMemory);
  redialer.join();
}

TEST(HostMemoryLinkTest, AServerThatGoesOnItselfIsAskedAsBefore) {
  const UniqueFd memory = *NewSealedMemory("given", 4096);
  HostMemoryLink link(Here());
  Server server;
  std::thread program([&link] {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Take(&link, 1 << 20), CudaResult::kSuccess);
  });
  server.Accept();
  for (int i = 0; i < 3; ++i) {
    server.Receive();
    server.Give(1 << 20, memory.get());
    EXPECT_TRUE(link.HandOver().ok());
    server.Answer();
  }
  program.join();
}

TEST(HostMemoryLinkTest, ARequestEndsWithItsSession) {
  HostMemoryLink link(Here());
  std::optional<Server> server(std::in_place);
  std::thread program([&link] { EXPECT_EQ(Take(&link, 1 << 20), CudaResult::kNotSupported); });
  server->Accept();
  server->Receive();
  server.reset();
  link.Lose();
  program.join();
  EXPECT_EQ(Take(&link, 1 << 20), CudaResult::kNotSupported);
}

TEST(HostMemoryLinkTest, AnotherUserIsSentNothing) {
  if (!CanBeOthers()) GTEST_SKIP() << "this process cannot be another user";
  const UniqueFd listener = ListenAtName(kOtherUser, Name());
  ASSERT_TRUE(listener.valid());
  LogCapture log;
  HostMemoryLink link({LocalServer(kHere), Name(), 7, kSecret});
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
