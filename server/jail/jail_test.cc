#include "server/jail/jail.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/jail/file_rules.h"
#include "server/jail/layers_off.h"
#include "server/jail/profiles.h"

namespace warpline::jail {
namespace {

using ::testing::IsEmpty;

// Runs `body` in a process of its own and returns what it returns, which must be below 100.
int InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

warpline_internal::JailPlan Plan(const std::string& profile) {
  warpline_internal::JailPlan plan;
  plan.set_profile(profile);
  return plan;
}

// Closes the whole jail of a worker. Returns whether nothing failed.
bool CloseAll(Jail* jail) {
  absl::Status status = jail->CloseBeforeDriver();
  if (status.ok()) status = jail->CloseBeforeTenants();
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok();
}

// Says, as bits, which attempts did not end as they should in a jail whose layer `on` holds alone.
int With(Layer on, const std::function<int()>& attempts, const warpline_internal::JailPlan& plan) {
  return InChild([&] {
    LayerSet others;
    for (const LayerSpec& spec : AllLayers()) {
      if (spec.layer != on) others = others | spec.layer;
    }
    TurnOffForTest(others);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // As every child of the supervisor has it.
    Jail jail(plan);
    if (!CloseAll(&jail)) return 99;
    return jail.report().held().empty() ? 98 : attempts();
  });
}
int With(Layer on, const std::function<int()>& attempts, const char* profile = kWorkerProfile) {
  return With(on, attempts, Plan(profile));
}

TEST(JailTest, EveryProfileHasEveryLayer) {
  for (const char* const name : {kWorkerProfile, kPeersProfile, kMpsWorkerProfile, kKeeperProfile,
                                 kRelayProfile, kRdmaRelayProfile, kCompilerProfile}) {
    ASSERT_NE(ProfileNamed(name), nullptr);
    for (const LayerSpec& spec : AllLayers()) {
      EXPECT_TRUE(ProfileNamed(name)->layers.Has(spec.layer)) << name << " " << spec.name;
    }
  }
}

// NVIDIA's programs are not ours to say what they ask of the kernel.
TEST(JailTest, AnMpsDaemonHasAllButAListOfSystemCalls) {
  for (const LayerSpec& spec : AllLayers()) {
    EXPECT_EQ(ProfileNamed(kMpsProfile)->layers.Has(spec.layer), spec.layer != Layer::kSystemCalls)
        << spec.name;
  }
}

TEST(JailTest, AnUnknownProfileIsRefused) {
  Jail jail(Plan("palace"));
  EXPECT_EQ(jail.CloseBeforeDriver().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(jail.report().held(), IsEmpty());
}

TEST(JailTest, CudaIsToldWhatToShow) {
  EXPECT_EQ(InChild([] {
              auto plan = Plan(kWorkerProfile);
              plan.set_visible_devices("MIG-11111111-2222-3333-4444-555555555501");
              Jail jail(std::move(plan));
              if (!CloseAll(&jail)) return 1;
              const char* const shown = getenv("CUDA_VISIBLE_DEVICES");
              return shown != nullptr &&
                             std::string(shown) == "MIG-11111111-2222-3333-4444-555555555501"
                         ? 0
                         : 2;
            }),
            0);
  EXPECT_EQ(InChild([] {
              Jail jail(Plan(kWorkerProfile));
              return CloseAll(&jail) && getenv("CUDA_VISIBLE_DEVICES") == nullptr ? 0 : 1;
            }),
            0);
}

TEST(JailTest, AThreadRunsInIt) {
  EXPECT_EQ(InChild([] {
              Jail jail(Plan(kWorkerProfile));
              if (!CloseAll(&jail)) return 1;
              bool ran = false;
              std::thread([&] { ran = true; }).join();
              return ran ? 0 : 2;
            }),
            0);
}

TEST(JailTest, SystemCallsThatAreNotListedFail) {
  EXPECT_EQ(With(Layer::kSystemCalls,
                 [] {
                   int wrong = 0;
                   char* const argv[] = {const_cast<char*>("true"), nullptr};
                   if (execv("/bin/true", argv) == 0 || errno != EPERM) wrong |= 1;
                   if (const pid_t child = fork(); child >= 0 || errno != EPERM) wrong |= 2;
                   if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 || errno != EPERM) {
                     wrong |= 4;
                   }
                   if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EPERM) wrong |= 8;
                   if (kill(getppid(), 0) == 0 || errno != EPERM) wrong |= 16;
                   if (syscall(SYS_tgkill, getppid(), getppid(), 0) == 0 || errno != EPERM) {
                     wrong |= 32;
                   }
                   return wrong;
                 }),
            0);
}

// 1 for a request that a filter refused, and 0 for one that the device saw, which knows none of
// them.
int Refused(unsigned number) {
  const int device = open("/dev/null", O_RDWR);
  if (ioctl(device, _IOC(_IOC_READ | _IOC_WRITE, 'F', number, 0)) == 0) return 2;
  return errno == EPERM ? 1 : 0;
}

TEST(JailTest, ObjectsAreDuplicatedOnlyBetweenSeveralDevices) {
  constexpr unsigned kDuplicate = 0x34;
  constexpr unsigned kShare = 0x35;
  constexpr unsigned kAllocate = 0x2b;
  const auto attempts = [] {
    return Refused(kDuplicate) | Refused(kShare) << 2 | Refused(kAllocate) << 4;
  };
  EXPECT_EQ(With(Layer::kSystemCalls, attempts), 1 | 1 << 2);
  EXPECT_EQ(With(Layer::kSystemCalls, attempts, kKeeperProfile), 1 | 1 << 2);
  EXPECT_EQ(With(Layer::kSystemCalls, attempts, kPeersProfile), 1 << 2);
  // A client of MPS has duplicates of what its server shares.
  EXPECT_EQ(With(Layer::kSystemCalls, attempts, kMpsWorkerProfile), 1 << 2);
}

// A relay that was taken over stays in its jail: it can make no connection, neither to a program of
// this host nor to another host, and nobody else can connect to it.
TEST(JailTest, ARelayTakesConnectionsAndMakesNone) {
  const int socket_before = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(With(
                Layer::kSystemCalls,
                [socket_before] {
                  int wrong = 0;
                  if (const int fd = socket(AF_INET, SOCK_STREAM, 0); fd < 0) wrong |= 1;
                  for (const int family : {AF_UNIX, AF_NETLINK, AF_PACKET}) {
                    if (socket(family, SOCK_DGRAM, 0) >= 0 || errno != EPERM) wrong |= 2;
                  }
                  sockaddr_in to = {};
                  to.sin_family = AF_INET;
                  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
                  to.sin_port = htons(1);
                  const auto* const address = reinterpret_cast<const sockaddr*>(&to);
                  if (connect(socket_before, address, sizeof(to)) == 0 || errno != EPERM) {
                    wrong |= 4;
                  }
                  if (bind(socket_before, address, sizeof(to)) == 0 || errno != EPERM) wrong |= 8;
                  if (listen(socket_before, 1) == 0 || errno != EPERM) wrong |= 16;
                  if (accept(socket_before, nullptr, nullptr) >= 0 || errno != EINVAL) wrong |= 32;
                  return wrong;
                },
                kRelayProfile),
            0);
  close(socket_before);
}

// Tries to listen at a port in the jail of a relay that may listen at `allowed`: 0 when it does, 1
// when the jail refuses.
int ListensInRelay(uint16_t port, uint16_t allowed) {
  return InChild([=] {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // As every child of the supervisor has it.
    TurnOffForTest(LayerSet(Layer::kSystemCalls));
    auto plan = Plan(kRelayProfile);
    plan.set_first_port(allowed);
    plan.set_last_port(allowed);
    Jail jail(plan);
    if (!CloseAll(&jail)) return 99;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(port);
    if (bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) == 0) return 0;
    return errno == EACCES ? 1 : 98;
  });
}

TEST(JailTest, ARelayListensAtItsPortsAlone) {
  if (LandlockVersion() < 4) GTEST_SKIP() << "the kernel's Landlock knows no ports";
  EXPECT_EQ(ListensInRelay(24731, 24731), 0);
  EXPECT_EQ(ListensInRelay(24732, 24731), 1);
  EXPECT_EQ(ListensInRelay(0, 0), 0);
}

// A relay over TCP does not lose any of its jail because others may use RDMA.
TEST(JailTest, OnlyARelayOverRdmaHasItsDevices) {
  const auto has = [](const char* profile) {
    bool found = false;
    for (const FileRule& rule : ProfileNamed(profile)->files) {
      found = found || std::string_view(rule.path).find("infiniband") != std::string_view::npos;
    }
    for (const RequestRule& rule : ProfileNamed(profile)->requests) {
      found = found || rule.value == RDMA_VERBS_IOCTL;
    }
    return found;
  };
  EXPECT_TRUE(has(kRdmaRelayProfile));
  for (const char* const other : {kWorkerProfile, kPeersProfile, kMpsWorkerProfile, kMpsProfile,
                                  kKeeperProfile, kRelayProfile, kCompilerProfile}) {
    EXPECT_FALSE(has(other)) << other;
  }
  const auto count = [](const char* profile) { return ProfileNamed(profile)->system_calls.size(); };
  EXPECT_EQ(count(kRdmaRelayProfile), count(kRelayProfile));
}

TEST(JailTest, ACompilerForksAndStartsNothingElse) {
  const int failed = With(
      Layer::kSystemCalls,
      [] {
        const auto fails = [](long result, int bit) {
          return result == -1 && errno == EPERM ? 0 : bit;
        };
        const char* const none[] = {nullptr};
        char* const* const empty = const_cast<char* const*>(none);
        int bits = InChild([] { return 7; }) == 7 ? 0 : 1;
        bits |= fails(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), 2);
        bits |= fails(syscall(SYS_clone, CLONE_THREAD | CLONE_SIGHAND | CLONE_VM, 0, 0, 0, 0), 2);
        bits |= fails(unshare(CLONE_NEWUSER), 2);
        bits |=
            fails(socket(AF_INET, SOCK_STREAM, 0), 4) | fails(socket(AF_UNIX, SOCK_STREAM, 0), 4);
        bits |= fails(execve("/bin/true", empty, empty), 8);
        bits |= fails(kill(getppid(), 0), 16) | fails(ptrace(PTRACE_ATTACH, getppid(), 0, 0), 16);
        bits |= fails(syscall(SYS_prlimit64, getppid(), RLIMIT_CORE, nullptr, nullptr), 32);
        return bits;
      },
      kCompilerProfile);
  EXPECT_EQ(failed, 0);
}

// A stage's jail is closed within a compiler's, each of whose layers it has from there.
TEST(JailTest, AStageIsConfinedWithinACompiler) {
  const int failed = InChild([] {
    Jail compiler(Plan(kCompilerProfile));
    if (!CloseAll(&compiler)) return 99;
    return InChild([] {
      Jail stage(Plan(kStageProfile));
      if (!CloseAll(&stage)) return 98;
      const auto fails = [](long result, int bit) { return result == -1 ? 0 : bit; };
      char byte = 0;
      int bits = fails(open("/dev/null", O_RDONLY), 1);
      bits |= fails(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), 2);
      bits |= fails(syscall(SYS_memfd_create, "more", 0), 4);
      bits |= fails(syscall(SYS_pidfd_open, getppid(), 0), 8);
      bits |= fails(fcntl(2, F_SETFL, 0), 16) | fails(fcntl(2, F_SETOWN, getpid()), 16);
      bits |= fails(recv(3, &byte, 1, 0), 32);
      return bits;
    });
  });
  EXPECT_EQ(failed, 0);
}

// By the layer "files" alone.
TEST(JailTest, AStageOpensNoFileAtAll) {
  if (LandlockVersion() == 0) GTEST_SKIP() << "the kernel has no Landlock";
  const int failed = With(
      Layer::kFiles,
      [] {
        int bits = 0;
        for (const char* const path : {"/dev/null", "/etc/localtime", "/proc/self/status"}) {
          bits = bits << 1 | (open(path, O_RDONLY) >= 0 ? 1 : 0);
        }
        return bits;
      },
      kStageProfile);
  EXPECT_EQ(failed, 0);
}

TEST(JailTest, OwnThreadsCanBeSignalled) {
  EXPECT_EQ(With(Layer::kSystemCalls,
                 [] { return syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0) == 0 ? 0 : 1; }),
            0);
}

TEST(JailTest, FilesOutsideTheProfileCannotBeOpened) {
  const std::string secret = testing::TempDir() + "/secret";
  fclose(fopen(secret.c_str(), "w"));
  const auto attempts = [&secret] {
    int wrong = 0;
    if (open(secret.c_str(), O_RDONLY) >= 0 || errno != EACCES) wrong |= 1;
    if (open((secret + "2").c_str(), O_WRONLY | O_CREAT, 0600) >= 0) wrong |= 2;
    if (unlink(secret.c_str()) == 0) wrong |= 4;
    if (open("/proc/1/status", O_RDONLY) >= 0) wrong |= 8;
    if (open("/proc/self/maps", O_RDONLY) < 0) wrong |= 16;
    if (open("/dev/null", O_RDWR) < 0) wrong |= 32;
    return wrong;
  };
  EXPECT_EQ(With(Layer::kFiles, attempts), 0);
}

bool CanMake(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600) >= 0;
}

// Of an MPS daemon, or of a worker of its group: the group's pipes.
warpline_internal::JailPlan PlanInGroup(const std::string& profile, const std::string& group) {
  warpline_internal::JailPlan plan = Plan(profile);
  plan.add_folders()->set_path(group + "/pipe");
  plan.mutable_folders(0)->set_makes(profile == kMpsProfile);
  return plan;
}

class MpsJailTest : public testing::Test {
 protected:
  MpsJailTest() {
    char folder[] = "/tmp/mps-jail-XXXXXX";
    group_ = mkdtemp(folder);
    mkdir((group_ + "/pipe").c_str(), 0700);
    fclose(fopen((group_ + "/pipe/there").c_str(), "w"));
    mkfifo((group_ + "/pipe/fifo").c_str(), 0600);
  }
  ~MpsJailTest() override {
    std::error_code error;
    std::filesystem::remove_all(group_, error);
  }

  std::string group_;
};

TEST_F(MpsJailTest, FilesOfADaemonAreBounded) {
  const auto attempts = [&] {
    signal(SIGXFSZ, SIG_IGN);
    int wrong = 0;
    const int log = open((group_ + "/pipe/log").c_str(), O_WRONLY | O_CREAT, 0600);
    if (log < 0 || ftruncate(log, 64 << 20) != 0) wrong |= 1;
    if (ftruncate(log, (64 << 20) + 1) == 0 || errno != EFBIG) wrong |= 2;
    return wrong;
  };
  EXPECT_EQ(With(Layer::kLimits, attempts, PlanInGroup(kMpsProfile, group_)), 0);
}

TEST_F(MpsJailTest, ADaemonMakesFilesInItsFoldersAndExecutesTheSystemsPrograms) {
  if (LandlockVersion() == 0) GTEST_SKIP() << "the kernel has no Landlock";
  const std::string program = group_ + "/program";
  std::filesystem::copy_file("/bin/true", program);
  const auto attempts = [&] {
    int wrong = 0;
    if (!CanMake(group_ + "/pipe/new")) wrong |= 1;
    if (unlink((group_ + "/pipe/new").c_str()) != 0) wrong |= 2;
    if (CanMake(group_ + "/elsewhere") || CanMake("/tmp/elsewhere")) wrong |= 4;
    if (InChild([] { return execl("/bin/true", "true", nullptr); }) != 0) wrong |= 8;
    const auto run = [&program] {
      execl(program.c_str(), "true", nullptr);
      return errno == EACCES ? 50 : 51;
    };
    if (InChild(run) != 50) wrong |= 16;
    // Its child's threads, which no rule can name before it is there.
    const auto name = [] { return open("/proc/thread-self/comm", O_WRONLY) >= 0 ? 0 : 1; };
    if (InChild(name) != 0) wrong |= 32;
    return wrong;
  };
  EXPECT_EQ(With(Layer::kFiles, attempts, PlanInGroup(kMpsProfile, group_)), 0);
}

TEST_F(MpsJailTest, AWorkerReachesItsGroupsPipesAndMakesNone) {
  if (LandlockVersion() == 0) GTEST_SKIP() << "the kernel has no Landlock";
  const auto attempts = [&] {
    int wrong = 0;
    if (open((group_ + "/pipe/there").c_str(), O_RDWR) < 0) wrong |= 1;
    if (CanMake(group_ + "/pipe/new")) wrong |= 2;
    if (unlink((group_ + "/pipe/there").c_str()) == 0) wrong |= 4;
    if (InChild([] { return execl("/bin/true", "true", nullptr) < 0 ? 50 : 0; }) != 50) wrong |= 8;
    return wrong;
  };
  EXPECT_EQ(With(Layer::kFiles, attempts, PlanInGroup(kMpsWorkerProfile, group_)), 0);
}

TEST_F(MpsJailTest, ByMountsADaemonMakesFilesInItsFoldersAloneAndAWorkerNone) {
  for (const char* const profile : {kMpsProfile, kMpsWorkerProfile}) {
    const int wrong = InChild([&] {
      TurnOffForTest(Layer::kFiles);
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      Jail jail(PlanInGroup(profile, group_));
      if (!CloseAll(&jail)) return 99;
      for (const auto& missing : jail.report().missing()) {
        if (missing.layer() == "mounts") return 50;
      }
      int bits = 0;
      if (CanMake(group_ + "/pipe/new") != (profile == kMpsProfile)) bits |= 1;
      if (CanMake(group_ + "/elsewhere") || CanMake("/dev/shm/elsewhere")) bits |= 2;
      // Of a socket or a pipe this is no change of the file system.
      const int pipe = open((group_ + "/pipe/fifo").c_str(), O_RDWR | O_NONBLOCK);
      if (pipe < 0 || write(pipe, "x", 1) != 1) bits |= 4;
      return bits;
    });
    if (wrong == 50) GTEST_SKIP() << "this system lets nobody change mounts";
    EXPECT_EQ(wrong, 0) << profile;
  }
}

TEST(JailTest, NoCapabilitiesAreLeft) {
  EXPECT_EQ(With(Layer::kCapabilities,
                 [] {
                   FILE* const status = fopen("/proc/self/status", "r");
                   char line[256];
                   int wrong = 0;
                   while (fgets(line, sizeof(line), status) != nullptr) {
                     unsigned long long value = 0;
                     for (const char* name : {"CapInh:", "CapPrm:", "CapEff:", "CapAmb:"}) {
                       const std::string text(line);
                       if (text.rfind(name, 0) != 0) continue;
                       if (sscanf(line + 7, "%llx", &value) != 1 || value != 0) wrong |= 1;
                     }
                   }
                   fclose(status);
                   return wrong;
                 }),
            0);
}

TEST(JailTest, MountsAreLeftAloneWithoutNamespaces) {
  // They would be those of the host.
  struct statvfs before = {};
  ASSERT_EQ(statvfs("/", &before), 0);
  EXPECT_EQ(With(Layer::kMounts, [] { return 0; }), 98);
  struct statvfs after = {};
  ASSERT_EQ(statvfs("/", &after), 0);
  EXPECT_EQ(before.f_flag & ST_RDONLY, after.f_flag & ST_RDONLY);
}

TEST(JailTest, WhatIsMissingIsSaid) {
  EXPECT_EQ(InChild([] {
              TurnOffForTest(Layer::kFiles);
              Jail jail(Plan(kWorkerProfile));
              if (!CloseAll(&jail)) return 1;
              for (const auto& missing : jail.report().missing()) {
                if (missing.layer() == "files") return 0;
              }
              return 2;
            }),
            0);
}

TEST(JailTest, AStrictPlanThatCannotBeCarriedOutIsAnError) {
  // A process with a second thread cannot enter a user namespace.
  EXPECT_EQ(InChild([] {
              std::thread([] { pause(); }).detach();
              warpline_internal::JailPlan plan = Plan(kWorkerProfile);
              plan.set_strict(true);
              Jail jail(plan);
              const absl::Status status = jail.CloseBeforeDriver();
              return status.code() == absl::StatusCode::kFailedPrecondition ? 0 : 1;
            }),
            0);
}

}  // namespace
}  // namespace warpline::jail
