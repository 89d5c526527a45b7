// What servers say reaches a terminal without anything that the terminal would obey.
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/cli/devices.h"
#include "tools/cli/operator.h"
#include "tools/cli/policy.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/cli/top.h"
#include "tools/cli/trace.h"

namespace warpline::cli {
namespace {

using google::protobuf::FieldDescriptor;
using testing::HasSubstr;
using testing::Not;

// A sequence of a terminal, another one that begins with one character, text from right to left, a
// line that looks like the program's own, and a byte that is not UTF-8.
const std::string kEvil =
    "a\x1b]0;PWNED\x07\x1b[31m \xc2\x9b\x32J \xe2\x80\xae\xe2\x81\xa6 b\nwarpline: c\td\r\x7f\xff";

// Sets all texts of a message to `text`, and fills its lists with two of each.
void Fill(google::protobuf::Message* message, const std::string& text, int depth = 0) {
  if (depth > 6) return;
  const auto& reflection = *message->GetReflection();
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = message->GetDescriptor()->field(i);
    const bool is_text = field->type() == FieldDescriptor::TYPE_STRING;
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const int count = field->is_map() ? 1 : field->is_repeated() ? 2 : 0;
    for (int j = 0; j < count; ++j) {
      if (is_message) Fill(reflection.AddMessage(message, field), text, depth + 1);
      if (is_text) reflection.AddString(message, field, text);
    }
    if (field->is_repeated()) continue;
    if (is_message) Fill(reflection.MutableMessage(message, field), text, depth + 1);
    if (is_text) reflection.SetString(message, field, text);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT64) {
      reflection.SetUInt64(message, field, 3);
    }
  }
}

// Expects of what `report` makes of a message that no text of it reaches the terminal as it is, and
// none makes a line of its own.
template <typename Message, typename Report>
void Check(const Report& report) {
  Message evil;
  Fill(&evil, kEvil);
  Message good;
  Fill(&good, "good");
  const std::string shown = report(evil);
  for (const char* const raw :
       {"\x1b", "\x07", "\xc2\x9b", "\xe2\x80\xae", "\xe2\x81\xa6", "\t", "\r", "\x7f", "\xff"}) {
    EXPECT_THAT(shown, Not(HasSubstr(raw))) << Message::descriptor()->full_name();
  }
  const std::string usual = report(good);
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'),
            std::count(usual.begin(), usual.end(), '\n'))
      << Message::descriptor()->full_name();
  EXPECT_THAT(usual, HasSubstr("good"));
}

TEST(ShownTest, NoTextOfAnyReplyIsObeyed) {
  using warpline_internal::StatReply;
  Check<StatReply>(StatReport);
  Check<StatReply>(PsReport);
  Check<StatReply>([](const StatReply& reply) { return TopReport(reply, reply, 1, {}); });
  Check<warpline_internal::ServerList>(ServersReport);
  Check<warpline_internal::LeaseList>(LeasesReport);
  Check<warpline_internal::SliceList>(SlicesReport);
  Check<warpline_internal::TenantList>(TenantsReport);
  Check<warpline_internal::DeviceStatusReply>(DevicesReport);
  Check<warpline_internal::PolicyReply>(PoliciesReport);
}

TEST(ShownTest, NoTextInJsonIsObeyed) {
  warpline_internal::StatReply reply;
  reply.set_server("\x1b[31m\xc2\x9b \xe2\x80\xae\xe2\x81\xa6\xf3\xa0\x81\x81 \xc3\xa4");
  const std::string json = ToJson(reply);
  for (const char* const raw :
       {"\x1b", "\xc2\x9b", "\xe2\x80\xae", "\xe2\x81\xa6", "\xf3\xa0\x81\x81"}) {
    EXPECT_THAT(json, Not(HasSubstr(raw)));
  }
  warpline_internal::StatReply again;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &again).ok());
  EXPECT_EQ(again.server(), reply.server());
}

TEST(ShownTest, NoErrorIsObeyed) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(Complain("warpline", kEvil, 3), 3);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\xe2\x80\xae")));
}

TEST(ShownTest, OtherTextStaysAsItIs) {
  for (const char* const text :
       {"plain \"quoted\" \\ text", "\xc3\xa4\xe6\x97\xa5\xf0\x9f\x98\x80", "\\x1b \\u202e"}) {
    EXPECT_EQ(Shown(text), text);
  }
  EXPECT_EQ(Shown("\x1b\n\xe2\x80\xae\xed\xa0\x80"), "\\x1b\\n\\u202e\\xed\\xa0\\x80");
  EXPECT_EQ(Shown(Shown(kEvil)), Shown(kEvil));
}

}  // namespace
}  // namespace warpline::cli
