// Tests a compiler with real and with hostile stages: what a stage can do to others, what comes
// through to the next, and what becomes of requests that make no sense.
#include "server/compiler/broker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "common/packets/packet_socket.h"
#include "gtest/gtest.h"
#include "guard/guard.h"
#include "guard/verify/verify.h"
#include "server/compiler/client/compiler_client.h"
#include "server/compiler/frozen_file.h"
#include "server/compiler/jit_link.h"
#include "server/compiler/layout_format.h"

namespace warpline::compiler {
namespace {

constexpr char kPtx[] = R"(.version 8.0
.target sm_90
.address_size 64
.global .align 4 .b32 counter = 40;
.visible .entry count(.param .u64 out)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
  ld.global.u32 %r1, [counter];
  add.u32 %r1, %r1, 1;
  st.global.u32 [counter], %r1;
  ld.param.u64 %rd1, [out];
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

const guard::RewriteOptions kOptions = {.arena_bits = 36};

// A broker in a process of its own, and connections to it.
class BrokerProcess {
 public:
  explicit BrokerProcess(BrokerOptions options) {
    auto pair = PacketSocketPair();
    control_ = std::move(pair->first);
    pid_ = fork();
    if (pid_ != 0) return;
    control_.Reset(-1);
    const UniqueFd control = std::move(pair->second);
    Broker broker(std::move(options));
    broker.Run(control.get(), [&] {
      CompileRequest unused;
      std::vector<UniqueFd> fds;
      if (!ReceiveRecord(control.get(), &unused, sizeof(unused), &fds).ok()) return false;
      broker.AddClient(std::move(fds[0]));
      return true;
    });
    _exit(0);
  }
  // Expects that it has served to the end.
  ~BrokerProcess() {
    control_.Reset(-1);
    int status = 0;
    waitpid(pid_, &status, 0);
    EXPECT_EQ(status, 0);
  }

  UniqueFd Connect() {
    auto pair = PacketSocketPair();
    const CompileRequest unused;
    EXPECT_TRUE(SendRecord(control_.get(), &unused, sizeof(unused), {pair->second.get()}).ok());
    return std::move(pair->first);
  }
  absl::StatusOr<Compiled> Compile(const std::string& ptx, Output output = Output::kText) {
    return CompilerClient(Connect()).Compile(ptx, kOptions, 90, output);
  }
  pid_t pid() const { return pid_; }

 private:
  UniqueFd control_;
  pid_t pid_ = -1;
};

bool Fail(const std::string& why, int report) {
  (void)WriteAll(report, why);
  return false;
}

std::string ContentOf(int file) {
  auto view = FrozenView::Map(file, kMostOutputBytes);
  return view.ok() ? std::string(view->bytes()) : view.status().ToString();
}

// Passes the text on as it is.
StageResult PassOn(const CompileRequest&, int ptx, int text, int layout, int) {
  return ResultOf(WriteAll(text, ContentOf(ptx)).ok() && WriteAll(layout, LayoutBytes({})).ok());
}
bool Accept(const CompileRequest&, int, int) { return true; }
bool Copy(const CompileRequest&, int text, int code, int) {
  return WriteAll(code, absl::StrCat("compiled ", ContentOf(text))).ok();
}

// The stages pass the text on, and one of them does `body` when it sees "bad", for no longer than
// `wall` and `cpu_seconds`.
BrokerOptions RewriterThat(std::function<bool(int text, int report)> body,
                           absl::Duration wall = absl::Hours(1), uint64_t cpu_seconds = 3600) {
  BrokerOptions options;
  options.rewrite_limits = {.wall = wall,
                            .cpu_seconds = cpu_seconds,
                            .memory_bytes = uint64_t{1} << 30,
                            .file_bytes = uint64_t{1} << 20};
  options.stages = {
      [body](const CompileRequest& request, int ptx, int text, int layout, int report) {
        if (ContentOf(ptx) == "bad") return ResultOf(body(text, report));
        return PassOn(request, ptx, text, layout, report);
      },
      &Accept, &Copy};
  return options;
}

// What becomes of a module of which the rewriter does this. The compiler goes on afterwards.
absl::Status StatusOf(std::function<bool(int text, int report)> body,
                      absl::Duration wall = absl::Hours(1), uint64_t cpu_seconds = 3600) {
  BrokerProcess broker(RewriterThat(std::move(body), wall, cpu_seconds));
  const absl::Status status = broker.Compile("bad", Output::kCubin).status();
  auto other = broker.Compile("good", Output::kCubin);
  // With a limit of seconds a busy host may reach it with a good module.
  while (wall < absl::Minutes(1) && absl::IsResourceExhausted(other.status())) {
    other = broker.Compile("good", Output::kCubin);
  }
  EXPECT_TRUE(other.ok()) << other.status();
  if (other.ok()) {
    EXPECT_EQ(other->code(), "compiled good");
  }
  return status;
}

TEST(BrokerTest, AModuleComesOutAsTheGuardMakesIt) {
  BrokerOptions options;
  options.stages = RealStages(nullptr);
  BrokerProcess broker(std::move(options));
  auto compiled = broker.Compile(kPtx);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto guarded = guard::Guard(kPtx, kOptions);
  ASSERT_TRUE(guarded.ok());
  EXPECT_EQ(compiled->code(), guarded->text);
  EXPECT_EQ(compiled->guarded().kernels, guarded->kernels);
  EXPECT_EQ(compiled->guarded().layout.globals.at(0).name, "counter");
  EXPECT_FALSE(compiled->cached());
}

TEST(BrokerTest, TextThatIsNoPtxIsRefusedWithTheReason) {
  BrokerOptions options;
  options.stages = RealStages(nullptr);
  BrokerProcess broker(std::move(options));
  const absl::Status status = broker.Compile("not ptx").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), guard::Guard("not ptx", kOptions).status().message());
}

TEST(BrokerTest, ThePtxOfAnImageIsTakenOutByTheRewriter) {
  BrokerOptions options;
  options.stages = RealStages(nullptr);
  BrokerProcess broker(std::move(options));
  CompilerClient client(broker.Connect());
  auto compiled = client.Compile(kPtx, kOptions, 90, Output::kText, Source::kImage);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->code(), guard::Guard(kPtx, kOptions)->text);
  // It is not taken for what was asked of the text.
  EXPECT_FALSE(compiled->cached());
  EXPECT_FALSE(client.Compile(kPtx, kOptions, 90, Output::kText)->cached());
  const auto none = client.Compile("no image", kOptions, 90, Output::kText, Source::kImage);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BrokerTest, AnImageWithoutPtxIsToldFromOneThatIsRefused) {
  BrokerOptions options;
  options.stages = RealStages(nullptr);
  options.stages.rewrite = [](const CompileRequest&, int ptx, int, int, int report) {
    Fail("none for this device", report);
    return ContentOf(ptx) == kPtx ? StageResult::kNoPtx : StageResult::kRefused;
  };
  BrokerProcess broker(std::move(options));
  EXPECT_EQ(broker.Compile(kPtx).status(), absl::NotFoundError("none for this device"));
  // The words decide nothing.
  EXPECT_EQ(broker.Compile("other").status(), absl::InvalidArgumentError("none for this device"));
}

TEST(BrokerTest, MachineCodeIsMadeWhereThereIsNvidiasLibrary) {
  const auto jit = JitLink::Load("");
  if (!jit.ok()) GTEST_SKIP() << jit.status();
  BrokerOptions options;
  options.stages = RealStages(&*jit);
  BrokerProcess broker(std::move(options));
  auto compiled = broker.Compile(kPtx, Output::kCubin);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->code().substr(0, 4),
            "\x7f"
            "ELF");
  EXPECT_NE(compiled->code().find("count"), std::string_view::npos);
  EXPECT_NE(compiled->code().find("wlg_const"), std::string_view::npos);
}

// NVIDIA's own code, where it finds no memory, or no time.
TEST(BrokerTest, ACompilerThatReachesALimitCostsItsModuleOnly) {
  const auto jit = JitLink::Load("");
  if (!jit.ok()) GTEST_SKIP() << jit.status();
  for (const uint64_t mib : {16, 4096}) {
    BrokerOptions options;
    options.stages = RealStages(&*jit);
    options.compile_limits.memory_bytes = mib << 20;
    options.compile_limits.wall = mib == 4096 ? absl::Milliseconds(1) : absl::Seconds(20);
    BrokerProcess broker(std::move(options));
    const absl::Status status = broker.Compile(kPtx, Output::kCubin).status();
    EXPECT_TRUE(absl::IsInternal(status) || absl::IsResourceExhausted(status) ||
                absl::IsInvalidArgument(status))
        << status;
    EXPECT_TRUE(broker.Compile(kPtx, Output::kText).ok());
  }
}

TEST(BrokerTest, WithoutTheLibraryMachineCodeIsUnimplemented) {
  BrokerOptions options;
  options.stages = RealStages(nullptr);
  BrokerProcess broker(std::move(options));
  EXPECT_EQ(broker.Compile(kPtx, Output::kCubin).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(BrokerTest, AStageThatLoopsIsEnded) {
  const absl::Status status = StatusOf(
      [](int, int) {
        while (true) sched_yield();
        return true;
      },
      absl::Hours(1), /*cpu_seconds=*/1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "the rewriter takes more than 1 s of a processor");
}

TEST(BrokerTest, AStageThatWaitsIsEnded) {
  const absl::Status status = StatusOf(
      [](int, int) {
        // Without a system call that waits it can only stop at a lock.
        static int word = 0;
        while (true) syscall(SYS_futex, &word, 0, 0, nullptr, nullptr, 0);
        return true;
      },
      absl::Milliseconds(1500));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "the rewriter takes longer than 1.5s");
}

TEST(BrokerTest, AStageThatAllocatesWithoutEndIsEnded) {
  const absl::Status status = StatusOf([](int, int) {
    for (size_t bytes = 1u << 20;; bytes += 4096) memset(new char[bytes], 1, 4096);
    return true;
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "the rewriter takes more than 1024 MiB");
}

TEST(BrokerTest, AStageThatWritesWithoutEndIsEnded) {
  const absl::Status status = StatusOf([](int text, int) {
    const std::string some(4096, 'x');
    while (true) (void)WriteAll(text, some);
    return true;
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "the rewriter writes more than 1 MiB");
}

TEST(BrokerTest, AStageThatCrashesCostsItsModuleOnly) {
  EXPECT_EQ(StatusOf([](int, int) {
              volatile uintptr_t nowhere = 8;
              *reinterpret_cast<volatile int*>(nowhere) = 1;
              return true;
            }).message(),
            "the rewriter was ended by signal 11");
  EXPECT_EQ(StatusOf([](int, int) {
              _exit(77);
              return true;
            }).message(),
            "the rewriter ended with exit code 77");
  EXPECT_EQ(StatusOf([](int, int) -> bool { abort(); }).code(), absl::StatusCode::kInternal);
}

TEST(BrokerTest, AReasonIsCut) {
  const absl::Status status =
      StatusOf([](int, int report) { return Fail(std::string(10000, 'x'), report); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), std::string(CompileReply::kMostReason, 'x'));
}

TEST(BrokerTest, ALayoutOfAHostileRewritersIsNotTaken) {
  BrokerOptions options;
  options.stages = {
      [](const CompileRequest&, int, int text, int layout, int) {
        return ResultOf(WriteAll(text, "text").ok() && WriteAll(layout, "nonsense").ok());
      },
      &Accept, &Copy};
  BrokerProcess broker(std::move(options));
  EXPECT_EQ(broker.Compile("any").status().code(), absl::StatusCode::kInternal);
}

// --- What the compiler gets.

TEST(BrokerTest, TheCompilerGetsTheVeryTextThatTheVerifierHasAccepted) {
  BrokerOptions options;
  options.stages = {
      &PassOn,
      [](const CompileRequest&, int text, int report) {
        // It can neither change the text nor put another in its place.
        if (write(text, "x", 1) >= 0 || ftruncate(text, 0) == 0 ||
            mmap(nullptr, 4, PROT_READ | PROT_WRITE, MAP_SHARED, text, 0) != MAP_FAILED) {
          return Fail("the text can be written", report);
        }
        return ContentOf(text) == "accepted" || Fail("another text", report);
      },
      &Copy};
  BrokerProcess broker(std::move(options));
  auto compiled = broker.Compile("accepted", Output::kCubin);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->code(), "compiled accepted");
  const absl::Status status = broker.Compile("other", Output::kCubin).status();
  EXPECT_EQ(status.message(), "the verifier: another text");
}

// The real verifier, behind a rewriter that a tenant has taken over.
TEST(BrokerTest, WhatAHostileRewriterLetsThroughTheVerifierRefuses) {
  BrokerOptions options;
  options.stages = RealStages(nullptr);
  options.stages.rewrite = &PassOn;
  options.stages.compile = &Copy;
  BrokerProcess broker(std::move(options));
  const absl::Status status = broker.Compile(kPtx, Output::kCubin).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message().substr(0, 14), "the verifier: ");
}

TEST(BrokerTest, AVerifierThatCrashesAcceptsNothing) {
  BrokerOptions options;
  options.stages = {&PassOn, [](const CompileRequest&, int, int) -> bool { abort(); }, &Copy};
  BrokerProcess broker(std::move(options));
  EXPECT_FALSE(broker.Compile("any", Output::kCubin).ok());
}

// --- What a stage reaches.

// What it gets by trying, each with the error that it should have.
std::string Escapes(pid_t broker) {
  std::string escapes;
  const auto expect = [&](const char* what, long result, int error = 0) {
    if (result >= 0) absl::StrAppend(&escapes, what, " succeeds; ");
    if (result < 0 && error != 0 && errno != error) {
      absl::StrAppend(&escapes, what, " fails with ", errno, "; ");
    }
  };
  expect("open a file", open("/etc/passwd", O_RDONLY), EPERM);
  expect("open itself", open("/proc/self/mem", O_RDWR), EPERM);
  expect("open the broker", open(absl::StrCat("/proc/", broker, "/mem").c_str(), O_RDWR), EPERM);
  expect("make a folder", mkdir("/tmp/warpline-stage", 0700), EPERM);
  expect("make a file in memory", memfd_create("more", 0), EPERM);
  expect("make a socket", socket(AF_INET, SOCK_STREAM, 0), EPERM);
  expect("make a local socket", socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
  expect("fork", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), EPERM);
  expect("start a thread", syscall(SYS_clone, 0x10f00, 0, 0, 0, 0), EPERM);
  expect("trace the broker", ptrace(PTRACE_ATTACH, broker, 0, 0), EPERM);
  expect("read the broker", syscall(SYS_process_vm_readv, broker, nullptr, 0, nullptr, 0, 0),
         EPERM);
  expect("kill the broker", kill(broker, 0), EPERM);
  expect("signal the broker", syscall(SYS_pidfd_open, broker, 0), EPERM);
  expect("wait for a message", syscall(SYS_recvfrom, 3, nullptr, 0, 0, nullptr, nullptr), EPERM);
  expect("raise a limit", syscall(SYS_prlimit64, 0, 1, nullptr, nullptr), EPERM);
  expect("become dumpable", syscall(SYS_prctl, 4, 1, 0, 0, 0), EPERM);
  const char* const none[] = {nullptr};
  expect("execute", execve("/bin/true", const_cast<char**>(none), const_cast<char**>(none)), EPERM);
  // The files that it was handed are its only descriptors.
  for (int fd = 0; fd < 1024; ++fd) {
    struct stat info;
    if (fstat(fd, &info) == 0 && (fd < 3 || fd > 6)) absl::StrAppend(&escapes, "fd ", fd, "; ");
  }
  return escapes.empty() ? "nothing" : escapes;
}

TEST(BrokerTest, AStageReachesNothingButItsFiles) {
  const absl::Status status =
      StatusOf([](int, int report) { return Fail(Escapes(getppid()), report); });
  EXPECT_EQ(status.message(), "nothing");
}

// --- Requests that make no sense.

class HostileClientTest : public testing::Test {
 protected:
  HostileClientTest() {
    BrokerOptions options;
    options.stages = {&PassOn, &Accept, &Copy};
    broker_ = std::make_unique<BrokerProcess>(std::move(options));
  }
  void TearDown() override {
    const auto other = broker_->Compile("good", Output::kCubin);
    EXPECT_TRUE(other.ok()) << other.status();
  }
  // The code of the answer; -1 where the connection was closed.
  static int Ask(const UniqueFd& socket, const CompileRequest& request, std::vector<int> fds,
                 size_t bytes = sizeof(CompileRequest)) {
    EXPECT_TRUE(SendRecord(socket.get(), &request, bytes, fds).ok());
    CompileReply reply;
    std::vector<UniqueFd> answered;
    const absl::Status got = ReceiveRecord(socket.get(), &reply, sizeof(reply), &answered);
    return got.ok() ? reply.code : -1;
  }
  static CompileRequest Sensible() {
    CompileRequest request;
    request.arena_bits = 36;
    request.sm = 90;
    return request;
  }

  std::unique_ptr<BrokerProcess> broker_;
};

TEST_F(HostileClientTest, RecordsOfAnotherSizeEndTheConnection) {
  const auto file = FrozenFile("ptx", "text");
  EXPECT_EQ(Ask(broker_->Connect(), Sensible(), {file->get()}, 8), -1);
  EXPECT_EQ(Ask(broker_->Connect(), Sensible(), {file->get()}, 1), -1);
  const UniqueFd socket = broker_->Connect();
  const std::string large(10000, 'x');
  EXPECT_TRUE(SendRecord(socket.get(), large.data(), large.size(), {}).ok());
  char byte;
  EXPECT_EQ(read(socket.get(), &byte, 1), 0);
}

TEST_F(HostileClientTest, FieldsThatMakeNoSenseEndTheConnection) {
  const auto file = FrozenFile("ptx", "text");
  std::vector<CompileRequest> requests(8, Sensible());
  requests[0].magic = 0;
  requests[1].arena_bits = 31;
  requests[2].arena_bits = 48;
  requests[3].hardened = 2;
  requests[4].checks = 7;
  requests[5].sm = 100000;
  requests[6].output = static_cast<Output>(2);
  requests[7].source = static_cast<Source>(2);
  for (const CompileRequest& request : requests) {
    EXPECT_EQ(Ask(broker_->Connect(), request, {file->get()}), -1);
  }
}

TEST_F(HostileClientTest, WhatIsNoSealedMemoryIsRefused) {
  EXPECT_EQ(Ask(broker_->Connect(), Sensible(), {}), -1);
  const auto file = FrozenFile("ptx", "text");
  EXPECT_EQ(Ask(broker_->Connect(), Sensible(), {file->get(), file->get()}), -1);
  constexpr int kInvalid = static_cast<int>(absl::StatusCode::kInvalidArgument);
  const auto loose = NewFile("loose");
  EXPECT_TRUE(WriteAll(loose->get(), "text").ok());
  // The connection goes on after a refusal.
  const UniqueFd socket = broker_->Connect();
  EXPECT_EQ(Ask(socket, Sensible(), {loose->get()}), kInvalid);
  EXPECT_EQ(fcntl(loose->get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_EQ(Ask(socket, Sensible(), {loose->get()}), kInvalid);
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(Ask(socket, Sensible(), {null.get()}), kInvalid);
  EXPECT_EQ(Ask(socket, Sensible(), {socket.get()}), kInvalid);
  EXPECT_EQ(Ask(socket, Sensible(), {file->get()}), 0);
}

TEST_F(HostileClientTest, TextThatIsTooLargeIsRefused) {
  const auto large = NewFile("large");
  ASSERT_EQ(ftruncate(large->get(), static_cast<off_t>(kMostPtxBytes) + 1), 0);
  ASSERT_TRUE(Freeze(large->get()).ok());
  EXPECT_EQ(Ask(broker_->Connect(), Sensible(), {large->get()}),
            static_cast<int>(absl::StatusCode::kResourceExhausted));
}

TEST_F(HostileClientTest, OneThatDoesNotReadIsClosed) {
  const auto file = FrozenFile("ptx", "text");
  const UniqueFd socket = broker_->Connect();
  fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  bool closed = false;
  for (int i = 0; i < 100000 && !closed; ++i) {
    const CompileRequest request = Sensible();
    pollfd entry = {socket.get(), POLLOUT, 0};
    poll(&entry, 1, 1000);
    closed = (entry.revents & (POLLHUP | POLLERR)) != 0 ||
             (!SendRecord(socket.get(), &request, sizeof(request), {file->get()}).ok() &&
              errno == EPIPE);
  }
  EXPECT_TRUE(closed);
}

// The stages would go on for hours.
TEST_F(HostileClientTest, OneThatGoesAwayTakesItsStagesAlong) {
  BrokerProcess slow(RewriterThat([](int, int) {
    while (true) sched_yield();
    return true;
  }));
  for (size_t i = 0; i < 3 * Broker::kMostJobs; ++i) {
    const auto file = FrozenFile("ptx", "bad");
    const CompileRequest request = Sensible();
    const UniqueFd socket = slow.Connect();
    EXPECT_TRUE(SendRecord(socket.get(), &request, sizeof(request), {file->get()}).ok());
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_TRUE(slow.Compile("good", Output::kCubin).ok());
}

// --- The cache.

TEST(BrokerTest, ASecondSessionOfTheTenantFindsWhatTheFirstHasCompiled) {
  BrokerOptions options;
  options.stages = {&PassOn, &Accept, &Copy};
  BrokerProcess broker(options);
  BrokerProcess of_another_tenant(options);
  EXPECT_FALSE(broker.Compile("text", Output::kCubin)->cached());
  const auto again = broker.Compile("text", Output::kCubin);
  EXPECT_TRUE(again->cached());
  EXPECT_EQ(again->code(), "compiled text");
  EXPECT_FALSE(of_another_tenant.Compile("text", Output::kCubin)->cached());
}

TEST(BrokerTest, ResultsAreKeptByAllThatTheyAreMadeOf) {
  BrokerOptions options;
  options.stages = {&PassOn, &Accept, &Copy};
  BrokerProcess broker(std::move(options));
  CompilerClient client(broker.Connect());
  const auto cached = [&](const guard::RewriteOptions& how, int sm, Output output) {
    return client.Compile("text", how, sm, output)->cached();
  };
  guard::RewriteOptions hardened = kOptions;
  hardened.hardened = true;
  guard::RewriteOptions checks = kOptions;
  checks.checks = true;
  guard::RewriteOptions later = checks;
  later.first_site = 100;
  guard::RewriteOptions larger = kOptions;
  larger.arena_bits = 40;
  for (const bool known : {false, true}) {
    EXPECT_EQ(cached(kOptions, 90, Output::kCubin), known);
    EXPECT_EQ(cached(kOptions, 90, Output::kText), known);
    EXPECT_EQ(cached(kOptions, 80, Output::kCubin), known);
    EXPECT_EQ(cached(hardened, 90, Output::kCubin), known);
    EXPECT_EQ(cached(checks, 90, Output::kCubin), known);
    EXPECT_EQ(cached(later, 90, Output::kCubin), known);
    EXPECT_EQ(cached(larger, 90, Output::kCubin), known);
  }
}

TEST(BrokerTest, WhatIsRefusedIsNotKept) {
  BrokerProcess broker(RewriterThat([](int, int report) { return Fail("no", report); }));
  EXPECT_FALSE(broker.Compile("bad").ok());
  EXPECT_FALSE(broker.Compile("bad").ok());
}

TEST(ResultCacheTest, WhatWasNotUsedForTheLongestTimeGoesFirst) {
  ResultCache cache(1000, 4);
  const auto key = [](uint8_t number) {
    ContentHash hash = {};
    hash[0] = number;
    return hash;
  };
  for (uint8_t i = 0; i < 4; ++i) cache.Add(key(i), {UniqueFd(), UniqueFd(), 250});
  EXPECT_NE(cache.Find(key(0)), nullptr);
  cache.Add(key(4), {UniqueFd(), UniqueFd(), 100});
  EXPECT_NE(cache.Find(key(0)), nullptr);
  EXPECT_EQ(cache.Find(key(1)), nullptr);
  cache.Add(key(5), {UniqueFd(), UniqueFd(), 251});
  EXPECT_EQ(cache.Find(key(5)), nullptr);
  EXPECT_EQ(cache.bytes(), 850u);
  // Nor are there more than so many.
  cache.Add(key(6), {UniqueFd(), UniqueFd(), 1});
  EXPECT_EQ(cache.entries(), 4u);
  EXPECT_EQ(cache.Find(key(2)), nullptr);
}

}  // namespace
}  // namespace warpline::compiler
