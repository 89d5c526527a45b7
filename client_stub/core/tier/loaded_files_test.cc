#include "client_stub/core/tier/loaded_files.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

TEST(LoadedFilesTest, NamesWhatIsExecutedOnce) {
  std::istringstream maps(
      "555555554000-555555558000 r--p 00000000 08:01 42                         /bin/cat\n"
      "555555558000-555555570000 r-xp 00004000 08:01 42                         /bin/cat\n"
      "7ffff0000000-7ffff0001000 r-xp 00000000 00:00 0\n"
      "7ffff1000000-7ffff2000000 r--p 00000000 08:01 43                         /data/model\n"
      "7ffff3000000-7ffff3001000 r-xp 00000000 08:01 44                         /lib/with "
      "blank.so\n"
      "7ffff3001000-7ffff3002000 r-xp 00000000 08:01 44                         /lib/with "
      "blank.so\n"
      "7ffff7fc1000-7ffff7fc3000 r-xp 00000000 00:00 0                          [vdso]\n"
      "garbage\n\n7ff r-x\n");
  EXPECT_EQ(ExecutableFiles(maps), (std::vector<std::string>{"/bin/cat", "/lib/with blank.so"}));
}

TEST(LoadedFilesTest, TheProgramItselfIsAmongThem) {
  char path[PATH_MAX] = {};
  ASSERT_GT(readlink("/proc/self/exe", path, sizeof(path) - 1), 0);
  const std::vector<std::string> files = LoadedFiles();
  EXPECT_EQ(std::count(files.begin(), files.end(), path), 1);
}

}  // namespace
}  // namespace warpline::stub
