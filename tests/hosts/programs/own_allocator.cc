// Has its own operator new and delete, which notice memory that is not theirs.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "workload.h"

namespace {

constexpr unsigned long long kMark = 0x5741525057415250ull;
std::atomic<long> g_live{0};

void* Allocate(std::size_t bytes) {
  auto* const start = static_cast<unsigned long long*>(std::malloc(bytes + 16));
  if (start == nullptr) std::abort();
  start[0] = kMark;
  ++g_live;
  return start + 2;
}

void Release(void* memory) {
  if (memory == nullptr) return;
  auto* const start = static_cast<unsigned long long*>(memory) - 2;
  if (start[0] != kMark) {
    std::fputs("workload: somebody else's memory came to our operator delete\n", stderr);
    std::abort();
  }
  start[0] = 0;
  --g_live;
  std::free(start);
}

}  // namespace

void* operator new(std::size_t bytes) { return Allocate(bytes); }
void* operator new[](std::size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { Release(memory); }
void operator delete[](void* memory) noexcept { Release(memory); }
void operator delete(void* memory, std::size_t) noexcept { Release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { Release(memory); }

int main() {
  std::vector<std::string> own(1000, "a string that is too long to be kept inside");
  const long before = g_live;
  if (RunWorkload(3) != 0) return 1;
  if (g_live != before) return WorkloadFailed("our operator new was used by others", 0);
  own.clear();
  std::puts("host: ok");
  return 0;
}
