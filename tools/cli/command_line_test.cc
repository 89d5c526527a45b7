#include "tools/cli/command_line.h"

#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

using Words = std::vector<std::string>;

CommandLine Parsed(const Words& args) {
  auto line = ParseCommandLine(args);
  EXPECT_TRUE(line.ok()) << line.status();
  return line.ok() ? *line : CommandLine();
}

TEST(CommandLineTest, NothingIsHelp) { EXPECT_EQ(Parsed({}).verb, Verb::kHelp); }

TEST(CommandLineTest, RunLeavesTheProgramsOptionsAlone) {
  const CommandLine line = Parsed({"run", "--endpoint=unix:/s", "python", "--endpoint=x", "-c"});
  EXPECT_EQ(line.verb, Verb::kRun);
  EXPECT_EQ(line.endpoint, "unix:/s");
  EXPECT_EQ(line.rest, (Words{"python", "--endpoint=x", "-c"}));
}

TEST(CommandLineTest, DashesEndOptionsOfRun) {
  EXPECT_EQ(Parsed({"run", "--", "--odd-name"}).rest, Words{"--odd-name"});
}

TEST(CommandLineTest, ServePassesEverythingOn) {
  EXPECT_EQ(Parsed({"serve", "--help", "--listen=x"}).rest, (Words{"--help", "--listen=x"}));
}

TEST(CommandLineTest, StatTakesAnEndpoint) {
  EXPECT_EQ(Parsed({"stat", "--endpoint", "localhost:1"}).endpoint, "localhost:1");
  EXPECT_EQ(Parsed({"ps", "--help"}).verb, Verb::kHelp);
  EXPECT_EQ(Parsed({"ps", "--help"}).rest, Words{"ps"});
  EXPECT_EQ(Parsed({"help", "tenant"}).rest, Words{"tenant"});
}

TEST(CommandLineTest, AuditTakesAFolderAndFilters) {
  const CommandLine line =
      Parsed({"audit", "--dir=/d", "--event=session", "--session=7", "--follow", "--since=1h"});
  EXPECT_EQ(line.verb, Verb::kAudit);
  EXPECT_EQ(line.Text("dir"), "/d");
  EXPECT_EQ(line.Number("session"), 7u);
  EXPECT_TRUE(line.Has("follow"));
  EXPECT_FALSE(ParseCommandLine({"audit", "--endpoint=x"}).ok()) << "it connects to nobody";
  EXPECT_FALSE(ParseCommandLine({"audit", "--session=x"}).ok());
  EXPECT_FALSE(ParseCommandLine({"audit", "what"}).ok());
}

TEST(CommandLineTest, TlsFilesAreOptionsOfEveryClient) {
  const CommandLine line = Parsed({"run", "--tls_ca=a", "--tls_cert=b", "--tls_key=c",
                                   "--tls_server_name=d", "program", "--tls_ca=x"});
  EXPECT_EQ(line.tls.ca, "a");
  EXPECT_EQ(line.tls.cert, "b");
  EXPECT_EQ(line.tls.key, "c");
  EXPECT_EQ(line.tls.server_name, "d");
  EXPECT_EQ(line.rest, (Words{"program", "--tls_ca=x"}));
}

TEST(CommandLineTest, RunTakesMemoryAndDevice) {
  const CommandLine line = Parsed({"run", "--memory=4GiB", "--device", "1", "--", "a"});
  EXPECT_EQ(line.Size("memory"), 4ull << 30);
  EXPECT_EQ(line.Text("device"), "1");
  EXPECT_EQ(line.rest, Words{"a"});
}

TEST(CommandLineTest, RunTakesSeveralGpus) {
  EXPECT_EQ(Parsed({"run", "--gpus=2", "a"}).Number("gpus"), 2u);
  EXPECT_EQ(Parsed({"run", "--device=1,0", "a"}).Text("device"), "1,0");
  EXPECT_TRUE(ParseCommandLine({"run", "--gpus=2", "--device=1,0", "a"}).ok());
  EXPECT_FALSE(ParseCommandLine({"run", "--gpus=2", "--device=1", "a"}).ok());
  EXPECT_FALSE(ParseCommandLine({"run", "--gpus=0", "a"}).ok());
  EXPECT_FALSE(ParseCommandLine({"run", "--gpus=17", "a"}).ok());
  EXPECT_FALSE(ParseCommandLine({"run", "--gpus=all", "a"}).ok());
}

TEST(CommandLineTest, SlicesHaveShapes) {
  const CommandLine line = Parsed(
      {"slice", "add", "small", "--memory=4GiB", "--staging=64MiB", "--sessions=2", "--handles=100",
       "--module_bytes=8MiB", "--commands=64", "--sm_percent=25", "--launch_ms=500", "--weight=3",
       "--copy_weight=2", "--priority=1", "--period_ms=20", "--budget_ms=5", "--best_effort"});
  EXPECT_EQ(line.verb, Verb::kSlice);
  EXPECT_EQ(line.Number("period_ms"), 20u);
  EXPECT_EQ(line.Number("budget_ms"), 5u);
  EXPECT_EQ(line.action, "add");
  EXPECT_EQ(line.rest, Words{"small"});
  EXPECT_EQ(line.Size("staging"), 64u << 20);
  EXPECT_EQ(line.Number("commands"), 64u);
  EXPECT_EQ(line.Number("best_effort"), 1u);
  EXPECT_EQ(Parsed({"slice", "set", "a", "--best_effort=0"}).Number("best_effort"), 0u);
  EXPECT_EQ(Parsed({"slice"}).action, "list");
  EXPECT_EQ(Parsed({"slice", "remove", "small"}).action, "remove");
  EXPECT_FALSE(ParseCommandLine({"slice", "add"}).ok());
  EXPECT_FALSE(ParseCommandLine({"slice", "cut", "small"}).ok());
  EXPECT_FALSE(ParseCommandLine({"slice", "add", "a", "--handles=many"}).ok());
  EXPECT_FALSE(ParseCommandLine({"slice", "add", "a", "--best_effort=2"}).ok());
  EXPECT_FALSE(ParseCommandLine({"slice", "add", "a", "--module_bytes=some"}).ok());
  EXPECT_EQ(Parsed({"run", "--slice=small", "a"}).Text("slice"), "small");
}

TEST(CommandLineTest, RunWaitsForLongOrForATime) {
  const CommandLine line = Parsed({"run", "--wait", "a", "--wait=1h"});
  EXPECT_TRUE(line.Has("wait"));
  EXPECT_EQ(line.Duration("wait", absl::ZeroDuration()), absl::InfiniteDuration());
  EXPECT_EQ(line.rest, (Words{"a", "--wait=1h"}));
  EXPECT_EQ(Parsed({"run", "--wait=90s", "a"}).Duration("wait", absl::ZeroDuration()),
            absl::Seconds(90));
  EXPECT_EQ(Parsed({"run", "a"}).Duration("wait", absl::Seconds(3)), absl::Seconds(3));
  EXPECT_FALSE(ParseCommandLine({"run", "--wait=soon", "a"}).ok());
  EXPECT_FALSE(ParseCommandLine({"run", "--wait=-1s", "a"}).ok());
}

TEST(CommandLineTest, GangsHaveANameMembersAndWait) {
  EXPECT_EQ(Parsed({"run", "--wait", "--gang=g", "--members=4", "a"}).Number("members"), 4u);
  EXPECT_FALSE(ParseCommandLine({"run", "--gang=g", "--members=4", "a"}).ok());
  EXPECT_FALSE(ParseCommandLine({"run", "--wait", "--gang=g", "a"}).ok());
  EXPECT_FALSE(ParseCommandLine({"run", "--wait", "--members=4", "a"}).ok());
  EXPECT_FALSE(ParseCommandLine({"run", "--wait", "--gang=g", "--members=0", "a"}).ok());
  EXPECT_FALSE(ParseCommandLine({"run", "--wait", "--gang=", "--members=2", "a"}).ok());
}

TEST(CommandLineTest, ServersAreCordonedAndDrained) {
  const CommandLine line = Parsed({"servers", "drain", "a", "--within=5m", "--reason=new disks"});
  EXPECT_EQ(line.action, "drain");
  EXPECT_EQ(line.rest, Words{"a"});
  EXPECT_EQ(line.Duration("within", absl::ZeroDuration()), absl::Minutes(5));
  EXPECT_EQ(Parsed({"servers", "cordon", "a"}).action, "cordon");
  EXPECT_EQ(Parsed({"servers", "uncordon", "a"}).action, "uncordon");
  EXPECT_FALSE(ParseCommandLine({"servers", "cordon"}).ok());
  EXPECT_FALSE(ParseCommandLine({"servers", "drain", "a", "--within=soon"}).ok());
}

TEST(CommandLineTest, LeasesMoveToAServerAndADeviceOfIt) {
  const CommandLine line = Parsed({"migrate", "1234", "--to=b", "--device=GPU-1", "--nowait"});
  EXPECT_EQ(line.verb, Verb::kMigrate);
  EXPECT_EQ(line.rest, Words{"1234"});
  EXPECT_EQ(line.Text("to"), "b");
  EXPECT_EQ(line.Text("device"), "GPU-1");
  EXPECT_TRUE(line.Has("nowait"));
  EXPECT_FALSE(Parsed({"migrate", "1234"}).Has("nowait"));
  EXPECT_EQ(ParseCommandLine({"migrate"}).status().message(), "no lease named");
  EXPECT_FALSE(ParseCommandLine({"migrate", "1234", "5678"}).ok());
  EXPECT_FALSE(ParseCommandLine({"migrate", "1234", "--device=GPU-1"}).ok());
  EXPECT_FALSE(ParseCommandLine({"migrate", "1234", "--json"}).ok());
}

TEST(CommandLineTest, CheckpointsHaveAFolder) {
  const CommandLine line = Parsed({"checkpoint", "17", "/folder", "--end"});
  EXPECT_EQ(line.verb, Verb::kCheckpoint);
  EXPECT_EQ(line.rest, (Words{"17", "/folder"}));
  EXPECT_TRUE(line.Has("end"));
  EXPECT_EQ(Parsed({"restore", "/folder", "--device=GPU-1"}).Text("device"), "GPU-1");
  const std::string both = "name a lease or a session, and a folder";
  EXPECT_EQ(ParseCommandLine({"checkpoint"}).status().message(), both);
  EXPECT_EQ(ParseCommandLine({"checkpoint", "17"}).status().message(), both);
  EXPECT_EQ(ParseCommandLine({"checkpoint", "", "/folder"}).status().message(), both);
  EXPECT_EQ(ParseCommandLine({"checkpoint", "17", "/folder", "18"}).status().message(),
            "unexpected argument \"18\"");
  EXPECT_FALSE(ParseCommandLine({"checkpoint", "17", "/folder", "--device=GPU-1"}).ok());
  EXPECT_EQ(ParseCommandLine({"restore"}).status().message(), "name a folder");
  EXPECT_EQ(ParseCommandLine({"restore", ""}).status().message(), "name a folder");
  EXPECT_FALSE(ParseCommandLine({"restore", "/folder", "/other"}).ok());
  EXPECT_FALSE(ParseCommandLine({"restore", "/folder", "--end"}).ok());
}

TEST(CommandLineTest, OnlyADrainMovesLeases) {
  EXPECT_TRUE(Parsed({"servers", "drain", "a", "--migrate", "--within=5m"}).Has("migrate"));
  EXPECT_FALSE(ParseCommandLine({"servers", "drain", "--migrate"}).ok());
  EXPECT_FALSE(ParseCommandLine({"servers", "drain", "a", "--migrate=b"}).ok());
  EXPECT_EQ(ParseCommandLine({"servers", "cordon", "a", "--migrate"}).status().message(),
            "--migrate goes with warpline servers drain");
  EXPECT_FALSE(ParseCommandLine({"servers", "--migrate"}).ok());
}

TEST(CommandLineTest, TenantsAndLeasesHaveActions) {
  const CommandLine line = Parsed({"tenant", "add", "vision", "--memory=1T", "--max_leases=3"});
  EXPECT_EQ(line.action, "add");
  EXPECT_EQ(line.rest, Words{"vision"});
  EXPECT_EQ(line.Number("max_leases"), 3u);
  EXPECT_FALSE(line.Has("max_seconds"));
  EXPECT_TRUE(Parsed({"lease", "--json", "list"}).Has("json"));
  EXPECT_FALSE(ParseCommandLine({"tenant"}).ok());
  EXPECT_EQ(Parsed({"tenant", "set", "a", "--rights=load,launch"}).Text("rights"), "load,launch");
  EXPECT_FALSE(ParseCommandLine({"tenant", "set", "a", "--rights=fly"}).ok());
  EXPECT_EQ(Parsed({"tenant", "set", "a", "--tiers=guarded", "--tier=auto"}).Text("tier"), "auto");
  EXPECT_FALSE(ParseCommandLine({"tenant", "set", "a", "--tiers=auto"}).ok());
  EXPECT_FALSE(ParseCommandLine({"tenant", "set", "a", "--tier=best"}).ok());
  EXPECT_EQ(Parsed({"tenant", "set", "a", "--slices=small,large"}).Text("slices"), "small,large");
  EXPECT_EQ(Parsed({"servers"}).action, "list");
  EXPECT_EQ(Parsed({"servers", "--json"}).action, "list");
  EXPECT_EQ(Parsed({"servers", "add", "gpu1:14000"}).rest, std::vector<std::string>{"gpu1:14000"});
  EXPECT_FALSE(ParseCommandLine({"servers", "add"}).ok());
  EXPECT_FALSE(ParseCommandLine({"servers", "drop", "a"}).ok());
  EXPECT_FALSE(ParseCommandLine({"tenant", "add"}).ok());
  EXPECT_FALSE(ParseCommandLine({"tenant", "add", "a", "b"}).ok());
  EXPECT_FALSE(ParseCommandLine({"lease", "add", "a"}).ok());
  EXPECT_FALSE(ParseCommandLine({"lease", "list", "a"}).ok());
}

TEST(CommandLineTest, MistakesAreNamed) {
  EXPECT_FALSE(ParseCommandLine({"run", "--memory=much", "x"}).ok());
  EXPECT_FALSE(ParseCommandLine({"run", "--memory"}).ok());
  EXPECT_FALSE(ParseCommandLine({"ps", "--json=yes"}).ok());
  EXPECT_FALSE(ParseCommandLine({"top", "--interval=soon"}).ok());
  EXPECT_FALSE(ParseCommandLine({"stat", "--memory=1"}).ok());

  EXPECT_FALSE(ParseCommandLine({"frobnicate"}).ok());
  EXPECT_FALSE(ParseCommandLine({"run"}).ok());
  EXPECT_FALSE(ParseCommandLine({"run", "--"}).ok());
  EXPECT_FALSE(ParseCommandLine({"run", "--frob", "x"}).ok());
  EXPECT_FALSE(ParseCommandLine({"stat", "extra"}).ok());
}

TEST(CommandLineTest, ExplainTakesPrograms) {
  const auto line = ParseCommandLine({"explain", "--hardened", "a.out", "lib.so"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->verb, Verb::kExplain);
  EXPECT_TRUE(line->Has("hardened"));
  EXPECT_EQ(line->rest, (std::vector<std::string>{"a.out", "lib.so"}));
  EXPECT_EQ(ParseCommandLine({"explain"}).status().message(), "warpline explain: no program given");
  EXPECT_FALSE(ParseCommandLine({"explain", "--endpoint=x", "a.out"}).ok());
}

TEST(CommandLineTest, HoldNeedsAFolderAndTakesWhatALeaseIsAskedForBy) {
  const auto line = ParseCommandLine(
      {"hold", "--folder=/warpline/lease", "--memory=4GiB", "--gpus=2", "--sessions=3"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->verb, Verb::kHold);
  EXPECT_EQ(line->Text("folder"), "/warpline/lease");
  EXPECT_EQ(line->Size("memory"), 4ull << 30);
  EXPECT_EQ(line->Number("gpus"), 2u);
  EXPECT_FALSE(ParseCommandLine({"hold"}).ok());
  EXPECT_FALSE(ParseCommandLine({"hold", "--folder="}).ok());
  EXPECT_FALSE(ParseCommandLine({"hold", "--folder=/x", "program"}).ok());
  EXPECT_FALSE(ParseCommandLine({"hold", "--folder=/x", "--gpus=0"}).ok());
}

TEST(CommandLineTest, HoldTakesOneKindOfReadersAndATimeToWait) {
  const auto line = ParseCommandLine({"hold", "--folder=/x", "--reader=1000", "--wait=30s"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->Number("reader"), 1000u);
  EXPECT_EQ(line->Duration("wait", absl::InfiniteDuration()), absl::Seconds(30));
  EXPECT_FALSE(ParseCommandLine({"hold", "--folder=/x", "--reader=alice"}).ok());
  EXPECT_FALSE(ParseCommandLine({"hold", "--folder=/x", "--wait=soon"}).ok());
  EXPECT_FALSE(ParseCommandLine({"hold", "--folder=/x", "--reader=1000", "--share_token"}).ok());
}

}  // namespace
}  // namespace warpline::cli
