// A session without a server, for tests of the driver's functions. It is all of its parts at once,
// so that a test says session().Count(id).
#ifndef WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_SESSION_H_
#define WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_SESSION_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "client_stub/core/testing/fake_bulk.h"
#include "client_stub/core/testing/fake_commands.h"
#include "client_stub/core/testing/fake_memory.h"
#include "client_stub/core/testing/fake_notices.h"
#include "client_stub/core/testing/fake_status.h"
#include "client_stub/session/session.h"

namespace warpline::stub {

// Thread-safe.
class FakeSession : public Session,
                    public FakeStatus,
                    public FakeCommands,
                    public FakeMemory,
                    public FakeNotices {
 public:
  // Where neither programs nor the shadows of sanitizers lie.
  static constexpr uint64_t kArenaBase = 0x567000000000;
  static constexpr uint64_t kArenaBytes = uint64_t{1} << 32;

  // The devices have an H200's limits and 1 GiB each, granted as it is asked for. Only the first
  // two can access each other's memory.
  explicit FakeSession(uint32_t devices = 1);

  // Sets the features that were agreed on with the server, and where the server is. At first there
  // are no features, and the server is on this host. Not thread-safe: called while no other thread
  // uses them.
  void SetFeatures(uint64_t features, bool same_host);

  // Sets what the server allows the session to have. Not thread-safe, either.
  void SetLimits(uint64_t streams, uint64_t handles) {
    terms_.max_streams = streams;
    terms_.max_handles = handles;
  }

  // Has the device show one value for all of its attributes. Not thread-safe, either.
  void SetAllAttributes(int value) { terms_.devices[0].attributes.fill(value); }

  // Sends the worker's notices for all MemoryUnmap commands that were sent since the last time.
  void ReportUnmapped() { Unmapped(TakeUnmapping()); }

  bool closed() const { return closed_.load(); }
  // Forgets what was sent and what the test has set, except for features.
  void Clear();

  // The host of the server, which has no slots at first.
  FakeBulk& bulk_memory() { return bulk_; }
  FakeBulk& relay_memory() { return relay_bulk_; }

  const char* transport() const override { return "fake"; }
  void MoveTo(const std::string&) override {}
  void Close(absl::Duration) override { closed_.store(true); }

 private:
  SessionTerms terms_;
  Counters counters_;
  FakeBulk bulk_;
  FakeBulk relay_bulk_{BulkMemory::kSlots};
  std::atomic<bool> closed_{false};
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_SESSION_H_
