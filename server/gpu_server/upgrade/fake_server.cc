// Stands for a server in tests of its parent. It counts in a file that each version passes on to
// the next one, says what becomes of it in the file LOG, and fails where it is told to:
//
//   fake_server LOG NAME
//   [hangs_in_check|ends_in_check|hangs|ends|ends_in_pass_on|cannot_keep|stays_behind]
//               [--check_config]
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/sealed_memory.h"
#include "server/gpu_server/upgrade/parent_link.h"

namespace {

using warpline::server::ParentLink;

std::string log_path;
std::string name;

void Say(const std::string& line) {
  std::ofstream(log_path, std::ios::app) << name << " " << line << std::endl;
}

int Counted(int fd) {
  int count = 0;
  return pread(fd, &count, sizeof(count), 0) == sizeof(count) ? count : -1;
}

}  // namespace

int main(int argc, char** argv) {
  log_path = argv[1];
  name = argv[2];
  const std::string mood = argc > 3 ? argv[3] : "";
  const auto is = [&mood](const char* what) { return mood == what; };
  const auto link = ParentLink::OfThisProcess();
  if (link == nullptr) return 64;
  if (std::string(argv[argc - 1]) == "--check_config") {
    if (!mood.empty()) Say("is checked");
    if (is("hangs_in_check")) pause();
    if (is("ends_in_check")) link->Fail(absl::InternalError("it is no good"));
    if (is("ends_in_check")) return 9;
    link->ReadyInCheck();
    return 0;
  }
  std::atomic<int> orders{0};
  const absl::Status joined =
      link->Join([&orders](const warpline_internal::UpgradeOrder&) { ++orders; });
  if (!joined.ok()) return 66;
  auto things = link->Take("counter");
  const warpline::UniqueFd counter = things.empty()
                                         ? *warpline::NewSealedMemory("counter", sizeof(int))
                                         : std::move(things.front().fds.front());
  Say(absl::StrCat("starts upgrade=", link->is_upgrade(), " rolled_back=", link->rolled_back(),
                   " count=", Counted(counter.get()),
                   " text=", things.empty() ? "" : things.front().text));
  if (is("hangs")) Say(absl::StrCat("hangs pid=", getpid()));
  if (is("hangs")) pause();
  if (is("ends")) link->Fail(absl::InternalError("it is no good"));
  if (is("ends")) _exit(7);
  signal(SIGTERM, [](int) { _exit(5); });
  if (!link->Ready(1).ok()) return 67;
  Say("serves");
  while (true) {
    while (orders == 0) absl::SleepFor(absl::Milliseconds(1));
    --orders;
    const int count = Counted(counter.get()) + 1;
    if (pwrite(counter.get(), &count, sizeof(count), 0) != sizeof(count)) return 65;
    const int fd = counter.get();
    absl::Status kept = link->Keep("counter", "as it was", {&fd, 1});
    if (is("cannot_keep")) kept = link->Keep("more", std::string(1u << 20, 'x'), {});
    if (is("ends_in_pass_on")) return 3;
    if (kept.ok()) kept = link->PassedOn();
    if (kept.ok() && is("stays_behind")) pause();
    if (kept.ok()) return 0;
    Say("stays");
    link->Stay(kept);
  }
}
