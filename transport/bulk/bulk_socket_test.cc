#include "transport/bulk/bulk_socket.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "transport/tcp/socket_address.h"
#include "transport/tls/tls_address.h"
#include "transport/tls/tls_hello.h"
#include "transport/tls/tls_stream.h"

namespace warpline {
namespace {

constexpr size_t kMuch = 16u << 20;  // More than a connection holds by itself.

std::string Pattern(size_t bytes) {
  std::string pattern(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<char>(i * 31 + (i >> 12));
  return pattern;
}

constexpr char kSecret[] = "0123456789abcdef";
constexpr uint32_t kSlot = 3;

absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

// In plain text, or with TLS.
class BulkSocketTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const auto any = SocketAddress::Of("127.0.0.1", 0);
    ASSERT_TRUE(any.ok());
    listener_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(listener_.get(), any->get(), any->size()), 0);
    ASSERT_EQ(listen(listener_.get(), 4), 0);
    const auto bound = SocketAddress::OfSocket(listener_.get());
    ASSERT_TRUE(bound.ok());
    std::thread server([&] { Accept(); });
    auto client =
        BulkSocket::Connect(GetParam() ? TlsAddress(bound->ToString()) : bound->ToString(), kSecret,
                            kSlot, Soon(), BulkSocket::Unreachable::kTouch);
    server.join();
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  // Takes the connection, and its hello.
  void Accept() {
    UniqueFd fd(accept(listener_.get(), nullptr, nullptr));
    constexpr auto kRefuse = BulkSocket::Unreachable::kRefuse;
    if (!GetParam()) {
      server_ = std::make_unique<BulkSocket>(std::move(fd), kRefuse);
      BulkSocketHello hello;
      ASSERT_TRUE(server_->Receive(&hello, sizeof(hello)).ok());
      EXPECT_EQ(std::string(hello.secret, sizeof(hello.secret)), kSecret);
      EXPECT_EQ(hello.slot, kSlot);
      return;
    }
    auto stream = TlsStream::Create(std::move(fd), TlsStream::Role::kAccepts, kSecret);
    ASSERT_TRUE(stream.ok());
    ASSERT_EQ((*stream)->AwaitHandshake(Soon()), absl::OkStatus());
    server_ = std::make_unique<BulkSocket>(*std::move(stream), kRefuse);
    TlsHello hello;
    ASSERT_TRUE(server_->Receive(&hello, sizeof(hello)).ok());
    EXPECT_EQ(hello.slot, kSlot);
  }

  UniqueFd listener_;
  std::unique_ptr<BulkSocket> client_;
  std::unique_ptr<BulkSocket> server_;
};

INSTANTIATE_TEST_SUITE_P(Both, BulkSocketTest, testing::Bool(),
                         [](const auto& of) { return std::string(of.param ? "Tls" : "Plain"); });

TEST_P(BulkSocketTest, AFrameIsWhatWasSent) {
  const std::string bytes = Pattern(kMuch);
  std::thread sender([&] { EXPECT_TRUE(client_->Send(7, "head", bytes).ok()); });
  BulkFrameHeader header;
  ASSERT_TRUE(server_->Receive(&header, sizeof(header)).ok());
  EXPECT_EQ(header.kind, 7u);
  ASSERT_EQ(header.bytes, 4 + kMuch);
  std::string got(header.bytes, '\0');
  ASSERT_TRUE(server_->Receive(got.data(), got.size()).ok());
  EXPECT_TRUE(got == "head" + bytes);
  sender.join();
}

TEST_P(BulkSocketTest, BothMaySendMuchAtATime) {
  const std::string bytes = Pattern(kMuch);
  // The server sends all that it has before it receives anything.
  std::thread server([&] {
    EXPECT_TRUE(server_->Send(1, "", bytes).ok());
    std::string got(sizeof(BulkFrameHeader) + kMuch, '\0');
    EXPECT_TRUE(server_->Receive(got.data(), got.size()).ok());
    EXPECT_TRUE(got.substr(sizeof(BulkFrameHeader)) == bytes);
  });
  std::string got(sizeof(BulkFrameHeader) + kMuch, '\0');
  size_t received = 0;
  const auto receive = [&] {
    if (received == got.size()) return false;
    const size_t next = std::min(got.size() - received, size_t{1024});
    EXPECT_TRUE(client_->Receive(&got[received], next).ok());
    received += next;
    return true;
  };
  EXPECT_TRUE(client_->Send(1, "", bytes, receive).ok());
  EXPECT_GT(received, 0u);
  EXPECT_TRUE(client_->Receive(&got[received], got.size() - received).ok());
  EXPECT_TRUE(got.substr(sizeof(BulkFrameHeader)) == bytes);
  server.join();
}

// Pages that a handler of faults provides, as of an application that mirrors managed memory.
char* g_pages = nullptr;
std::atomic<int> g_faults{0};

class FaultingPages {
 public:
  FaultingPages() {
    g_pages =
        static_cast<char*>(mmap(nullptr, kMuch, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t* info, void*) {
      ++g_faults;
      char* const at = static_cast<char*>(info->si_addr);
      if (at < g_pages || at >= g_pages + kMuch) _exit(99);
      const size_t page = static_cast<size_t>(at - g_pages) / 4096 * 4096;
      mprotect(g_pages + page, 4096, PROT_READ | PROT_WRITE);
    };
    sigaction(SIGSEGV, &action, &former_);
  }
  ~FaultingPages() {
    sigaction(SIGSEGV, &former_, nullptr);
    munmap(g_pages, kMuch);
  }

 private:
  struct sigaction former_ = {};
};

TEST_P(BulkSocketTest, MemoryThatAHandlerProvidesIsTouched) {
  constexpr size_t kBytes = 1u << 20;
  const FaultingPages pages;
  g_faults = 0;
  const std::string bytes = Pattern(kBytes);
  std::thread server([&] { EXPECT_TRUE(server_->Send(1, "", bytes).ok()); });
  BulkFrameHeader header;
  ASSERT_TRUE(client_->Receive(&header, sizeof(header)).ok());
  ASSERT_TRUE(client_->Receive(g_pages, kBytes).ok());
  EXPECT_EQ(std::memcmp(g_pages, bytes.data(), kBytes), 0);
  server.join();
  EXPECT_GE(g_faults.load(), 256);
  // Reads of it fault as well, from the first byte on or in the middle.
  mprotect(g_pages, kBytes, PROT_NONE);
  mprotect(g_pages, kBytes / 2, PROT_READ);
  g_faults = 0;
  std::string got(sizeof(header) + 4 + kBytes, '\0');
  std::thread receiver([&] { EXPECT_TRUE(server_->Receive(got.data(), got.size()).ok()); });
  EXPECT_TRUE(client_->Send(1, "head", {g_pages, kBytes}).ok());
  receiver.join();
  EXPECT_TRUE(got.substr(sizeof(header) + 4) == bytes);
  EXPECT_GE(g_faults.load(), 128);
}

TEST_P(BulkSocketTest, WhatIsNotToBeTouchedFails) {
  if (GetParam()) GTEST_SKIP() << "TLS reads and writes memory itself";
  void* const none = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_TRUE(client_->Send(1, "", "bytes").ok());
  EXPECT_EQ(server_->Receive(none, 4).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server_->Send(1, "", {static_cast<const char*>(none), 4096}).code(),
            absl::StatusCode::kUnavailable);
  munmap(none, 4096);
}

TEST_P(BulkSocketTest, AnEndIsNoticed) {
  EXPECT_FALSE(client_->AwaitReadable(absl::Now() + absl::Milliseconds(5)));
  std::thread waiting([&] {
    char byte;
    EXPECT_FALSE(client_->Receive(&byte, 1).ok());
  });
  absl::SleepFor(absl::Milliseconds(5));
  client_->Shut();
  waiting.join();
  EXPECT_TRUE(client_->AwaitReadable(absl::Now() + absl::Seconds(60)));
  EXPECT_FALSE(client_->Send(1, "", "bytes").ok());
  char byte;
  EXPECT_FALSE(server_->Receive(&byte, 1).ok());
}

TEST_P(BulkSocketTest, OneThatWaitsForRoomIsWoken) {
  std::thread waiting([&] {
    const std::string bytes = Pattern(4 * kMuch);
    EXPECT_FALSE(client_->Send(1, "", bytes).ok());
  });
  absl::SleepFor(absl::Milliseconds(20));
  client_->Shut();
  waiting.join();
}

TEST(BulkSocketConnectTest, NobodyThere) {
  constexpr auto kRefuse = BulkSocket::Unreachable::kRefuse;
  for (const std::string text : {"", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "[127.0.0.1]:5",
                                 "::1:5", "[::1]", "a:b:c"}) {
    for (const std::string& endpoint : {text, TlsAddress(text)}) {
      EXPECT_TRUE(absl::IsInvalidArgument(
          BulkSocket::Connect(endpoint, kSecret, kSlot, absl::Now(), kRefuse).status()))
          << endpoint;
    }
  }
  for (const std::string endpoint : {"127.0.0.1:1", "tls://127.0.0.1:1"}) {
    EXPECT_TRUE(absl::IsUnavailable(
        BulkSocket::Connect(endpoint, kSecret, kSlot, Soon(), kRefuse).status()));
  }
}

TEST(SocketAddressTest, TextStaysTheSame) {
  for (const char* text : {"10.0.0.1:14701", "[fd00::1]:14701"}) {
    const auto address = SocketAddress::Parse(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address->ToString(), text);
  }
}

}  // namespace
}  // namespace warpline
