// warpline-ptxas: see stand_in.h. `warpline run --tier=guarded` names it in TRITON_PTXAS_PATH.
#include <cstdio>
#include <string>
#include <vector>

#include "tools/ptxas/stand_in.h"

int main(int argc, char** argv) {
  const auto call =
      warpline::tools::ParsePtxasCall(std::vector<std::string>(argv + 1, argv + argc));
  absl::Status status = call.status();
  if (call.ok() && call->version) {
    std::fputs(std::string(warpline::tools::kVersionText).c_str(), stdout);
    return 0;
  }
  if (call.ok()) status = warpline::tools::HandPtxOver(*call);
  if (status.ok()) return 0;
  std::fprintf(stderr, "warpline-ptxas: %s\n", std::string(status.message()).c_str());
  return 1;
}
