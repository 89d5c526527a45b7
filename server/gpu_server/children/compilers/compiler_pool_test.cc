// Tests tenants' compilers with the program that is shipped, in its jail.
#include "server/gpu_server/children/compilers/compiler_pool.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "server/compiler/client/compiler_client.h"
#include "server/jail/jailer.h"
#include "server/jail/uid_pool.h"

namespace warpline::server {
namespace {

using compiler::Compiled;
using compiler::CompilerClient;
using compiler::Output;

constexpr char kPtx[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry store(.param .u64 out)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  mov.u32 %r1, %tid.x;
  ld.param.u64 %rd1, [out];
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

std::string Runfile(const std::string& path) {
  return absl::StrCat(getenv("TEST_SRCDIR"), "/warpline/", path);
}

// Notes the processes that it starts.
class NotingLauncher : public ProcessLauncher {
 public:
  absl::StatusOr<std::unique_ptr<RunningProcess>> Launch(ProcessRole role,
                                                         const ChildOptions& options,
                                                         UniqueFd* socket) override {
    auto process = ChildLauncher()->Launch(role, options, socket);
    if (process.ok()) pids.push_back((*process)->pid());
    return process;
  }

  std::vector<pid_t> pids;  // Of the spawner's loop
};

class CompilerPoolTest : public testing::Test {
 protected:
  CompilerPoolTest() { Begin(true); }
  ~CompilerPoolTest() override { Stop(); }

  void Begin(bool compiles) {
    CompilerOptions options;
    options.launcher = &launcher_;
    options.jailer = &jailer_;
    options.program.path = Runfile("server/compiler/warpline-compiler");
    options.compiles = compiles;
    pool_ = std::make_unique<CompilerPool>(&control_, &spawner_, options);
  }
  void Stop() {
    OnControl([this] {
      control_loop.AssertOnLoop();
      connections_.clear();
      pool_->Stop();
    });
    spawner_.Flush();
    control_.Flush();
  }
  void OnControl(const std::function<void()>& body) {
    control_.Post(body);
    control_.Flush();
  }
  // A worker's end of a new connection of the tenant's.
  CompilerClient Connect(const std::string& tenant) {
    UniqueFd socket;
    OnControl([&] {
      control_loop.AssertOnLoop();
      CompilerConnection connection = pool_->Connect(tenant);
      socket = std::move(connection.socket);
      connections_.push_back(std::move(connection));
    });
    return CompilerClient(std::move(socket));
  }
  absl::StatusOr<Compiled> Compile(const std::string& tenant, Output output = Output::kText) {
    return Connect(tenant).Compile(kPtx, {.arena_bits = 36}, 90, output);
  }
  std::vector<pid_t> Started() {
    spawner_.Flush();
    return launcher_.pids;
  }
  size_t Compilers() {
    size_t count = 0;
    OnControl([&] {
      control_loop.AssertOnLoop();
      count = pool_->compilers();
    });
    return count;
  }

  EventLoop control_{"control", &control_loop};
  EventLoop spawner_{"spawner"};
  NotingLauncher launcher_;
  jail::Jailer jailer_{jail::JailerOptions{
      .uids = jail::ParseWorkerUids("auto").value_or(jail::UidRange{}), .limits = {}}};
  std::unique_ptr<CompilerPool> pool_;
  std::vector<CompilerConnection> connections_;  // The control loop has these.
};

TEST_F(CompilerPoolTest, GuardsAModuleInItsJail) {
  const auto compiled = Compile("alice");
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_NE(compiled->code().find("wlg_const"), std::string_view::npos);
  EXPECT_EQ(compiled->guarded().kernels, std::vector<std::string>{"store"});
}

TEST_F(CompilerPoolTest, CompilesAModuleInItsJail) {
  const auto compiled = Compile("alice", Output::kCubin);
  if (absl::IsUnimplemented(compiled.status())) GTEST_SKIP() << compiled.status();
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->code().substr(0, 4),
            "\x7f"
            "ELF");
}

TEST_F(CompilerPoolTest, ADeviceThatTakesTextNeedsNoLibrary) {
  Stop();
  Begin(false);
  EXPECT_TRUE(Compile("alice").ok());
  EXPECT_TRUE(absl::IsUnimplemented(Compile("alice", Output::kCubin).status()));
}

TEST_F(CompilerPoolTest, ATenantsSessionsShareResultsAndNobodyElse) {
  EXPECT_FALSE(Compile("alice")->cached());
  OnControl([this] {
    control_loop.AssertOnLoop();
    connections_.clear();  // The session ends.
  });
  EXPECT_TRUE(Compile("alice")->cached());
  EXPECT_FALSE(Compile("bob")->cached());
  EXPECT_EQ(Started().size(), 2u);
}

TEST_F(CompilerPoolTest, AnotherFollowsOneThatHasEnded) {
  CompilerClient client = Connect("alice");
  ASSERT_TRUE(client.Compile(kPtx, {}, 90, Output::kText).ok());
  ASSERT_EQ(kill(Started().at(0), SIGKILL), 0);
  const absl::Status status = client.Compile("else", {}, 90, Output::kText).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  absl::StatusOr<Compiled> again = absl::UnavailableError("");
  for (int tries = 0; tries < 6000 && !again.ok(); ++tries) {
    again = Compile("alice");
    if (!again.ok()) absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Started().size(), 2u);
}

TEST_F(CompilerPoolTest, WithoutTheProgramAWorkerIsToldThatThereIsNone) {
  Stop();
  CompilerOptions options;
  options.launcher = &launcher_;
  options.program.path = "/nonexistent/warpline-compiler";
  pool_ = std::make_unique<CompilerPool>(&control_, &spawner_, options);
  EXPECT_EQ(Compile("alice").status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(CompilerPoolTest, OfThoseThatNobodyUsesOnlyAFewStay) {
  for (size_t i = 0; i < CompilerPool::kMostIdle + 4; ++i) {
    ASSERT_TRUE(Compile(absl::StrCat("tenant ", i)).ok());
  }
  EXPECT_EQ(Compilers(), CompilerPool::kMostIdle + 4);
  OnControl([this] {
    control_loop.AssertOnLoop();
    connections_.clear();
  });
  // One that stayed, and one that is needed now.
  EXPECT_TRUE(Compile("tenant 0").ok());
  EXPECT_EQ(Compilers(), CompilerPool::kMostIdle + 1);
  EXPECT_TRUE(Compile(absl::StrCat("tenant ", CompilerPool::kMostIdle + 3))->cached());
}

}  // namespace
}  // namespace warpline::server
