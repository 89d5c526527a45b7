// A program of several processes, each of which uses CUDA: a small version of what torchrun starts.
// The parent uses no CUDA itself, not even for the names of errors, since that would open a session
// of its own; it tells its children what to do, one after another.
//
// First each takes --gib/--processes; all together then hold --gib, which is to be their lease's
// quota. Then each asks for one GiB more and has to be refused. With --held=1 all go on working
// until the program is let go (examples/held.h);
// when one fails meanwhile, the program says how and ends with status 3. Then one process ends, and
// another takes what it held.
#include <sys/wait.h>

#include <vector>

#include "../../examples/check.h"
#include "../../examples/held.h"

namespace {

constexpr size_t kGiB = size_t{1} << 30;

__global__ void Fill(unsigned* words, size_t count, unsigned value) {
  const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  if (i < count) words[i] = value;
}

// Orders to a child: to allocate so many bytes, or one of these.
constexpr size_t kEnd = 0;
constexpr size_t kWork = 1;

struct Order {
  size_t bytes;
};

// Allocates, writes the first and last MiB and reads a word of each back. Returns the error.
int Take(size_t bytes, unsigned value) {
  char* memory = nullptr;
  cudaError_t result = cudaMalloc(&memory, bytes);
  if (result != cudaSuccess) {
    (void)cudaGetLastError();
    return result;
  }
  constexpr size_t kWords = (1 << 20) / sizeof(unsigned);
  for (char* part : {memory, memory + bytes - (1 << 20)}) {
    unsigned seen = 0;
    Fill<<<kWords / 256, 256>>>(reinterpret_cast<unsigned*>(part), kWords, value);
    result =
        cudaMemcpy(&seen, part + (1 << 20) - sizeof(seen), sizeof(seen), cudaMemcpyDeviceToHost);
    if (result != cudaSuccess) return result;
    if (seen != value) return cudaErrorUnknown;
  }
  return cudaSuccess;
}

int Work() {
  static unsigned* words = nullptr;
  if (words == nullptr) {
    const cudaError_t result = cudaMalloc(&words, 4096);
    if (result != cudaSuccess) return result;
  }
  Fill<<<4, 256>>>(words, 1024, 1);
  return cudaDeviceSynchronize();
}

class Child {
 public:
  explicit Child(unsigned number) {
    int to[2];
    int from[2];
    if (pipe(to) != 0 || pipe(from) != 0) examples::Fail("no pipes");
    pid_ = fork();
    if (pid_ == 0) {
      close(to[1]);
      close(from[0]);
      Serve(to[0], from[1], number);
    }
    close(to[0]);
    close(from[1]);
    to_ = to[1];
    from_ = from[0];
  }

  int Ask(size_t bytes) {
    const Order order = {bytes};
    int result = 0;
    if (write(to_, &order, sizeof(order)) != sizeof(order) ||
        read(from_, &result, sizeof(result)) != sizeof(result)) {
      examples::Fail("a child ended early");
    }
    return result;
  }

  void End() {
    const Order order = {kEnd};
    int status = 1;
    if (write(to_, &order, sizeof(order)) != sizeof(order) || waitpid(pid_, &status, 0) != pid_) {
      examples::Fail("a child ended early");
    }
    examples::Expect(status == 0, "a child ended with status %d", status);
  }

 private:
  [[noreturn]] static void Serve(int from, int to, unsigned number) {
    Order order;
    while (read(from, &order, sizeof(order)) == sizeof(order) && order.bytes != kEnd) {
      const int result = order.bytes == kWork ? Work() : Take(order.bytes, number + 1);
      if (write(to, &result, sizeof(result)) != sizeof(result)) break;
    }
    std::exit(0);
  }

  pid_t pid_ = 0;
  int to_ = -1;
  int from_ = -1;
};

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "lease_tree", "processes that share one quota");
  const long long processes = options.Number("processes", 4, "how many");
  const long long gib = options.Number("gib", 4, "the quota in GiB");
  const long long held = options.Number("held", 0, "1 to go on working until its input ends");
  const long long share_mib = options.Number("share_mib", 0, "of each process, in place of --gib");
  options.Finish();
  if (processes < 1 || gib < 1) examples::Fail("--processes and --gib must be at least 1");

  std::vector<Child> children;
  for (long long i = 0; i < processes; ++i) children.emplace_back(static_cast<unsigned>(i));
  const size_t share =
      share_mib > 0 ? static_cast<size_t>(share_mib) << 20 : gib * kGiB / processes;
  for (long long i = 0; i < processes; ++i) {
    const int result = children[i].Ask(share);
    examples::Expect(result == cudaSuccess, "process %lld got error %d for its share", i, result);
  }
  if (held != 0) SayThatItGoesOn("lease_tree");
  for (; held != 0 && IsHeld(); usleep(10000)) {
    for (Child& child : children) {
      const int result = child.Ask(kWork);
      if (result == cudaSuccess) continue;
      std::printf("lease_tree: lost (error %d)\n", result);
      std::fflush(stdout);
      std::_Exit(3);
    }
  }
  for (long long i = 0; share_mib == 0 && i < processes; ++i) {
    const int result = children[i].Ask(kGiB);
    examples::Expect(result == cudaErrorMemoryAllocation,
                     "process %lld got error %d for a GiB above the quota", i, result);
  }
  children.front().End();
  if (processes > 1) {
    int result = cudaErrorMemoryAllocation;
    // The server takes the memory back when the process is gone.
    for (int tries = 0; tries < 2400 && result != cudaSuccess; ++tries) {
      usleep(50000);
      result = children.back().Ask(share);
    }
    examples::Expect(result == cudaSuccess, "what a process held is not there for the others");
  }
  for (size_t i = 1; i < children.size(); ++i) children[i].End();
  if (examples::g_failed_checks != 0) examples::Fail("%d checks failed", examples::g_failed_checks);
  std::printf("lease_tree: ok (%lld processes, %lld GiB)\n", processes, gib);
  return 0;
}
