#include "server/gpu_server/children/workers/context_measure.h"

#include <utility>

namespace warpline::server {

std::shared_ptr<ContextMeasure> ContextMeasure::Begin(Read read) {
  std::shared_ptr<ContextMeasure> measure(new ContextMeasure(std::move(read)));
  measure->read_([weak = measure->weak_from_this()](std::optional<uint64_t> bytes) {
    control_loop.AssertOnLoop();
    if (const auto self = weak.lock()) self->before_ = bytes;
  });
  return measure;
}

void ContextMeasure::End(std::function<void(uint64_t)> took) {
  read_([weak = weak_from_this(), took = std::move(took)](std::optional<uint64_t> after) {
    control_loop.AssertOnLoop();
    const auto self = weak.lock();
    if (self != nullptr && self->before_.has_value() && after.has_value() &&
        *after > *self->before_) {
      took(*after - *self->before_);
    }
  });
}

}  // namespace warpline::server
