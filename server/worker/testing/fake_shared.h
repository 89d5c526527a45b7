// What the parts of a FakeContext share: the log of what was issued, and streams that stall.
#ifndef WARPLINE_SERVER_WORKER_TESTING_FAKE_SHARED_H_
#define WARPLINE_SERVER_WORKER_TESTING_FAKE_SHARED_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/facets/types.h"

namespace warpline::worker {

// The streams and events of contexts that are tested together, which know each other's.
// Thread-safe.
class FakeStreams {
 public:
  void Stall(uint64_t stream) {
    MutexLock lock(&mu_);
    stalled_.insert(stream);
  }
  void Resume(uint64_t stream) {
    MutexLock lock(&mu_);
    stalled_.erase(stream);
  }
  uint64_t NewStream() {
    MutexLock lock(&mu_);
    return next_stream_++;
  }
  uint64_t NewEvent() {
    MutexLock lock(&mu_);
    return next_event_++;
  }
  void Record(device::EventId event, device::StreamId stream) {
    MutexLock lock(&mu_);
    records_[static_cast<uint64_t>(event)] = static_cast<uint64_t>(stream);
  }
  // The stream on which the event was recorded.
  uint64_t StreamOf(device::EventId event) {
    MutexLock lock(&mu_);
    return records_[static_cast<uint64_t>(event)];
  }
  bool Stalled(device::EventId event) {
    MutexLock lock(&mu_);
    return stalled_.count(records_[static_cast<uint64_t>(event)]) != 0;
  }

 private:
  Mutex mu_;
  std::set<uint64_t> stalled_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, uint64_t> records_ ABSL_GUARDED_BY(mu_);
  uint64_t next_stream_ ABSL_GUARDED_BY(mu_) = 10;
  uint64_t next_event_ ABSL_GUARDED_BY(mu_) = 1;
};

// What was issued, line by line: "what@stream detail". Thread-safe.
class FakeLog {
 public:
  CudaResult Add(const char* what, device::StreamId stream, const std::string& detail) {
    AddLine(absl::StrCat(what, "@", static_cast<uint64_t>(stream), " ", detail));
    return CudaResult::kSuccess;
  }
  void AddLine(std::string line) {
    MutexLock lock(&mu_);
    lines_.push_back(std::move(line));
  }
  std::vector<std::string> lines() {
    MutexLock lock(&mu_);
    return lines_;
  }

 private:
  Mutex mu_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mu_);
};

struct FakeShared {
  explicit FakeShared(std::shared_ptr<FakeStreams> its_streams) : streams(std::move(its_streams)) {}

  const std::shared_ptr<FakeStreams> streams;
  FakeLog log;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_TESTING_FAKE_SHARED_H_
