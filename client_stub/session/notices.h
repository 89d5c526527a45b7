// What the server tells a session unasked, for whoever waits for it.
#ifndef WARPLINE_CLIENT_STUB_SESSION_NOTICES_H_
#define WARPLINE_CLIENT_STUB_SESSION_NOTICES_H_

#include <cstdint>
#include <functional>

namespace warpline::stub {

// Thread-safe. Callbacks are called on the session's loop, with a token. They must not block or
// call the session. An empty function ends them: it is not called any more when the setter has
// returned.
class Notices {
 public:
  // The token of no HostCall.
  static constexpr uint64_t kNoToken = 0;
  using Callback = std::function<void(uint64_t token)>;

  virtual ~Notices() = default;

  // For Freed notices whose token is of this device (DeviceOfHandle()); set before any such
  // FreeFence is sent.
  virtual void SetFreedCallback(uint32_t device, Callback callback) = 0;
  // For Unmapped notices; set before any MemoryUnmap is sent.
  virtual void SetUnmappedCallback(Callback callback) = 0;
  // For HostDue notices, and with kNoToken when the session is lost; set before any HostCall is
  // sent.
  virtual void SetHostDueCallback(Callback callback) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_NOTICES_H_
