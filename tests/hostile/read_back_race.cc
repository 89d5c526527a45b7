#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/cuda/cuda_numbers.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "proto/wire.h"
#include "tests/hostile/commands.h"
#include "tests/hostile/raw_client.h"
#include "tests/hostile/sequence.h"

namespace warpline::hostile {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
// The memory that each session has touched: it makes one session's worker take a while to die, and
// the other's memory take a while to be freed.
constexpr uint64_t kHeldBytes = 192 * kMiB;
constexpr absl::Duration kPatience = absl::Seconds(60);
// The delays between the end of the other session and the request; the critical moment lies
// somewhere among them.
constexpr int kDelays = 16;
constexpr absl::Duration kDelayStep = absl::Milliseconds(4);

uint64_t ArenaBase() {
  warpline_internal::Hello hello;
  hello.ParseFromString(ValidHello());
  return hello.arena_base();
}

warpline_internal::MemoryRequest Request(uint64_t id, uint64_t va, uint64_t bytes) {
  warpline_internal::MemoryRequest request;
  request.set_id(id);
  request.set_va(va);
  request.set_min_bytes(bytes);
  request.set_want_bytes(bytes);
  return request;
}

// Opens a session that has memory at `va` and has written all of it.
absl::StatusOr<std::unique_ptr<RawClient>> OpenAndTouch(const std::string& endpoint, uint64_t va) {
  auto client = RawClient::Connect(endpoint);
  if (!client.ok()) return client.status();
  if (const absl::Status opened = (*client)->Open(); !opened.ok()) return opened;
  (*client)->Send(kMemoryRequest, Request(6, va, kHeldBytes).SerializeAsString());
  const auto frame = (*client)->Expect(kMemoryGrant, kPatience);
  warpline_internal::MemoryGrant grant;
  if (!frame.ok() || !grant.ParseFromString(*frame) || grant.bytes() != kHeldBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory: ", grant.message()));
  }
  std::string commands;
  AppendCommand(cmd::Memset{kLegacyStreamHandle, va, kHeldBytes / 4, 1, 4}, 0, &commands);
  AppendCommand(cmd::ContextSync{}, 0, &commands);
  (*client)->Send(kCommands, CommandsPayload(1, 2, commands));
  const auto touched = (*client)->ExpectReply(2, kPatience);
  if (!touched.ok()) return touched.status();
  return client;
}

}  // namespace

absl::Status PlayReadBackRace(const std::string& endpoint, int round) {
  const uint64_t held = ArenaBase() + 1024 * kMiB;
  auto other = OpenAndTouch(endpoint, held);
  if (!other.ok()) return other.status();
  auto client = OpenAndTouch(endpoint, held);
  if (!client.ok()) return client.status();
  (*other)->Close();
  absl::SleepFor(round % kDelays * kDelayStep);
  (*client)->Send(kMemoryRequest, Request(7, held + kHeldBytes, 2 * kMiB).SerializeAsString());
  // This is no command: the worker ends the session.
  (*client)->Send(kCommands, CommandsPayload(3, 1, std::string(32, '\xff')));
  const auto fault = (*client)->Expect(kFault, kPatience);
  if (!fault.ok()) return absl::Status(fault.status().code(), "instead of a fault");
  warpline_internal::ReadBack read;
  read.set_id(1);
  read.set_va(held);
  read.set_bytes(4096);
  (*client)->Send(kReadBack, read.SerializeAsString());
  const auto answer = (*client)->Expect(kReadBackDone, kPatience);
  if (!answer.ok()) return absl::Status(answer.status().code(), "instead of what was read");
  warpline_internal::ReadBackDone done;
  if (!done.ParseFromString(*answer) || done.error() != 0 || done.data().size() != 4096) {
    return absl::InternalError(absl::StrCat("read back with error ", done.error()));
  }
  (*client)->Close();
  return absl::OkStatus();
}

}  // namespace warpline::hostile
