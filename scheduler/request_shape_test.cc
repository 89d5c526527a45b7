#include "scheduler/request_shape.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/scheduler.pb.h"

namespace warpline::scheduler {
namespace {

using warpline_internal::ServerReport;
using warpline_internal::TenantRequest;

std::string Repeat(const std::string& bytes, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += bytes;
  return all;
}

// The bytes of a field of `number` that holds `payload`.
std::string Field(int number, const std::string& payload) {
  std::string bytes;
  const auto varint = [&](uint64_t value) {
    for (; value > 127; value >>= 7) bytes.push_back(static_cast<char>((value & 127) | 128));
    bytes.push_back(static_cast<char>(value));
  };
  varint(static_cast<uint64_t>(number) << 3 | 2);
  varint(payload.size());
  return bytes + payload;
}

bool Fits(const std::string& message, const google::protobuf::Descriptor* type) {
  return HasFewParts(message, *type);
}

// A server with as many sessions and leases as it may report.
ServerReport LargestReport() {
  ServerReport report;
  report.set_credential(std::string(64, 'c'));
  report.set_name("server");
  report.set_endpoint("10.0.0.1:14000");
  for (int i = 0; i < 8192; ++i) {
    report.add_leases()->set_lease(absl::StrCat("lease-", i));
    auto* const session = report.add_sessions();
    session->set_id(static_cast<uint64_t>(i));
    session->set_program("python3");
    session->set_peer("ipv4:10.0.0.2");
    for (int gpu = 0; gpu < 8; ++gpu) session->add_more_gpus(gpu);
  }
  return report;
}

TEST(RequestShapeTest, HonestRequestsFit) {
  EXPECT_TRUE(Fits("", ServerReport::descriptor()));
  EXPECT_TRUE(Fits(LargestReport().SerializeAsString(), ServerReport::descriptor()));
  ServerReport one;
  one.set_name("a");
  EXPECT_TRUE(Fits(one.SerializeAsString(), ServerReport::descriptor()));
}

// Each is two to four bytes that become a hundred.
TEST(RequestShapeTest, MessagesOfEmptyPartsDoNot) {
  for (const int number : {6, 7, 8, 9, 16, 500}) {
    EXPECT_FALSE(Fits(Repeat(Field(number, ""), 100000), ServerReport::descriptor())) << number;
  }
  // A known number that is written as another type, and one that is not known.
  EXPECT_EQ(ServerReport::descriptor()->FindFieldByNumber(16)->name(), "leaves");
  EXPECT_EQ(ServerReport::descriptor()->FindFieldByNumber(17), nullptr);
  EXPECT_FALSE(Fits(Repeat(Field(17, ""), 100000), ServerReport::descriptor()));
  // In one session's usage, at a depth.
  for (int number = 1; number < 64; ++number) {
    const auto* const field =
        warpline_internal::SessionStat::descriptor()->FindFieldByNumber(number);
    if (field == nullptr || field->type() != google::protobuf::FieldDescriptor::TYPE_MESSAGE) {
      continue;
    }
    EXPECT_FALSE(Fits(Field(9, Repeat(Field(number, ""), 100000)), ServerReport::descriptor()))
        << number;
  }
  // Unknown numbers are kept, too.
  EXPECT_FALSE(Fits(Repeat("\xf8\x7f\x01", 100000), ServerReport::descriptor()));
  EXPECT_FALSE(Fits(Field(16, Repeat(Field(1, ""), 100000)), TenantRequest::descriptor()));
}

TEST(RequestShapeTest, WhatIsNoMessageIsRefused) {
  EXPECT_FALSE(Fits("\xff\xff\xff", ServerReport::descriptor()));
  EXPECT_FALSE(Fits(std::string("\x32\x02\x08", 3), ServerReport::descriptor()));
  // An end of a group that has not begun.
  EXPECT_FALSE(Fits("\x0c", ServerReport::descriptor()));
}

TEST(RequestShapeTest, TheCredentialIsTheFirstField) {
  EXPECT_EQ(LeadingCredential(LargestReport().SerializeAsString()), std::string(64, 'c'));
  ServerReport report;
  report.set_name("a");
  EXPECT_EQ(LeadingCredential(report.SerializeAsString()), "");
  EXPECT_EQ(LeadingCredential(""), "");
  EXPECT_EQ(LeadingCredential(std::string("\x0a\x05"
                                          "abc",
                                          5)),
            "");
  EXPECT_EQ(LeadingCredential("\x0a"), "");
}

}  // namespace
}  // namespace warpline::scheduler
