// Puts a context together from its parts, one class for each facet.
//
//   using FooContext = ContextOf<FooState, FooMemory, FooStreams, ..., NoGraphs>;
//   auto context = std::make_unique<FooContext>(std::make_unique<FooState>(...));
//
// A part derives virtually from its facet and is made with a pointer to the state that the parts
// share. The state outlives the parts; if it has a Close(), that is called while all of them still
// exist.
#ifndef WARPLINE_SERVER_DEVICE_CONTEXT_OF_H_
#define WARPLINE_SERVER_DEVICE_CONTEXT_OF_H_

#include <memory>
#include <utility>

#include "server/device/device.h"

namespace warpline::device {

// Holds the state as a base class, so that it is made before the parts and destroyed after them.
template <typename State>
class SharedByParts {
 protected:
  explicit SharedByParts(std::unique_ptr<State> state) : state_(std::move(state)) {}
  State* state() const { return state_.get(); }

 private:
  const std::unique_ptr<State> state_;
};

template <typename State, typename... Parts>
class ContextOf : public Context, protected SharedByParts<State>, public Parts... {
 public:
  explicit ContextOf(std::unique_ptr<State> state)
      : SharedByParts<State>(std::move(state)), Parts(this->state())... {}
  ContextOf(const ContextOf&) = delete;
  ContextOf& operator=(const ContextOf&) = delete;
  ~ContextOf() override {
    if constexpr (requires(State * state) { state->Close(); }) this->state()->Close();
  }

  Capabilities capabilities() const override { return (Capabilities() | ... | Parts::kGives); }
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CONTEXT_OF_H_
