// Memory of sessions at rest, for tests: each 2 MiB of it is one letter, again and again.
#ifndef WARPLINE_SERVER_GPU_SERVER_TESTING_AWAY_LETTERS_H_
#define WARPLINE_SERVER_GPU_SERVER_TESTING_AWAY_LETTERS_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "server/gpu_server/memory/away_memory.h"
#include "server/gpu_server/memory/swap_space.h"

namespace warpline::server {

// These write and read a file's bytes, all of them or the test fails.
inline void Put(int fd, const std::string& bytes, uint64_t offset) {
  ASSERT_EQ(pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)),
            static_cast<ssize_t>(bytes.size()));
}

inline std::string Get(int fd, uint64_t bytes, uint64_t offset) {
  std::string read(bytes, '\0');
  EXPECT_EQ(pread(fd, read.data(), bytes, static_cast<off_t>(offset)), static_cast<ssize_t>(bytes));
  return read;
}

// Fills the memory with one letter for each granule that is used.
inline void FillWithLetters(const SwapSpace& space, const AwayMemory& away, std::string letters) {
  for (const SwapSpace::Extent& extent : away.place.extents()) {
    for (uint64_t done = 0; done < extent.bytes; done += SwapSpace::kGranule) {
      Put(space.block_fd(extent.block), std::string(SwapSpace::kGranule, letters.front()),
          extent.offset + done);
      letters.erase(0, 1);
    }
  }
}

// Returns the letters that the memory holds.
inline std::string LettersOf(const SwapSpace& space, const AwayMemory& away) {
  std::string letters;
  for (const SwapSpace::Extent& extent : away.place.extents()) {
    for (uint64_t done = 0; done < extent.bytes; done += SwapSpace::kGranule) {
      const std::string granule =
          Get(space.block_fd(extent.block), SwapSpace::kGranule, extent.offset + done);
      EXPECT_EQ(granule, std::string(SwapSpace::kGranule, granule.front()));
      letters += granule.front();
    }
  }
  return letters;
}

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_TESTING_AWAY_LETTERS_H_
