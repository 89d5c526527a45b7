#include "proto/wire.h"

#include <random>
#include <string>

#include "gtest/gtest.h"

namespace warpline {
namespace {

std::string TwoCommands() {
  std::string out;
  cmd::Launch launch;
  launch.stream = 1;
  launch.kernel = 7;
  launch.grid_x = 3;
  std::memcpy(AppendCommand(launch, 5, &out), "hello", 5);
  AppendCommand(cmd::ContextSync{}, 0, &out);
  return out;
}

TEST(CommandReaderTest, ReadsWhatWasAppended) {
  const std::string bytes = TwoCommands();
  CommandReader reader(bytes);
  const auto launch = reader.Next();
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->id, CommandId::kLaunch);
  std::string_view body = launch->body;
  cmd::Launch command;
  ASSERT_TRUE(TakeStruct(&body, &command));
  EXPECT_EQ(command.kernel, 7u);
  EXPECT_EQ(command.grid_x, 3u);
  EXPECT_EQ(body, "hello");
  const auto sync = reader.Next();
  ASSERT_TRUE(sync.ok());
  EXPECT_EQ(sync->id, CommandId::kContextSync);
  EXPECT_TRUE(sync->body.empty());
  EXPECT_TRUE(reader.Done());
}

TEST(CommandReaderTest, RefusesEveryTruncationInsideACommand) {
  const std::string bytes = TwoCommands();
  const size_t first = CommandBytes<cmd::Launch>(5);
  for (size_t n = 1; n < first - 3; ++n) {
    CommandReader reader(std::string_view(bytes).substr(0, n));
    EXPECT_FALSE(reader.Next().ok()) << n;
  }
}

TEST(CommandReaderTest, RefusesUnknownIdsAndWrongSizes) {
  for (const CommandHeader header :
       {CommandHeader{0, 0, 8}, CommandHeader{kCommandCount + 1, 0, 8},
        CommandHeader{static_cast<uint16_t>(CommandId::kContextSync), 1, 8},
        CommandHeader{static_cast<uint16_t>(CommandId::kContextSync), 0, 16},
        CommandHeader{static_cast<uint16_t>(CommandId::kLaunch), 0, 8},
        CommandHeader{static_cast<uint16_t>(CommandId::kLaunch), 0, 0xffffffff}}) {
    std::string bytes(64, '\0');
    std::memcpy(bytes.data(), &header, sizeof(header));
    CommandReader reader(bytes);
    EXPECT_FALSE(reader.Next().ok()) << header.id << " " << header.size;
  }
}

TEST(CommandReaderTest, MutatedBytesNeverReadOutside) {
  std::mt19937 random(1);
  const std::string original = TwoCommands();
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = original.substr(0, random() % (original.size() + 1));
    for (int i = 0; i < 3 && !bytes.empty(); ++i) bytes[random() % bytes.size()] = random();
    CommandReader reader(bytes);
    while (!reader.Done()) {
      const auto view = reader.Next();
      if (!view.ok()) break;
      ASSERT_GE(view->body.size(), FindCommand(view->id).body_bytes);
    }
  }
}

TEST(ReplyReaderTest, ReadsRepliesAndNotices) {
  std::string bytes;
  AppendReply(9, 0, "12345678", "tail", &bytes);
  AppendNotice(ReplyId::kRetired, 11, notice::Retired{1, 10, 10}, "", &bytes);
  ReplyReader reader(bytes);
  const auto reply = reader.Next();
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->seq, 9u);
  std::string_view body = reply->body;
  ReplyBody result;
  ASSERT_TRUE(TakeStruct(&body, &result));
  EXPECT_EQ(result.result, 0);
  EXPECT_EQ(body, "12345678tail");
  const auto retired = reader.Next();
  ASSERT_TRUE(retired.ok());
  EXPECT_EQ(retired->id, ReplyId::kRetired);
  EXPECT_TRUE(reader.Done());
}

TEST(ReplyReaderTest, RefusesHalfReplies) {
  std::string bytes;
  AppendReply(9, 0, "12345678", "", &bytes);
  for (size_t n = 1; n < bytes.size(); ++n) {
    ReplyReader reader(std::string_view(bytes).substr(0, n));
    EXPECT_FALSE(reader.Next().ok()) << n;
  }
}

}  // namespace
}  // namespace warpline
