// Plays a known sequence against a server, round after round.
//
//   sequences --endpoint=HOST:PORT --sequence=read_back_race --rounds=100
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/hostile/sequence.h"

ABSL_FLAG(std::string, endpoint, "",
          "HOST:PORT of the server, on this machine; otherwise that of `warpline run`");
ABSL_FLAG(std::string, sequence, "", "which one");
ABSL_FLAG(int, rounds, 10, "how often");

namespace warpline::hostile {
namespace {

constexpr Sequence kSequences[] = {
    {"read_back_race",
     "a memory request is served while the session's lost memory is read back: a null pointer in "
     "the server",
     &PlayReadBackRace},
    {"many_streams",
     "a session has as many streams as it can, each a thread of its worker: no thread for the "
     "server, which ended",
     &PlayManyStreams},
};

int Main() {
  const std::string name = absl::GetFlag(FLAGS_sequence);
  std::string endpoint = absl::GetFlag(FLAGS_endpoint);
  if (const char* const given = getenv("WARPLINE_ENDPOINT"); endpoint.empty() && given != nullptr) {
    endpoint = given;
  }
  for (const Sequence& sequence : Sequences()) {
    if (name != sequence.name) continue;
    int good = 0;
    std::string first_bad;
    for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
      absl::Status status = sequence.play(endpoint, round);
      // Sessions that just ended are still being cleared away.
      for (int again = 0; absl::IsResourceExhausted(status) && again < 600; ++again) {
        absl::SleepFor(absl::Milliseconds(100));
        status = sequence.play(endpoint, round);
      }
      good += status.ok() ? 1 : 0;
      if (!status.ok() && first_bad.empty()) {
        first_bad = absl::StrCat("; round ", round, ": ", status.ToString());
        break;
      }
    }
    std::printf("%s: %d of %d rounds%s\n", sequence.name, good, absl::GetFlag(FLAGS_rounds),
                first_bad.c_str());
    return first_bad.empty() ? 0 : 1;
  }
  for (const Sequence& sequence : Sequences()) {
    std::printf("%s: %s\n", sequence.name, sequence.what);
  }
  return 64;
}

}  // namespace

absl::Span<const Sequence> Sequences() { return kSequences; }

}  // namespace warpline::hostile

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("plays a known sequence of a hostile client against a server");
  absl::ParseCommandLine(argc, argv);
  return warpline::hostile::Main();
}
