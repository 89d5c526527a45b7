// Addresses of memory that its owner has no more, and that a neighbour may have now.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/attack/tier/attack.h"
#include "tests/attack/tier/nodes.h"
#include "tests/attack/tier/successor.h"

namespace warpline::attack {
namespace {

constexpr size_t kBytes = 4096, kFewBytes = 64;
constexpr uint32_t kTrace = 0x0badf00d;

// Graphs of a node each, which name its memory at `stale`: one copies from there, one fills it, and
// kernels read and write it.
class StaleGraphs {
 public:
  StaleGraphs(const Home& home, CUdeviceptr stale) {
    const CUdeviceptr to = home.memory();
    Add([&](CUgraphNode* node, CUgraph graph) { return AddCopy(node, graph, to, stale, kBytes); });
    Add([&](CUgraphNode* node, CUgraph graph) { return AddSet(node, graph, stale, kFewBytes); });
    Add([&](CUgraphNode* node, CUgraph graph) {
      return AddKernel(node, graph, home, to + kBytes, stale, kBytes);
    });
    Add([&](CUgraphNode* node, CUgraph graph) {
      return AddKernel(node, graph, home, stale, to + 2 * kBytes, kFewBytes);
    });
  }

  // Launches those that could be made, and says what came of each.
  std::string Launch(const Home& home) const {
    std::string text = "graphs that copy, fill, read and write:";
    for (const Graph& graph : graphs_) {
      CUresult result = graph.made;
      if (result == CUDA_SUCCESS) result = DRIVER(cuGraphLaunch)(graph.exec, nullptr);
      if (result == CUDA_SUCCESS) result = home.Wait();
      absl::StrAppend(&text, " ", int{result});
    }
    return text;
  }

 private:
  struct Graph {
    CUgraphExec exec = nullptr;
    CUresult made = CUDA_SUCCESS;
  };

  template <typename AddNode>
  void Add(AddNode add) {
    Graph made;
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    made.made = DRIVER(cuGraphCreate)(&graph, 0);
    if (made.made == CUDA_SUCCESS) made.made = add(&node, graph);
    if (made.made == CUDA_SUCCESS) {
      made.made = DRIVER(cuGraphInstantiateWithFlags)(&made.exec, graph, 0);
    }
    graphs_.push_back(made);
  }

  std::vector<Graph> graphs_;
};

// Reads and writes at the addresses, and says what came of it.
std::string Use(const Home& home, CUdeviceptr stale) {
  uint64_t from = stale, to = home.memory() + 3 * kBytes;
  uint32_t words = kBytes / 4, few = kFewBytes / 4, value = kTrace;
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
  const StaleGraphs graphs(*home, stale);
  former->reset();
  auto next = Successor::Start(target, arena);
  if (!next.ok()) return next.status();
  const std::string launched = graphs.Launch(*home);
  return Judged(*home, next->get(), absl::StrCat(launched, "; ", Use(*home, stale)));
}

// The attacker frees memory while it goes on, and a neighbour takes what there is to be had.
absl::StatusOr<Loot> OfFreedMemory(Home* home, const TierTarget& target) {
  CUdeviceptr stale = 0, pooled = 0;
  if (DRIVER(cuMemAlloc_v2)(&stale, 1 << 20) != CUDA_SUCCESS ||
      DRIVER(cuMemAllocAsync)(&pooled, 1 << 20, nullptr) != CUDA_SUCCESS) {
    return absl::InternalError("no memory");
  }
  const StaleGraphs graphs(*home, stale), of_pooled(*home, pooled);
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
  for (const StaleGraphs* each : {&graphs, &of_pooled}) {
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
