// The objects of a session, by the handles that its client chose.
#ifndef WARPLINE_SERVER_WORKER_COMMANDS_OBJECT_TABLES_H_
#define WARPLINE_SERVER_WORKER_COMMANDS_OBJECT_TABLES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "common/cuda/cuda_result.h"
#include "server/worker/commands/leaving.h"
#include "server/worker/executors/decoder_thread.h"
#include "server/worker/executors/event.h"
#include "server/worker/executors/executor.h"
#include "server/worker/executors/graph.h"
#include "server/worker/executors/image.h"
#include "server/worker/executors/kernel.h"
#include "server/worker/executors/task.h"

namespace warpline::worker {

struct Event {
  uint32_t flags = 0;
  std::shared_ptr<EventRecord> latest;
};

// A host function for which the client has not answered yet.
struct HostCall {
  std::shared_ptr<Executor> executor;
  std::shared_ptr<HostWait> wait;
};

// Objects are shared with the tasks that name them. Streams are in StreamOrder.
template <typename Object>
using HandleMap = absl::flat_hash_map<uint64_t, Object>;

// Returns the object, or null when no object has this handle.
template <typename Object>
std::shared_ptr<Object> FindIn(const HandleMap<std::shared_ptr<Object>>& objects, uint64_t handle) {
  const auto it = objects.find(handle);
  return it == objects.end() ? nullptr : it->second;
}

// The latest handles that stand for nothing because there was no room for it: what is asked of them
// fails for the same reason, and not because nobody has heard of them.
class RefusedHandles {
 public:
  void Note(uint64_t handle) {
    handles_[next_] = handle;
    next_ = (next_ + 1) % handles_.size();
  }
  bool Has(uint64_t handle) const {
    return handle != 0 && std::find(handles_.begin(), handles_.end(), handle) != handles_.end();
  }

 private:
  std::array<uint64_t, 32> handles_{};
  size_t next_ = 0;
};

struct ObjectTables {
  HandleMap<Event> events ABSL_GUARDED_BY(decoder_thread);
  HandleMap<HostCall> host_calls ABSL_GUARDED_BY(decoder_thread);
  HandleMap<std::shared_ptr<Image>> images ABSL_GUARDED_BY(decoder_thread);
  HandleMap<std::shared_ptr<Module>> modules ABSL_GUARDED_BY(decoder_thread);
  HandleMap<std::shared_ptr<Kernel>> kernels ABSL_GUARDED_BY(decoder_thread);
  HandleMap<std::shared_ptr<Link>> links ABSL_GUARDED_BY(decoder_thread);
  HandleMap<std::shared_ptr<Array>> arrays ABSL_GUARDED_BY(decoder_thread);
  HandleMap<std::shared_ptr<Graph>> graphs ABSL_GUARDED_BY(decoder_thread);
  HandleMap<std::shared_ptr<Frame>> frames ABSL_GUARDED_BY(decoder_thread);
  HandleMap<std::shared_ptr<Partition>> partitions ABSL_GUARDED_BY(decoder_thread);

  RefusedHandles refused_images ABSL_GUARDED_BY(decoder_thread);
  RefusedHandles refused_modules ABSL_GUARDED_BY(decoder_thread);
  RefusedHandles unvetted_modules ABSL_GUARDED_BY(decoder_thread);

  // Bytes of images, and of what modules, links and graphs were made of.
  uint64_t module_bytes ABSL_GUARDED_BY(decoder_thread) = 0;
  uint64_t graph_nodes ABSL_GUARDED_BY(decoder_thread) = 0;  // Sum over all graphs and frames.
  // Of images, and of nodes, that the client has destroyed and commands still have.
  Leaving leaving_bytes ABSL_GUARDED_BY(decoder_thread);
  Leaving leaving_nodes ABSL_GUARDED_BY(decoder_thread);

  // What images take of the host's memory.
  uint64_t host_bytes() const RUNS_ON(decoder_thread) { return module_bytes + leaving_bytes.sum(); }

  size_t size() const RUNS_ON(decoder_thread) {
    return events.size() + host_calls.size() + images.size() + modules.size() + kernels.size() +
           links.size() + arrays.size() + graphs.size() + frames.size() + partitions.size();
  }

  // Why there is no such module.
  CudaResult WhyNoModule(uint64_t handle) const RUNS_ON(decoder_thread) {
    if (unvetted_modules.Has(handle)) return CudaResult::kNotPermitted;
    return refused_modules.Has(handle) ? CudaResult::kOutOfMemory : CudaResult::kInvalidHandle;
  }
  // Takes an image out of the table; its bytes stay counted. Returns null for an image that is not
  // complete.
  std::shared_ptr<Image> TakeImage(uint64_t handle) RUNS_ON(decoder_thread);
  // Keep modules on the device, with their bytes counted, for as long as a graph or a frame has
  // `kernels` (null ones are ignored) of them.
  static void Hold(const std::vector<std::shared_ptr<Kernel>>& kernels, ModuleHold* hold)
      RUNS_ON(decoder_thread);
  void Release(ModuleHold* hold) RUNS_ON(decoder_thread);
  // Forgets an image, which must be in the table, and its bytes.
  void DropImage(uint64_t handle) RUNS_ON(decoder_thread);
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_COMMANDS_OBJECT_TABLES_H_
