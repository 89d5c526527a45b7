#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "transport/registry/dial.h"
#include "transport/registry/listen.h"

namespace warpline {
namespace {

constexpr Transport kPlain = {.scheme = "plain", .can = {}};
constexpr Transport kRest = {.scheme = "",
                             .can = TransportCapabilities(TransportCapability::kTls) |
                                    TransportCapability::kMethods |
                                    TransportCapability::kListenerUid};

// A refusal that names the transport which was asked.
template <char name>
absl::StatusOr<std::unique_ptr<Channel>> DialAs(const DialTarget& target, ChannelHandler*,
                                                const ChannelOptions&, absl::Duration) {
  return absl::AbortedError(std::string(1, name) + " " + target.address);
}

const ClientEnd kClientEnds[] = {{.transport = kRest, .dial = &DialAs<'r'>},
                                 {.transport = kPlain, .dial = &DialAs<'p'>}};

absl::Status DialOne(const DialTarget& target) {
  return DialAmong(kClientEnds, target, nullptr, ChannelOptions(), absl::Seconds(1)).status();
}

TEST(DialTest, AnAddressBelongsToTheTransportOfItsScheme) {
  EXPECT_EQ(DialOne({.address = "plain://host:1"}), absl::AbortedError("p plain://host:1"));
  for (const std::string address : {"host:1", "unix:/path", "unix:///path", "[::1]:2", "plain:1"}) {
    EXPECT_EQ(DialOne({.address = address}), absl::AbortedError("r " + address));
  }
}

TEST(DialTest, WithoutATransportForTheRestOtherAddressesAreRefused) {
  const absl::Span<const ClientEnd> plain(&kClientEnds[1], 1);
  const auto dialled =
      DialAmong(plain, {.address = "host:1"}, nullptr, ChannelOptions(), absl::Seconds(1));
  EXPECT_TRUE(absl::IsInvalidArgument(dialled.status())) << dialled.status();
}

TEST(DialTest, WhatATransportCannotDoIsRefusedAndNotLeftOut) {
  EXPECT_TRUE(absl::IsUnauthenticated(DialOne({.address = "plain://x", .tls = {.ca = "ca.pem"}})));
  EXPECT_TRUE(absl::IsPermissionDenied(DialOne({.address = "plain://x", .listener_uid = 0})));
  EXPECT_TRUE(
      absl::IsAborted(DialOne({.address = "x:1", .tls = {.ca = "ca.pem"}, .listener_uid = 0})));
}

// Says what it was started with in its addresses.
template <char name>
class FakeListener : public Listener {
 public:
  static int running;

  explicit FakeListener(int max_sessions) : max_sessions_(max_sessions) {}
  ~FakeListener() override { FakeListener::Shutdown(absl::ZeroDuration()); }

  absl::Status Start(const std::vector<std::string>& addresses, Acceptor*) override {
    if (addresses.back() == "taken:1") return absl::UnavailableError("taken:1");
    for (const std::string& address : addresses) addresses_.push_back(address + "=" + name);
    ++running;
    started_ = true;
    return absl::OkStatus();
  }
  std::vector<std::string> addresses() const override { return addresses_; }
  void SetServing(bool) override {}
  int sessions() const override { return max_sessions_; }
  void Shutdown(absl::Duration) override {
    running -= started_ ? 1 : 0;
    started_ = false;
  }

 private:
  const int max_sessions_;
  std::vector<std::string> addresses_;
  bool started_ = false;
};

template <char name>
int FakeListener<name>::running = 0;

absl::Status CheckTls(const std::string&, bool tls) {
  return tls ? absl::OkStatus() : absl::PermissionDeniedError("without TLS");
}

template <char name>
ServerEnd FakeEnd(const Transport& transport) {
  return {.transport = transport,
          .check = &CheckTls,
          .make = [](ListenerOptions options) -> std::unique_ptr<Listener> {
            return std::make_unique<FakeListener<name>>(options.max_sessions);
          }};
}

const ServerEnd kServerEnds[] = {FakeEnd<'r'>(kRest), FakeEnd<'p'>(kPlain)};

TEST(ListenTest, EachTransportListensOnItsOwnAddresses) {
  const auto listener = MakeListenerAmong(kServerEnds, {.max_sessions = 5});
  ASSERT_EQ(listener->Start({"plain://a", "host:1", "plain://b", "unix:/c"}, nullptr),
            absl::OkStatus());
  EXPECT_EQ(listener->addresses(),
            (std::vector<std::string>{"plain://a=p", "host:1=r", "plain://b=p", "unix:/c=r"}));
  EXPECT_EQ(listener->sessions(), 10);
  listener->Shutdown(absl::ZeroDuration());
  EXPECT_EQ(FakeListener<'r'>::running + FakeListener<'p'>::running, 0);
}

TEST(ListenTest, WhenOneTransportCannotListenNoneDoes) {
  auto listener = MakeListenerAmong(kServerEnds, {});
  EXPECT_EQ(listener->Start({"plain://a", "taken:1"}, nullptr), absl::UnavailableError("taken:1"));
  listener.reset();
  EXPECT_EQ(FakeListener<'p'>::running, 0);
}

TEST(ListenTest, MethodsNeedAnAddressThatAnswersThem) {
  ListenerOptions options;
  options.methods["/a/B"] = [](const std::string&, const std::string&) { return std::string(); };
  EXPECT_TRUE(absl::IsInvalidArgument(
      MakeListenerAmong(kServerEnds, options)->Start({"plain://a"}, nullptr)));
  EXPECT_EQ(MakeListenerAmong(kServerEnds, options)->Start({"plain://a", "b:1"}, nullptr),
            absl::OkStatus());
}

TEST(ListenTest, TlsCountsOnlyWhereTheTransportHasIt) {
  EXPECT_EQ(CheckAddressAmong(kServerEnds, "host:1", /*tls=*/true), absl::OkStatus());
  EXPECT_TRUE(absl::IsPermissionDenied(CheckAddressAmong(kServerEnds, "host:1", /*tls=*/false)));
  EXPECT_TRUE(absl::IsPermissionDenied(CheckAddressAmong(kServerEnds, "plain://a", /*tls=*/true)));
}

// gRPC is the transport of all addresses that have no other.
TEST(RegistryTest, OneOfTheRegisteredTransportsHasTheRestOfTheAddresses) {
  EXPECT_EQ(CheckAddress("127.0.0.1:0", /*tls=*/false), absl::OkStatus());
  EXPECT_EQ(CheckAddress("unix:/tmp/socket", /*tls=*/false), absl::OkStatus());
  EXPECT_TRUE(absl::IsPermissionDenied(CheckAddress("0.0.0.0:1", /*tls=*/false)));
}

}  // namespace
}  // namespace warpline
