#include "client_stub/session/handshake/handshake.h"

#include <sys/resource.h>

#include <functional>
#include <string>

#include "gtest/gtest.h"
#include "proto/frames.h"
#include "proto/session.pb.h"

namespace warpline::stub {
namespace {

constexpr ArenaCandidate kArena = {1ull << 44, 1ull << 40};

warpline_internal::Welcome GoodWelcome() {
  warpline_internal::Welcome welcome;
  welcome.set_version(kProtocolVersion);
  welcome.set_session(3);
  auto* device = welcome.mutable_device();
  device->set_name("GPU");
  device->set_uuid("0123456789abcdef");
  device->set_driver_version(13000);
  device->set_greatest_stream_priority(-5);
  welcome.set_quota_bytes(1ull << 30);
  welcome.set_window_bytes(4u << 20);
  welcome.set_window_commands(1000);
  welcome.mutable_initial_memory()->set_va(kArena.base + kArenaMargin);
  welcome.mutable_initial_memory()->set_bytes(64ull << 20);
  return welcome;
}

TEST(HandshakeTest, HelloNamesTheArenaAndAsksForMemoryInsideIt) {
  SessionOptions options;
  options.device = "GPU-1";
  options.initial_memory_bytes = 3;
  warpline_internal::Hello hello;
  ASSERT_TRUE(hello.ParseFromString(MakeHello(options, kArena)));
  EXPECT_EQ(hello.min_version(), kLeastProtocolVersion);
  EXPECT_EQ(hello.max_version(), kProtocolVersion);
  EXPECT_EQ(hello.device(), "GPU-1");
  EXPECT_EQ(hello.arena_base(), kArena.base);
  EXPECT_EQ(hello.arena_bytes(), kArena.bytes);
  EXPECT_EQ(hello.initial_memory().va(), kArena.base + kArenaMargin);
  EXPECT_EQ(hello.initial_memory().want_bytes(), kChunkGranularity);
  EXPECT_FALSE(hello.program().empty());
}

TEST(HandshakeTest, HelloHasTheNiceValueOfTheProcess) {
  ASSERT_EQ(setpriority(PRIO_PROCESS, 0, 19), 0);
  warpline_internal::Hello hello;
  ASSERT_TRUE(hello.ParseFromString(MakeHello({}, kArena)));
  EXPECT_EQ(hello.niceness(), 19);
}

TEST(HandshakeTest, WelcomeFillsTheDevice) {
  auto welcome = GoodWelcome();
  auto* attribute = welcome.mutable_device()->add_attributes();
  attribute->set_id(16);
  attribute->set_value(132);
  attribute = welcome.mutable_device()->add_attributes();
  attribute->set_id(100000);  // An attribute of a newer CUDA.
  const auto welcomed = ParseWelcome(welcome.SerializeAsString(), kArena);
  ASSERT_TRUE(welcomed.ok()) << welcomed.status();
  ASSERT_EQ(welcomed->terms.devices.size(), 1u);
  const RemoteDevice& device = welcomed->terms.devices[0];
  EXPECT_EQ(device.name, "GPU");
  EXPECT_EQ(device.total_bytes, 1ull << 30);
  EXPECT_EQ(device.attributes[16], 132);
  EXPECT_EQ(device.uuid[15], 'f');
  EXPECT_EQ(device.peers, 0u);
  EXPECT_EQ(welcomed->terms.initial_grant.bytes, 64ull << 20);
}

void AddDevice(warpline_internal::Welcome* welcome, const char* uuid, uint64_t quota) {
  auto* more = welcome->add_more_devices();
  *more->mutable_info() = welcome->device();
  more->mutable_info()->set_uuid(uuid);
  more->set_quota_bytes(quota);
}

TEST(HandshakeTest, WelcomeHasSeveralDevicesAndTheirPeers) {
  auto welcome = GoodWelcome();
  AddDevice(&welcome, "fedcba9876543210", 2ull << 30);
  AddDevice(&welcome, "0000000000000000", 3ull << 30);
  welcome.set_resident_bytes(2ull << 30);  // More than its quota counts for nothing.
  welcome.mutable_more_devices(0)->set_resident_bytes(1ull << 30);
  for (const uint32_t peers : {3u, 1u, 0u}) welcome.add_peers(peers);
  const auto welcomed = ParseWelcome(welcome.SerializeAsString(), kArena);
  ASSERT_TRUE(welcomed.ok()) << welcomed.status();
  ASSERT_EQ(welcomed->terms.devices.size(), 3u);
  EXPECT_EQ(welcomed->terms.devices[1].uuid[0], 'f');
  EXPECT_EQ(welcomed->terms.devices[1].total_bytes, 2ull << 30);
  EXPECT_EQ(welcomed->terms.devices[2].total_bytes, 3ull << 30);
  EXPECT_EQ(welcomed->terms.devices[0].ShownBytes(), 1ull << 30);
  EXPECT_EQ(welcomed->terms.devices[1].ShownBytes(), 1ull << 30);
  EXPECT_EQ(welcomed->terms.devices[2].ShownBytes(), 3ull << 30);
  EXPECT_EQ(welcomed->terms.devices[0].peers, 2u);  // No device is its own peer.
  EXPECT_EQ(welcomed->terms.devices[1].peers, 1u);
  EXPECT_EQ(welcomed->terms.devices[2].peers, 0u);
}

TEST(HandshakeTest, EveryVersionInTheRangeIsFine) {
  for (uint32_t version = kLeastProtocolVersion; version <= kProtocolVersion; ++version) {
    auto welcome = GoodWelcome();
    welcome.set_version(version);
    const auto welcomed = ParseWelcome(welcome.SerializeAsString(), kArena);
    ASSERT_TRUE(welcomed.ok()) << welcomed.status();
    EXPECT_EQ(welcomed->version, version);
  }
}

TEST(HandshakeTest, NoInitialMemoryIsFine) {
  auto welcome = GoodWelcome();
  welcome.clear_initial_memory();
  const auto welcomed = ParseWelcome(welcome.SerializeAsString(), kArena);
  ASSERT_TRUE(welcomed.ok());
  EXPECT_EQ(welcomed->terms.initial_grant.bytes, 0u);
}

TEST(HandshakeTest, WhatACorrectServerDoesNotSendIsRefused) {
  using Edit = std::function<void(warpline_internal::Welcome*)>;
  const Edit edits[] = {
      [](auto* w) { w->set_version(kLeastProtocolVersion - 1); },
      [](auto* w) { w->set_version(kProtocolVersion + 1); },
      [](auto* w) { w->set_features(1ull << 63); },
      [](auto* w) { w->mutable_device()->set_name(""); },
      [](auto* w) { w->mutable_device()->set_name(std::string(1000, 'x')); },
      [](auto* w) { w->mutable_device()->set_uuid("short"); },
      [](auto* w) { w->mutable_device()->set_driver_version(0); },
      [](auto* w) { w->mutable_device()->set_greatest_stream_priority(5); },
      [](auto* w) { w->mutable_device()->add_attributes()->set_id(-1); },
      [](auto* w) { w->mutable_device()->set_pci_bus_id(std::string(1000, 'x')); },
      [](auto* w) { w->set_quota_bytes(0); },
      [](auto* w) { w->set_quota_bytes(~0ull); },
      [](auto* w) { w->set_window_bytes(100); },
      [](auto* w) { w->set_window_commands(1); },
      [](auto* w) { w->set_secret(std::string(1000, 'x')); },
      [](auto* w) { w->mutable_initial_memory()->set_va(kArena.base); },
      [](auto* w) { w->mutable_initial_memory()->set_bytes(1000); },
      [](auto* w) { w->mutable_initial_memory()->set_bytes(2ull << 30); },  // Above the quota.
      [](auto* w) {
        w->set_quota_bytes(1ull << 45);
        w->mutable_initial_memory()->set_bytes(kArena.bytes);
      },
      [](auto* w) {  // Beyond the first device's part.
        w->set_quota_bytes(1ull << 45);
        AddDevice(w, "fedcba9876543210", 1ull << 30);
        w->mutable_initial_memory()->set_bytes(kArena.bytes / 2);
      },
      [](auto* w) { AddDevice(w, "short", 1ull << 30); },
      [](auto* w) { AddDevice(w, "fedcba9876543210", 0); },
      [](auto* w) {
        for (int i = 0; i < 16; ++i) AddDevice(w, "fedcba9876543210", 1ull << 30);
      },
      [](auto* w) { w->add_peers(2); },
      [](auto* w) {
        AddDevice(w, "fedcba9876543210", 1ull << 30);
        w->add_peers(0);
      },
  };
  int i = 0;
  for (const Edit& edit : edits) {
    auto welcome = GoodWelcome();
    edit(&welcome);
    EXPECT_FALSE(ParseWelcome(welcome.SerializeAsString(), kArena).ok()) << "edit " << i;
    ++i;
  }
  EXPECT_FALSE(ParseWelcome("\xff\xff\xff", kArena).ok());
  EXPECT_FALSE(ParseWelcome("", kArena).ok());
}

TEST(HandshakeTest, CredentialIsForSchedulersAndTokenForServers) {
  SessionOptions options;
  options.credential = "secret";
  options.slice = "small";
  warpline_internal::Hello hello;
  ASSERT_TRUE(hello.ParseFromString(MakeHello(options, kArena)));
  EXPECT_EQ(hello.credential(), "secret");
  EXPECT_EQ(hello.slice(), "small");
  options.token = "token";
  ASSERT_TRUE(hello.ParseFromString(MakeHello(options, kArena)));
  EXPECT_EQ(hello.token(), "token");
  EXPECT_EQ(hello.credential(), "");
  EXPECT_EQ(hello.slice(), "");
}

TEST(HandshakeTest, RedirectNamesWhereToGoAndWithWhat) {
  warpline_internal::Redirect redirect;
  redirect.set_endpoint("gpu1:14000");
  redirect.set_token("token");
  const absl::Status status = ParseRedirect(redirect.SerializeAsString());
  SessionOptions options;
  options.device = "0";
  ASSERT_TRUE(FollowRedirect(status, &options));
  EXPECT_EQ(options.endpoint, "gpu1:14000");
  EXPECT_EQ(options.token, "token");
  EXPECT_EQ(options.device, "0");
  EXPECT_FALSE(FollowRedirect(absl::UnavailableError("redirected"), &options));
}

TEST(HandshakeTest, MalformedRedirectIsRefused) {
  warpline_internal::Redirect redirect;
  EXPECT_EQ(ParseRedirect(redirect.SerializeAsString()).code(), absl::StatusCode::kInvalidArgument);
  redirect.set_endpoint("gpu1:14000");
  redirect.set_token(std::string(100000, 'x'));
  EXPECT_EQ(ParseRedirect(redirect.SerializeAsString()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseRedirect("\xff\xff").code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace warpline::stub
