// Tests how the client opens its session and handles refusals. They run with the client's fake
// server and with the real host, so that the fake cannot refuse in a way of its own.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "client_stub/session/handshake/arena_reservation.h"
#include "client_stub/session/handshake/arena_search.h"
#include "client_stub/session/opening/session_impl.h"
#include "gtest/gtest.h"
#include "tests/opening/opening_server.h"

namespace warpline {
namespace {

using stub::ArenaCandidate;
using stub::ArenaReservation;
using stub::OpenSession;
using stub::SessionOptions;

struct Kind {
  const char* name;
  std::unique_ptr<OpeningServer> (*make)(const OpeningServerOptions&);
};

class OpeningTest : public testing::TestWithParam<Kind> {
 protected:
  // Returns the starts of the first `count` arenas that this process would offer.
  static std::vector<uint64_t> Places(size_t count) {
    std::vector<uint64_t> places;
    std::set<uint64_t> seen;
    for (const ArenaCandidate& candidate : stub::ArenaCandidates()) {
      if (places.size() == count) break;
      const bool free = ArenaReservation::At(candidate.base, candidate.bytes).held();
      if (free && seen.insert(candidate.base).second) places.push_back(candidate.base);
    }
    return places;
  }
};

TEST_P(OpeningTest, FreeArenaIsTakenAtOnce) {
  const std::vector<uint64_t> places = Places(1);
  ASSERT_EQ(places.size(), 1u);
  const auto server = GetParam().make({});
  const auto session = OpenSession(SessionOptions(), server->MakeDialer());
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->terms().arena_base, places[0]);
  EXPECT_EQ(server->refused(), 0u);
}

TEST_P(OpeningTest, WorkerThatCannotHaveTheArenaIsOfferedAnother) {
  const std::vector<uint64_t> places = Places(3);
  ASSERT_EQ(places.size(), 3u);
  const auto server = GetParam().make({.obstacles = {places[0], places[1]}});
  const auto session = OpenSession(SessionOptions(), server->MakeDialer());
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->terms().arena_base, places[2]);
  EXPECT_EQ(server->refused(), 2u);
}

// The session that was refused may still be ending when the next one comes.
TEST_P(OpeningTest, RefusedSessionMakesRoomForTheNext) {
  const std::vector<uint64_t> places = Places(4);
  ASSERT_EQ(places.size(), 4u);
  const auto server =
      GetParam().make({.obstacles = {places[0], places[1], places[2]}, .max_sessions = 1});
  const auto session = OpenSession(SessionOptions(), server->MakeDialer());
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->terms().arena_base, places[3]);
  EXPECT_GE(server->refused(), 3u);
}

TEST_P(OpeningTest, WorkerThatCannotHaveAnyIsSaidToBeTheReason) {
  const auto server = GetParam().make({.obstacles = Places(100)});
  const absl::Status status = OpenSession(SessionOptions(), server->MakeDialer()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "the server's worker")) << status;
  EXPECT_EQ(server->refused(), static_cast<uint64_t>(stub::ArenaSearch::kMostRefusals));
}

TEST_P(OpeningTest, ServerOfSmallArenasGetsOne) {
  constexpr uint64_t kMost = 16ull << 30;
  const auto server = GetParam().make({.most_arena_bytes = kMost});
  const auto session = OpenSession(SessionOptions(), server->MakeDialer());
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_LE((*session)->terms().arena_bytes, kMost);
  EXPECT_EQ(server->refused(), 1u);
}

TEST_P(OpeningTest, DeviceThatIsNotThereIsAskedForOnce) {
  const auto server = GetParam().make({});
  SessionOptions options;
  options.device = "7";
  EXPECT_EQ(OpenSession(options, server->MakeDialer()).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(server->refused(), 1u);
}

TEST_P(OpeningTest, FullServerIsAskedOnce) {
  const auto server = GetParam().make({.max_sessions = 0});
  EXPECT_EQ(OpenSession(SessionOptions(), server->MakeDialer()).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(server->refused(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Servers, OpeningTest,
                         testing::Values(Kind{"Fake", &NewFakeOpeningServer},
                                         Kind{"Host", &NewHostOpeningServer}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace warpline
