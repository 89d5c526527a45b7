#include "tests/attack/tier/successor.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace warpline::attack {
namespace {

constexpr uint64_t kPlaces = 0x340000000000, kPlaceCount = 1024, kArenaBytes = uint64_t{4} << 30;

}  // namespace

uint64_t Successor::OwnArena() {
  return kPlaces + static_cast<uint64_t>(getpid()) % kPlaceCount * kArenaBytes;
}

absl::StatusOr<std::unique_ptr<Successor>> Successor::Start(const TierTarget& target,
                                                            uint64_t arena) {
  int input[2], output[2];
  if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) {
    return absl::InternalError("no pipes");
  }
  const std::string endpoint = absl::StrCat("--endpoint=", target.endpoint);
  const std::string place = absl::StrCat("--arena=", absl::Hex(arena));
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(input[0], STDIN_FILENO);
    dup2(output[1], STDOUT_FILENO);
    execl(target.successor.c_str(), "tier_successor", endpoint.c_str(), place.c_str(), nullptr);
    _exit(127);
  }
  close(input[0]);
  close(output[1]);
  std::unique_ptr<Successor> successor(new Successor(pid, input[1], fdopen(output[0], "r")));
  const std::string said = successor->ReadLine();
  absl::string_view address = said;
  if (!absl::ConsumePrefix(&address, "holds ") ||
      !absl::SimpleHexAtoi(address, &successor->memory_)) {
    return absl::UnavailableError(said.empty() ? "no other session" : said);
  }
  return successor;
}

Successor::~Successor() {
  if (pid_ > 0) End();
}

std::string Successor::End() {
  close(input_);
  std::string said = ReadLine();
  std::fclose(output_);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
  return said;
}

std::string Successor::ReadLine() {
  std::array<char, 512> line = {};
  if (std::fgets(line.data(), line.size(), output_) == nullptr) return "";
  return std::string(absl::StripSuffix(line.data(), "\n"));
}

}  // namespace warpline::attack
