// delay_relay_main --listen=HOST:PORT --target=HOST:PORT [--delay_ms=MS]
//
// Relays TCP with MS milliseconds of delay each way. SIGUSR1 resets all connections. Prints the
// port that it listens on.
#include <signal.h>

#include <cstdio>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "transport/delay_relay.h"

int main(int argc, char** argv) {
  std::string listen = "127.0.0.1:0";
  std::string target;
  double delay_ms = 0;
  bool understood = true;
  for (int i = 1; i < argc; ++i) {
    absl::string_view arg = argv[i];
    if (absl::ConsumePrefix(&arg, "--listen=")) {
      listen = std::string(arg);
    } else if (absl::ConsumePrefix(&arg, "--target=")) {
      target = std::string(arg);
    } else if (absl::ConsumePrefix(&arg, "--delay_ms=")) {
      understood &= absl::SimpleAtod(arg, &delay_ms) && delay_ms >= 0;
    } else {
      understood = false;
    }
  }
  if (!understood || target.empty()) {
    std::fprintf(stderr, "usage: %s --target=HOST:PORT [--listen=HOST:PORT] [--delay_ms=MS]\n",
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
  for (int signal; sigwait(&signals, &signal) == 0 && signal == SIGUSR1;) (*relay)->Cut();
  return 0;
}
