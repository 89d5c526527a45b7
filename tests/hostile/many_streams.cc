#include <string>

#include "absl/strings/str_cat.h"
#include "proto/frames.h"
#include "proto/wire.h"
#include "tests/hostile/commands.h"
#include "tests/hostile/raw_client.h"
#include "tests/hostile/sequence.h"

namespace warpline::hostile {
namespace {

// No session may have this many.
constexpr uint64_t kStreams = 1100;
constexpr absl::Duration kPatience = absl::Seconds(60);

}  // namespace

absl::Status PlayManyStreams(const std::string& endpoint, int) {
  auto client = RawClient::Connect(endpoint);
  if (!client.ok()) return client.status();
  if (const absl::Status opened = (*client)->Open(); !opened.ok()) return opened;
  std::string commands;
  for (uint64_t i = 0; i < kStreams; ++i) {
    AppendCommand(cmd::StreamCreate{16 + i, 1, 0}, 0, &commands);
  }
  AppendCommand(cmd::ContextSync{}, 0, &commands);
  (*client)->Send(kCommands, CommandsPayload(1, kStreams + 1, commands));
  // Streams without a thread for them are refused; the session goes on.
  const auto reply = (*client)->ExpectReply(kStreams + 1, kPatience);
  if (!reply.ok()) return reply.status();
  (*client)->Close();
  return absl::OkStatus();
}

}  // namespace warpline::hostile
