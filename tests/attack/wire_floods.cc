// Much of something: streams and connections that say nothing, log lines, answers that nobody
// reads.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_numbers.h"
#include "common/unique_fd.h"
#include "proto/frames.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"
#include "tests/hostile/log_floods.h"
#include "tests/hostile/sequence.h"

namespace warpline::attack {
namespace {

using hostile::RawClient;

// What the server may grow by while it is flooded.
constexpr Footprint kMost = {128 << 10, 500, 300, 200'000};

UniqueFd ConnectTcp(const WireTarget& target, const std::string& first) {
  int port = 0;
  if (!absl::SimpleAtoi(target.endpoint.substr(target.endpoint.rfind(':') + 1), &port)) return {};
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return {};
  if (!first.empty()) (void)send(fd.get(), first.data(), first.size(), MSG_NOSIGNAL);
  return fd;
}

WireResult SilentConnections(const WireTarget& target, const std::string& first) {
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 700; ++i) silent.push_back(ConnectTcp(target, first));
  return JudgeNeighbour(target, absl::StrCat(silent.size(), " connections"));
}

WireResult ConnectionsWithoutAWord(const WireTarget& target) {
  return SilentConnections(target, "");
}

WireResult HalfOpenConnections(const WireTarget& target) {
  return SilentConnections(target, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
}

WireResult ConnectionsOfGarbage(const WireTarget& target) {
  const Footprint before = Measure(target);
  for (int i = 0; i < 500 * target.scale; ++i) {
    (void)ConnectTcp(target, std::string(3000, static_cast<char>(i)));
  }
  const WireResult served = JudgeNeighbour(target, "connections of garbage");
  return served.outcome == WireOutcome::kStopped ? JudgeGrowth(target, before, kMost) : served;
}

// Each is a stream on a connection of its own, on which no hello comes.
WireResult SilentStreams(const WireTarget& target) {
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 140; ++i) {
    auto client = RawClient::Connect(target.endpoint);
    if (client.ok()) silent.push_back(*std::move(client));
  }
  return JudgeNeighbour(target, absl::StrCat(silent.size(), " streams without a hello"));
}

// The same while a client that lost its connection wants its session back.
WireResult SilentStreamsAndResumption(const WireTarget& target) {
  auto owner = WireSession::Open(target, /*resumable=*/true);
  if (!owner.ok()) return Unprepared(owner.status());
  warpline_internal::Resume resume;
  resume.set_session((*owner)->welcome().session());
  resume.set_secret((*owner)->welcome().secret());
  resume.set_attempt(1);
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 140; ++i) {
    auto client = RawClient::Connect(target.endpoint);
    if (client.ok()) silent.push_back(*std::move(client));
  }
  (*owner)->Drop();
  auto client = RawClient::Connect(target.endpoint);
  if (!client.ok()) return Succeeded(std::string(client.status().message()));
  (*client)->Send(kResume, resume.SerializeAsString());
  const auto resumed = (*client)->Expect(kResumed, kPatience);
  return resumed.ok() ? Stopped(absl::StrCat("resumed beside ", silent.size(), " silent streams"))
                      : Succeeded(std::string(resumed.status().message()));
}

WireResult FloodLog(const WireTarget& target, const std::string& what, int count) {
  const Footprint before = Measure(target);
  const absl::Status flooded = hostile::Flood(target.endpoint, what, count * target.scale);
  if (!flooded.ok()) return Unprepared(flooded);
  return JudgeGrowth(target, before, kMost);
}

WireResult RefusedCommands(const WireTarget& target) {
  return FloodLog(target, "commands", 100'000);
}
WireResult StrangersMessages(const WireTarget& target) {
  return FloodLog(target, "strangers", 100);
}
WireResult RefusedHellos(const WireTarget& target) { return FloodLog(target, "hellos", 100); }
WireResult Resumptions(const WireTarget& target) { return FloodLog(target, "resumptions", 60); }
WireResult Sessions(const WireTarget& target) { return FloodLog(target, "sessions", 20); }

WireResult ReadBackRace(const WireTarget& target) {
  for (int round = 0; round < 2 * target.scale; ++round) {
    const absl::Status played = hostile::PlayReadBackRace(target.endpoint, round);
    if (!played.ok()) return Unprepared(played);
  }
  return JudgeNeighbour(target, "memory requests of lost sessions that are read back");
}

WireResult ThousandStreams(const WireTarget& target) {
  const absl::Status played = hostile::PlayManyStreams(target.endpoint, 0);
  if (!played.ok()) return Unprepared(played);
  return JudgeNeighbour(target, "1100 streams");
}

// Asks for a gigabyte back and reads none of it.
WireResult AnswersThatNobodyReads(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const Footprint before = Measure(target);
  (*session)->client()->StopReading();
  for (int i = 0; i < 512; ++i) {
    (*session)->Add(cmd::CopyFromDevice{kLegacyStreamHandle, kOwn, 2 * kMiB});
  }
  (*session)->Submit();
  const WireResult served = JudgeNeighbour(target, "a gigabyte of answers that nobody reads");
  return served.outcome == WireOutcome::kStopped ? JudgeGrowth(target, before, kMost) : served;
}

// More commands than the session's window, behind one that waits for ever.
WireResult CommandsThatPileUp(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const Footprint before = Measure(target);
  (*session)->Add(cmd::HostCall{kLegacyStreamHandle, 1});
  const std::string piece(60'000, 'x');
  // Not more than the client's own queue and the connection take: the server stops reading.
  for (int i = 0; i < 48; ++i) {
    for (int c = 0; c < 16; ++c)
      (*session)->Add(cmd::CopyToDevice{kLegacyStreamHandle, kOwn}, piece);
    (*session)->Submit();
  }
  const WireResult served = JudgeNeighbour(target, "commands that pile up");
  return served.outcome == WireOutcome::kStopped ? JudgeGrowth(target, before, kMost) : served;
}

constexpr WireAttack kAttacks[] = {
    {"read_back_beside_a_memory_request", "H1", "", &ReadBackRace},
    {"threads_for_a_thousand_streams", "H2", "", &ThousandStreams},
    {"log_of_refused_commands", "H4", "", &RefusedCommands},
    {"log_of_strangers", "H4", "", &StrangersMessages},
    {"log_of_refused_hellos", "H4", "", &RefusedHellos},
    {"log_of_resumptions", "H4", "", &Resumptions},
    {"log_of_sessions", "H4", "", &Sessions},
    {"streams_without_a_hello", "H5", "", &SilentStreams},
    {"streams_without_a_hello_before_a_resumption", "H5", "", &SilentStreamsAndResumption},
    {"connections_without_a_word", "H5", "", &ConnectionsWithoutAWord},
    {"connections_that_are_half_open", "H5", "", &HalfOpenConnections},
    {"connections_of_garbage", "L8", "", &ConnectionsOfGarbage},
    {"answers_that_nobody_reads", "M8", "", &AnswersThatNobodyReads},
    {"commands_that_pile_up", "M8", "", &CommandsThatPileUp},
};

}  // namespace

absl::Span<const WireAttack> FloodAttacks() { return kAttacks; }

}  // namespace warpline::attack
