#include "client_stub/private_tables/validity.h"

#include <string>

#include "gtest/gtest.h"

namespace warpline {
namespace {

ValidityQuestion Question(uint32_t version) {
  ValidityQuestion question = {};
  question.version = version;
  question.unix_seconds = 1700000000;
  question.driver_version = 13000;
  question.process = 4711;
  question.thread = 0x7f001000;
  question.devices.push_back({CUuuid{{1, 2, 3, 4, 5, 6, 7, 8}}, 0, 65, 0});
  return question;
}

TEST(ValidityAnswerTest, FirstTwoVersionsDependOnNothing) {
  ValidityQuestion other = Question(13000);
  other.process = 1;
  other.devices.clear();
  EXPECT_EQ(ValidityAnswer(Question(13000)), ValidityAnswer(other));
  other.version = 12081;
  EXPECT_EQ(ValidityAnswer(Question(13001)), ValidityAnswer(other));
  EXPECT_NE(ValidityAnswer(Question(13000)), ValidityAnswer(Question(13001)));
}

TEST(ValidityAnswerTest, ThirdVersionDependsOnEveryField) {
  const Md2Digest original = ValidityAnswer(Question(13002));
  EXPECT_EQ(ValidityAnswer(Question(13002)), original);
  const auto changed = [&](auto change) {
    ValidityQuestion question = Question(13002);
    change(question);
    return ValidityAnswer(question) != original;
  };
  static const char elsewhere = 0;
  EXPECT_TRUE(changed([](ValidityQuestion& q) { q.unix_seconds++; }));
  EXPECT_TRUE(changed([](ValidityQuestion& q) { q.driver_version++; }));
  EXPECT_TRUE(changed([](ValidityQuestion& q) { q.process++; }));
  EXPECT_TRUE(changed([](ValidityQuestion& q) { q.thread++; }));
  EXPECT_TRUE(changed([](ValidityQuestion& q) { q.cudart_interface_table = &elsewhere; }));
  EXPECT_TRUE(changed([](ValidityQuestion& q) { q.integrity_check_table = &elsewhere; }));
  EXPECT_TRUE(changed([](ValidityQuestion& q) { q.integrity_check_function = &elsewhere; }));
  EXPECT_TRUE(changed([](ValidityQuestion& q) { q.devices[0].uuid.bytes[15] = 1; }));
  EXPECT_TRUE(changed([](ValidityQuestion& q) { q.devices[0].pci_domain++; }));
  EXPECT_TRUE(changed([](ValidityQuestion& q) { q.devices[0].pci_bus++; }));
  EXPECT_TRUE(changed([](ValidityQuestion& q) { q.devices[0].pci_device++; }));
  EXPECT_TRUE(changed([](ValidityQuestion& q) { q.devices.push_back(q.devices[0]); }));
}

}  // namespace
}  // namespace warpline
