// Functions of the host in the order of streams, and copies of rows and slices: a pipeline whose
// middle is a host function that changes what the device computed.
#include <atomic>
#include <vector>

#include "check.h"

namespace {

__global__ void AddOne(unsigned* values, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += 1;
}

struct Stage {
  unsigned* values = nullptr;  // Pinned.
  int n = 0;
  std::atomic<int> runs{0};
  cudaError_t inside = cudaSuccess;
};

void Double(void* data) {
  auto* stage = static_cast<Stage*>(data);
  for (int i = 0; i < stage->n; ++i) stage->values[i] *= 2;
  void* memory = nullptr;
  stage->inside = cudaMalloc(&memory, 16);
  stage->runs.fetch_add(1);
}

void CUDART_CB Count(cudaStream_t, cudaError_t status, void* data) {
  if (status == cudaSuccess) static_cast<std::atomic<int>*>(data)->fetch_add(1);
}

// Runs device -> pinned memory -> host function -> device -> kernel several times over, with a
// second stream that waits for it by an event.
void CheckPipeline(int n, int rounds) {
  Stage stage;
  stage.n = n;
  unsigned *device, *copy;
  CUDA_CHECK(cudaMallocHost(&stage.values, n * sizeof(unsigned)));
  CUDA_CHECK(cudaMalloc(&device, n * sizeof(unsigned)));
  CUDA_CHECK(cudaMalloc(&copy, n * sizeof(unsigned)));
  cudaStream_t stream, second;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA_CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  cudaEvent_t done;
  CUDA_CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  std::atomic<int> callbacks{0};
  CUDA_CHECK(cudaMemsetAsync(device, 0, n * sizeof(unsigned), stream));
  unsigned expected = 0;
  for (int round = 0; round < rounds; ++round) {
    AddOne<<<(n + 255) / 256, 256, 0, stream>>>(device, n);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(
        cudaMemcpyAsync(stage.values, device, n * sizeof(unsigned), cudaMemcpyDefault, stream));
    CUDA_CHECK(cudaLaunchHostFunc(stream, Double, &stage));
    CUDA_CHECK(cudaStreamAddCallback(stream, Count, &callbacks, 0));
    // Takes the values that the host function leaves.
    CUDA_CHECK(
        cudaMemcpyAsync(device, stage.values, n * sizeof(unsigned), cudaMemcpyDefault, stream));
    expected = (expected + 1) * 2;
  }
  CUDA_CHECK(cudaLaunchHostFunc(stream, Double, &stage));
  CUDA_CHECK(cudaEventRecord(done, stream));
  CUDA_CHECK(cudaStreamWaitEvent(second, done, 0));
  CUDA_CHECK(cudaMemcpyAsync(copy, device, n * sizeof(unsigned), cudaMemcpyDefault, second));
  CUDA_CHECK(cudaStreamSynchronize(second));
  examples::Expect(stage.runs.load() == rounds + 1, "%d of %d host functions ran",
                   stage.runs.load(), rounds + 1);
  examples::Expect(callbacks.load() == rounds, "%d of %d callbacks ran", callbacks.load(), rounds);
  examples::Expect(stage.inside == cudaErrorNotPermitted, "CUDA inside a host function gave %s",
                   cudaGetErrorName(stage.inside));
  std::vector<unsigned> result(n);
  CUDA_CHECK(cudaMemcpy(result.data(), copy, n * sizeof(unsigned), cudaMemcpyDefault));
  examples::Expect(result[0] == expected && result[n - 1] == expected, "%u and %u, expected %u",
                   result[0], result[n - 1], expected);
  CUDA_CHECK(cudaEventDestroy(done));
  CUDA_CHECK(cudaStreamDestroy(second));
  CUDA_CHECK(cudaStreamDestroy(stream));
  CUDA_CHECK(cudaFree(copy));
  CUDA_CHECK(cudaFree(device));
  CUDA_CHECK(cudaFreeHost(stage.values));
}

// Copies a box to the device, within it and back; everything around it must stay as it was.
void CheckBoxes(size_t width, size_t height, size_t depth) {
  const cudaExtent extent = make_cudaExtent(width, height, depth);
  cudaPitchedPtr first, second;
  CUDA_CHECK(cudaMalloc3D(&first, extent));
  CUDA_CHECK(cudaMalloc3D(&second, extent));
  CUDA_CHECK(cudaMemset3D(first, 0xab, extent));
  std::vector<unsigned char> from(width * height * depth), to(from.size(), 0);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 7 + i / 251);
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(from.data(), width, width, height);
  copy.dstPtr = first;
  copy.extent = make_cudaExtent(width - 1, height, depth);
  copy.kind = cudaMemcpyHostToDevice;
  CUDA_CHECK(cudaMemcpy3D(&copy));
  copy.srcPtr = first;
  copy.dstPtr = second;
  copy.extent = extent;
  copy.kind = cudaMemcpyDeviceToDevice;
  CUDA_CHECK(cudaMemcpy3D(&copy));
  copy.srcPtr = second;
  copy.dstPtr = make_cudaPitchedPtr(to.data(), width, width, height);
  copy.kind = cudaMemcpyDeviceToHost;
  CUDA_CHECK(cudaMemcpy3D(&copy));
  size_t wrong = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    wrong += to[i] != (i % width == width - 1 ? 0xab : from[i]);
  }
  examples::Expect(wrong == 0, "%zu bytes of a box of %zu x %zu x %zu are wrong", wrong, width,
                   height, depth);
  CUDA_CHECK(cudaFree(first.ptr));
  CUDA_CHECK(cudaFree(second.ptr));
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "host_functions", "host functions and copies of boxes");
  const int n = static_cast<int>(options.Number("n", 10000, "elements of the pipeline"));
  const int rounds = static_cast<int>(options.Number("rounds", 20, "rounds of the pipeline"));
  options.Finish();
  CheckPipeline(n, rounds);
  CheckBoxes(33, 17, 5);
  CheckBoxes(1000, 900, 3);
  CheckBoxes(700000, 2, 2);
  return examples::Report("%d rounds", rounds);
}
