// Passes notices of the server to the functions that were set for them.
#ifndef WARPLINE_CLIENT_STUB_SESSION_FRAMES_NOTICE_SINKS_H_
#define WARPLINE_CLIENT_STUB_SESSION_FRAMES_NOTICE_SINKS_H_

#include <array>
#include <cstdint>

#include "client_stub/session/notices.h"
#include "common/mutex.h"
#include "proto/devices.h"
#include "transport/channel_loop.h"

namespace warpline::stub {

// Thread-safe.
class NoticeSinks final : public Notices {
 public:
  void SetFreedCallback(uint32_t device, Callback callback) override;
  void SetUnmappedCallback(Callback callback) override;
  void SetHostDueCallback(Callback callback) override;

  // Returns false for a token of no device.
  bool Freed(uint64_t token) RUNS_ON(channel_loop);
  void Unmapped(uint64_t token) RUNS_ON(channel_loop);
  void HostDue(uint64_t token) RUNS_ON(channel_loop);

 private:
  Mutex mu_;
  std::array<Callback, kMaxSessionDevices> freed_ ABSL_GUARDED_BY(mu_);  // By device.
  Callback unmapped_ ABSL_GUARDED_BY(mu_);

  Mutex host_due_mu_;
  Callback host_due_ ABSL_GUARDED_BY(host_due_mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_FRAMES_NOTICE_SINKS_H_
