// A link between two network namespaces, for measurements and tests on one machine. Needs root.
//
//   link_main --namespaces=PID,PID --name=wl0 --delay_us=500 --rate_mbit=1000
//
// Makes a TUN device of that name in the namespaces of the two processes, prints "ready", and
// forwards IP packets between them until its standard input ends. It does not set addresses. A line
// of its input changes the link while it runs, for both directions, and is answered by a line "ok"
// or what was wrong with it:
//
//   down | up | delay MICROSECONDS | rate MBIT | loss PERCENT | forget | forget SECONDS
//
// A link that was started with --forget_s is like a router with NAT. Packets of a TCP connection
// that was idle for so many seconds are lost without a word, until it is opened anew. `forget`
// alone forgets all connections at once, like a router that was started again. `counts` is answered
// by how many packets were passed, lost and forgotten.
//
// Where packets are lost at random, or the rate is low, what is lost or waits is one packet as it
// is on a wire. Otherwise the namespaces hand TCP over as packets of up to 64 KiB, since they would
// take more time here than on a network card.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/network/emulated_link.h"
#include "bench/network/tun_device.h"

ABSL_FLAG(std::vector<std::string>, namespaces, {}, "Two processes whose namespaces are joined");
ABSL_FLAG(std::string, name, "wl0", "Name of the device in each");
ABSL_FLAG(double, delay_us, 0, "Microseconds from the last bit sent to the packet's arrival");
ABSL_FLAG(double, rate_mbit, 0, "Megabits a second on an Ethernet; 0 for as many as come");
ABSL_FLAG(int, queue_kib, 1024, "Kibibytes that may wait for the line");
ABSL_FLAG(double, loss, 0, "Percent of packets that are lost at random");
ABSL_FLAG(uint64_t, seed, 1, "Of what is lost");
ABSL_FLAG(double, forget_s, 0, "Seconds after which an idle connection is forgotten; 0 for never");
ABSL_FLAG(double, poll_us, 50, "Microseconds to look for the next packet before sleeping");

namespace warpline {
namespace {

// At lower rates 64 KiB take long enough to be seen in a round trip.
constexpr double kLeastForOffloads = 5e9;

template <typename Unit>
std::chrono::nanoseconds Nanoseconds(double amount) {
  return std::chrono::nanoseconds(static_cast<int64_t>(
      amount * static_cast<double>(std::chrono::nanoseconds(Unit(1)).count())));
}

using Microseconds = std::chrono::microseconds;

bool WantsOffloads(const LineSettings& line) {
  return line.loss == 0 && (line.bits_per_second == 0 || line.bits_per_second >= kLeastForOffloads);
}

// Returns whether `words` change the line. A number that is not one changes nothing.
bool Change(const std::vector<std::string>& words, LineSettings* line) {
  if (words.size() == 1 && (words[0] == "down" || words[0] == "up")) {
    line->down = words[0] == "down";
    return true;
  }
  double value = 0;
  if (words.size() != 2 || !absl::SimpleAtod(words[1], &value) || !(value >= 0) || value > 1e9) {
    return false;
  }
  if (words[0] == "delay") {
    line->delay = Nanoseconds<Microseconds>(value);
  } else if (words[0] == "rate") {
    line->bits_per_second = value * 1e6;
  } else if (words[0] == "loss") {
    line->loss = value / 100;
  } else {
    return false;
  }
  return true;
}

struct Devices {
  int one;
  int other;

  absl::Status Set(const LineSettings& line) const {
    for (const int tun : {one, other}) {
      if (const auto set = SetOffloads(tun, WantsOffloads(line)); !set.ok()) return set;
    }
    return absl::OkStatus();
  }
};

std::string Answer(const std::string& command, const Devices& devices, LineSettings* line,
                   EmulatedLink* link) {
  const std::vector<std::string> words = absl::StrSplit(command, ' ');
  if (command == "counts") {
    const LinkCounts counts = link->counts();
    return absl::StrCat("passed ", counts.passed, " lost ", counts.lost, " forgotten ",
                        counts.forgotten);
  }
  if (command == "forget") {
    link->Forget();
    return "ok";
  }
  double seconds = 0;
  if (words.size() == 2 && words[0] == "forget" && absl::SimpleAtod(words[1], &seconds) &&
      seconds > 0 && seconds < 1e9) {
    link->SetForget(Nanoseconds<std::chrono::seconds>(seconds));
    return "ok";
  }
  if (!Change(words, line)) return "not understood: " + command;
  if (const auto set = devices.Set(*line); !set.ok()) return set.ToString();
  link->Set(*line);
  return "ok";
}

void Print(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

int Main() {
  int pids[2];
  const std::vector<std::string> namespaces = absl::GetFlag(FLAGS_namespaces);
  if (namespaces.size() != 2 || !absl::SimpleAtoi(namespaces[0], &pids[0]) ||
      !absl::SimpleAtoi(namespaces[1], &pids[1])) {
    std::fprintf(stderr, "link_main: say --namespaces=PID,PID\n");
    return 2;
  }
  LinkOptions options;
  options.line = {.delay = Nanoseconds<Microseconds>(absl::GetFlag(FLAGS_delay_us)),
                  .bits_per_second = absl::GetFlag(FLAGS_rate_mbit) * 1e6,
                  .queue_bytes = static_cast<size_t>(absl::GetFlag(FLAGS_queue_kib)) << 10,
                  .loss = absl::GetFlag(FLAGS_loss) / 100,
                  .down = false};
  options.seed = absl::GetFlag(FLAGS_seed);
  options.forget = Nanoseconds<std::chrono::seconds>(absl::GetFlag(FLAGS_forget_s));
  options.poll = Nanoseconds<Microseconds>(absl::GetFlag(FLAGS_poll_us));
  auto one = OpenTun(pids[0], absl::GetFlag(FLAGS_name));
  auto other = OpenTun(pids[1], absl::GetFlag(FLAGS_name));
  absl::Status status = one.status();
  status.Update(other.status());
  Devices devices = {};
  if (status.ok()) {
    devices = {.one = one->get(), .other = other->get()};
    status = devices.Set(options.line);
  }
  if (!status.ok()) {
    std::fprintf(stderr, "link_main: %s\n", status.ToString().c_str());
    return 1;
  }
  LineSettings line = options.line;
  EmulatedLink link(options, *std::move(one), *std::move(other));
  Print("ready");
  for (std::string command; std::getline(std::cin, command);) {
    Print(Answer(command, devices, &line, &link));
  }
  return 0;
}

}  // namespace
}  // namespace warpline

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Joins two network namespaces by a link with delay, rate and loss.");
  absl::ParseCommandLine(argc, argv);
  return warpline::Main();
}
