// Runs the blocks of launches on the processor's cores. Thread-safe.
#ifndef WARPLINE_SERVER_DEVICE_CPU_EXECUTION_GRID_RUNNER_H_
#define WARPLINE_SERVER_DEVICE_CPU_EXECUTION_GRID_RUNNER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/cpu/execution/block.h"

namespace warpline::cpu {

class GridRunner {
 public:
  // `threads` counts those besides the threads that call Run().
  explicit GridRunner(int threads);
  GridRunner(const GridRunner&) = delete;
  GridRunner& operator=(const GridRunner&) = delete;
  // No Run() may be under way.
  ~GridRunner();

  // Runs a whole grid on the calling thread and on idle threads. Gives up when `stop` is set.
  // Returns a fault's result and puts its text into `*fault`.
  CudaResult Run(const LaunchShape& shape, const std::atomic<bool>& stop, std::string* fault);

 private:
  struct Job {
    const LaunchShape* shape = nullptr;
    const std::atomic<bool>* stop = nullptr;
    uint64_t blocks = 0;
    std::atomic<uint64_t> next{0};
    std::atomic<bool> failed{false};
    int helpers = 0;  // Guarded by mu_.
    CudaResult result = CudaResult::kSuccess;
    std::string fault;
  };

  void Help();
  void RunBlocks(Job* job, bool is_helper);
  void Fail(Job* job, CudaResult result, const std::string& text);

  Mutex mu_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Job*> jobs_ ABSL_GUARDED_BY(mu_);  // With blocks left, perhaps
  std::vector<std::thread> threads_;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_EXECUTION_GRID_RUNNER_H_
