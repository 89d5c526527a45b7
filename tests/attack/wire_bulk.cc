// Attacks on bulk connections: whose they are, and what of the server's they may use up.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"
#include "tests/hostile/raw_client.h"

namespace warpline::attack {
namespace {

using hostile::RawClient;

// Opens a bulk connection; the error is the server's refusal.
absl::StatusOr<std::unique_ptr<RawClient>> OpenBulk(const WireTarget& target, uint64_t session,
                                                    const std::string& secret, uint32_t slot) {
  auto client = RawClient::Connect(target.endpoint, target.tls);
  if (!client.ok()) return client.status();
  warpline_internal::BulkHello hello;
  hello.set_session(session);
  hello.set_secret(secret);
  hello.set_slot(slot);
  (*client)->Send(kBulkHello, hello.SerializeAsString());
  const auto ready = (*client)->Expect(kBulkReady, kPatience);
  if (!ready.ok()) return ready.status();
  return *std::move(client);
}

absl::StatusOr<std::unique_ptr<WireSession>> OpenOwner(const WireTarget& target) {
  warpline_internal::Hello hello = HonestHello();
  hello.set_features(hello.features() | kFeatureBulk);
  auto session = WireSession::OpenWith(target, hello);
  if (session.ok() && ((*session)->welcome().features() & kFeatureBulk) == 0) {
    return absl::UnavailableError("the server takes no bulk connections");
  }
  return session;
}

absl::StatusOr<warpline_internal::HostMemoryAnswer> AskForMemory(RawClient* client, uint64_t va,
                                                                 uint64_t bytes) {
  warpline_internal::HostMemoryRequest request;
  request.set_va(va);
  request.set_bytes(bytes);
  client->Send(kBulkMemory, request.SerializeAsString());
  const auto frame = client->Expect(kBulkMemoryDone, kPatience);
  if (!frame.ok()) return frame.status();
  warpline_internal::HostMemoryAnswer answer;
  if (!answer.ParseFromString(*frame)) return absl::InternalError("malformed answer");
  return answer;
}

std::string Header(uint64_t va, uint64_t bytes) {
  const BulkHeader header = {va, bytes};
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

// Puts and gets of somebody else's session.
WireResult OthersBulk(const WireTarget& target) {
  const auto owner = OpenOwner(target);
  if (!owner.ok()) return Unprepared(owner.status());
  const auto& welcome = (*owner)->welcome();
  const auto own = OpenBulk(target, welcome.session(), welcome.secret(), 0);
  if (!own.ok()) return Unprepared(own.status());
  std::string wrong = welcome.secret();
  wrong.back() = static_cast<char>(wrong.back() ^ 1);
  for (const std::string& secret : {std::string(), wrong, welcome.secret() + "x"}) {
    const auto client = OpenBulk(target, welcome.session(), secret, 0);
    if (client.ok()) return Succeeded("a stranger has a bulk connection of the session");
    if (absl::IsDeadlineExceeded(client.status())) return Unprepared(client.status());
  }
  // Its own connection has not suffered.
  const auto answer = AskForMemory(own->get(), kHostArenaBase, kMiB);
  if (!answer.ok()) return Succeeded(absl::StrCat("its own: ", answer.status().ToString()));
  return Stopped("three secrets were refused");
}

// Gets without end whose answers nobody takes.
WireResult GetsWithoutTaking(const WireTarget& target) {
  constexpr int64_t kGets = 4096;
  // More than a server has wait, and than lie in windows and buffers besides.
  constexpr int kMostAnswers = 1024;
  const auto owner = OpenOwner(target);
  if (!owner.ok()) return Unprepared(owner.status());
  const auto& welcome = (*owner)->welcome();
  auto opened = OpenBulk(target, welcome.session(), welcome.secret(), 0);
  if (!opened.ok()) return Unprepared(opened.status());
  const auto answer = AskForMemory(opened->get(), kHostArenaBase, kMiB);
  if (!answer.ok()) return Unprepared(answer.status());
  if (answer->error() != 0) return Unprepared(answer->message());
  const std::shared_ptr<RawClient> client = *std::move(opened);
  client->StopReading();
  const Footprint before = Measure(target);
  Flood(kGets,
        [client](int64_t) { client->Send(kBulkGet, Header(kHostArenaBase, kMaxBulkPiece)); });
  // A server that had all of them wait answers all of them.
  client->StartReading();
  for (int answers = 0; answers < kMostAnswers; ++answers) {
    const auto frame = client->Expect(kBulkBytes, kPatience);
    if (absl::IsDeadlineExceeded(frame.status())) return Succeeded("nothing is answered");
    if (!frame.ok()) break;
    if (answers + 1 == kMostAnswers) return Succeeded(absl::StrCat(kMostAnswers, " gets waited"));
  }
  return JudgeGrowth(
      target, before,
      {.resident_kib = 16 << 10, .descriptors = 32, .threads = 8, .log_bytes = 64 << 10});
}

// More host memory, piece by piece, than the server keeps descriptors of for a session.
WireResult SegmentsWithoutEnd(const WireTarget& target) {
  const auto owner = OpenOwner(target);
  if (!owner.ok()) return Unprepared(owner.status());
  const auto& welcome = (*owner)->welcome();
  const auto client = OpenBulk(target, welcome.session(), welcome.secret(), 0);
  if (!client.ok()) return Unprepared(client.status());
  constexpr uint64_t kTried = 256;
  for (uint64_t i = 0; i < kTried; ++i) {
    const auto answer =
        AskForMemory(client->get(), kHostArenaBase + i * kHostPageBytes, kHostPageBytes);
    if (!answer.ok()) return Unprepared(answer.status());
    if (answer->error() != 0) return Stopped(absl::StrCat("after ", i, " segments"));
  }
  return Succeeded(absl::StrCat(kTried, " segments, with a descriptor of the server's each"));
}

// Frames of every kind and shape on connections of its own; each may end the session.
WireResult GarbageOnBulk(const WireTarget& target) {
  const std::vector<std::pair<uint32_t, std::string>> frames = {
      {kBulkPut, ""},
      {kBulkPut, Header(kHostArenaBase, 4)},
      {kBulkPut, Header(kHostArenaBase, ~uint64_t{0}) + "bytes"},
      {kBulkPut, Header(kHostArenaBase + kMiB - 2, 5) + "bytes"},
      {kBulkPut, Header(~uint64_t{0} - 2, 5) + "bytes"},
      {kBulkPut, Header(0, 5) + "bytes"},
      {kBulkGet, Header(kHostArenaBase, kMaxBulkPiece + 1)},
      {kBulkGet, Header(kHostArenaBase + kMiB - 2, 5)},
      {kBulkGet, Header(~uint64_t{0} - 2, 5)},
      {kBulkGet, "x"},
      {kBulkMemory, std::string(kMiB, '\xff')},
      {kBulkHello, std::string(100, '\0')},
      {kCommands, std::string(100, '\0')},
      {kHello, ""},
      {77, "x"},
  };
  for (size_t i = 0; i < frames.size(); ++i) {
    const auto owner = OpenOwner(target);
    if (!owner.ok()) return Unprepared(owner.status());
    const auto& welcome = (*owner)->welcome();
    const auto client = OpenBulk(target, welcome.session(), welcome.secret(), 1);
    if (!client.ok()) return Unprepared(client.status());
    const auto answer = AskForMemory(client->get(), kHostArenaBase, kMiB);
    if (!answer.ok()) return Unprepared(answer.status());
    (*client)->Send(frames[i].first, frames[i].second);
    const auto next = (*client)->Next(kPatience);
    if (next.ok()) return Succeeded(absl::StrCat("frame ", i, " was answered"));
    if (absl::IsDeadlineExceeded(next.status())) {
      return Succeeded(absl::StrCat("frame ", i, " was taken"));
    }
  }
  return JudgeNeighbour(target, absl::StrCat(frames.size(), " frames were refused"));
}

constexpr WireAttack kAttacks[] = {
    {"bulk_connection_of_others", "-", "", &OthersBulk},
    {"bulk_gets_without_taking", "-", "", &GetsWithoutTaking},
    {"bulk_segments_without_end", "-", "", &SegmentsWithoutEnd},
    {"garbage_on_bulk_connections", "-", "", &GarbageOnBulk},
};

}  // namespace

absl::Span<const WireAttack> BulkAttacks() { return kAttacks; }

}  // namespace warpline::attack
