// Reads results back into page-locked memory in each way in which a program may wait for them, and
// checks each time that the bytes are there.
//
//   readbacks [--rounds=N]
//
// Prints `readbacks: ok` and ends with 0, or says what was wrong and ends with 1.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "../../examples/check.h"

namespace {

constexpr uint32_t kWords = 96 * 1024;

// Takes a while, so that a wait which is left out is noticed.
__global__ void Fill(uint32_t* words, uint32_t count, uint32_t first) {
  uint32_t value = first;
  for (uint32_t i = 0; i < 2000; ++i) value = value * 3 + i;
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) words[i] = first + i + (value & 0);
}

struct Streams {
  cudaStream_t blocking[2];
  cudaStream_t apart[2];
};

class Readbacks {
 public:
  void Open() {
    CUDA_CHECK(cudaMalloc(&device_, kWords * sizeof(uint32_t)));
    CUDA_CHECK(cudaMalloc(&other_, sizeof(small_)));
    CUDA_CHECK(cudaMallocHost(&host_, kWords * sizeof(uint32_t)));
    CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    for (cudaStream_t& stream : streams_.blocking) CUDA_CHECK(cudaStreamCreate(&stream));
    for (cudaStream_t& stream : streams_.apart) {
      CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
  }

  void Round(uint32_t round) {
    first_ = round * 7919 + 1;
    count_ = 1 + (round * 40503u) % kWords;
    for (const auto way : {&Readbacks::Synchronize, &Readbacks::Query, &Readbacks::QueryEvent,
                           &Readbacks::WaitOnAnotherStream, &Readbacks::WaitBehindTheLegacyStream,
                           &Readbacks::CallBack, &Readbacks::CopyBack}) {
      (this->*way)();
      ++first_;
    }
  }

 private:
  void ReadBack(cudaStream_t stream) {
    std::memset(host_, 0xff, count_ * sizeof(uint32_t));
    Fill<<<1, 64, 0, stream>>>(device_, count_, first_);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(
        cudaMemcpyAsync(host_, device_, count_ * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream));
  }

  static bool Right(const uint32_t* words, uint32_t count, uint32_t first) {
    for (uint32_t i = 0; i < count; ++i) {
      if (words[i] != first + i) return false;
    }
    return true;
  }
  void Expect(const char* way) const {
    if (Right(host_, count_, first_)) return;
    examples::Fail("wrong bytes of %u words after %s", count_, way);
  }

  void Synchronize() {
    ReadBack(streams_.apart[0]);
    CUDA_CHECK(cudaStreamSynchronize(streams_.apart[0]));
    Expect("a wait for the stream");
  }
  void Query() {
    ReadBack(streams_.blocking[0]);
    while (cudaStreamQuery(streams_.blocking[0]) == cudaErrorNotReady) {
    }
    Expect("a query of the stream");
  }
  void QueryEvent() {
    ReadBack(streams_.apart[1]);
    CUDA_CHECK(cudaEventRecord(event_, streams_.apart[1]));
    while (cudaEventQuery(event_) == cudaErrorNotReady) {
    }
    Expect("a query of an event");
  }
  void WaitOnAnotherStream() {
    ReadBack(streams_.apart[0]);
    CUDA_CHECK(cudaEventRecord(event_, streams_.apart[0]));
    CUDA_CHECK(cudaStreamWaitEvent(streams_.apart[1], event_, 0));
    CUDA_CHECK(cudaStreamSynchronize(streams_.apart[1]));
    Expect("a wait for a stream that waits for an event");
  }
  // The copy on the legacy stream comes after the read-back, and that on the other stream after it.
  void WaitBehindTheLegacyStream() {
    ReadBack(streams_.blocking[0]);
    CUDA_CHECK(cudaMemcpyAsync(other_, small_, sizeof(small_), cudaMemcpyHostToDevice, nullptr));
    CUDA_CHECK(cudaMemcpyAsync(other_, small_, sizeof(small_), cudaMemcpyHostToDevice,
                               streams_.blocking[1]));
    CUDA_CHECK(cudaStreamSynchronize(streams_.blocking[1]));
    Expect("a wait for a copy behind the legacy stream");
  }
  void CallBack() {
    ReadBack(streams_.apart[0]);
    CUDA_CHECK(cudaLaunchHostFunc(
        streams_.apart[0],
        [](void* self) { static_cast<Readbacks*>(self)->Expect("its host function was called"); },
        this));
    CUDA_CHECK(cudaStreamSynchronize(streams_.apart[0]));
  }
  // The memory is the source of a copy that comes next.
  void CopyBack() {
    ReadBack(streams_.apart[0]);
    CUDA_CHECK(cudaMemcpyAsync(device_, host_, count_ * sizeof(uint32_t), cudaMemcpyHostToDevice,
                               streams_.apart[0]));
    CUDA_CHECK(cudaStreamSynchronize(streams_.apart[0]));
    std::vector<uint32_t> words(count_);
    CUDA_CHECK(
        cudaMemcpy(words.data(), device_, count_ * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    Expect("a copy from there");
    if (Right(words.data(), count_, first_)) return;
    examples::Fail("wrong bytes of %u words were copied back", count_);
  }

  uint32_t first_ = 0, count_ = 0;
  uint32_t *device_ = nullptr, *other_ = nullptr, *host_ = nullptr;
  const uint32_t small_[4] = {};
  cudaEvent_t event_ = nullptr;
  Streams streams_ = {};
};

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "readbacks", "reads memory back in each way that waits");
  const auto rounds = static_cast<uint32_t>(options.Number("rounds", 100, "rounds of all ways"));
  options.Finish();
  Readbacks readbacks;
  readbacks.Open();
  for (uint32_t round = 0; round < rounds; ++round) readbacks.Round(round);
  std::printf("readbacks: ok\n");
  return 0;
}
