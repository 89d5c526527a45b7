#include "tests/hostile/log_floods.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "proto/wire.h"
#include "tests/hostile/commands.h"
#include "tests/hostile/raw_client.h"

namespace warpline::hostile {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(120);
constexpr uint64_t kNoEvent = 0xdead;

absl::Status AwaitReply(RawClient* client, uint64_t seq) {
  while (true) {
    const absl::StatusOr<std::string> frame = client->Expect(kReplies, kPatience);
    if (!frame.ok()) return frame.status();
    ReplyReader reader(*frame);
    while (!reader.Done()) {
      const absl::StatusOr<ReplyView> reply = reader.Next();
      if (!reply.ok()) return reply.status();
      if (reply->id == ReplyId::kReply && reply->seq == seq) return absl::OkStatus();
    }
  }
}

absl::Status FloodCommands(const std::string& endpoint, int count) {
  constexpr int kBatch = 10'000;
  auto client = RawClient::Connect(endpoint);
  if (!client.ok()) return client.status();
  if (auto opened = (*client)->Open(); !opened.ok()) return opened;
  uint64_t seq = 1;
  for (int sent = 0; sent < count; sent += kBatch) {
    std::string commands;
    for (int i = 0; i < kBatch; ++i) AppendCommand(cmd::EventDestroy{kNoEvent}, 0, &commands);
    (*client)->Send(kCommands, CommandsPayload(seq, kBatch, commands));
    seq += kBatch;
  }
  std::string sync;
  AppendCommand(cmd::ContextSync{}, 0, &sync);
  (*client)->Send(kCommands, CommandsPayload(seq, 1, sync));
  const absl::Status done = AwaitReply(client->get(), seq);
  (*client)->Close();
  return done;
}

// Connects and says `kind` and `payload` first, which the server refuses.
absl::Status FloodRefusals(const std::string& endpoint, int count, uint32_t kind,
                           const std::string& payload) {
  for (int i = 0; i < count; ++i) {
    auto client = RawClient::Connect(endpoint);
    if (!client.ok()) return client.status();
    (*client)->Send(kind, payload);
    if ((*client)->Expect(kWelcome, kPatience).ok()) return absl::InternalError("it was welcomed");
    if (!(*client)->closed()) return absl::DeadlineExceededError("it was not refused");
  }
  return absl::OkStatus();
}

absl::Status FloodHellos(const std::string& endpoint, int count) {
  warpline_internal::Hello hello;
  hello.ParseFromString(ValidHello());
  hello.set_device("99");
  return FloodRefusals(endpoint, count, kHello, hello.SerializeAsString());
}

absl::Status FloodResumptions(const std::string& endpoint, int count) {
  auto client = RawClient::Connect(endpoint);
  if (!client.ok()) return client.status();
  (*client)->Send(kHello, ValidHello(/*resumable=*/true));
  const absl::StatusOr<std::string> payload = (*client)->Expect(kWelcome, kPatience);
  if (!payload.ok()) return payload.status();
  warpline_internal::Welcome welcome;
  welcome.ParseFromString(*payload);
  for (int i = 1; i <= count; ++i) {
    client->reset();  // Leaves without a message.
    client = RawClient::Connect(endpoint);
    if (!client.ok()) return client.status();
    warpline_internal::Resume resume;
    resume.set_session(welcome.session());
    resume.set_secret(welcome.secret());
    resume.set_attempt(static_cast<uint32_t>(i));
    (*client)->Send(kResume, resume.SerializeAsString());
    const absl::StatusOr<std::string> resumed = (*client)->Expect(kResumed, kPatience);
    if (!resumed.ok()) return resumed.status();
  }
  (*client)->Close();
  return absl::OkStatus();
}

absl::Status FloodSessions(const std::string& endpoint, int count) {
  for (int i = 0; i < count; ++i) {
    auto client = RawClient::Connect(endpoint);
    if (!client.ok()) return client.status();
    if (auto opened = (*client)->Open(); !opened.ok()) return opened;
    (*client)->Close();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Flood(const std::string& endpoint, const std::string& what, int count) {
  if (what == "commands") return FloodCommands(endpoint, count);
  if (what == "strangers") return FloodRefusals(endpoint, count, kCommands, "no hello");
  if (what == "hellos") return FloodHellos(endpoint, count);
  if (what == "resumptions") return FloodResumptions(endpoint, count);
  if (what == "sessions") return FloodSessions(endpoint, count);
  return absl::InvalidArgumentError("--what");
}

}  // namespace warpline::hostile
