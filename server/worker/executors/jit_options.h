// The options of the just-in-time compiler, as they come over the wire.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_JIT_OPTIONS_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_JIT_OPTIONS_H_

#include <string_view>
#include <vector>

#include "server/device/device.h"

namespace warpline::worker {

// The size of each of the compiler's two texts.
inline constexpr size_t kMaxJitLog = 64u << 10;

// Returns false unless `bytes` are options that mean something to a server, and not too many.
bool ReadJitOptions(std::string_view bytes, std::vector<device::JitOption>* options);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_JIT_OPTIONS_H_
