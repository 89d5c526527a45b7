#include "server/hostlink/backends/backend_names.h"

#include <set>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(BackendNamesTest, AreWhatIsAskedFor) {
  std::set<std::string_view> names;
  for (const BackendName& backend : BackendNames()) {
    EXPECT_TRUE(names.insert(backend.name).second) << backend.name;
    const auto choice = ParseDevice(backend.name);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->backend, &backend);
    EXPECT_EQ(choice->devices, 1);
    const auto three = ParseDevice(std::string(backend.name) + ":3");
    EXPECT_EQ(three.ok(), backend.several) << backend.name;
    if (three.ok()) {
      EXPECT_EQ(three->devices, 3);
    }
  }
}

TEST(BackendNamesTest, AutoIsLeftOpen) {
  const auto choice = ParseDevice("auto");
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->backend, nullptr);
  EXPECT_FALSE(UsesNvidiaDriver("auto"));
}

TEST(BackendNamesTest, OthersAreRefusedWithWhatWouldBeRight) {
  for (const char* const name : {"", "gpu", "cpu:", "cpu:0", "cpu:17", "cpu:x", "cpu:2x", "cpu:2:2",
                                 "cuda:1", "CPU", "cpux"}) {
    const auto choice = ParseDevice(name);
    ASSERT_EQ(choice.status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_TRUE(
        absl::StartsWith(choice.status().message(), "expected auto, cuda, cpu, cpu:N with "));
  }
}

TEST(BackendNamesTest, SayWhatRunsBeneath) {
  EXPECT_TRUE(UsesNvidiaDriver("cuda"));
  EXPECT_FALSE(UsesNvidiaDriver("cpu"));
  EXPECT_FALSE(UsesNvidiaDriver("cpu:2"));
  EXPECT_FALSE(UsesNvidiaDriver("nothing"));
}

TEST(BackendNamesTest, AreDescribedForThoseWhoChoose) {
  EXPECT_TRUE(absl::StartsWith(
      DescribeBackends(),
      "cuda (GPUs through NVIDIA's driver), cpu (PTX on the processor; cpu:N as N devices)"));
}

}  // namespace
}  // namespace warpline
