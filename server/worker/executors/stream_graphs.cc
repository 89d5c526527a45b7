// Launches of graphs, whose parts may be for other devices than the stream's.
#include "common/cuda/cuda_numbers.h"
#include "server/worker/executors/graph.h"
#include "server/worker/executors/stream_executor.h"

namespace warpline::worker {

Executor::Step StreamExecutor::Do(const cmd::GraphLaunch&, Task& task) {
  if (task.graph->prints) Prints(task.ticket);
  issuing_to_ = device();
  CudaResult result =
      LaunchGraph(*task.graph, host_->gate,
                  [this](uint32_t device, device::Context** context, device::StreamId* stream) {
                    on_executor_.AssertOnLoop();
                    return GoTo(device, context, stream);
                  });
  // This is also done after a launch that failed half-way: what runs elsewhere is waited for here.
  const CudaResult back = GoTo(device());
  if (result == CudaResult::kSuccess) result = back;
  Check(task, result);
  return Step::kDone;
}

CudaResult StreamExecutor::StreamOn(uint32_t device, device::StreamId* stream) {
  if (device == this->device()) {
    *stream = device_stream_;
    return CudaResult::kSuccess;
  }
  const auto known = side_streams_.find(device);
  if (known != side_streams_.end()) {
    *stream = known->second;
    return CudaResult::kSuccess;
  }
  const CudaResult result = MakeStream(device, kStreamNonBlocking, nullptr, stream);
  if (result == CudaResult::kSuccess) side_streams_.emplace(device, *stream);
  return result;
}

CudaResult StreamExecutor::GoTo(uint32_t device, device::Context** context,
                                device::StreamId* stream) {
  *context = host_->devices->context(device);
  CudaResult result = StreamOn(device, stream);
  if (device == issuing_to_ || result != CudaResult::kSuccess) return result;
  EventPool* const events = host_->devices->events(issuing_to_);
  device::StreamId from;
  device::EventId event;
  result = StreamOn(issuing_to_, &from);
  if (result == CudaResult::kSuccess) result = events->Take(kEventDisableTiming, &event);
  if (result != CudaResult::kSuccess) return result;
  result = host_->devices->context(issuing_to_)->RecordEvent(event, from);
  if (result == CudaResult::kSuccess) result = (*context)->WaitEvent(*stream, event);
  // The wait is bound to the record that was made, so the event can be given back.
  events->Give(kEventDisableTiming, event);
  if (result == CudaResult::kSuccess) issuing_to_ = device;
  return result;
}

CudaResult StreamExecutor::GoTo(uint32_t device) {
  device::Context* context;
  device::StreamId stream;
  return GoTo(device, &context, &stream);
}

}  // namespace warpline::worker
