#include "scheduler/etcd/etcd_flags.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace warpline::scheduler {
namespace {

TEST(EtcdFlagsTest, StateIsAFolderOrMembersOfEtcd) {
  EXPECT_FALSE(IsEtcdState(""));
  EXPECT_FALSE(IsEtcdState("/var/lib/warpline"));
  EXPECT_TRUE(IsEtcdState("etcd://a:1"));
  EXPECT_EQ(ParseEtcdState("etcd://a:1,[::1]:2").value(),
            (std::vector<std::string>{"a:1", "[::1]:2"}));
  for (const char* const wrong : {"etcd://", "etcd://a", "etcd://a:", "etcd://:1", "etcd://a:1,",
                                  "etcd://a:1/b", "http://a:1"}) {
    EXPECT_FALSE(ParseEtcdState(wrong).ok()) << wrong;
  }
  std::string many = "etcd://a:1";
  for (int i = 0; i < 20; ++i) absl::StrAppend(&many, ",a:1");
  EXPECT_FALSE(ParseEtcdState(many).ok());
}

TEST(EtcdFlagsTest, PlainTextStaysOnThisHost) {
  EXPECT_TRUE(EtcdClientFromFlags("etcd://127.0.0.1:2379,localhost:2379").ok());
  const auto refused = EtcdClientFromFlags("etcd://127.0.0.1:2379,10.0.0.1:2379");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(EtcdFlagsTest, DefaultsAreTaken) {
  EXPECT_EQ(EtcdPrefixFromFlags().value(), "/warpline/");
  EXPECT_EQ(LeaderTtlFromFlags().value(), absl::Seconds(2));
}

}  // namespace
}  // namespace warpline::scheduler
