// replay_decisions FILE...: decides what warpline-scheduler recorded again, and says whether it
// comes to the same. Exits with 1 for a file that does not, and with 2 for one that cannot be read.
#include <cstdio>
#include <fstream>

#include "scheduler/placement/replay.h"

int main(int argc, char** argv) {
  int code = argc < 2 ? 2 : 0;
  if (argc < 2) std::fputs("usage: replay_decisions FILE...\n", stderr);
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    const auto replay = warpline::placement::ReplayDecisions(&file);
    if (!replay.ok()) {
      std::printf("%s: %s\n", argv[i], std::string(replay.status().message()).c_str());
      code = 2;
      continue;
    }
    std::printf("%s: %llu decisions%s%s\n", argv[i],
                static_cast<unsigned long long>(replay->decided),
                replay->different == 0 ? ", all the same" : "; the last one differs:\n",
                replay->difference.c_str());
    if (replay->cut_off) std::printf("%s: the last record is cut off\n", argv[i]);
    if (replay->different != 0 && code == 0) code = 1;
  }
  return code;
}
