// What a process takes of its device as it opens its context: as much as others than sessions have
// more of the device afterwards than before. What such others take or give back meanwhile cannot be
// told from it, so it is a number for people.
//
//   auto measure = ContextMeasure::Begin(read);  // Before the process starts.
//   measure->End([](uint64_t bytes) { ... });    // Its context is open.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_CONTEXT_MEASURE_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_CONTEXT_MEASURE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

// Nothing is called any more once its owner has dropped it; answers may be under way then.
class ContextMeasure : public std::enable_shared_from_this<ContextMeasure> {
 public:
  using Answer = std::function<void(std::optional<uint64_t>)>;
  // Asks what others than sessions have of the device. The answer comes on the control loop, in
  // order; nothing where the device does not say.
  using Read = std::function<void(Answer)>;

  static std::shared_ptr<ContextMeasure> Begin(Read read) RUNS_ON(control_loop);
  // `took` is called unless the device does not say, or has more free than before.
  void End(std::function<void(uint64_t bytes)> took) RUNS_ON(control_loop);

 private:
  explicit ContextMeasure(Read read) : read_(std::move(read)) {}

  const Read read_;
  std::optional<uint64_t> before_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_CONTEXT_MEASURE_H_
