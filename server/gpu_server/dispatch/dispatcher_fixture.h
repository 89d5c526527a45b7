// A fixture for tests of the dispatcher: a clock that they set, and the worker's end of
// registrations.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_DISPATCHER_FIXTURE_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_DISPATCHER_FIXTURE_H_

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/unique_fd.h"
#include "server/gpu_server/dispatch/dispatcher.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::dispatch {

inline constexpr int64_t kMs = 1'000'000;
inline constexpr size_t kCompute = EngineIndex(Engine::kCompute);
inline std::atomic<int64_t> now_ns{0};
inline int64_t Now() { return now_ns; }

// Makes a dispatcher. Without a thread it uses `now_ns` as its clock, which starts again at 1 s.
inline std::unique_ptr<Dispatcher> NewDispatcher(bool has_thread = false) {
  now_ns = 1000 * kMs;
  DispatcherOptions options;
  options.clock = has_thread ? &MonotonicNs : &Now;
  options.has_thread = has_thread;
  return std::move(*Dispatcher::Create(std::move(options)));
}

// The worker's end of a registration's page.
inline std::unique_ptr<DispatchPage> WorkersPage(const DispatchRegistration& registration) {
  return std::move(*DispatchPage::Attach(UniqueFd(dup(registration.fd()))));
}

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_DISPATCHER_FIXTURE_H_
