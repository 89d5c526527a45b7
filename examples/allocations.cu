// Takes gigabytes of device memory in mixed sizes, marks the first and last words of every
// allocation from a kernel, and checks that no allocation overlaps another; then frees and takes
// again, in part and in whole. Only the marks are touched and only the list of addresses is copied.
#include <algorithm>
#include <vector>

#include "check.h"

namespace {

struct Allocation {
  unsigned long long* memory;
  unsigned long long words;
  unsigned long long tag;
};

__global__ void Mark(const Allocation* allocations, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const Allocation a = allocations[i];
  for (int k = 0; k < 4; ++k) {
    a.memory[k] = a.tag + k;
    a.memory[a.words - 1 - k] = ~a.tag - k;
  }
}

__global__ void CountWrongMarks(const Allocation* allocations, int count, unsigned* wrong) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const Allocation a = allocations[i];
  for (int k = 0; k < 4; ++k) {
    if (a.memory[k] != a.tag + k) atomicAdd(wrong, 1u);
    if (a.memory[a.words - 1 - k] != ~a.tag - k) atomicAdd(wrong, 1u);
  }
}

unsigned NextRandom(unsigned* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

// Returns a size from 256 bytes to 512 MiB, spread evenly over the powers of two, in whole 64-bit
// words.
size_t NextSize(unsigned* state) {
  const unsigned power = 8 + NextRandom(state) % 22;
  const size_t base = size_t{1} << power;
  if (power == 29) return base;
  return base + NextRandom(state) % base / 8 * 8;
}

class Holder {
 public:
  Holder() { CUDA_CHECK(cudaMalloc(&wrong_, sizeof(unsigned))); }

  // Takes allocations until `bytes` are held in all.
  void TakeUpTo(size_t bytes) {
    while (held_bytes_ + 256 <= bytes) {
      const size_t size = std::min(NextSize(&random_), bytes - held_bytes_);
      Allocation a;
      a.words = size / 8;
      a.tag = 0x5741500000000000ull + 0x10000ull * ++taken_;
      CUDA_CHECK(cudaMalloc(&a.memory, a.words * 8));
      held_bytes_ += a.words * 8;
      held_.push_back(a);
    }
    most_held_ = std::max(most_held_, held_.size());
  }

  // Frees every `step`-th allocation, the later ones first.
  void Drop(size_t step) {
    for (size_t i = held_.size(); i-- > 0;) {
      if (i % step != 0) continue;
      CUDA_CHECK(cudaFree(held_[i].memory));
      held_bytes_ -= held_[i].words * 8;
      held_[i] = held_.back();
      held_.pop_back();
    }
  }

  // Marks what is held now. Marks made before stay as they were if nothing overlaps.
  void MarkAll() {
    Allocation* list = CopyList();
    Mark<<<(Count() + 127) / 128, 128>>>(list, Count());
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaFree(list));
  }

  void Check(const char* when) {
    std::vector<Allocation> sorted = held_;
    std::sort(sorted.begin(), sorted.end(),
              [](const Allocation& a, const Allocation& b) { return a.memory < b.memory; });
    for (size_t i = 0; i + 1 < sorted.size(); ++i) {
      examples::Expect(sorted[i].memory + sorted[i].words <= sorted[i + 1].memory,
                       "%s: %p of %llu bytes reaches into %p", when,
                       static_cast<void*>(sorted[i].memory), sorted[i].words * 8,
                       static_cast<void*>(sorted[i + 1].memory));
    }
    for (const Allocation& a : held_) {
      examples::Expect(reinterpret_cast<size_t>(a.memory) % 256 == 0, "%s: %p is not aligned", when,
                       static_cast<void*>(a.memory));
    }
    unsigned wrong = 0;
    Allocation* list = CopyList();
    CUDA_CHECK(cudaMemset(wrong_, 0, sizeof(unsigned)));
    CountWrongMarks<<<(Count() + 127) / 128, 128>>>(list, Count(), wrong_);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaMemcpy(&wrong, wrong_, sizeof(unsigned), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(list));
    examples::Expect(wrong == 0, "%s: %u marks are wrong", when, wrong);
  }

  size_t most_held() const { return most_held_; }

 private:
  int Count() const { return static_cast<int>(held_.size()); }

  Allocation* CopyList() {
    Allocation* list;
    const size_t bytes = held_.size() * sizeof(Allocation);
    CUDA_CHECK(cudaMalloc(&list, bytes));
    CUDA_CHECK(cudaMemcpy(list, held_.data(), bytes, cudaMemcpyHostToDevice));
    return list;
  }

  std::vector<Allocation> held_;
  size_t held_bytes_ = 0;
  size_t most_held_ = 0;
  unsigned long long taken_ = 0;
  unsigned random_ = 2024;
  unsigned* wrong_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "allocations",
                            "gigabytes in mixed sizes, 256 B to 512 MiB");
  const long long gib = options.Number("gib", 4, "GiB to hold at once");
  const long long rounds = options.Number("rounds", 2, "times to take all of it");
  options.Finish();
  if (gib < 1) examples::Fail("--gib must be at least 1");

  const size_t bytes = static_cast<size_t>(gib) << 30;
  Holder holder;
  for (long long round = 0; round < rounds; ++round) {
    holder.TakeUpTo(bytes);
    holder.MarkAll();
    holder.Check("all taken");
    holder.Drop(2);
    holder.Check("half freed");
    holder.TakeUpTo(bytes);
    holder.MarkAll();
    holder.Check("half taken again");
    holder.Drop(1);
  }
  return examples::Report("%lld GiB in up to %zu allocations, %lld rounds", gib, holder.most_held(),
                          rounds);
}
