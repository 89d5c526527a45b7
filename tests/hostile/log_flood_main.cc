// Repeats as fast as it can an action for which a server writes a log line (log_floods.h).
//
//   log_flood --endpoint=HOST:PORT --what=commands --count=1000000
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "tests/hostile/log_floods.h"

ABSL_FLAG(std::string, endpoint, "", "HOST:PORT of the server, on this machine");
ABSL_FLAG(std::string, what, "commands", "what is repeated, see above");
ABSL_FLAG(int, count, 1000, "how often");

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = warpline::hostile::Flood(
      absl::GetFlag(FLAGS_endpoint), absl::GetFlag(FLAGS_what), absl::GetFlag(FLAGS_count));
  if (!status.ok()) std::printf("log_flood: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
