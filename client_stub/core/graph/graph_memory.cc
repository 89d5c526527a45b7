#include "client_stub/core/graph/graph_memory.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "absl/container/flat_hash_map.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/runtime/thread_state.h"
#include "common/mutex.h"

namespace warpline::stub {
namespace {

struct Block {
  uint64_t bytes = 0;
  uint64_t graph = 0;
  uint32_t device = 0;
  const Context* context = nullptr;  // It ends with this context.
  uint64_t id = 0;                   // Tells it from later blocks at its address.
  uint64_t freed_by = 0;             // The graph with a free node for it.
  bool live = false;
  bool has_node = true;
  bool counted = false;  // In Usage.
};

// The figures that CUDA gives for one device's graph memory. A block counts from its first launch
// on, live or not, until the application trims memory while it is not live. So does a block that is
// gone, unless another one takes its place.
struct Usage {
  uint64_t gone = 0;  // The bytes of blocks that are gone and still count.
  uint64_t used = 0;
  uint64_t used_high = 0;
  uint64_t reserved = 0;
  uint64_t reserved_high = 0;
};

// Never destroyed.
struct Books {
  Mutex mu;
  absl::flat_hash_map<uint64_t, Block> blocks ABSL_GUARDED_BY(mu);  // By address.
  std::array<Usage, kMaxSessionDevices> usage ABSL_GUARDED_BY(mu);
  uint64_t last_id ABSL_GUARDED_BY(mu) = 0;
};

Books& books() {
  static Books* const made = new Books;
  return *made;
}

// The number of blocks. Frees need not look into the books while there are none.
std::atomic<uint64_t> g_blocks{0};

void Count(Books& b, Block* block, bool counted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(b.mu) {
  if (block->counted == counted) return;
  block->counted = counted;
  Usage& usage = b.usage[block->device];
  const uint64_t replaced = counted ? std::min(usage.gone, block->bytes) : 0;
  usage.gone -= replaced;
  for (uint64_t* const sum : {&usage.used, &usage.reserved}) {
    *sum = counted ? *sum + block->bytes - replaced : *sum - block->bytes;
  }
  usage.used_high = std::max(usage.used_high, usage.used);
  usage.reserved_high = std::max(usage.reserved_high, usage.reserved);
}

void SetLive(Books& b, Block* block, bool live) ABSL_EXCLUSIVE_LOCKS_REQUIRED(b.mu) {
  block->live = live;
  if (live) Count(b, block, true);
}

// Ends the counting of blocks that are gone.
void CountNoneGone(Usage* usage) {
  usage->used -= usage->gone;
  usage->reserved -= usage->gone;
  usage->gone = 0;
}

using Blocks = absl::flat_hash_map<uint64_t, Block>;
void Drop(Books& b, Blocks::iterator it) ABSL_EXCLUSIVE_LOCKS_REQUIRED(b.mu) {
  if (it->second.counted) b.usage[it->second.device].gone += it->second.bytes;
  b.blocks.erase(it);
  g_blocks.store(b.blocks.size(), std::memory_order_relaxed);
}

// Returns true when the block is no longer needed; the caller then frees its memory.
bool DropIfUnused(Books& b, uint64_t address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(b.mu) {
  const auto it = b.blocks.find(address);
  if (it == b.blocks.end() || it->second.live || it->second.has_node) return false;
  Drop(b, it);
  return true;
}

}  // namespace

GraphAllocation::~GraphAllocation() {
  Books& b = books();
  bool unused = false;
  {
    MutexLock lock(&b.mu);
    const auto it = b.blocks.find(address_);
    if (it != b.blocks.end() && it->second.id == id_) {
      it->second.has_node = false;
      unused = DropIfUnused(b, address_);
    }
  }
  if (unused && EnterInitialized() == CUDA_SUCCESS) runtime().memory->Free(address_);
}

CUresult AllocateForGraph(const Device& device, uint64_t graph, uint64_t bytes,
                          std::shared_ptr<GraphAllocation>* allocation) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address;
  Context* const current = t_thread.current;
  const Context* const owner =
      current != nullptr && current->device == &device ? OwnerOf(current) : device.primary;
  WARPLINE_TRY(runtime().memory->Allocate(device.number, owner, bytes, &address));
  Books& b = books();
  uint64_t id;
  {
    MutexLock lock(&b.mu);
    id = ++b.last_id;
    b.blocks[address] = {bytes, graph, device.number, owner, id};
    g_blocks.store(b.blocks.size(), std::memory_order_relaxed);
  }
  *allocation = std::make_shared<GraphAllocation>(address, id);
  return CUDA_SUCCESS;
}

void ForgetGraphMemoryOf(const Context* context) {
  Books& b = books();
  MutexLock lock(&b.mu);
  for (auto it = b.blocks.begin(); it != b.blocks.end();) {
    const auto block = it++;
    if (block->second.context == context) Drop(b, block);
  }
  CountNoneGone(&b.usage[context->device->number]);
}

void TrimGraphMemory(const Device& device) {
  Books& b = books();
  MutexLock lock(&b.mu);
  for (auto& [address, block] : b.blocks) {
    if (block.device == device.number && !block.live) Count(b, &block, false);
  }
  CountNoneGone(&b.usage[device.number]);
}

CUresult NoteGraphFreeNode(uint64_t graph, uint64_t address) {
  Books& b = books();
  MutexLock lock(&b.mu);
  const auto it = b.blocks.find(address);
  if (it == b.blocks.end()) return CUDA_ERROR_INVALID_VALUE;
  uint64_t& freed_by = it->second.freed_by;
  // Memory may be freed once in its own graph, or in other graphs, but not in both.
  const bool own = graph == it->second.graph;
  if (freed_by != 0 && (own || freed_by == it->second.graph || freed_by == graph)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  freed_by = graph;
  return CUDA_SUCCESS;
}

bool IsGraphMemoryLive(uint64_t address) {
  Books& b = books();
  MutexLock lock(&b.mu);
  const auto it = b.blocks.find(address);
  return it != b.blocks.end() && it->second.live;
}

void SetGraphMemoryLive(uint64_t address, bool live) {
  Books& b = books();
  bool unused = false;
  {
    MutexLock lock(&b.mu);
    const auto it = b.blocks.find(address);
    if (it == b.blocks.end()) return;
    SetLive(b, &it->second, live);
    unused = DropIfUnused(b, address);
  }
  if (unused) runtime().memory->Free(address);
}

bool FreeGraphMemory(uint64_t address, CUresult* result) {
  if (g_blocks.load(std::memory_order_relaxed) == 0) return false;
  Books& b = books();
  {
    MutexLock lock(&b.mu);
    const auto it = b.blocks.find(address);
    if (it == b.blocks.end()) return false;
    // The application may not free memory that its own graph frees.
    const bool free = it->second.live && it->second.freed_by != it->second.graph;
    *result = free ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!free) return true;
  }
  SetGraphMemoryLive(address, false);
  return true;
}

CUresult GetGraphMemoryAttribute(const Device& device, CUgraphMem_attribute attribute,
                                 uint64_t* value) {
  Books& b = books();
  MutexLock lock(&b.mu);
  const Usage& usage = b.usage[device.number];
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      *value = usage.used;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      *value = usage.used_high;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      *value = usage.reserved;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      *value = usage.reserved_high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult ResetGraphMemoryAttribute(const Device& device, CUgraphMem_attribute attribute) {
  Books& b = books();
  MutexLock lock(&b.mu);
  Usage& usage = b.usage[device.number];
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      usage.used_high = usage.used;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      usage.reserved_high = usage.reserved;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace warpline::stub
