// Memory that graphs allocate. Its address is fixed when the node is made. The arena's memory
// behind it stays as long as a graph has the node or the application has not freed it. In between,
// a launch makes it the application's ("live"), and a free, by a node or a call, takes it back.
//
// Everything here is thread-safe.
#ifndef WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_MEMORY_H_
#define WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_MEMORY_H_

#include <cstdint>
#include <memory>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/device.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// A node's hold on its memory. Its destructor gives the memory back unless the memory is live.
class GraphAllocation {
 public:
  GraphAllocation(uint64_t address, uint64_t id) : address_(address), id_(id) {}
  ~GraphAllocation();
  GraphAllocation(const GraphAllocation&) = delete;
  GraphAllocation& operator=(const GraphAllocation&) = delete;

  uint64_t address() const { return address_; }

 private:
  const uint64_t address_;
  const uint64_t id_;  // Later memory at this address has another one.
};

// Allocates memory on a device for the graph with the id `graph`. CUDA_ERROR_INVALID_VALUE for 0
// bytes, CUDA_ERROR_OUT_OF_MEMORY when there is none.
CUresult AllocateForGraph(const Device& device, uint64_t graph, uint64_t bytes,
                          std::shared_ptr<GraphAllocation>* allocation);

// Forgets what `context` had. Its memory is given back with the rest of the context's.
void ForgetGraphMemoryOf(const Context* context);

// Works like cuDeviceGraphMemTrim. It gives nothing back: the memory of a node stays while the node
// does.
void TrimGraphMemory(const Device& device);

// Notes that graph `graph` has a free node for the memory at `address`. CUDA_ERROR_INVALID_VALUE
// where that is no memory of a graph, or has a free node that excludes this one.
CUresult NoteGraphFreeNode(uint64_t graph, uint64_t address);

// Used when a launch reaches a node.
bool IsGraphMemoryLive(uint64_t address);
void SetGraphMemoryLive(uint64_t address, bool live);

// For cuMemFree and cuMemFreeAsync. Returns false when `address` is not memory of a graph;
// otherwise `*result` is the value that the call returns.
bool FreeGraphMemory(uint64_t address, CUresult* result);

// Work like cuDeviceGetGraphMemAttribute and cuDeviceSetGraphMemAttribute.
CUresult GetGraphMemoryAttribute(const Device& device, CUgraphMem_attribute attribute,
                                 uint64_t* value);
CUresult ResetGraphMemoryAttribute(const Device& device, CUgraphMem_attribute attribute);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_MEMORY_H_
