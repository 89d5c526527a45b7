// Attacks on staging memory that a client shares with its session's worker: what becomes of it when
// the session has ended, and the client still has it mapped.
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/cuda/cuda_numbers.h"
#include "common/packets/packet_socket.h"
#include "common/sealed_memory.h"
#include "common/unique_fd.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"
#include "transport/unix_connect.h"

namespace warpline::attack {
namespace {

constexpr uint64_t kAsked = 4 * kMiB;
constexpr int kOutOfMemory = 2;  // CUresult
// Between requests of a session that finds no window.
constexpr absl::Duration kAgain = absl::Milliseconds(20);

// Staging memory as a client has it.
class Staging {
 public:
  // Maps a file; at() is null where it cannot.
  explicit Staging(UniqueFd file) : file_(std::move(file)) {
    bytes_ = SealedBytes(file_.get()).value_or(0);
    void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    at_ = at == MAP_FAILED ? nullptr : static_cast<char*>(at);
  }
  ~Staging() {
    if (at_ != nullptr) munmap(at_, bytes_);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  char* at() const { return at_; }
  bool Has(const std::string& what) const {
    return std::search(at_, at_ + bytes_, what.begin(), what.end()) != at_ + bytes_;
  }

 private:
  const UniqueFd file_;
  uint64_t bytes_ = 0;
  char* at_ = nullptr;
};

// Asks until there is some.
absl::StatusOr<std::unique_ptr<Staging>> AskForStaging(const WireSession& session) {
  const warpline_internal::Welcome& welcome = session.welcome();
  warpline_internal::HostMemoryRequest request;
  request.set_session(welcome.session());
  request.set_secret(welcome.secret());
  request.set_va(kHostArenaBase);
  request.set_bytes(kAsked);
  request.set_staging(true);
  const absl::Time until = absl::Now() + kPatience;
  while (true) {
    auto socket = ConnectAbstract(welcome.host_memory_socket(), std::nullopt);
    if (!socket.ok()) return socket.status();
    warpline_internal::HostMemoryAnswer answer;
    std::vector<UniqueFd> files;
    if (const absl::Status sent = SendPacket(socket->get(), request, {}); !sent.ok()) return sent;
    pollfd readable = {socket->get(), POLLIN, 0};
    poll(&readable, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience)));
    const absl::Status received = ReceivePacket(socket->get(), &answer, &files);
    if (!received.ok()) return received;
    if (answer.error() == 0 && files.size() == 1) {
      auto staging = std::make_unique<Staging>(std::move(files[0]));
      if (staging->at() == nullptr) return absl::InternalError("it cannot be mapped");
      return staging;
    }
    if (answer.error() != kOutOfMemory || absl::Now() >= until) {
      return absl::UnavailableError(absl::StrCat("no staging memory: ", answer.error()));
    }
    absl::SleepFor(kAgain);
  }
}

// The bytes are staged, copied to the device, and read from there.
absl::StatusOr<std::string> Pass(WireSession* session, uint64_t bytes) {
  const auto copied = session->Do(cmd::CopyOnDevice{
      kLegacyStreamHandle, session->welcome().initial_memory().va(), kHostArenaBase, bytes});
  if (!copied.ok()) return copied.status();
  if (*copied != 0) return absl::InternalError(absl::StrCat("the copy failed: ", *copied));
  return session->Read(session->welcome().initial_memory().va(), bytes);
}

// A client keeps what it had mapped in one session, and looks there, and writes there, while
// another tenant's session copies through what it was given.
WireResult StagingKeptAfterItsSession(const WireTarget& target) {
  const std::string mark(64, 'm'),
      secret = "a secret of the next session's " + std::string(64, 's');
  auto former = WireSession::OpenAt(target, kArena);
  if (!former.ok()) return Unprepared(former.status());
  if ((*former)->welcome().host_memory_socket().empty()) return NotHere("nothing is shared");
  const auto kept = AskForStaging(**former);
  if (!kept.ok()) return Unprepared(kept.status());
  std::memcpy((*kept)->at(), mark.data(), mark.size());
  if (const auto passed = Pass(former->get(), mark.size()); !passed.ok() || *passed != mark) {
    return Unprepared("nothing passes the memory of the first session");
  }
  (*former)->client()->Close();
  former->reset();

  auto next = WireSession::OpenAt(target, kArena);
  if (!next.ok()) return Unprepared(next.status());
  const auto theirs = AskForStaging(**next);
  if (!theirs.ok()) return Unprepared(theirs.status());
  if ((*theirs)->Has(mark)) return Succeeded("the next session finds what the first has left");
  std::memcpy((*theirs)->at(), secret.data(), secret.size());
  if (const auto passed = Pass(next->get(), secret.size()); !passed.ok() || *passed != secret) {
    return Unprepared("nothing passes the memory of the next session");
  }
  if ((*kept)->Has(secret)) return Succeeded("it reads what the next session copies");
  std::memset((*kept)->at(), 'x', secret.size());
  const auto passed = Pass(next->get(), secret.size());
  if (!passed.ok()) return Unprepared(passed.status());
  if (*passed != secret) return Succeeded("it changes what the next session copies");
  return Stopped("what it has mapped is nobody else's");
}

constexpr WireAttack kAttacks[] = {
    {"staging_kept_after_its_session", "-", "", &StagingKeptAfterItsSession},
};

}  // namespace

absl::Span<const WireAttack> WindowAttacks() { return kAttacks; }

}  // namespace warpline::attack
