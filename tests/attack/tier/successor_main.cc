// A tenant of the guarded tier at addresses of its choice, where a former one may have been.
// Programs get theirs at random; this one speaks to the server itself.
//
//   tier_successor --endpoint=HOST:PORT --arena=ADDRESS
//
// Waits until the arena is free, fills memory with secrets (neighbour_state.h), prints `holds
// ADDRESS`, and once its standard input has ended, `intact` or what has become of the secrets.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_numbers.h"
#include "proto/frames.h"
#include "proto/tier.h"
#include "tests/attack/tier/neighbour_state.h"
#include "tests/attack/wire_session.h"

ABSL_FLAG(std::string, endpoint, "", "HOST:PORT of the server");
ABSL_FLAG(std::string, arena, "", "where its arena begins");

namespace warpline::attack {
namespace {

constexpr uint32_t kWords = 4096;

std::string Secrets() {
  std::string secrets;
  for (uint32_t i = 0; i < kWords; ++i) {
    const uint32_t word = kFirstSecret + (kMostNeighbours - 1) * kSecretsOfOne + i;
    secrets.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  return secrets;
}

int Fail(const std::string& why) {
  std::printf("tier_successor: %s\n", why.c_str());
  return 1;
}

int Main() {
  uint64_t arena = 0;
  if (!absl::SimpleHexAtoi(absl::GetFlag(FLAGS_arena), &arena)) return 64;
  WireTarget target;
  target.endpoint = absl::GetFlag(FLAGS_endpoint);
  target.tier = Tier::kGuarded;
  const auto session = WireSession::OpenAt(target, arena);
  if (!session.ok()) return Fail(session.status().ToString());
  const uint64_t memory = (*session)->welcome().initial_memory().va();
  const std::string secrets = Secrets();
  const auto written = (*session)->Do(cmd::CopyToDevice{kLegacyStreamHandle, memory}, secrets);
  if (!written.ok() || *written != 0) return Fail("its memory cannot be written");
  std::printf("holds %s\n", absl::StrCat(absl::Hex(memory)).c_str());
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  const auto now = (*session)->Read(memory, secrets.size());
  if (!now.ok()) return Fail(now.status().ToString());
  std::printf("%s\n", *now == secrets ? "intact" : "changed");
  (*session)->client()->Close();
  return 0;
}

}  // namespace
}  // namespace warpline::attack

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return warpline::attack::Main();
}
