// What is another session's: its objects, by their handles, memory that it may have taken over, and
// the process that it may share.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_numbers.h"
#include "proto/frames.h"
#include "proto/graph_definition.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"
#include "tests/hostile/commands.h"
#include "tests/hostile/raw_client.h"

namespace warpline::attack {
namespace {

constexpr char kPtx[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .global .align 4 .u32 secret = 4711;
.visible .entry nothing()
{
  ret;
}
)";

// What the owner calls its objects; nobody else has any that are called so.
constexpr uint64_t kObject = 77;
constexpr uint64_t kLegacy = kLegacyStreamHandle;

template <typename Struct>
std::string_view BytesOf(const Struct& fields) {
  return {reinterpret_cast<const char*>(&fields), sizeof(fields)};
}

// Another tenant, beside the attacker: the same tier, another arena.
absl::StatusOr<std::unique_ptr<WireSession>> OpenOwner(const WireTarget& target) {
  return WireSession::OpenAt(target, kArena + 16 * kArenaBytes);
}

using Made = absl::StatusOr<int>;

struct Use {
  const char* name;
  Made (*make)(WireSession* session);
};

Made CopyOn(WireSession* session, uint64_t stream) {
  return session->Do(cmd::Memset{stream, session->welcome().initial_memory().va(), 64, 1, 1});
}

// In an order in which the owner can do all of it; the last ones end the objects.
constexpr Use kUses[] = {
    {"a fill on its stream", [](WireSession* session) { return CopyOn(session, kObject); }},
    {"a wait for its stream",
     [](WireSession* session) -> Made { return session->Call(cmd::StreamSync{kObject}); }},
    {"a record of its event",
     [](WireSession* session) -> Made {
       return session->Do(cmd::EventRecord{kObject, kLegacy});
     }},
    {"a wait for its event",
     [](WireSession* session) -> Made { return session->Call(cmd::EventSync{kObject}); }},
    {"its variable",
     [](WireSession* session) -> Made {
       return session->Call(cmd::GlobalFind{kObject}, "secret");
     }},
    {"a kernel of its module",
     [](WireSession* session) -> Made {
       return session->Call(cmd::KernelFind{kObject + 1, kObject}, "nothing");
     }},
    {"its kernel",
     [](WireSession* session) -> Made {
       return session->Do(cmd::Launch{kLegacy, kObject, 1, 1, 1, 1, 1, 1, 0, 0});
     }},
    {"its graph",
     [](WireSession* session) -> Made {
       return session->Do(cmd::GraphLaunch{kLegacy, kObject});
     }},
    {"the end of its graph",
     [](WireSession* session) -> Made { return session->Do(cmd::GraphDestroy{kObject}); }},
    {"the end of its event",
     [](WireSession* session) -> Made { return session->Do(cmd::EventDestroy{kObject}); }},
    {"the end of its stream",
     [](WireSession* session) -> Made { return session->Do(cmd::StreamDestroy{kObject}); }},
    {"the end of its module",
     [](WireSession* session) -> Made { return session->Do(cmd::ModuleUnload{kObject}); }},
};

// An error of CUDA's, or of the session.
absl::Status Make(WireSession* session) {
  const cmd::Memset step = {0, session->welcome().initial_memory().va(), 64, 1, 1};
  std::string definition;
  AppendGraphStep(static_cast<uint32_t>(CommandId::kMemset), {}, BytesOf(step), "", &definition);
  const uint64_t image = kObject;
  std::vector<Made> made;
  made.push_back(session->Do(cmd::StreamCreate{kObject, 1, 0}));
  made.push_back(session->Do(cmd::EventCreate{kObject, 0, 0}));
  made.push_back(session->Load(kObject, kPtx));
  made.push_back(session->Call(cmd::KernelFind{kObject, kObject}, "nothing"));
  session->Add(cmd::ImageData{image, definition.size(), 0}, definition);
  made.push_back(session->Call(cmd::GraphCreate{kObject, image}));
  for (const Made& each : made) {
    if (!each.ok()) return each.status();
    if (*each != 0) return absl::InternalError(absl::StrCat("CUDA error ", *each));
  }
  return absl::OkStatus();
}

// The owner has an object of each kind. Nobody else does anything with it; the owner does.
WireResult OfAnotherSession(const WireTarget& target) {
  auto owner = OpenOwner(target);
  if (!owner.ok()) return Unprepared(owner.status());
  if (const absl::Status made = Make(owner->get()); !made.ok()) return Unprepared(made);
  for (const Use& use : kUses) {
    // Some errors are the session's last.
    auto session = WireSession::Open(target);
    if (!session.ok()) return Unprepared(session.status());
    const WireResult judged = JudgeRefusal(use.make(session->get()), use.name);
    if (judged.outcome != WireOutcome::kStopped) return judged;
    (*session)->client()->Close();
  }
  for (const Use& use : kUses) {
    const Made done = use.make(owner->get());
    if (!done.ok()) return Succeeded(absl::StrCat(use.name, ": ", done.status().ToString()));
    if (*done != 0) return Succeeded(absl::StrCat(use.name, " fails for its owner: ", *done));
  }
  return Stopped("its owner alone could use its objects");
}

// Gives back what it had from the start, and goes on reading and writing there once another session
// has opened.
WireResult FirstMemoryAfterReturn(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const uint64_t bytes = (*session)->own_bytes();
  warpline_internal::MemoryReturn give_back;
  give_back.set_va(kOwn);
  give_back.set_bytes(bytes);
  (*session)->client()->Send(kMemoryReturn, give_back.SerializeAsString());
  auto owner = OpenOwner(target);
  if (!owner.ok()) return Unprepared(owner.status());
  const uint64_t theirs = (*owner)->welcome().initial_memory().va();
  const std::string secret(4096, 's');
  for (uint64_t at = 0; at < bytes; at += kMiB) {
    const Made put = (*owner)->Do(cmd::CopyToDevice{kLegacy, theirs + at}, secret);
    if (!put.ok() || *put != 0) return Unprepared("another's memory cannot be written");
  }
  const Made written = (*session)->Do(cmd::Memset{kLegacy, kOwn, bytes / 4, 0x0badf00d, 4});
  for (uint64_t at = 0; at < bytes; at += kMiB) {
    const auto read = (*owner)->Read(theirs + at, secret.size());
    if (!read.ok()) return Succeeded(std::string(read.status().message()));
    if (*read != secret) return Succeeded("another's memory has its bytes");
    const auto stale = (*session)->Read(kOwn + at, secret.size());
    if (stale.ok() && *stale == secret) return Succeeded("it has another's bytes");
  }
  return Stopped(written.ok() && *written == 0 ? "what it writes stays with itself"
                                               : "it cannot write there any more");
}

// Commands of every kind with fields that may make sense, in sessions one after another. A session
// may end of it, in order.
WireResult RandomCommands(const WireTarget& target) {
  constexpr int kSessions = 8, kBatches = 20, kCommandsOfABatch = 100;
  int refused = 0;
  for (int i = 0; i < kSessions * target.scale; ++i) {
    auto session = WireSession::Open(target);
    if (!session.ok()) return Unprepared(session.status());
    hostile::Random random(static_cast<uint64_t>(i));
    hostile::RawClient& client = *(*session)->client();
    uint64_t seq = 1;
    for (int batch = 0; batch < kBatches && !client.closed(); ++batch) {
      std::string commands;
      for (int c = 0; c < kCommandsOfABatch; ++c) hostile::AppendRandomCommand(random, &commands);
      client.Send(kCommands, hostile::CommandsPayload(seq, kCommandsOfABatch, commands));
      seq += kCommandsOfABatch;
    }
    client.Flush();
    const auto fault = client.Expect(kFault, absl::Milliseconds(200));
    refused += fault.ok() ? 1 : 0;
    warpline_internal::Fault why;
    if (fault.ok() && why.ParseFromString(*fault) && SaysCrashed(why.message())) {
      return Succeeded(why.message());
    }
  }
  return Stopped(absl::StrCat(kSessions * target.scale, " sessions, of which ", refused,
                              " were ended with a reason"));
}

constexpr WireAttack kAttacks[] = {
    {"random_commands", "-", "", &RandomCommands},
    {"first_memory_used_after_its_return", "-", "", &FirstMemoryAfterReturn},
    {"handles_of_another_session", "-", "", &OfAnotherSession},
};

}  // namespace

absl::Span<const WireAttack> OthersAttacks() { return kAttacks; }

}  // namespace warpline::attack
