// A device for tests of the worker: it logs what is issued and completes it when told.
#ifndef WARPLINE_SERVER_WORKER_TESTING_FAKE_CONTEXT_H_
#define WARPLINE_SERVER_WORKER_TESTING_FAKE_CONTEXT_H_

#include <sched.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/device/context_of.h"
#include "server/worker/testing/fake_code.h"
#include "server/worker/testing/fake_libraries.h"
#include "server/worker/testing/fake_memory.h"
#include "server/worker/testing/fake_objects.h"
#include "server/worker/testing/fake_partitions.h"
#include "server/worker/testing/fake_shared.h"
#include "server/worker/testing/fake_streams.h"

namespace warpline::worker {

// Thread-safe. Streams are numbered from 10 in the order of their creation.
class FakeContext
    : public device::ContextOf<FakeShared, FakeMemory, FakeStreamFacet, FakeCopies, FakeLaunches,
                               FakeModules, FakeLinks, FakeArrays, FakeTextures, FakeGraphs,
                               FakePartitions, FakeLibraries> {
 public:
  explicit FakeContext(std::shared_ptr<FakeStreams> streams = std::make_shared<FakeStreams>())
      : ContextOf(std::make_unique<FakeShared>(std::move(streams))) {}

  std::vector<std::string> log() { return state()->log.lines(); }
  // Returns the stream to which a memset of `value` went; waits for it.
  uint64_t StreamThatSet(uint32_t value) {
    while (true) {
      for (const std::string& line : log()) {
        const size_t space = line.find(' ');
        if (line.substr(0, 4) == "set@" && line.substr(space + 1) == absl::StrCat(value)) {
          return std::stoull(line.substr(4, space - 4));
        }
      }
      sched_yield();
    }
  }
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_TESTING_FAKE_CONTEXT_H_
