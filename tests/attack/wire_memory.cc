// Requests for memory beyond what a session may have, others' memory, and what former ones left.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/cuda/cuda_numbers.h"
#include "common/unique_fd.h"
#include "proto/frames.h"
#include "server/gpu_server/memory/host_memory_port.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"

namespace warpline::attack {
namespace {

using warpline_internal::MemoryGrant;
using warpline_internal::MemoryRequest;

constexpr uint64_t kStream = kLegacyStreamHandle;
constexpr uint64_t kElsewhere = kArena + 1024 * kMiB;

// Stopped when the request gets nothing: an error, or the session's end.
WireResult Ask(const WireTarget& target, const MemoryRequest& request) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const auto grant = (*session)->Ask(request);
  if (absl::IsDeadlineExceeded(grant.status())) return Succeeded("no answer");
  if (!grant.ok()) return Stopped(std::string(grant.status().message()));
  if (grant->error() != 0) return Stopped(absl::StrCat("CUDA error ", grant->error()));
  return Succeeded(absl::StrCat("granted ", grant->bytes(), " bytes"));
}

WireResult OutsideTheArena(const WireTarget& target) {
  return Ask(target, Request(5, kArena + kArenaBytes, 2 * kMiB));
}

WireResult OverItsEnd(const WireTarget& target) {
  return Ask(target, Request(5, kArena + kArenaBytes - 2 * kMiB, 4 * kMiB));
}

WireResult ThatWraps(const WireTarget& target) {
  MemoryRequest request = Request(5, kElsewhere, 2 * kMiB);
  request.set_want_bytes(~uint64_t{0} - 2 * kMiB + 1);
  return Ask(target, request);
}

WireResult Crooked(const WireTarget& target) {
  return Ask(target, Request(5, kElsewhere + 4096, 2 * kMiB));
}

WireResult OfNothing(const WireTarget& target) { return Ask(target, Request(5, kElsewhere, 0)); }

WireResult LeastAboveMost(const WireTarget& target) {
  MemoryRequest request = Request(5, kElsewhere, 2 * kMiB);
  request.set_min_bytes(8 * kMiB);
  return Ask(target, request);
}

WireResult Overlapping(const WireTarget& target) { return Ask(target, Request(5, kOwn, 2 * kMiB)); }

WireResult ManyHandles(const WireTarget& target) {
  MemoryRequest request = Request(5, 0, 2 * kMiB);
  request.set_want_bytes(1ull << 50);
  request.set_handle(1);
  return Ask(target, request);
}

WireResult HandlesThatWrap(const WireTarget& target) {
  MemoryRequest request = Request(5, 0, 2 * kMiB);
  request.set_want_bytes(8 * kMiB);
  request.set_handle(~uint64_t{0} - 1);
  return Ask(target, request);
}

WireResult BeyondTheQuota(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const uint64_t quota = (*session)->welcome().quota_bytes();
  uint64_t got = (*session)->own_bytes();
  // Whatever is left, in pieces: ranges of the arena and handles by turns.
  constexpr uint64_t kPiece = 512 * kMiB;
  for (uint64_t i = 0; i <= quota / kPiece + 1; ++i) {
    MemoryRequest request = Request(5 + i, kElsewhere + i * kPiece, 2 * kMiB);
    request.set_want_bytes(kPiece);
    if (i % 2 == 1 || request.va() + kPiece > kArena + kArenaBytes) {
      request.set_va(0);
      request.set_handle(1 + i * (kPiece / (2 * kMiB)));
    }
    const auto grant = (*session)->Ask(request);
    if (!grant.ok()) return Unprepared(absl::StrCat("", grant.status().message()));
    if (grant->error() == 0) got += grant->bytes();
  }
  if (got > quota) return Succeeded(absl::StrCat(got, " bytes of ", quota));
  return got + kPiece < quota ? Unprepared(absl::StrCat("only ", got, " of ", quota))
                              : Stopped(absl::StrCat(got, " bytes of ", quota));
}

WireResult ReturnOfOthers(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  warpline_internal::MemoryReturn give_back;
  give_back.set_va(kElsewhere);
  give_back.set_bytes(2 * kMiB);
  (*session)->client()->Send(kMemoryReturn, give_back.SerializeAsString());
  const auto ended = (*session)->client()->Expect(kMemoryGrant, kPatience);
  return absl::IsUnavailable(ended.status()) ? Stopped(std::string(ended.status().message()))
                                             : Succeeded("the session goes on");
}

WireResult ReturnTwice(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const auto grant = (*session)->Ask(Request(5, kElsewhere, 2 * kMiB));
  if (!grant.ok() || grant->error() != 0) return Unprepared("no memory");
  warpline_internal::MemoryReturn give_back;
  give_back.set_va(kElsewhere);
  give_back.set_bytes(grant->bytes());
  for (int i = 0; i < 2; ++i) {
    (*session)->client()->Send(kMemoryReturn, give_back.SerializeAsString());
  }
  const auto ended = (*session)->client()->Expect(kMemoryGrant, kPatience);
  return absl::IsUnavailable(ended.status()) ? Stopped(std::string(ended.status().message()))
                                             : Succeeded("the session goes on");
}

// Goes on writing to memory that it has given back, while another is granted some.
WireResult UseAfterReturn(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  constexpr uint64_t kPiece = 64 * kMiB;
  const auto grant = (*session)->Ask(Request(5, kElsewhere, kPiece));
  if (!grant.ok() || grant->error() != 0) return Unprepared("no memory");
  warpline_internal::MemoryReturn give_back;
  give_back.set_va(kElsewhere);
  give_back.set_bytes(grant->bytes());
  (*session)->client()->Send(kMemoryReturn, give_back.SerializeAsString());
  auto other = WireSession::Open(target);
  if (!other.ok()) return Unprepared(other.status());
  const auto theirs = (*other)->Ask(Request(5, kElsewhere, kPiece));
  if (!theirs.ok() || theirs->error() != 0) return Unprepared("no memory for another");
  const auto written = (*session)->Do(cmd::Memset{kStream, kElsewhere, kPiece / 4, 0x5ec7e75e, 4});
  for (const auto& [start, size] :
       {std::pair{kElsewhere, kPiece}, std::pair{kOwn, (*other)->own_bytes()}}) {
    for (uint64_t at = start; at + kMiB <= start + size; at += 16 * kMiB) {
      const auto bytes = (*other)->Read(at, kMiB);
      if (!bytes.ok()) return Unprepared(bytes.status());
      if (bytes->find_first_not_of('\0') != std::string::npos) {
        return Succeeded("another's memory has its bytes");
      }
    }
  }
  return Stopped(written.ok() && *written == 0 ? "what it writes stays with itself"
                                               : "it cannot write there any more");
}

// Fills memory with a word, ends, and looks for it in what the next session is given.
WireResult FormerSessionsBytes(const WireTarget& target) {
  constexpr uint64_t kPiece = 64 * kMiB;
  constexpr uint32_t kSecret = 0x5ec7e75e;
  const std::set<pid_t> before = Workers(target);
  for (int round = 0; round < 2; ++round) {
    // Not before the memory of the one before is free.
    if (const WireResult left = JudgeLeftovers(target, before);
        left.outcome != WireOutcome::kStopped) {
      return left;
    }
    // This decides nothing: the longer the rest, the more of that memory may be found again.
    absl::SleepFor(absl::Milliseconds(500));
    auto session = WireSession::Open(target);
    if (!session.ok()) return Unprepared(session.status());
    const auto grant = (*session)->Ask(Request(5, kElsewhere, kPiece));
    if (!grant.ok() || grant->error() != 0) return Unprepared("no memory");
    for (const uint64_t at : {kElsewhere, kElsewhere + kPiece - kMiB, kOwn}) {
      const auto bytes = (*session)->Read(at, kMiB);
      if (!bytes.ok()) return Unprepared(bytes.status());
      const size_t found = bytes->find_first_not_of('\0');
      if (found != std::string::npos) {
        return Succeeded(absl::StrCat("a byte of somebody else at ", absl::Hex(at + found)));
      }
    }
    for (const auto& [at, bytes] :
         {std::pair{kElsewhere, kPiece}, std::pair{kOwn, (*session)->own_bytes()}}) {
      const auto set = (*session)->Do(cmd::Memset{kStream, at, bytes / 4, kSecret, 4});
      if (!set.ok() || *set != 0) return Unprepared("it cannot be written");
    }
  }
  return Stopped("all bytes are 0");
}

MemoryRequest Share(uint64_t va, uint64_t handle) {
  MemoryRequest request;
  request.set_id(5);
  request.mutable_share()->set_va(va);
  request.mutable_share()->set_bytes(va == 0 ? 0 : 2 * kMiB);  // 0: an event.
  request.mutable_share()->set_handle(handle);
  return request;
}

// What was offered comes whole: a request for less of it is refused for that.
MemoryRequest OpenShared(const MemoryGrant& offer, const std::string& token) {
  MemoryRequest request = Request(6, 0, offer.bytes());
  request.set_handle(9);
  request.set_open(token);
  return request;
}

// Whether the offer can be taken up in a session of its own.
absl::Status TakeUp(const WireTarget& target, const MemoryGrant& offer) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return session.status();
  const auto grant = (*session)->Ask(OpenShared(offer, offer.token()));
  if (!grant.ok()) return grant.status();
  if (grant->error() != 0) return absl::NotFoundError(grant->message());
  return absl::OkStatus();
}

WireResult ShareOthers(const WireTarget& target) { return Ask(target, Share(kElsewhere, 0)); }

WireResult ShareNoHandle(const WireTarget& target) { return Ask(target, Share(0, 12345)); }

// Tokens that are nearly that of another session, and any.
WireResult GuessToken(const WireTarget& target) {
  auto owner = WireSession::Open(target);
  if (!owner.ok()) return Unprepared(owner.status());
  const auto offer = (*owner)->Ask(Share(kOwn, 0));
  if (!offer.ok() || offer->token().empty()) return Unprepared("no token");
  if (const absl::Status taken = TakeUp(target, *offer); !taken.ok()) return Unprepared(taken);
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  std::vector<std::string> tokens = {std::string(1, '\0'), std::string(100'000, 'x')};
  for (size_t i = 0; i < offer->token().size(); ++i) {
    std::string token = offer->token();
    token[i] = static_cast<char>(token[i] ^ 1);
    tokens.push_back(std::move(token));
    tokens.push_back(offer->token().substr(0, i + 1 == offer->token().size() ? i : i + 1));
  }
  for (const std::string& token : tokens) {
    if (token.empty()) continue;
    const auto grant = (*session)->Ask(OpenShared(*offer, token));
    if (!grant.ok()) {
      session = WireSession::Open(target);
      if (!session.ok()) return Unprepared(session.status());
    } else if (grant->error() == 0) {
      return Succeeded("memory for a guessed token");
    }
  }
  return Stopped(absl::StrCat(tokens.size(), " tokens were refused"));
}

WireResult TokenAfterItsEnd(const WireTarget& target) {
  auto owner = WireSession::Open(target);
  if (!owner.ok()) return Unprepared(owner.status());
  const auto offer = (*owner)->Ask(Share(kOwn, 0));
  if (!offer.ok() || offer->token().empty()) return Unprepared("no token");
  if (const absl::Status taken = TakeUp(target, *offer); !taken.ok()) return Unprepared(taken);
  (*owner)->client()->Close();
  owner->reset();
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  // Its owner may still be being cleared away; this hold keeps the memory, not the token.
  const bool refused = AwaitThat([&] {
    const auto grant = (*session)->Ask(OpenShared(*offer, offer->token()));
    if (!grant.ok() || grant->error() != 0) return true;
    session = WireSession::Open(target);
    return !session.ok();
  });
  if (!session.ok()) return Unprepared(session.status());
  return refused ? Stopped("its memory is nobody's any more")
                 : Succeeded("the token is good for ever");
}

// More offers than a session may make, each of which costs the server an entry. They are of events:
// memory that was offered already keeps its token.
WireResult ManyOffers(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const Footprint before = Measure(target);
  int granted = 0;
  const int most = 20'000 * target.scale;
  for (int i = 0; i < most; ++i) {
    const auto offer = (*session)->Ask(Share(0, 0));
    if (!offer.ok() || offer->error() != 0) break;
    ++granted;
  }
  if (granted == most) return Succeeded(absl::StrCat(granted, " offers, and none was refused"));
  WireResult grown = JudgeGrowth(target, before, {64 << 10, 500, 100, 200'000});
  absl::StrAppend(&grown.detail, "; ", granted, " offers");
  return grown;
}

// Many requests without waiting for an answer.
WireResult ManyRequests(const WireTarget& target) {
  auto opened = WireSession::Open(target);
  if (!opened.ok()) return Unprepared(opened.status());
  const std::shared_ptr<WireSession> session = *std::move(opened);
  const Footprint before = Measure(target);
  session->client()->StopReading();
  Flood(2'000'000, [session](int64_t i) {
    session->client()->Send(kMemoryRequest, Request(i, kOwn, 2 * kMiB).SerializeAsString());
  });
  const WireResult served = JudgeNeighbour(target, "two million requests for memory");
  if (served.outcome != WireOutcome::kStopped) return served;
  // An unread stream holds what gRPC takes for the way between the two, on a quick machine 85 MB in
  // small messages. Requests that are taken come on top of it.
  return JudgeGrowth(target, before, {96 << 10, 500, 200, 200'000});
}

// A connection to the port where clients of this host ask for memory that they share.
UniqueFd ConnectPort(const std::string& name) {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(),
              std::min(name.size(), sizeof(address.sun_path) - 1));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (!fd.valid() || connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return {};
  const timeval patience = {static_cast<time_t>(absl::ToInt64Seconds(kPatience)), 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  return fd;
}

warpline_internal::HostMemoryRequest SegmentRequest(uint64_t session, const std::string& secret,
                                                    uint64_t va) {
  warpline_internal::HostMemoryRequest request;
  request.set_session(session);
  request.set_secret(secret);
  request.set_va(va);
  request.set_bytes(1 << 20);
  return request;
}

// The error of a request; -1 when there is no answer. `memory` gets the descriptor that comes.
int AskPort(int fd, const warpline_internal::HostMemoryRequest& request,
            UniqueFd* memory = nullptr) {
  const std::string packet = std::string(1, '\0') + request.SerializeAsString();
  char answer[4096];
  if (send(fd, packet.data(), packet.size(), MSG_NOSIGNAL) < 0) return -1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  iovec part = {answer, sizeof(answer)};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  const ssize_t n = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
  if (const cmsghdr* rights = n < 1 ? nullptr : CMSG_FIRSTHDR(&header); rights != nullptr) {
    int number;
    std::memcpy(&number, CMSG_DATA(rights), sizeof(number));
    UniqueFd got(number);
    if (memory != nullptr) *memory = std::move(got);
  }
  warpline_internal::HostMemoryAnswer parsed;
  if (n < 1 || !parsed.ParseFromArray(answer + 1, static_cast<int>(n) - 1)) return -1;
  return parsed.error();
}

int AskPort(int fd, uint64_t session, const std::string& secret, uint64_t va) {
  return AskPort(fd, SegmentRequest(session, secret, va));
}

WireResult HostMemoryOfOthers(const WireTarget& target) {
  auto owner = WireSession::Open(target);
  if (!owner.ok()) return Unprepared(owner.status());
  auto other = WireSession::Open(target);
  if (!other.ok()) return Unprepared(other.status());
  const std::string& port = (*owner)->welcome().host_memory_socket();
  if (port.empty()) return NotHere("no host memory is shared");
  const uint64_t id = (*owner)->welcome().session();
  const std::string& secret = (*owner)->welcome().secret();
  for (const std::string& wrong : {std::string(), secret.substr(1), (*other)->welcome().secret(),
                                   secret + "x", std::string(3000, 's')}) {
    const UniqueFd fd = ConnectPort(port);
    if (AskPort(fd.get(), id, wrong, kHostArenaBase) == 0) return Succeeded("it has a segment");
  }
  const UniqueFd fd = ConnectPort(port);
  for (const uint64_t va : {kArena, kHostArenaBase + kHostArenaBytes, uint64_t{0x555555554000},
                            ~uint64_t{0} - (1 << 20) + 1, kHostArenaBase + 1}) {
    if (AskPort(fd.get(), id, secret, va) == 0) return Succeeded(absl::StrCat(absl::Hex(va)));
    if (const UniqueFd again = ConnectPort(port); !again.valid()) return Succeeded("no port");
  }
  const UniqueFd own = ConnectPort(port);
  const int good = AskPort(own.get(), id, secret, kHostArenaBase);
  return good == 0 ? Stopped("its owner has one, others none")
                   : Unprepared(absl::StrCat("its owner gets error ", good));
}

// Host memory that outlives its session, and that nobody is charged for once the connection is gone
// by which it was asked for; the attacker has it mapped.
WireResult MemoryKeptPastTheSession(const WireTarget& target) {
  const std::set<pid_t> before = Workers(target);
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const std::string& port = (*session)->welcome().host_memory_socket();
  if (port.empty()) return NotHere("no host memory is shared");
  UniqueFd fd = ConnectPort(port);
  auto request = SegmentRequest((*session)->welcome().session(), (*session)->welcome().secret(),
                                kHostArenaBase);
  request.set_outlives(true);
  UniqueFd memory;
  const int error = AskPort(fd.get(), request, &memory);
  if (error != 0 || !memory.valid()) return Unprepared(absl::StrCat("error ", error));
  void* const bytes =
      mmap(nullptr, request.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (bytes == MAP_FAILED) return Unprepared("it cannot be mapped");
  std::memset(bytes, 7, request.bytes());
  session->reset();
  if (const WireResult left = JudgeLeftovers(target, before);
      left.outcome != WireOutcome::kStopped) {
    return left;
  }
  struct stat file = {};
  const bool kept = fstat(memory.get(), &file) == 0 && file.st_blocks != 0;
  fd = UniqueFd();
  AwaitThat([&] { return fstat(memory.get(), &file) != 0 || file.st_blocks == 0; });
  munmap(bytes, request.bytes());
  if (!kept) return Unprepared("it does not outlive the session");
  return file.st_blocks == 0 ? Stopped("it is empty once the connection is gone")
                             : Succeeded(absl::StrCat(file.st_blocks / 2, " KiB are left"));
}

// Connections to that port that say nothing.
WireResult SilentPortConnections(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const std::string& port = (*session)->welcome().host_memory_socket();
  if (port.empty()) return NotHere("no host memory is shared");
  const size_t most = server::HostMemoryPortLimits().most_strange_of_user;
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 4200; ++i) {
    UniqueFd fd = ConnectPort(port);
    if (fd.valid()) silent.push_back(std::move(fd));
  }
  // The port takes connections in their order and makes room for each at once, so that those before
  // the client's have given way when it has an answer. A client that is not let run in time has to
  // come again.
  int error = -1;
  AwaitThat([&] {
    const UniqueFd own = ConnectPort(port);
    error = AskPort(own.get(), (*session)->welcome().session(), (*session)->welcome().secret(),
                    kHostArenaBase);
    return error != -1;
  });
  const auto left = std::count_if(silent.begin(), silent.end(), &IsOpen);
  const std::string detail =
      absl::StrCat(silent.size(), " silent connections, of which ", left, " are left, of at most ",
                   most, "; a client's error ", error);
  if (silent.size() <= most) return Unprepared(detail);
  return error == 0 && static_cast<size_t>(left) <= most ? Stopped(detail) : Succeeded(detail);
}

// The server as another peer than others on this host, where it has a unix socket: what an attack
// takes of a peer's bounds then is not its neighbours'.
absl::StatusOr<WireTarget> AsAnotherPeer(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return session.status();
  WireTarget other = target;
  const std::string& path = (*session)->welcome().unix_socket();
  if (!path.empty()) other.endpoint = "unix:" + path;
  return other;
}

// As much of the device as sessions of one peer can have together, each within its quota.
WireResult ManySessionsMemory(const WireTarget& target) {
  const auto peer = AsAnotherPeer(target);
  if (!peer.ok()) return Unprepared(peer.status());
  constexpr uint64_t kPiece = 1536 * kMiB;
  constexpr int kSessions = 3;
  std::vector<std::unique_ptr<WireSession>> sessions;
  for (int i = 0; i < kSessions; ++i) {
    auto session = WireSession::Open(*peer);
    if (!session.ok()) return Unprepared(session.status());
    MemoryRequest request = Request(5, kElsewhere, kPiece);
    request.set_min_bytes(kPiece);
    const auto grant = (*session)->Ask(request);
    if (!grant.ok()) return Unprepared(grant.status());
    if (grant->error() != 0) {
      return i == 0 ? Unprepared("nothing is to be had")
                    : Stopped(absl::StrCat("session ", i + 1, ": ", grant->message()));
    }
    sessions.push_back(*std::move(session));
  }
  return Succeeded(absl::StrCat(kSessions, " sessions of ", kPiece, " bytes"));
}

// Images in several sessions of one peer, each within what a session may have. That they are
// announced is what counts, so that this takes no memory.
WireResult ManySessionsImages(const WireTarget& target) {
  const auto peer = AsAnotherPeer(target);
  if (!peer.ok()) return Unprepared(peer.status());
  constexpr uint64_t kImage = 1024 * kMiB;
  constexpr uint64_t kMost = 16 * kImage;
  std::vector<std::unique_ptr<WireSession>> sessions;
  for (uint64_t announced = 0; announced < kMost; announced += kImage) {
    if (announced % (2 * kImage) == 0) {
      auto session = WireSession::Open(*peer);
      if (!session.ok()) {
        return announced > 0 ? Stopped(std::string(session.status().message()))
                             : Unprepared(session.status());
      }
      sessions.push_back(*std::move(session));
    }
    const auto sent = sessions.back()->Do(cmd::ImageData{1 + announced, kImage, 0}, "x");
    if (!sent.ok()) return Unprepared(sent.status());
    if (*sent != 0) {
      return Stopped(absl::StrCat("CUDA error ", *sent, " after ", announced, " bytes"));
    }
  }
  return Succeeded(absl::StrCat(kMost, " bytes of images"));
}

// Returns more at once than may be under way, again and again: it has to wait, and nobody else.
WireResult ReturnsWithoutWaiting(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const Footprint before = Measure(target);
  constexpr uint64_t kGrants = 300;
  for (int round = 0; round < 3 * target.scale; ++round) {
    for (uint64_t i = 0; i < kGrants; ++i) {
      const auto grant = (*session)->Ask(Request(10 + i, kElsewhere + i * 2 * kMiB, 2 * kMiB));
      if (!grant.ok() || grant->error() != 0) {
        return Unprepared(absl::ResourceExhaustedError("no memory"));
      }
    }
    warpline_internal::MemoryReturn give_back;
    give_back.set_bytes(2 * kMiB);
    for (uint64_t i = 0; i < kGrants; ++i) {
      give_back.set_va(kElsewhere + i * 2 * kMiB);
      (*session)->client()->Send(kMemoryReturn, give_back.SerializeAsString());
    }
  }
  // It did nothing that is forbidden.
  const auto goes_on = (*session)->Call(cmd::ContextSync{});
  if (!goes_on.ok()) return Succeeded("it was ended: " + std::string(goes_on.status().message()));
  return JudgeGrowth(target, before, {128 << 10, 500, 200, 200'000});
}

constexpr WireAttack kAttacks[] = {
    {"memory_outside_the_arena", "-", "", &OutsideTheArena},
    {"memory_over_the_arenas_end", "-", "", &OverItsEnd},
    {"memory_that_wraps_around", "-", "", &ThatWraps},
    {"memory_that_is_not_aligned", "-", "", &Crooked},
    {"memory_of_no_bytes", "-", "", &OfNothing},
    {"memory_of_which_more_is_needed_than_wanted", "-", "", &LeastAboveMost},
    {"memory_where_it_has_some", "-", "", &Overlapping},
    {"handles_for_a_petabyte", "M13", "", &ManyHandles},
    {"handles_that_wrap_around", "-", "", &HandlesThatWrap},
    {"memory_beyond_the_quota", "H3", "", &BeyondTheQuota},
    {"return_of_what_it_does_not_have", "-", "", &ReturnOfOthers},
    {"return_twice", "-", "", &ReturnTwice},
    {"use_after_return", "C3", "", &UseAfterReturn},
    {"bytes_of_a_former_session", "C3", "", &FormerSessionsBytes},
    {"share_of_what_it_does_not_have", "-", "", &ShareOthers},
    {"share_of_a_handle_that_there_is_not", "-", "", &ShareNoHandle},
    {"guessed_token_of_shared_memory", "-", "", &GuessToken},
    {"token_of_a_session_that_ended", "M12", "", &TokenAfterItsEnd},
    {"offers_by_the_thousand", "M12", "", &ManyOffers},
    {"requests_without_waiting", "M7", "", &ManyRequests},
    {"returns_without_waiting", "M7", "", &ReturnsWithoutWaiting},
    {"memory_of_a_peer_in_many_sessions", "M7", "--peer_memory=0", &ManySessionsMemory},
    {"images_of_a_peer_in_many_sessions", "M3", "--tenant_host_memory=64GiB", &ManySessionsImages},
    {"host_memory_of_others", "M14", "", &HostMemoryOfOthers},
    {"host_memory_kept_past_the_session", "M14", "", &MemoryKeptPastTheSession},
    {"silent_connections_for_host_memory", "M14", "", &SilentPortConnections},
};

}  // namespace

absl::Span<const WireAttack> MemoryAttacks() { return kAttacks; }

}  // namespace warpline::attack
