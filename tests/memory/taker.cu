// taker: takes a part of the device's free memory and ends in one of many ways.
//
// The program prints "taken BYTES" once it has the memory and has used it, and then ends as
// --end says. Another program that starts right afterwards must find all of the memory.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../../examples/check.h"

namespace {

using examples::Fail;

__global__ void Mark(unsigned* words, unsigned value) { *words = value; }

__global__ void Spin(volatile unsigned* stop) {
  while (*stop == 0) {
  }
}

__global__ void WriteTo(unsigned* nowhere) { *nowhere = 1; }

struct Taken {
  std::vector<unsigned*> pieces;
  size_t bytes = 0;
};

// Takes `percent` of the device's memory, in pieces of `piece_bytes`, or in one where that is 0.
Taken Take(int percent, size_t piece_bytes) {
  size_t free = 0;
  size_t total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const size_t wanted = total / 100 * static_cast<size_t>(percent);
  if (free < wanted) Fail("%zu of %zu bytes are free, %zu are wanted", free, total, wanted);
  Taken taken;
  if (piece_bytes == 0) piece_bytes = wanted;
  while (taken.bytes + piece_bytes <= wanted) {
    unsigned* piece = nullptr;
    const cudaError_t result = cudaMalloc(&piece, piece_bytes);
    if (result != cudaSuccess) {
      Fail("%s after %zu of %zu bytes; %zu were free", cudaGetErrorName(result), taken.bytes,
           wanted, free);
    }
    taken.pieces.push_back(piece);
    taken.bytes += piece_bytes;
  }
  for (unsigned* piece : taken.pieces) {
    Mark<<<1, 1>>>(piece, 7);
    Mark<<<1, 1>>>(piece + piece_bytes / sizeof(unsigned) - 1, 9);
  }
  CUDA_CHECK(cudaDeviceSynchronize());
  unsigned last = 0;
  CUDA_CHECK(cudaMemcpy(&last, taken.pieces.back() + piece_bytes / sizeof(unsigned) - 1,
                        sizeof(last), cudaMemcpyDefault));
  if (last != 9) Fail("the last word is %u", last);
  return taken;
}

void Say(const Taken& taken) {
  std::printf("taken %zu\n", taken.bytes);
  std::fflush(stdout);
}

// Leaves a kernel running that would never end by itself.
void StartEndless() {
  unsigned* stop = nullptr;
  CUDA_CHECK(cudaMalloc(&stop, sizeof(*stop)));
  CUDA_CHECK(cudaMemset(stop, 0, sizeof(*stop)));
  Spin<<<1, 1>>>(stop);
  CUDA_CHECK(cudaGetLastError());
}

[[noreturn]] void End(const std::string& how, const Taken& taken, int argc, char** argv,
                      int again) {
  if (how == "exit") std::exit(0);
  if (how == "free") {
    for (unsigned* piece : taken.pieces) CUDA_CHECK(cudaFree(piece));
    std::exit(0);
  }
  if (how == "abort") std::abort();
  if (how == "kill") raise(SIGKILL);
  if (how == "term") raise(SIGTERM);
  if (how == "thread") {
    std::thread([] { std::exit(0); }).join();
  }
  if (how == "exec") {
    if (again == 0) std::exit(0);
    const std::string next = "--again=" + std::to_string(again - 1);
    std::vector<char*> arguments;
    for (int i = 0; i < argc; ++i) {
      if (std::strncmp(argv[i], "--again=", 8) != 0) arguments.push_back(argv[i]);
    }
    arguments.push_back(const_cast<char*>(next.c_str()));
    arguments.push_back(nullptr);
    execv("/proc/self/exe", arguments.data());
    Fail("exec failed");
  }
  if (how == "fault") {
    WriteTo<<<1, 1>>>(reinterpret_cast<unsigned*>(0x40));
    if (cudaDeviceSynchronize() == cudaSuccess) Fail("a wild write succeeded");
    std::exit(0);
  }
  if (how == "reset") {
    CUDA_CHECK(cudaDeviceReset());
    std::exit(0);
  }
  if (how == "busy") {
    StartEndless();
    _exit(0);
  }
  if (how == "busy_kill") {
    StartEndless();
    raise(SIGKILL);
  }
  if (how == "orphan") _exit(0);
  Fail("unknown way of ending %s", how.c_str());
}

// Goes on in a child whose parent has ended.
void BecomeOrphan() {
  int alive[2];
  if (pipe(alive) != 0) Fail("no pipe");
  const pid_t child = fork();
  if (child < 0) Fail("no fork");
  if (child > 0) _exit(0);
  close(alive[1]);
  char none = 0;
  if (read(alive[0], &none, 1) != 0) Fail("the parent does not end");
  close(alive[0]);
}

// Leaves a child that has inherited all descriptors, and reads `until` to its end.
void LeaveChild(const char* until) {
  const pid_t child = fork();
  if (child < 0) Fail("no fork");
  if (child > 0) return;
  // The program's output ends with the program.
  close(0);
  close(1);
  close(2);
  const int fd = open(until, O_RDONLY);
  char byte = 0;
  while (fd >= 0 && read(fd, &byte, 1) > 0) {
  }
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "taker", "takes memory and ends in a given way");
  const auto percent = static_cast<int>(options.Number("percent", 90, "of the device's memory"));
  const auto piece_mib = options.Number("piece_mib", 0, "size of each piece; 0 for one piece");
  const std::string how = options.Text(
      "end", "exit",
      "exit, free, abort, kill, term, thread, exec, fault, reset, busy, busy_kill or orphan");
  const auto again = static_cast<int>(options.Number("again", 0, "rounds of exec left"));
  const std::string child_until =
      options.Text("child_until", "", "a FIFO: leaves a forked child that reads it to its end");
  options.Finish();
  if (how == "orphan") BecomeOrphan();
  const Taken taken = Take(percent, static_cast<size_t>(piece_mib) << 20);
  Say(taken);
  if (!child_until.empty()) LeaveChild(child_until.c_str());
  End(how, taken, argc, argv, again);
}
