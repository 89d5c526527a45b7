// Two processes share memory, and each has memory of its own besides. They work on both in turn,
// and check everything against copies that they keep on the host, so that what one of them has can
// be moved while the other one works. Goes on until it is let go (examples/held.h).
#include <cuda_runtime.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../../examples/held.h"

namespace {

constexpr uint32_t kWords = (2u << 20) / 4;

const char* g_role = "first";

void Fail(const char* what, long detail) {
  std::printf("shared_memory: FAILED in the %s process: %s (%ld)\n", g_role, what, detail);
  std::fflush(stdout);
  std::_Exit(1);
}

#define MUST(call)                                                   \
  do {                                                               \
    const cudaError_t error = call;                                  \
    if (error != cudaSuccess) Fail(#call, static_cast<long>(error)); \
  } while (false)

__global__ void Step(uint32_t* own, uint32_t* shared, uint32_t factor) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= kWords) return;
  own[i] = own[i] * factor + shared[i];
  shared[i] = shared[i] * 5 + i + factor;
}

// The host's copies of a process's own memory and of the shared one.
struct Mirror {
  std::vector<uint32_t> own = std::vector<uint32_t>(kWords);
  std::vector<uint32_t> shared = std::vector<uint32_t>(kWords);

  void Step(uint32_t factor) {
    for (uint32_t i = 0; i < kWords; ++i) {
      own[i] = own[i] * factor + shared[i];
      shared[i] = shared[i] * 5 + i + factor;
    }
  }
  // A step of the other process.
  void OtherStep(uint32_t factor) {
    for (uint32_t i = 0; i < kWords; ++i) shared[i] = shared[i] * 5 + i + factor;
  }
};

class Half {
 public:
  explicit Half(uint32_t factor) : factor_(factor) {
    MUST(cudaMalloc(&own_, 4 * kWords));
    MUST(cudaMemset(own_, 0, 4 * kWords));
  }

  void Work(uint32_t* shared, uint32_t others_factor, bool other_was_first) {
    if (other_was_first) mirror_.OtherStep(others_factor);
    Check(shared, mirror_.shared, "what the other process wrote");
    Step<<<(kWords + 255) / 256, 256>>>(own_, shared, factor_);
    MUST(cudaGetLastError());
    mirror_.Step(factor_);
    Check(own_, mirror_.own, "its own memory");
    Check(shared, mirror_.shared, "what it wrote");
  }

 private:
  static void Check(const uint32_t* device, const std::vector<uint32_t>& expected,
                    const char* what) {
    std::vector<uint32_t> got(kWords);
    MUST(cudaMemcpy(got.data(), device, 4 * kWords, cudaMemcpyDeviceToHost));
    for (uint32_t i = 0; i < kWords; ++i) {
      if (got[i] != expected[i]) Fail(what, i);
    }
  }

  const uint32_t factor_;
  uint32_t* own_ = nullptr;
  Mirror mirror_;
};

constexpr uint32_t kFirst = 3, kSecond = 7;

template <typename Message>
bool Send(int socket, const Message& message) {
  return send(socket, &message, sizeof(message), MSG_NOSIGNAL) == sizeof(message);
}

template <typename Message>
bool Receive(int socket, Message* message) {
  return recv(socket, message, sizeof(*message), 0) == sizeof(*message);
}

int RunSecond(int socket) {
  g_role = "second";
  cudaIpcMemHandle_t handle;
  if (!Receive(socket, &handle)) return 1;
  Half half(kSecond);
  void* shared = nullptr;
  MUST(cudaIpcOpenMemHandle(&shared, handle, cudaIpcMemLazyEnablePeerAccess));
  char turn = 0;
  if (!Send(socket, turn)) return 1;
  while (Receive(socket, &turn)) {
    half.Work(static_cast<uint32_t*>(shared), kFirst, /*other_was_first=*/true);
    if (!Send(socket, turn)) return 1;
  }
  MUST(cudaIpcCloseMemHandle(shared));
  return 0;
}

}  // namespace

int main() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0) Fail("socketpair", 0);
  const pid_t second = fork();
  if (second == 0) {
    close(pair[0]);
    std::_Exit(RunSecond(pair[1]));
  }
  close(pair[1]);
  Half half(kFirst);
  uint32_t* shared = nullptr;
  MUST(cudaMalloc(&shared, 4 * kWords));
  MUST(cudaMemset(shared, 0, 4 * kWords));
  MUST(cudaDeviceSynchronize());
  cudaIpcMemHandle_t handle;
  MUST(cudaIpcGetMemHandle(&handle, shared));
  char turn = 0;
  if (!Send(pair[0], handle) || !Receive(pair[0], &turn)) Fail("the second process is gone", 0);
  SayThatItGoesOn("shared_memory");
  unsigned rounds = 0;
  for (; IsHeld(); ++rounds) {
    half.Work(shared, kSecond, /*other_was_first=*/rounds > 0);
    if (!Send(pair[0], turn) || !Receive(pair[0], &turn))
      Fail("the second process is gone", rounds);
    usleep(20000);
  }
  close(pair[0]);
  int status = 0;
  if (waitpid(second, &status, 0) != second || status != 0) Fail("the second process", status);
  std::printf("shared_memory: ok after %u rounds\n", rounds);
  return 0;
}
