// Whether it pays that threads look at memory before they sleep.
#ifndef WARPLINE_SERVER_WORKER_LANES_POLLING_H_
#define WARPLINE_SERVER_WORKER_LANES_POLLING_H_

#include <thread>

namespace warpline::worker {

// With few processors polling only takes time from the thread that is waited for.
inline bool PollingPays() { return std::thread::hardware_concurrency() > 4; }

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_POLLING_H_
