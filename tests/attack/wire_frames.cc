// Frames in an open session that no client sends: each must end that session and nothing else.
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_numbers.h"
#include "proto/frames.h"
#include "proto/wire.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"
#include "tests/hostile/commands.h"

namespace warpline::attack {
namespace {

using hostile::CommandsPayload;
using hostile::RawClient;

constexpr int kInvalidValue = 1;  // CUDA_ERROR_INVALID_VALUE

std::string Sync() {
  std::string commands;
  AppendCommand(cmd::ContextSync{}, 0, &commands);
  return commands;
}

// Stopped when the frame ends the session: by a fault or by the channel's end.
WireResult Send(const WireTarget& target, uint32_t kind, std::string payload,
                bool resumable = false) {
  auto session = WireSession::Open(target, resumable);
  if (!session.ok()) return Unprepared(session.status());
  RawClient* const client = (*session)->client();
  client->Send(kind, std::move(payload));
  while (true) {
    const auto frame = client->Next(kPatience);
    if (absl::IsDeadlineExceeded(frame.status())) return Succeeded("the session goes on");
    if (!frame.ok()) return Stopped(std::string(frame.status().message()));
    if (frame->kind == kFault) {
      warpline_internal::Fault fault;
      fault.ParseFromString(frame->payload);
      return SaysCrashed(fault.message())
                 ? Succeeded(absl::StrCat("the session's worker: ", fault.message()))
                 : Stopped(absl::StrCat("the session was ended: ", fault.message()));
    }
    if (frame->kind == kReplies) {
      for (ReplyReader reader(frame->payload); !reader.Done();) {
        const auto reply = reader.Next();
        if (!reply.ok()) break;
        if (reply->id == ReplyId::kReply) return Succeeded("it was answered");
      }
    }
  }
}

WireResult SecondHello(const WireTarget& target) {
  return Send(target, kHello, hostile::ValidHello());
}

WireResult ResumeInside(const WireTarget& target) { return Send(target, kResume, ""); }

WireResult UnknownFrame(const WireTarget& target) { return Send(target, 4711, "frame"); }

WireResult ServersFrame(const WireTarget& target) {
  return Send(target, kMemoryGrant, std::string(64, '\x08'));
}

WireResult NoHeader(const WireTarget& target) { return Send(target, kCommands, "short"); }

WireResult FewerThanCounted(const WireTarget& target) {
  return Send(target, kCommands, CommandsPayload(1, 1000, Sync()));
}

WireResult GapInNumbers(const WireTarget& target) {
  return Send(target, kCommands, CommandsPayload(1'000'000, 1, Sync()));
}

WireResult NumbersThatWrap(const WireTarget& target) {
  return Send(target, kCommands, CommandsPayload(~uint64_t{0}, ~0u, Sync()));
}

WireResult NumberNought(const WireTarget& target) {
  return Send(target, kCommands, CommandsPayload(0, 1, Sync()));
}

WireResult UnknownCommand(const WireTarget& target) {
  const CommandHeader header = {0xffff, 0, sizeof(header)};
  std::string command(reinterpret_cast<const char*>(&header), sizeof(header));
  return Send(target, kCommands, CommandsPayload(1, 1, command));
}

// A command with a header that says another size.
WireResult WithSize(const WireTarget& target, uint32_t size) {
  std::string commands = Sync();
  CommandHeader header;
  std::memcpy(&header, commands.data(), sizeof(header));
  header.size = size;
  std::memcpy(commands.data(), &header, sizeof(header));
  return Send(target, kCommands, CommandsPayload(1, 1, commands));
}

WireResult SizeNought(const WireTarget& target) { return WithSize(target, 0); }
WireResult SizeBeyondTheFrame(const WireTarget& target) { return WithSize(target, 1 << 19); }
WireResult SizeOfEverything(const WireTarget& target) { return WithSize(target, ~0u); }

WireResult BodyThatIsCut(const WireTarget& target) {
  std::string commands;
  AppendCommand(cmd::Memset{kLegacyStreamHandle, kOwn, 16, 0, 1}, 0, &commands);
  CommandHeader header;
  std::memcpy(&header, commands.data(), sizeof(header));
  header.size = 16;
  std::memcpy(commands.data(), &header, sizeof(header));
  return Send(target, kCommands, CommandsPayload(1, 1, commands.substr(0, 16)));
}

// Of commands with which nothing else is wrong.
WireResult FrameTooLarge(const WireTarget& target) {
  std::string commands;
  uint32_t count = 1;
  for (; commands.size() < kMaxCommandsPayload; ++count) {
    const size_t piece = 65'000;
    char* const tail =
        AppendCommand(cmd::CopyToDevice{kLegacyStreamHandle, kOwn}, piece, &commands);
    std::memset(tail, 'x', piece);
  }
  return Send(target, kCommands, CommandsPayload(1, count, commands + Sync()));
}

WireResult AckOfTheFuture(const WireTarget& target) {
  const uint64_t frames = 1ull << 40;
  return Send(target, kAck, std::string(reinterpret_cast<const char*>(&frames), sizeof(frames)),
              /*resumable=*/true);
}

WireResult AckThatIsCut(const WireTarget& target) { return Send(target, kAck, "abc"); }

WireResult MemoryRequestOfGarbage(const WireTarget& target) {
  return Send(target, kMemoryRequest, std::string(1000, '\xff'));
}

WireResult ReadBackTooMuch(const WireTarget& target) {
  warpline_internal::ReadBack read;
  read.set_va(kOwn);
  read.set_bytes(1ull << 40);
  return Send(target, kReadBack, read.SerializeAsString());
}

// Asks, in a session that a fault has ended, for memory that is not its own.
WireResult ReadBackOthers(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  RawClient* const client = (*session)->client();
  client->Send(kCommands, CommandsPayload(1, 1, std::string(32, '\xff')));
  if (const auto fault = client->Expect(kFault, kPatience); !fault.ok()) {
    return Unprepared(fault.status());
  }
  const uint64_t end = kOwn + (*session)->own_bytes();
  int id = 0;
  for (const uint64_t va : {kOwn, uint64_t{0x555555554000}, kHostArenaBase, end, end - 2048,
                            ~uint64_t{0} - 4095, kArena + kArenaBytes}) {
    warpline_internal::ReadBack read;
    read.set_id(static_cast<uint64_t>(++id));
    read.set_va(va);
    read.set_bytes(4096);
    client->Send(kReadBack, read.SerializeAsString());
    const auto answer = client->Expect(kReadBackDone, kPatience);
    warpline_internal::ReadBackDone done;
    const bool got = answer.ok() && done.ParseFromString(*answer) && done.error() == 0;
    if (va == kOwn && !got) return Unprepared("its own memory is not read");
    if (!answer.ok()) return Stopped("the session was ended");
    if (va == kOwn) continue;
    if (got) return Succeeded(absl::StrCat("bytes of ", absl::Hex(va)));
    // Whatever else says that somebody tried.
    if (done.error() != kInvalidValue) {
      return Succeeded(absl::StrCat("at ", absl::Hex(va), ": CUDA error ", done.error()));
    }
  }
  return Stopped("its own is read, all else refused");
}

WireResult CommandsAfterTheEnd(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  RawClient* const client = (*session)->client();
  client->Send(kClose, "");
  client->Send(kCommands, CommandsPayload(1, 1, Sync()));
  const auto reply = client->Expect(kReplies, kPatience);
  if (reply.ok()) return Succeeded("it was answered");
  return absl::IsDeadlineExceeded(reply.status()) ? Succeeded("the session goes on")
                                                  : Stopped("the session was over");
}

constexpr WireAttack kAttacks[] = {
    {"hello_in_a_session", "-", "", &SecondHello},
    {"resumption_in_a_session", "-", "", &ResumeInside},
    {"frame_of_no_kind", "-", "", &UnknownFrame},
    {"frame_that_is_the_servers", "-", "", &ServersFrame},
    {"commands_without_a_header", "-", "", &NoHeader},
    {"fewer_commands_than_counted", "-", "", &FewerThanCounted},
    {"gap_in_the_commands_numbers", "-", "", &GapInNumbers},
    {"commands_numbers_that_wrap", "-", "", &NumbersThatWrap},
    {"command_of_number_0", "-", "", &NumberNought},
    {"command_that_there_is_not", "-", "", &UnknownCommand},
    {"command_of_size_0", "-", "", &SizeNought},
    {"command_larger_than_its_frame", "-", "", &SizeBeyondTheFrame},
    {"command_of_4_gigabytes", "-", "", &SizeOfEverything},
    {"command_that_is_cut", "-", "", &BodyThatIsCut},
    {"frame_above_the_limit", "-", "", &FrameTooLarge},
    {"acknowledgement_of_what_was_not_sent", "-", "", &AckOfTheFuture},
    {"acknowledgement_that_is_cut", "-", "", &AckThatIsCut},
    {"memory_request_of_garbage", "-", "", &MemoryRequestOfGarbage},
    {"read_back_of_a_terabyte", "H1", "", &ReadBackTooMuch},
    {"read_back_of_others_memory", "H1", "", &ReadBackOthers},
    {"commands_after_the_end", "-", "", &CommandsAfterTheEnd},
};

}  // namespace

absl::Span<const WireAttack> FrameAttacks() { return kAttacks; }

}  // namespace warpline::attack
