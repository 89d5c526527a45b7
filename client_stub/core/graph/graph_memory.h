// Memory that graphs allocate: its address is fixed when the node is made, and the arena's memory
// behind it stays as long as a graph has the node or the application has not freed it. In between a
// launch makes it the application's ("live") and a free, by a node or a call, takes it back.
#ifndef WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_MEMORY_H_
#define WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_MEMORY_H_

#include <cstdint>
#include <memory>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/device.h"

namespace warpline::stub {

// What a node holds: its end gives the memory back. Thread-safe, as all of this.
class GraphAllocation {
 public:
  explicit GraphAllocation(uint64_t address) : address_(address) {}
  ~GraphAllocation();
  GraphAllocation(const GraphAllocation&) = delete;
  GraphAllocation& operator=(const GraphAllocation&) = delete;

  uint64_t address() const { return address_; }

 private:
  const uint64_t address_;
};

// On a device, for the graph of that id. CUDA_ERROR_OUT_OF_MEMORY.
CUresult AllocateForGraph(const Device& device, uint64_t graph, uint64_t bytes,
                          std::shared_ptr<GraphAllocation>* allocation);

// A free node of graph `graph`. CUDA_ERROR_INVALID_VALUE for what is no such memory, or has a free
// node in a way that excludes this one.
CUresult NoteGraphFreeNode(uint64_t graph, uint64_t address);

// A launch gets to a node.
bool IsGraphMemoryLive(uint64_t address);
void SetGraphMemoryLive(uint64_t address, bool live);

// For cuMemFree and cuMemFreeAsync: false when `address` is not memory of a graph. Otherwise
// `*result` is what the call returns.
bool FreeGraphMemory(uint64_t address, CUresult* result);

// As cuDeviceGetGraphMemAttribute and cuDeviceSetGraphMemAttribute.
CUresult GetGraphMemoryAttribute(const Device& device, CUgraphMem_attribute attribute,
                                 uint64_t* value);
CUresult ResetGraphMemoryAttribute(const Device& device, CUgraphMem_attribute attribute);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_MEMORY_H_
