// Graphs whose nodes name a neighbour's addresses, from the start or once they are made.
#include "absl/strings/str_cat.h"
#include "tests/attack/tier/attack.h"
#include "tests/attack/tier/nodes.h"

namespace warpline::attack {
namespace {

constexpr size_t kBytes = 1024;

// Runs a graph as it was made, if it was.
absl::StatusOr<Loot> Launch(Home* home, CUresult made, CUgraph graph, const char* what) {
  CUgraphExec exec = nullptr;
  if (made == CUDA_SUCCESS) made = DRIVER(cuGraphInstantiateWithFlags)(&exec, graph, 0);
  if (made != CUDA_SUCCESS) {
    return Loot{home->ReadMemory(), absl::StrCat(what, " refused with CUDA error ", int{made})};
  }
  CUresult result = DRIVER(cuGraphLaunch)(exec, nullptr);
  if (result == CUDA_SUCCESS) result = home->Wait();
  return Loot{home->ReadMemory(), absl::StrCat(what, " launched: CUDA error ", int{result})};
}

// A graph of one node.
template <typename Add>
absl::StatusOr<Loot> OfNode(Home* home, const char* what, Add add) {
  CUgraph graph = nullptr;
  if (DRIVER(cuGraphCreate)(&graph, 0) != CUDA_SUCCESS) return absl::InternalError("no graph");
  CUgraphNode node = nullptr;
  return Launch(home, add(&node, graph), graph, what);
}

absl::StatusOr<Loot> CopyNode(Home* home, const TierTarget& target) {
  return OfNode(home, "a copy from there", [&](CUgraphNode* node, CUgraph graph) {
    return AddCopy(node, graph, home->memory(), target.neighbour->memory, kBytes);
  });
}

absl::StatusOr<Loot> CopyToNode(Home* home, const TierTarget& target) {
  return OfNode(home, "a copy to there", [&](CUgraphNode* node, CUgraph graph) {
    return AddCopy(node, graph, target.neighbour->memory, home->memory(), kBytes);
  });
}

absl::StatusOr<Loot> SetNode(Home* home, const TierTarget& target) {
  return OfNode(home, "a fill of what is there", [&](CUgraphNode* node, CUgraph graph) {
    return AddSet(node, graph, target.neighbour->memory, kBytes);
  });
}

absl::StatusOr<Loot> KernelNode(Home* home, const TierTarget& target) {
  return OfNode(home, "a kernel that reads there", [&](CUgraphNode* node, CUgraph graph) {
    return AddKernel(node, graph, *home, home->memory(), target.neighbour->memory, kBytes);
  });
}

absl::StatusOr<Loot> KernelToNode(Home* home, const TierTarget& target) {
  return OfNode(home, "a kernel that writes there", [&](CUgraphNode* node, CUgraph graph) {
    return AddKernel(node, graph, *home, target.neighbour->memory, home->memory(), kBytes);
  });
}

absl::StatusOr<Loot> Captured(Home* home, const TierTarget& target) {
  CUstream stream = nullptr;
  if (DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
      DRIVER(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS) {
    return absl::InternalError("no capture");
  }
  const uint64_t there = target.neighbour->memory;
  uint64_t from = target.neighbour->variable, to = home->memory() + kBytes;
  uint32_t words = kBytes / 4;
  const CUresult copied = DRIVER(cuMemcpyDtoDAsync_v2)(home->memory(), there, kBytes, stream);
  const CUresult set = DRIVER(cuMemsetD32Async)(there, 7, words, stream);
  const CUresult launched = home->Launch("copy", {&from, &to, &words}, stream);
  CUgraph graph = nullptr;
  const CUresult ended = DRIVER(cuStreamEndCapture)(stream, &graph);
  return Launch(home, ended, graph,
                absl::StrCat("captured: copy ", int{copied}, ", fill ", int{set}, ", kernel ",
                             int{launched}, ";")
                    .c_str());
}

// Launches a graph of one node that was made with its own addresses, after they were changed.
template <typename Add, typename Change>
absl::StatusOr<Loot> Changed(Home* home, Add add, Change change) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  if (DRIVER(cuGraphCreate)(&graph, 0) != CUDA_SUCCESS || add(&node, graph) != CUDA_SUCCESS ||
      DRIVER(cuGraphInstantiateWithFlags)(&exec, graph, 0) != CUDA_SUCCESS) {
    return absl::InternalError("no graph of its own");
  }
  const CUresult changed = change(exec, node);
  CUresult result = DRIVER(cuGraphLaunch)(exec, nullptr);
  if (result == CUDA_SUCCESS) result = home->Wait();
  return Loot{home->ReadMemory(),
              absl::StrCat("changed: ", int{changed}, ", then launched: ", int{result})};
}

absl::StatusOr<Loot> ChangedCopy(Home* home, const TierTarget& target) {
  const CUdeviceptr own = home->memory(), other = own + Home::kBytes / 2;
  return Changed(
      home,
      [&](CUgraphNode* node, CUgraph graph) { return AddCopy(node, graph, own, other, kBytes); },
      [&](CUgraphExec exec, CUgraphNode node) {
        return ChangeCopy(exec, node, own, target.neighbour->memory, kBytes);
      });
}

absl::StatusOr<Loot> ChangedSet(Home* home, const TierTarget& target) {
  return Changed(
      home,
      [&](CUgraphNode* node, CUgraph graph) { return AddSet(node, graph, home->memory(), kBytes); },
      [&](CUgraphExec exec, CUgraphNode node) {
        return ChangeSet(exec, node, target.neighbour->memory, kBytes);
      });
}

absl::StatusOr<Loot> ChangedKernel(Home* home, const TierTarget& target) {
  const CUdeviceptr own = home->memory(), other = own + Home::kBytes / 2;
  return Changed(
      home,
      [&](CUgraphNode* node, CUgraph graph) {
        return AddKernel(node, graph, *home, own, other, kBytes);
      },
      [&](CUgraphExec exec, CUgraphNode node) {
        return ChangeKernel(exec, node, *home, own, target.neighbour->variable, kBytes);
      });
}

constexpr TierAttack kAttacks[] = {
    {"graph_copies_from_there", &CopyNode},
    {"graph_copies_to_there", &CopyToNode},
    {"graph_fills_there", &SetNode},
    {"graph_kernel_reads_there", &KernelNode},
    {"graph_kernel_writes_there", &KernelToNode},
    {"graph_captured", &Captured},
    {"graph_changed_to_copy_from_there", &ChangedCopy},
    {"graph_changed_to_fill_there", &ChangedSet},
    {"graph_changed_to_read_there", &ChangedKernel},
};

}  // namespace

absl::Span<const TierAttack> GraphAttacks() { return kAttacks; }

}  // namespace warpline::attack
