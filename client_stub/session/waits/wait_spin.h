// How long a thread that waits for the server looks at memory before it sleeps.
#ifndef WARPLINE_CLIENT_STUB_SESSION_WAITS_WAIT_SPIN_H_
#define WARPLINE_CLIENT_STUB_SESSION_WAITS_WAIT_SPIN_H_

#include <chrono>

namespace warpline::stub {

// Decides by the processors that this process may use: with only one, the thread does not spin.
std::chrono::nanoseconds ChooseWaitSpin();

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_WAITS_WAIT_SPIN_H_
