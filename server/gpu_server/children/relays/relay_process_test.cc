#include "server/gpu_server/children/relays/relay_process.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/hostlink/process/child_process.h"

namespace warpline::server {
namespace {

RelayOptions With(jail::Jailer* jailer, const std::string& transports) {
  RelayOptions options;
  options.launcher = ChildLauncher();
  options.jailer = jailer;
  options.program.path =
      absl::StrCat(getenv("TEST_SRCDIR"), "/warpline/server/relay/warpline-relay");
  options.ucx_transports = *UcxTransports::Parse(transports);
  return options;
}

TEST(RelayProcessTest, TransportsThatUcxLacksAreNamed) {
  jail::Jailer jailer({});
  for (jail::Jailer* const with : {static_cast<jail::Jailer*>(nullptr), &jailer}) {
    EXPECT_EQ(CheckUcxTransports(With(with, "tcp")), absl::OkStatus());
    EXPECT_EQ(CheckUcxTransports(With(with, "posix,tcp")), absl::OkStatus());
    const absl::Status lacks = CheckUcxTransports(With(with, "tcp,telepathy"));
    EXPECT_TRUE(absl::IsUnavailable(lacks)) << lacks;
    EXPECT_NE(lacks.message().find("telepathy"), std::string::npos) << lacks;
  }
}

TEST(RelayProcessTest, ARelayThatCannotBeAskedIsAnError) {
  RelayOptions options = With(nullptr, "tcp");
  options.program.path = "/nonexistent/warpline-relay";
  EXPECT_FALSE(CheckUcxTransports(options).ok());
}

}  // namespace
}  // namespace warpline::server
