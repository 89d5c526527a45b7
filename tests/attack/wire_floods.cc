// Much of something: streams and connections that say nothing, log lines, answers that nobody
// reads.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_numbers.h"
#include "common/unique_fd.h"
#include "proto/frames.h"
#include "server/gpu_server/server_options.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"
#include "tests/hostile/commands.h"
#include "tests/hostile/log_floods.h"
#include "tests/hostile/sequence.h"
#include "transport/testing/http2_frames.h"

namespace warpline::attack {
namespace {

using hostile::RawClient;
using testing::Http2Frame;

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

// The streams that a peer may have without a hello, and some more.
const size_t kMostStreams = static_cast<size_t>(server::SessionLimits().strangers_per_peer);
const size_t kStreams = kMostStreams + 16;

using Streams = std::vector<std::unique_ptr<RawClient>>;

// The server has taken each of them when this returns.
absl::StatusOr<Streams> OpenSilentStreams(const WireTarget& target) {
  Streams silent;
  while (silent.size() < kStreams) {
    auto client = RawClient::Connect(target.endpoint, target.tls);
    if (!client.ok()) return client.status();
    silent.push_back(*std::move(client));
  }
  return silent;
}

WireResult JudgeSilentStreams(const WireTarget& target, const Streams& silent) {
  return JudgeSilent(target, "streams without a hello", silent.size(), kMostStreams,
                     [&](size_t number) { return silent[number]->end(); });
}

// A listener takes connections in their order, and makes room for each at once. So when an honest
// client is served, the connections before its own have given way.
WireResult SilentConnections(const WireTarget& target, const std::string& first) {
  // grpc_server_end.cc: MakeGrpcListener().
  const size_t most = 4 * kMostStreams;
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 700; ++i) silent.push_back(ConnectTcp(target, first));
  const WireResult served = JudgeNeighbour(target, absl::StrCat(silent.size(), " connections"));
  if (served.outcome != WireOutcome::kStopped) return served;
  const auto left = std::count_if(silent.begin(), silent.end(), &IsOpen);
  const std::string detail =
      absl::StrCat(served.detail, ", of which ", left, " are left, of at most ", most);
  return static_cast<size_t>(left) <= most ? Stopped(detail) : Succeeded(detail);
}

WireResult ConnectionsWithoutAWord(const WireTarget& target) {
  return SilentConnections(target, "");
}

WireResult HalfOpenConnections(const WireTarget& target) {
  return SilentConnections(target, testing::kHttp2Preface);
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
  const auto silent = OpenSilentStreams(target);
  return silent.ok() ? JudgeSilentStreams(target, *silent) : Unprepared(silent.status());
}

// The same while a client that lost its connection wants its session back.
WireResult SilentStreamsAndResumption(const WireTarget& target) {
  auto owner = WireSession::Open(target, /*resumable=*/true);
  if (!owner.ok()) return Unprepared(owner.status());
  warpline_internal::Resume resume;
  resume.set_session((*owner)->welcome().session());
  resume.set_secret((*owner)->welcome().secret());
  resume.set_attempt(1);
  const auto silent = OpenSilentStreams(target);
  if (!silent.ok()) return Unprepared(silent.status());
  (*owner)->Drop();
  auto client = RawClient::Connect(target.endpoint, target.tls);
  if (!client.ok()) return Succeeded(std::string(client.status().message()));
  (*client)->Send(kResume, resume.SerializeAsString());
  const auto resumed = (*client)->Expect(kResumed, kPatience);
  if (!resumed.ok()) return Succeeded(std::string(resumed.status().message()));
  return JudgeSilentStreams(target, *silent);
}

// Each of the `count` would be a line, or a few.
WireResult FloodLog(const WireTarget& target, const std::string& what, int count) {
  const Footprint before = Measure(target);
  const absl::Status flooded = hostile::Flood(target.endpoint, what, count * target.scale);
  if (!flooded.ok()) return Unprepared(flooded);
  Footprint most = kMost;
  most.log_bytes = 10'000;
  return JudgeGrowth(target, before, most);
}

WireResult RefusedCommands(const WireTarget& target) {
  return FloodLog(target, "commands", 100'000);
}
WireResult StrangersMessages(const WireTarget& target) {
  return FloodLog(target, "strangers", 200);
}
WireResult RefusedHellos(const WireTarget& target) { return FloodLog(target, "hellos", 200); }
WireResult Resumptions(const WireTarget& target) { return FloodLog(target, "resumptions", 100); }
WireResult Sessions(const WireTarget& target) { return FloodLog(target, "sessions", 60); }

// Many chunks come for a session whose worker has just ended, which is then asked for what is left.
WireResult ChunksForALostSession(const WireTarget& target) {
  for (int round = 0; round < 8 * target.scale; ++round) {
    auto session = WireSession::Open(target);
    if (!session.ok()) return Unprepared(session.status());
    RawClient* const client = (*session)->client();
    warpline_internal::MemoryRequest request = Request(7, 0, 2 * kMiB);
    request.set_want_bytes(kMiB * 512);
    request.set_handle(1);
    client->Send(kCommands, hostile::CommandsPayload(1, 1, std::string(32, '\xff')));
    client->Send(kMemoryRequest, request.SerializeAsString());
    const auto fault = client->Expect(kFault, kPatience);
    if (!fault.ok()) return Unprepared(fault.status());
    warpline_internal::ReadBack read;
    read.set_id(1);
    read.set_va(kOwn);
    read.set_bytes(4096);
    client->Send(kReadBack, read.SerializeAsString());
    const auto answer = client->Expect(kReadBackDone, kPatience);
    if (!answer.ok()) return Succeeded(std::string(answer.status().message()));
  }
  return JudgeNeighbour(target, "memory for sessions that are lost");
}

WireResult ReadBackRace(const WireTarget& target) {
  for (int round = 0; round < 2 * target.scale; ++round) {
    const absl::Status played = hostile::PlayReadBackRace(target.endpoint, round);
    if (!played.ok()) return Unprepared(played);
  }
  return JudgeNeighbour(target, "memory requests of lost sessions that are read back");
}

// Each stream that the session may have is a thread of its worker.
WireResult ThousandStreams(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  for (uint64_t i = 0; i < 1200; ++i) (*session)->Add(cmd::StreamCreate{16 + i, 1, 0});
  const auto synced = (*session)->Call(cmd::ContextSync{});
  if (!synced.ok()) return Unprepared(synced.status());
  const int64_t threads = MostThreads(target);
  if (threads > 1100) return Succeeded(absl::StrCat(threads, " threads of one worker"));
  return JudgeNeighbour(target, absl::StrCat("1200 streams in ", threads, " threads"));
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

std::string SessionHeaders() { return testing::Http2CallHeaders("/warpline_internal.Gpu/Session"); }

// Sends `count` pieces, each of which `piece` makes for the next stream. A connection that the
// server closes is followed by another one.
void FloodHttp2(const WireTarget& target, int count,
                const std::function<std::string(uint32_t stream)>& piece) {
  UniqueFd fd;
  uint32_t stream = 1;
  char answers[65536];
  for (int i = 0; i < count; ++i, stream += 2) {
    if (!fd.valid()) {
      fd = ConnectTcp(target, testing::kHttp2Preface + Http2Frame(4, 0, 0));
      stream = 1;
    }
    const std::string bytes = piece(stream);
    if (send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) fd = UniqueFd();
    while (fd.valid() && recv(fd.get(), answers, sizeof(answers), MSG_DONTWAIT) > 0) {
    }
  }
}

// What a flood of HTTP/2 may cost at its highest, beyond what the server had at its highest before.
constexpr int64_t kMostPeakKib = 128 << 10;

// `count` pieces take more than kMostPeakKib of a server that takes them all.
WireResult Http2Flood(const WireTarget& target, const std::string& what, int count,
                      const std::function<std::string(uint32_t stream)>& piece) {
  const int64_t before = PeakKib(target);
  FloodHttp2(target, count * target.scale, piece);
  const WireResult served = JudgeNeighbour(target, what);
  if (served.outcome != WireOutcome::kStopped) return served;
  const int64_t grown = PeakKib(target) - before;
  const std::string detail =
      absl::StrCat(served.detail, ", at a peak of ", grown >> 10, " MiB more");
  return grown <= kMostPeakKib ? Stopped(detail) : Succeeded(detail);
}

WireResult StreamsThatAreReset(const WireTarget& target) {
  return Http2Flood(target, "streams that are reset", 40'000,
                    [headers = SessionHeaders()](uint32_t stream) {
                      return Http2Frame(1, 4, stream, headers) +
                             Http2Frame(3, 0, stream, std::string(3, '\0') + "\x08");
                    });
}

// A window that overflows makes the server reset the stream, whose call it keeps.
WireResult StreamsThatTheServerResets(const WireTarget& target) {
  return Http2Flood(target, "streams that the server resets", 40'000,
                    [headers = SessionHeaders()](uint32_t stream) {
                      return Http2Frame(1, 4, stream, headers) +
                             Http2Frame(8, 0, stream, "\x7f\xff\xff\xff");
                    });
}

// More commands than the session's window, behind one that waits for ever.
WireResult CommandsThatPileUp(const WireTarget& target) {
  auto opened = WireSession::Open(target);
  if (!opened.ok()) return Unprepared(opened.status());
  const std::shared_ptr<WireSession> session = *std::move(opened);
  const Footprint before = Measure(target);
  session->Add(cmd::HostCall{kLegacyStreamHandle, 1});
  Flood(300, [session, piece = std::string(60'000, 'x')](int64_t) {
    for (int c = 0; c < 16; ++c) {
      session->Add(cmd::CopyToDevice{kLegacyStreamHandle, kOwn}, piece);
    }
    session->Submit();
  });
  const WireResult served = JudgeNeighbour(target, "commands that pile up");
  return served.outcome == WireOutcome::kStopped ? JudgeGrowth(target, before, kMost) : served;
}

constexpr WireAttack kAttacks[] = {
    {"read_back_beside_a_memory_request", "H1", "", &ReadBackRace},
    {"chunks_for_a_session_that_is_lost", "H1", "", &ChunksForALostSession},
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
    {"streams_that_are_reset", "N1", "", &StreamsThatAreReset},
    {"streams_that_the_server_resets", "N1", "", &StreamsThatTheServerResets},
    {"answers_that_nobody_reads", "M8", "", &AnswersThatNobodyReads},
    {"commands_that_pile_up", "M8", "", &CommandsThatPileUp},
};

}  // namespace

absl::Span<const WireAttack> FloodAttacks() { return kAttacks; }

}  // namespace warpline::attack
