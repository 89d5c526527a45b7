// delay_relay_main --listen=HOST:PORT --target=HOST:PORT [--delay_ms=MS]
//                  [--cut_every_ms=LEAST-MOST [--seed=N]]
//
// Relays TCP with MS milliseconds of delay each way. Prints the port that it listens on. SIGUSR1
// resets all connections; with --cut_every_ms that also happens by itself, after random times
// between the two. Each time at least one connection was reset, prints "cuts: N", their number so
// far.
#include <signal.h>

#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "transport/testing/delay_relay.h"

int main(int argc, char** argv) {
  std::string listen = "127.0.0.1:0";
  std::string target;
  double delay_ms = 0;
  double least_ms = 0;
  double most_ms = 0;
  uint64_t seed = 1;
  bool understood = true;
  for (int i = 1; i < argc; ++i) {
    absl::string_view arg = argv[i];
    if (absl::ConsumePrefix(&arg, "--listen=")) {
      listen = std::string(arg);
    } else if (absl::ConsumePrefix(&arg, "--target=")) {
      target = std::string(arg);
    } else if (absl::ConsumePrefix(&arg, "--delay_ms=")) {
      understood &= absl::SimpleAtod(arg, &delay_ms) && delay_ms >= 0;
    } else if (absl::ConsumePrefix(&arg, "--cut_every_ms=")) {
      const std::pair<std::string, std::string> range =
          absl::StrSplit(arg, absl::MaxSplits('-', 1));
      understood &= absl::SimpleAtod(range.first, &least_ms) &&
                    absl::SimpleAtod(range.second, &most_ms) && least_ms > 0 && most_ms >= least_ms;
    } else if (absl::ConsumePrefix(&arg, "--seed=")) {
      understood &= absl::SimpleAtoi(arg, &seed);
    } else {
      understood = false;
    }
  }
  if (!understood || target.empty()) {
    std::fprintf(stderr,
                 "usage: %s --target=HOST:PORT [--listen=HOST:PORT] [--delay_ms=MS] "
                 "[--cut_every_ms=LEAST-MOST [--seed=N]]\n",
                 argv[0]);
    return 2;
  }
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGUSR1, SIGINT, SIGTERM}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);

  const auto relay = warpline::DelayRelay::Start(listen, target, absl::Milliseconds(delay_ms));
  if (!relay.ok()) {
    std::fprintf(stderr, "%s\n", relay.status().ToString().c_str());
    return 1;
  }
  std::printf("%d\n", (*relay)->port());
  std::fflush(stdout);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> next_ms(least_ms, most_ms);
  int cuts = 0;
  while (true) {
    const timespec timeout =
        absl::ToTimespec(most_ms > 0 ? absl::Milliseconds(next_ms(random)) : absl::Hours(1));
    const int signal = sigtimedwait(&signals, nullptr, &timeout);
    if (signal == SIGINT || signal == SIGTERM) return 0;
    if (signal != SIGUSR1 && most_ms == 0) continue;
    const int cut = (*relay)->Cut();
    if (cut == 0) continue;
    cuts += cut;
    std::printf("cuts: %d\n", cuts);
    std::fflush(stdout);
  }
}
