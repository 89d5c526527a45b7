// Round trips and throughput of the transports on one machine.
//
//   channel_bench [--iterations=N] [--cpus=a,b] [--delay_ms=D] [--listen=ADDRESS]...
//
// "loop" bounces a small frame between the two channels' loops. "app" is a thread that appends a
// request, wakes its channel and spins until the answer is there, as a waiting CUDA call does.
// "idle" does the same with pauses, so that both loops have parked. Server and client are processes
// of their own; --cpus pins them. With --delay_ms also over TCP with that delay each way; with
// --listen also at addresses of other transports (transport/registry).
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "transport/channel.h"
#include "transport/registry/dial.h"
#include "transport/registry/listen.h"
#include "transport/testing/delay_relay.h"

namespace warpline {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kSmall = 64;
constexpr size_t kLarge = 1 << 20;

// Sends small frames back; answers a large one with an empty one.
class EchoHandler : public SessionHandler {
 public:
  void Started(Channel*) override {}
  bool NextFrame(Frame* frame) override {
    if (queue_.empty()) return false;
    *frame = std::move(queue_.front());
    queue_.pop_front();
    return true;
  }
  warpline::Accept OnFrame(Frame* frame) override {
    if (frame->payload.size() > kSmall) frame->payload.clear();
    queue_.push_back(std::move(*frame));
    return warpline::Accept::kTaken;
  }
  void OnClosed(const absl::Status&) override {}

 private:
  std::deque<Frame> queue_;
};

class EchoAcceptor : public Acceptor {
 public:
  std::unique_ptr<SessionHandler> Accept(const std::string&, absl::Status*) override {
    return std::make_unique<EchoHandler>();
  }
};

// Sends `credits` frames of `size` and counts the answers. With `repeat`, each answer is followed
// by another frame from within the loop.
class PingHandler : public ChannelHandler {
 public:
  bool NextFrame(Frame* frame) override {
    if (credits_.load(std::memory_order_acquire) == 0) return false;
    credits_.fetch_sub(1, std::memory_order_relaxed);
    frame->kind = 1;
    frame->payload.assign(size_, 'x');
    sent_at_ = Clock::now();
    return true;
  }
  Accept OnFrame(Frame*) override {
    if (repeat_ > 0) {
      samples_.push_back(Clock::now() - sent_at_);
      if (--repeat_ > 0) credits_.fetch_add(1, std::memory_order_relaxed);
    }
    answers_.fetch_add(1, std::memory_order_release);
    return Accept::kTaken;
  }
  void OnClosed(const absl::Status&) override {}

  std::atomic<int> credits_{0};
  std::atomic<int> answers_{0};
  std::atomic<int> repeat_{0};
  std::atomic<size_t> size_{kSmall};
  Clock::time_point sent_at_;
  std::vector<Clock::duration> samples_;
};

void Report(const std::string& name, std::vector<Clock::duration> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double q) {
    return std::chrono::duration<double, std::micro>(samples[q * (samples.size() - 1)]).count();
  };
  std::printf("%-28s p50 %7.1f us  p90 %7.1f us  p99 %8.1f us\n", name.c_str(), at(0.5), at(0.9),
              at(0.99));
  std::fflush(stdout);
}

void Await(const std::atomic<int>& answers, int count) {
  while (answers.load(std::memory_order_acquire) < count) {
    sched_yield();
  }
}

void RunClient(const std::string& name, const std::string& address, int iterations) {
  PingHandler ping;
  auto channel = Dial({.address = address}, &ping, ChannelOptions(), absl::Seconds(5));
  if (!channel.ok()) {
    std::printf("%s: %s\n", name.c_str(), channel.status().ToString().c_str());
    return;
  }
  int expected = iterations;
  ping.samples_.reserve(iterations);
  ping.repeat_ = iterations;
  ping.credits_ = 1;
  (*channel)->Wake();
  while (ping.answers_.load(std::memory_order_acquire) < expected) usleep(10000);
  Report(name + " loop", ping.samples_);

  std::vector<Clock::duration> samples;
  for (int i = 0; i < iterations; ++i) {
    const Clock::time_point start = Clock::now();
    ping.credits_.fetch_add(1, std::memory_order_release);
    (*channel)->Wake();
    Await(ping.answers_, ++expected);
    samples.push_back(Clock::now() - start);
  }
  Report(name + " app", samples);

  samples.clear();
  for (int i = 0; i < 200; ++i) {
    usleep(2000);
    const Clock::time_point start = Clock::now();
    ping.credits_.fetch_add(1, std::memory_order_release);
    (*channel)->Wake();
    Await(ping.answers_, ++expected);
    samples.push_back(Clock::now() - start);
  }
  Report(name + " idle", samples);

  ping.size_ = kLarge;
  const int frames = 4000;
  const Clock::time_point start = Clock::now();
  ping.credits_ = frames;
  (*channel)->Wake();
  expected += frames;
  while (ping.answers_.load(std::memory_order_acquire) < expected) usleep(100);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("%-28s %.2f GB/s\n", (name + " 1 MiB frames").c_str(),
              frames * kLarge / seconds / 1e9);
  std::fflush(stdout);
}

void Pin(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

int Main(int argc, char** argv) {
  int iterations = 20000;
  int cpus[2] = {-1, -1};
  double delay_ms = 0;
  std::vector<std::string> more;
  for (int i = 1; i < argc; ++i) {
    absl::string_view arg = argv[i];
    if (absl::ConsumePrefix(&arg, "--iterations=")) {
      if (!absl::SimpleAtoi(arg, &iterations)) return 2;
    } else if (absl::ConsumePrefix(&arg, "--delay_ms=")) {
      if (!absl::SimpleAtod(arg, &delay_ms)) return 2;
    } else if (absl::ConsumePrefix(&arg, "--listen=")) {
      more.emplace_back(arg);
    } else if (absl::ConsumePrefix(&arg, "--cpus=")) {
      const std::vector<std::string> parts = absl::StrSplit(arg, ',');
      if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &cpus[0]) ||
          !absl::SimpleAtoi(parts[1], &cpus[1])) {
        return 2;
      }
    } else {
      return 2;
    }
  }
  char folder[] = "/tmp/channel_bench_XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  const std::string socket = absl::StrCat("unix:", folder, "/socket");
  int ready[2];
  if (pipe(ready) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Pin(cpus[1]);
    EchoAcceptor acceptor;
    const std::unique_ptr<Listener> server = MakeListener({});
    std::vector<std::string> addresses = {"127.0.0.1:0", socket};
    addresses.insert(addresses.end(), more.begin(), more.end());
    const absl::Status started = server->Start(addresses, &acceptor);
    if (!started.ok()) std::printf("%s\n", started.ToString().c_str());
    const std::string list = started.ok() ? absl::StrJoin(server->addresses(), "\n") : "";
    if (write(ready[1], list.data(), list.size()) < 0) return 1;
    close(ready[1]);
    if (!started.ok()) return 1;
    for (;;) pause();
  }
  Pin(cpus[0]);
  close(ready[1]);
  std::string list(PIPE_BUF, '\0');
  const ssize_t size = read(ready[0], list.data(), list.size());
  if (size <= 0) return 1;
  list.resize(static_cast<size_t>(size));
  const std::vector<std::string> addresses = absl::StrSplit(list, '\n');
  RunClient("grpc tcp", addresses[0], iterations);
  RunClient("grpc unix", addresses[1], iterations);
  for (size_t i = 2; i < addresses.size(); ++i) RunClient(addresses[i], addresses[i], iterations);
  if (delay_ms > 0) {
    const auto relay = DelayRelay::Start("127.0.0.1:0", addresses[0], absl::Milliseconds(delay_ms));
    if (!relay.ok()) return 1;
    RunClient(absl::StrCat("grpc tcp +", delay_ms, " ms"),
              absl::StrCat("127.0.0.1:", (*relay)->port()), std::min(iterations, 100));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  unlink(absl::StrCat(folder, "/socket").c_str());
  rmdir(folder);
  return 0;
}

}  // namespace
}  // namespace warpline

int main(int argc, char** argv) { return warpline::Main(argc, argv); }
