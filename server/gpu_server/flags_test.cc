#include "server/gpu_server/flags.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "common/byte_size.h"
#include "gtest/gtest.h"

ABSL_DECLARE_FLAG(std::vector<std::string>, listen);
ABSL_DECLARE_FLAG(std::string, device);
ABSL_DECLARE_FLAG(std::string, health_listen);
ABSL_DECLARE_FLAG(std::string, device_reserve);
ABSL_DECLARE_FLAG(warpline::ByteSize, session_memory);
ABSL_DECLARE_FLAG(int, max_sessions);
ABSL_DECLARE_FLAG(int, strangers_per_peer);
ABSL_DECLARE_FLAG(warpline::ByteSize, arena_size);
ABSL_DECLARE_FLAG(std::vector<std::string>, tiers);
ABSL_DECLARE_FLAG(warpline::ByteSize, guarded_arena_size);
ABSL_DECLARE_FLAG(std::string, mps);
ABSL_DECLARE_FLAG(std::string, mps_control);
ABSL_DECLARE_FLAG(std::string, mps_dir);
ABSL_DECLARE_FLAG(std::string, dispatch);
ABSL_DECLARE_FLAG(int, dispatch_expect_us);
ABSL_DECLARE_FLAG(int, dispatch_quantum_us);
ABSL_DECLARE_FLAG(int, guarded_hang_seconds);
ABSL_DECLARE_FLAG(warpline::ByteSize, guarded_memory);
ABSL_DECLARE_FLAG(std::string, guarded_context_memory);
ABSL_DECLARE_FLAG(bool, guarded_standby);
ABSL_DECLARE_FLAG(warpline::ByteSize, guarded_window);
ABSL_DECLARE_FLAG(int, guarded_windows);
ABSL_DECLARE_FLAG(std::string, scheduler);
ABSL_DECLARE_FLAG(std::string, scheduler_credential_file);
ABSL_DECLARE_FLAG(int, resume_seconds);
ABSL_DECLARE_FLAG(int, warm_workers);
ABSL_DECLARE_FLAG(int, hardware_queues);
ABSL_DECLARE_FLAG(std::string, pageable_access);
ABSL_DECLARE_FLAG(std::string, module_cache_dir);
ABSL_DECLARE_FLAG(warpline::ByteSize, module_cache_bytes);
ABSL_DECLARE_FLAG(int, drain_seconds);
ABSL_DECLARE_FLAG(bool, migrate_on_drain);
ABSL_DECLARE_FLAG(warpline::ByteSize, swap_host);
ABSL_DECLARE_FLAG(std::string, audit_dir);
ABSL_DECLARE_FLAG(std::string, audit);
ABSL_DECLARE_FLAG(warpline::ByteSize, audit_file_bytes);
ABSL_DECLARE_FLAG(int, audit_files);
ABSL_DECLARE_FLAG(std::string, tls_cert);

namespace warpline::server {
namespace {

class FlagsTest : public testing::Test {
 protected:
  static void ExpectRefused(absl::StatusCode code, const std::string& what) {
    const auto options = ServerOptionsFromFlags();
    ASSERT_FALSE(options.ok()) << what;
    EXPECT_EQ(options.status().code(), code) << options.status();
    EXPECT_NE(options.status().message().find(what), std::string::npos) << options.status();
  }

 private:
  absl::FlagSaver saver_;
};

TEST_F(FlagsTest, TheAuditIsWhereTheServicesStateIs) {
  unsetenv("STATE_DIRECTORY");
  EXPECT_EQ(ServerOptionsFromFlags()->audit.writer.dir, "");
  EXPECT_FALSE(ServerOptionsFromFlags()->audit.required);
  setenv("STATE_DIRECTORY", "/var/lib/warpline:/var/lib/other", 1);
  EXPECT_EQ(ServerOptionsFromFlags()->audit.writer.dir, "/var/lib/warpline/audit");
  absl::SetFlag(&FLAGS_audit_dir, "none");
  EXPECT_EQ(ServerOptionsFromFlags()->audit.writer.dir, "");
  unsetenv("STATE_DIRECTORY");
  absl::SetFlag(&FLAGS_audit, "required");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--audit_dir");
  absl::SetFlag(&FLAGS_audit_dir, "/d");
  EXPECT_TRUE(ServerOptionsFromFlags()->audit.required);
  absl::SetFlag(&FLAGS_audit, "sometimes");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--audit=sometimes");
}

TEST_F(FlagsTest, TheAuditsFilesAreBounded) {
  absl::SetFlag(&FLAGS_audit_files, 1);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--audit_files");
  absl::SetFlag(&FLAGS_audit_files, 2);
  absl::SetFlag(&FLAGS_audit_file_bytes, warpline::ByteSize{1});
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--audit_file_bytes");
}

TEST_F(FlagsTest, DefaultsAreGood) {
  const auto options = ServerOptionsFromFlags();
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->device.backend, "auto");
  EXPECT_FALSE(options->device.reserve_bytes.has_value());
  EXPECT_FALSE(options->device.warm_workers.has_value());
  EXPECT_EQ(options->sessions.max_sessions, 64);
  EXPECT_EQ(options->drain_timeout, absl::Seconds(10));
  EXPECT_TRUE(options->scheduler.address.empty());
}

TEST_F(FlagsTest, RefusesAddressesThatNobodyMayReach) {
  absl::SetFlag(&FLAGS_listen, {});
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--listen names no address");
  absl::SetFlag(&FLAGS_listen, {"127.0.0.1:0", "nowhere"});
  ExpectRefused(absl::StatusCode::kInvalidArgument, "nowhere");
  absl::SetFlag(&FLAGS_listen, {"0.0.0.0:0"});
  ExpectRefused(absl::StatusCode::kPermissionDenied, "0.0.0.0:0");
  absl::SetFlag(&FLAGS_tls_cert, "server.crt");
  EXPECT_TRUE(ServerOptionsFromFlags().ok());
}

TEST_F(FlagsTest, RefusesUnknownDevices) {
  for (const char* const device : {"", "none", "cpu:", "cpu:0", "cpu:-1", "cpu:65", "cuda:0"}) {
    absl::SetFlag(&FLAGS_device, device);
    ExpectRefused(absl::StatusCode::kInvalidArgument, "--device=");
  }
  for (const char* const device : {"auto", "cuda", "cpu", "cpu:1", "cpu:2"}) {
    absl::SetFlag(&FLAGS_device, device);
    EXPECT_TRUE(ServerOptionsFromFlags().ok()) << device;
  }
}

TEST_F(FlagsTest, MpsIsOff) {
  EXPECT_FALSE(ServerOptionsFromFlags()->mps.of_tenants);
  absl::SetFlag(&FLAGS_mps, "on");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--mps=on");
}

TEST_F(FlagsTest, MpsNeedsNvidiasProgram) {
  const std::string folder = testing::TempDir();
  const std::string program = folder + "/nvidia-cuda-mps-control";
  std::remove(program.c_str());
  absl::SetFlag(&FLAGS_mps, "tenant");
  const char* const had = getenv("PATH");
  const std::string path = had == nullptr ? "" : had;
  setenv("PATH", folder.c_str(), 1);
  ExpectRefused(absl::StatusCode::kNotFound, "no nvidia-cuda-mps-control in PATH");
  std::ofstream(program) << "#!/bin/sh\n";
  ExpectRefused(absl::StatusCode::kNotFound, "no nvidia-cuda-mps-control in PATH");
  chmod(program.c_str(), 0755);
  EXPECT_EQ(ServerOptionsFromFlags()->mps.control, program);
  EXPECT_TRUE(ServerOptionsFromFlags()->mps.of_tenants);
  setenv("PATH", path.c_str(), 1);
  for (const char* const control : {"/nonexistent/control", "control"}) {
    absl::SetFlag(&FLAGS_mps_control, control);
    ExpectRefused(absl::StatusCode::kNotFound, "--mps_control=");
  }
  absl::SetFlag(&FLAGS_mps_control, program);
  EXPECT_EQ(ServerOptionsFromFlags()->mps.control, program);
}

TEST_F(FlagsTest, MpsNeedsGpusAndTheIsolatedTier) {
  absl::SetFlag(&FLAGS_mps, "tenant");
  absl::SetFlag(&FLAGS_mps_control, "/bin/sh");
  EXPECT_TRUE(ServerOptionsFromFlags().ok());
  absl::SetFlag(&FLAGS_mps_dir, "run");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--mps_dir=run");
  absl::SetFlag(&FLAGS_mps_dir, "/run/warpline");
  EXPECT_EQ(ServerOptionsFromFlags()->mps.place, "/run/warpline");
  absl::SetFlag(&FLAGS_device, "cpu:2");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--device=cpu:2 has none");
  absl::SetFlag(&FLAGS_device, "cuda");
  absl::SetFlag(&FLAGS_tiers, {"guarded"});
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--mps needs the isolated tier");
}

TEST_F(FlagsTest, RefusesAReserveThatIsNoSize) {
  absl::SetFlag(&FLAGS_device_reserve, "much");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--device_reserve=much");
  absl::SetFlag(&FLAGS_device_reserve, "2GiB");
  const auto options = ServerOptionsFromFlags();
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->device.reserve_bytes, uint64_t{2} << 30);
}

TEST_F(FlagsTest, PageableAccessIsWarnedOfOrRefused) {
  EXPECT_EQ(ServerOptionsFromFlags()->device.pageable_access, PageableAccess::kWarn);
  absl::SetFlag(&FLAGS_pageable_access, "refuse");
  EXPECT_EQ(ServerOptionsFromFlags()->device.pageable_access, PageableAccess::kRefuse);
  for (const char* const text : {"", "no", "Warn"}) {
    absl::SetFlag(&FLAGS_pageable_access, text);
    ExpectRefused(absl::StatusCode::kInvalidArgument, "--pageable_access=");
  }
}

TEST_F(FlagsTest, RefusesNumbersOutOfRange) {
  const auto refuses = [](absl::Flag<int>& flag, const std::vector<int>& bad,
                          const std::string& what) {
    const int good = absl::GetFlag(flag);
    for (const int value : bad) {
      absl::SetFlag(&flag, value);
      ExpectRefused(absl::StatusCode::kInvalidArgument, what);
    }
    absl::SetFlag(&flag, good);
  };
  refuses(FLAGS_strangers_per_peer, {0, -1, 5000}, "--strangers_per_peer must be 1 to 4096");
  refuses(FLAGS_max_sessions, {0, -1}, "--max_sessions must be at least 1");
  refuses(FLAGS_max_sessions, {8193}, "--max_sessions is at most 8192");
  refuses(FLAGS_warm_workers, {-2, 65}, "--warm_workers must be from -1 to 64");
  refuses(FLAGS_hardware_queues, {-1, 33}, "--hardware_queues must be from 0 to 32");
  refuses(FLAGS_drain_seconds, {-1}, "--drain_seconds must not be negative");
  refuses(FLAGS_resume_seconds, {-1}, "--resume_seconds must not be negative");
  EXPECT_TRUE(ServerOptionsFromFlags().ok());
}

TEST_F(FlagsTest, OnlyAServerWhoseLeasesCanMoveMovesThemAsItEnds) {
  absl::SetFlag(&FLAGS_migrate_on_drain, true);
  const std::string needs = "--migrate_on_drain needs --scheduler and --swap_host";
  ExpectRefused(absl::StatusCode::kInvalidArgument, needs);
  absl::SetFlag(&FLAGS_swap_host, warpline::ByteSize{1ull << 30});
  ExpectRefused(absl::StatusCode::kInvalidArgument, needs);
  absl::SetFlag(&FLAGS_scheduler, "127.0.0.1:14100");
  const auto options = ServerOptionsFromFlags();
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->migrate_on_drain);
  absl::SetFlag(&FLAGS_swap_host, warpline::ByteSize{0});
  ExpectRefused(absl::StatusCode::kInvalidArgument, needs);
}

TEST_F(FlagsTest, RefusesArenasThatAreNoPowerOfTwo) {
  for (const uint64_t bytes :
       {uint64_t{0}, uint64_t{1} << 31, uint64_t{5} << 30, uint64_t{1} << 46}) {
    absl::SetFlag(&FLAGS_arena_size, {bytes});
    ExpectRefused(absl::StatusCode::kInvalidArgument, "--arena_size");
  }
  absl::SetFlag(&FLAGS_arena_size, {uint64_t{1} << 40});
  EXPECT_TRUE(ServerOptionsFromFlags().ok());
}

TEST_F(FlagsTest, OnlyTheIsolatedTierIsThereUnlessOthersAreNamed) {
  EXPECT_EQ(ServerOptionsFromFlags()->tiers.tiers, std::vector<Tier>{Tier::kIsolated});
  absl::SetFlag(&FLAGS_tiers, {"isolated", "guarded"});
  EXPECT_EQ(ServerOptionsFromFlags()->tiers.tiers,
            (std::vector<Tier>{Tier::kIsolated, Tier::kGuarded}));
  absl::SetFlag(&FLAGS_tiers, {"guarded", "guarded"});
  EXPECT_EQ(ServerOptionsFromFlags()->tiers.tiers, std::vector<Tier>{Tier::kGuarded});
  absl::SetFlag(&FLAGS_tiers, {});
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--tiers names no tier");
  absl::SetFlag(&FLAGS_tiers, {"isolated", "shared"});
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--tiers: there is no tier \"shared\"");
}

TEST_F(FlagsTest, RefusesGuardedArenasThatAreNoPowerOfTwo) {
  EXPECT_EQ(ServerOptionsFromFlags()->tiers.guarded_arena_bytes, uint64_t{4} << 30);
  for (const uint64_t bytes :
       {uint64_t{0}, uint64_t{1} << 31, uint64_t{5} << 30, uint64_t{1} << 41}) {
    absl::SetFlag(&FLAGS_guarded_arena_size, {bytes});
    ExpectRefused(absl::StatusCode::kInvalidArgument, "--guarded_arena_size");
  }
  absl::SetFlag(&FLAGS_guarded_arena_size, {uint64_t{1} << 40});
  EXPECT_TRUE(ServerOptionsFromFlags().ok());
}

TEST_F(FlagsTest, RefusesGuardedSessionsWithoutMemory) {
  EXPECT_EQ(ServerOptionsFromFlags()->tiers.guarded_memory_bytes, uint64_t{1} << 30);
  absl::SetFlag(&FLAGS_guarded_memory, {uint64_t{1} << 20});
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--guarded_memory must be at least 32MiB");
  // A large arena takes larger sinks.
  absl::SetFlag(&FLAGS_guarded_memory, {uint64_t{64} << 20});
  EXPECT_TRUE(ServerOptionsFromFlags().ok());
  absl::SetFlag(&FLAGS_guarded_arena_size, {uint64_t{1} << 40});
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--guarded_memory: a guarded session takes");
}

TEST_F(FlagsTest, TheGuardedTierHasAStandbyAndContextsOfAKnownSize) {
  EXPECT_TRUE(ServerOptionsFromFlags()->tiers.guarded_standby);
  EXPECT_FALSE(ServerOptionsFromFlags()->tiers.guarded_context_bytes.has_value());
  absl::SetFlag(&FLAGS_guarded_standby, false);
  absl::SetFlag(&FLAGS_guarded_context_memory, "2GiB");
  EXPECT_FALSE(ServerOptionsFromFlags()->tiers.guarded_standby);
  EXPECT_EQ(ServerOptionsFromFlags()->tiers.guarded_context_bytes, uint64_t{2} << 30);
  absl::SetFlag(&FLAGS_guarded_context_memory, "much");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--guarded_context_memory=much");
}

TEST_F(FlagsTest, TheGuardedTierHasHostWindows) {
  EXPECT_EQ(ServerOptionsFromFlags()->tiers.guarded_windows, 16u);
  EXPECT_EQ(ServerOptionsFromFlags()->tiers.guarded_window_bytes, uint64_t{16} << 20);
  absl::SetFlag(&FLAGS_guarded_windows, 0);
  EXPECT_EQ(ServerOptionsFromFlags()->tiers.guarded_windows, 0u);
  for (const uint64_t bytes : {uint64_t{1} << 20, uint64_t{64} << 20, (uint64_t{4} << 20) + 4096}) {
    absl::SetFlag(&FLAGS_guarded_window, {bytes});
    ExpectRefused(absl::StatusCode::kInvalidArgument, "--guarded_window must be whole MiB");
  }
  absl::SetFlag(&FLAGS_guarded_window, {uint64_t{32} << 20});
  EXPECT_EQ(ServerOptionsFromFlags()->tiers.guarded_window_bytes, uint64_t{32} << 20);
  for (const int windows : {-1, 65}) {
    absl::SetFlag(&FLAGS_guarded_windows, windows);
    ExpectRefused(absl::StatusCode::kInvalidArgument, "--guarded_windows must be 0 to 64");
  }
}

TEST_F(FlagsTest, WhoseWorkHangsWaitsAMinuteUnlessItIsSaidOtherwise) {
  EXPECT_EQ(ServerOptionsFromFlags()->tiers.guarded_hang_pause, absl::Minutes(1));
  absl::SetFlag(&FLAGS_guarded_hang_seconds, 0);
  EXPECT_EQ(ServerOptionsFromFlags()->tiers.guarded_hang_pause, absl::ZeroDuration());
  absl::SetFlag(&FLAGS_guarded_hang_seconds, -1);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--guarded_hang_seconds");
}

TEST_F(FlagsTest, LeasesTakeTurnsByBandUnlessItIsSaidOtherwise) {
  EXPECT_EQ(ServerOptionsFromFlags()->dispatch.policy, "band");
  EXPECT_EQ(ServerOptionsFromFlags()->dispatch.quantum, absl::Milliseconds(6));
  absl::SetFlag(&FLAGS_dispatch, "off");
  absl::SetFlag(&FLAGS_dispatch_quantum_us, 20000);
  EXPECT_EQ(ServerOptionsFromFlags()->dispatch.policy, "off");
  EXPECT_EQ(ServerOptionsFromFlags()->dispatch.quantum, absl::Milliseconds(20));
  absl::SetFlag(&FLAGS_dispatch_quantum_us, 10);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--dispatch_quantum_us must be from");
  absl::SetFlag(&FLAGS_dispatch, "lottery");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--dispatch: there is no policy");
}

TEST_F(FlagsTest, WhoComesRegularlyIsExpectedUnlessItIsSaidOtherwise) {
  EXPECT_EQ(ServerOptionsFromFlags()->dispatch.expect, absl::Milliseconds(3));
  absl::SetFlag(&FLAGS_dispatch_expect_us, 0);
  EXPECT_EQ(ServerOptionsFromFlags()->dispatch.expect, absl::ZeroDuration());
  for (const int wrong : {-1, 20001}) {
    absl::SetFlag(&FLAGS_dispatch_expect_us, wrong);
    ExpectRefused(absl::StatusCode::kInvalidArgument, "--dispatch_expect_us must be from 0 to");
  }
}

TEST_F(FlagsTest, HealthIsAnsweredWhereItIsSaidAndNowhereElse) {
  EXPECT_EQ(ServerOptionsFromFlags()->listen.health_address, "");
  absl::SetFlag(&FLAGS_health_listen, "0.0.0.0:14001");
  EXPECT_EQ(ServerOptionsFromFlags()->listen.health_address, "0.0.0.0:14001");
  absl::SetFlag(&FLAGS_health_listen, "unix:/tmp/health");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--health_listen=unix:/tmp/health");
}

TEST_F(FlagsTest, RefusesACredentialOfNoUse) {
  const std::string path = testing::TempDir() + "/flags_test.credential";
  absl::SetFlag(&FLAGS_scheduler_credential_file, path);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "--scheduler_credential_file needs --schedul");
  absl::SetFlag(&FLAGS_scheduler, "127.0.0.1:14100");
  ExpectRefused(absl::StatusCode::kNotFound, "--scheduler_credential_file: cannot read " + path);
  std::ofstream(path) << "two words\n";
  ExpectRefused(absl::StatusCode::kInvalidArgument, "more than one word");
  std::ofstream(path) << "\xef\xbb\xbfsecret\r\n";
  const auto options = ServerOptionsFromFlags();
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->scheduler.credential, "secret");
}

TEST_F(FlagsTest, KeepsNoModulesWhereNoneAreWanted) {
  absl::SetFlag(&FLAGS_module_cache_dir, "/cache");
  EXPECT_EQ(ServerOptionsFromFlags()->modules.dir, "/cache");
  absl::SetFlag(&FLAGS_module_cache_bytes, {0});
  EXPECT_EQ(ServerOptionsFromFlags()->modules.dir, "");
  absl::SetFlag(&FLAGS_module_cache_bytes, {1});
  absl::SetFlag(&FLAGS_module_cache_dir, "none");
  EXPECT_EQ(ServerOptionsFromFlags()->modules.dir, "");
}

TEST_F(FlagsTest, WarmWorkersAreTheDevicesChoiceUnlessGiven) {
  absl::SetFlag(&FLAGS_warm_workers, 0);
  EXPECT_EQ(ServerOptionsFromFlags()->device.warm_workers, 0);
}

}  // namespace
}  // namespace warpline::server
