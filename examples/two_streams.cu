// Two host threads with a stream each. The kernel of one stream waits for a flag in device memory
// that a copy on the other stream sets, so the program ends only if a stalled stream holds up
// neither the other stream nor the other thread.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "check.h"

namespace {

struct State {
  unsigned flag;          // Set to a value by a copy; the stalled kernel waits for it.
  unsigned next_ticket;   // Taken in the order in which the kernels get here.
  unsigned waiter_order;  // The stalled kernel's ticket.
  unsigned worker_order;  // The ticket of the last working kernel.
  unsigned seen_flag;     // The value that ended the wait.
  unsigned work_done;     // One for each working kernel.
};

__global__ void WaitForFlag(State* state) {
  volatile unsigned* flag = &state->flag;
  unsigned seen = *flag;
  while (seen == 0) seen = *flag;
  state->seen_flag = seen;
  state->waiter_order = atomicAdd(&state->next_ticket, 1u);
}

__global__ void Work(State* state) {
  state->worker_order = atomicAdd(&state->next_ticket, 1u);
  atomicAdd(&state->work_done, 1u);
}

// Lets one thread wait for another; set once.
class Signal {
 public:
  void Set() {
    std::lock_guard<std::mutex> lock(mutex_);
    set_ = true;
    condition_.notify_all();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    condition_.wait(lock, [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool set_ = false;
};

void RunRound(int round, int kernels, State* device, State* pinned, cudaStream_t waiting,
              cudaStream_t working) {
  CUDA_CHECK(cudaMemset(device, 0, sizeof(State)));
  CUDA_CHECK(cudaDeviceSynchronize());
  Signal stalled;
  cudaError_t before_work = cudaSuccess, after_work = cudaSuccess;

  std::thread waiter([&] {
    WaitForFlag<<<1, 1, 0, waiting>>>(device);
    CUDA_CHECK_LAUNCH();
    before_work = cudaStreamQuery(waiting);
    stalled.Set();
    CUDA_CHECK(cudaStreamSynchronize(waiting));
  });
  std::thread worker([&] {
    stalled.Wait();
    for (int i = 0; i < kernels; ++i) Work<<<1, 1, 0, working>>>(device);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaStreamSynchronize(working));
    after_work = cudaStreamQuery(waiting);
    pinned->flag = 1000u + round;
    CUDA_CHECK(cudaMemcpyAsync(&device->flag, &pinned->flag, sizeof(unsigned),
                               cudaMemcpyHostToDevice, working));
    CUDA_CHECK(cudaStreamSynchronize(working));
  });
  waiter.join();
  worker.join();

  State end;
  CUDA_CHECK(cudaMemcpy(&end, device, sizeof(State), cudaMemcpyDeviceToHost));
  examples::Expect(before_work == cudaErrorNotReady,
                   "round %d: the stalled stream reported %s before the work", round,
                   cudaGetErrorName(before_work));
  examples::Expect(after_work == cudaErrorNotReady,
                   "round %d: the stalled stream reported %s after the work", round,
                   cudaGetErrorName(after_work));
  examples::Expect(end.work_done == unsigned(kernels), "round %d: %u of %d kernels worked", round,
                   end.work_done, kernels);
  examples::Expect(end.worker_order == unsigned(kernels) - 1,
                   "round %d: the last working kernel came at place %u of %d", round,
                   end.worker_order, kernels);
  examples::Expect(end.waiter_order == unsigned(kernels),
                   "round %d: the stalled kernel came at place %u, not after all %d others", round,
                   end.waiter_order, kernels);
  examples::Expect(end.seen_flag == 1000u + round, "round %d: the flag read %u, not %u", round,
                   end.seen_flag, 1000u + round);
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "two_streams",
                            "a stalled stream must not hold up another stream");
  const int rounds = static_cast<int>(options.Number("rounds", 3, "times to stall and release"));
  const int kernels = static_cast<int>(options.Number("kernels", 20, "kernels beside the stall"));
  options.Finish();
  if (kernels < 1) examples::Fail("--kernels must be at least 1");

  State *device, *pinned;
  cudaStream_t waiting, working;
  CUDA_CHECK(cudaMalloc(&device, sizeof(State)));
  CUDA_CHECK(cudaMallocHost(&pinned, sizeof(State)));
  CUDA_CHECK(cudaStreamCreateWithFlags(&waiting, cudaStreamNonBlocking));
  CUDA_CHECK(cudaStreamCreateWithFlags(&working, cudaStreamNonBlocking));
  // Loading a kernel may wait for the device to be idle, so both are loaded before the stall.
  cudaFuncAttributes attributes;
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, WaitForFlag));
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, Work));

  for (int round = 0; round < rounds; ++round) {
    RunRound(round, kernels, device, pinned, waiting, working);
  }
  CUDA_CHECK(cudaStreamDestroy(waiting));
  CUDA_CHECK(cudaStreamDestroy(working));
  CUDA_CHECK(cudaFreeHost(pinned));
  CUDA_CHECK(cudaFree(device));
  return examples::Report("%d rounds, %d kernels beside each stall", rounds, kernels);
}
