// Addresses of memory that its owner has no more, and that a neighbour may have now.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/attack/tier/attack.h"
#include "tests/attack/tier/nodes.h"
#include "tests/attack/tier/successor.h"

namespace warpline::attack {
namespace {

constexpr size_t kBytes = 4096;
constexpr uint32_t kTrace = 0x0badf00d;

// A graph whose nodes name its memory at `stale`: what copies from there, fills it, and has a
// kernel read and write it. Those nodes that the client refuses are left out.
class StaleGraph {
 public:
  StaleGraph(const Home& home, CUdeviceptr stale) {
    CUgraph graph = nullptr;
    DRIVER(cuGraphCreate)(&graph, 0);
    CUgraphNode node = nullptr;
    const CUdeviceptr to = home.memory();
    nodes_ += AddCopy(&node, graph, to, stale, kBytes) == CUDA_SUCCESS;
    nodes_ += AddKernel(&node, graph, home, to + kBytes, stale, kBytes) == CUDA_SUCCESS;
    nodes_ += AddKernel(&node, graph, home, stale, to + 2 * kBytes, 64) == CUDA_SUCCESS;
    nodes_ += AddSet(&node, graph, stale + 1024, 64) == CUDA_SUCCESS;
    made_ = DRIVER(cuGraphInstantiateWithFlags)(&exec_, graph, 0);
  }

  std::string Launch(const Home& home) const {
    CUresult result = made_;
    if (result == CUDA_SUCCESS) result = DRIVER(cuGraphLaunch)(exec_, nullptr);
    if (result == CUDA_SUCCESS) result = home.Wait();
    return absl::StrCat("a graph of ", nodes_, " nodes: ", static_cast<int>(result));
  }

 private:
  CUgraphExec exec_ = nullptr;
  CUresult made_ = CUDA_SUCCESS;
  int nodes_ = 0;
};

// Reads and writes at the addresses, and says what came of it.
std::string Use(const Home& home, CUdeviceptr stale) {
  uint64_t from = stale, to = home.memory() + 3 * kBytes;
  uint32_t words = kBytes / 4, few = 16, value = kTrace;
  const CUresult read = home.Launch("copy", {&from, &to, &words});
  const CUresult copied =
      DRIVER(cuMemcpyDtoDAsync_v2)(home.memory() + 4 * kBytes, stale, kBytes, nullptr);
  const CUresult written = home.Launch("fill", {&from, &few, &value});
  const CUresult filled = DRIVER(cuMemsetD32Async)(stale, kTrace, few, nullptr);
  const CUresult done = home.Wait();
  return absl::StrCat("a kernel read: ", int{read}, ", a copy ", int{copied},
                      ", a kernel wrote: ", int{written}, ", a fill ", int{filled}, ", then ",
                      int{done});
}

absl::StatusOr<Loot> Judged(const Home& home, Successor* next, const std::string& detail) {
  const std::string end = next->End();
  return Loot{home.ReadMemory(), absl::StrCat(detail, "; who has it now: ", end), end != "intact"};
}

// The attacker's first session ends, a neighbour gets the same addresses, and the attacker's next
// session uses what it knows of the first.
absl::StatusOr<Loot> OfAnEndedSession(Home* home, const TierTarget& target) {
  const uint64_t arena = Successor::OwnArena();
  auto former = Successor::Start(target, arena);
  if (!former.ok()) return former.status();
  const uint64_t stale = (*former)->memory();
  const StaleGraph graph(*home, stale);
  former->reset();
  auto next = Successor::Start(target, arena);
  if (!next.ok()) return next.status();
  const std::string launched = graph.Launch(*home);
  return Judged(*home, next->get(), absl::StrCat(launched, "; ", Use(*home, stale)));
}

// The attacker frees memory while it goes on, and a neighbour takes what there is to be had.
absl::StatusOr<Loot> OfFreedMemory(Home* home, const TierTarget& target) {
  CUdeviceptr stale = 0, pooled = 0;
  if (DRIVER(cuMemAlloc_v2)(&stale, 1 << 20) != CUDA_SUCCESS ||
      DRIVER(cuMemAllocAsync)(&pooled, 1 << 20, nullptr) != CUDA_SUCCESS) {
    return absl::InternalError("no memory");
  }
  const StaleGraph graph(*home, stale), of_pooled(*home, pooled);
  // Copies that were queued before the memory is freed, and some behind that.
  const CUdeviceptr to = home->memory() + 5 * kBytes;
  DRIVER(cuMemcpyDtoDAsync_v2)(to, pooled, kBytes, nullptr);
  const CUresult freed = DRIVER(cuMemFreeAsync)(pooled, nullptr);
  const CUresult behind = DRIVER(cuMemcpyDtoDAsync_v2)(to, pooled, kBytes, nullptr);
  if (freed != CUDA_SUCCESS || DRIVER(cuMemFree_v2)(stale) != CUDA_SUCCESS) {
    return absl::InternalError("the memory is not freed");
  }
  auto next = Successor::Start(target, Successor::OwnArena());
  if (!next.ok()) return next.status();
  std::string detail = absl::StrCat("a copy behind the free: ", int{behind}, "; ");
  for (const StaleGraph* each : {&graph, &of_pooled}) {
    absl::StrAppend(&detail, each->Launch(*home), "; ");
  }
  for (const CUdeviceptr each : {stale, pooled}) absl::StrAppend(&detail, Use(*home, each), "; ");
  return Judged(*home, next->get(), detail);
}

constexpr TierAttack kAttacks[] = {
    {"stale_addresses_of_an_ended_session", &OfAnEndedSession},
    {"stale_addresses_of_freed_memory", &OfFreedMemory},
};

}  // namespace

absl::Span<const TierAttack> StaleAttacks() { return kAttacks; }

}  // namespace warpline::attack
