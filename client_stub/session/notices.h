// The notices that the server sends a session unasked, for the parts that wait for them.
#ifndef WARPLINE_CLIENT_STUB_SESSION_NOTICES_H_
#define WARPLINE_CLIENT_STUB_SESSION_NOTICES_H_

#include <cstdint>
#include <functional>

namespace warpline::stub {

// Thread-safe. Callbacks run on the session's loop and get a token. They must not block or call the
// session. Setting an empty function ends them: the former one is not called any more when the
// setter has returned.
class Notices {
 public:
  // No HostCall has this token.
  static constexpr uint64_t kNoToken = 0;
  using Callback = std::function<void(uint64_t token)>;

  virtual ~Notices() = default;

  // For Freed notices whose token belongs to this device (DeviceOfHandle()); set before any such
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
