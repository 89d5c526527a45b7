#include "client_stub/private_tables/refused_log.h"

#include "gtest/gtest.h"

namespace warpline {
namespace {

CUuuid Id(int number) {
  CUuuid id = {};
  id.bytes[0] = static_cast<char>(number);
  id.bytes[15] = static_cast<char>(0xf9);
  return id;
}

TEST(RefusedLogTest, NamesATableOnce) {
  RefusedLog log;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(log.Add(Id(0x6b)));
  EXPECT_FALSE(log.Add(Id(0x6b)));
  EXPECT_TRUE(log.Add(Id(0x6c)));
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("cuGetExportTable 6b000000-0000-0000-0000-0000000000f9 is not supported"),
            std::string::npos)
      << text;
}

TEST(RefusedLogTest, StopsNamingBeyondTheBound) {
  RefusedLog log;
  testing::internal::CaptureStderr();
  for (size_t i = 0; i < RefusedLog::kMaxTables; ++i) EXPECT_TRUE(log.Add(Id(i)));
  EXPECT_FALSE(log.Add(Id(RefusedLog::kMaxTables)));
  testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace warpline
