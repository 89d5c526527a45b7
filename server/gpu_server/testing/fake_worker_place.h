// The place of a session's worker, and what the session holds, without processes: commands go
// through until the gate is frozen, workers are told when to do what real ones do by themselves.
#ifndef WARPLINE_SERVER_GPU_SERVER_TESTING_FAKE_WORKER_PLACE_H_
#define WARPLINE_SERVER_GPU_SERVER_TESTING_FAKE_WORKER_PLACE_H_

#include <unistd.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/gpu_server/continuity/worker_place.h"

namespace warpline::server {

class FakeWorkerPlace : public WorkerPlace {
 public:
  // --- What the client and the worker do.
  void Send(uint64_t commands) {
    waiting_ += commands;
    Feed();
  }
  // The worker completes all that it has.
  void Complete() { retired_ = fed_; }
  // The process has ended.
  void Vanish() { gone_ = true; }

  // --- WorkerPlace.
  uint64_t Freeze() override {
    frozen_ = true;
    return fed_;
  }
  uint64_t Retired() const override { return retired_; }
  void Thaw() override {
    frozen_ = false;
    Feed();
  }
  std::optional<uint64_t> Taken() override { return retired_; }
  void Kill() override {
    ++kills;
    if (ends_at_once) gone_ = true;
  }
  bool gone() const override { return gone_; }
  absl::Status TakeNext(uint64_t resume_seq, int variables_fd) override {
    if (!take_status.ok()) return take_status;
    ++workers;
    gone_ = false;
    resumed_at = resume_seq;
    char text[64];
    const ssize_t n = variables_fd < 0 ? 0 : pread(variables_fd, text, sizeof(text), 0);
    variables.assign(text, n < 0 ? 0 : static_cast<size_t>(n));
    return absl::OkStatus();
  }

  bool frozen() const { return frozen_; }
  // Sent by the client and not let through.
  uint64_t waiting() const { return waiting_; }

  // How processes behave.
  bool ends_at_once = true;
  absl::Status take_status;

  int workers = 1;
  int kills = 0;
  uint64_t resumed_at = 0;
  std::string variables;  // What the last worker was given.

 private:
  void Feed() {
    if (frozen_) return;
    fed_ += std::exchange(waiting_, 0);
  }

  bool frozen_ = false;
  bool gone_ = false;
  uint64_t waiting_ = 0;
  uint64_t fed_ = 0;
  uint64_t retired_ = 0;
};

class FakeHoldings : public Survivor {
 public:
  void Suspend() override {
    suspended = true;
    mapped_ = nullptr;  // Asked of a worker that is lost.
  }
  void MapAgain(std::function<void(CudaResult)> done) override {
    ++times_mapped;
    mapped_ = std::move(done);
  }

  // The worker's answer to MapAgain().
  void Answer(CudaResult result) {
    if (mapped_ == nullptr) return;
    if (result == CudaResult::kSuccess) suspended = false;
    std::exchange(mapped_, nullptr)(result);
  }

  bool suspended = false;
  int times_mapped = 0;

 private:
  std::function<void(CudaResult)> mapped_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_TESTING_FAKE_WORKER_PLACE_H_
