// The streams that carry the bytes of mirrored memory between host and device. Each device has one,
// which is created when it is first needed.
//
// These streams are non-blocking and ignore barriers: they wait for no other stream.
#ifndef WARPLINE_CLIENT_STUB_CORE_MANAGED_MIRROR_STREAMS_H_
#define WARPLINE_CLIENT_STUB_CORE_MANAGED_MIRROR_STREAMS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "absl/types/span.h"
#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/managed/mirror.h"
#include "client_stub/session/session.h"
#include "common/mutex.h"
#include "proto/devices.h"

namespace warpline::stub {

// Thread-safe. No lock is held while a command is sent or an answer awaited.
class MirrorStreams : public MirrorLink {
 public:
  // `session` is borrowed. `first` is the wire's number of the first device's stream.
  MirrorStreams(Session* session, uint64_t first);

  // Is shown the bytes that are pushed, and where they go. Must not wait.
  using Look = std::function<void(uint64_t device, std::string_view bytes)>;
  // Called before the first Push().
  void SetLook(Look look) { look_ = std::move(look); }

  CUresult Push(uint64_t device, std::string_view bytes) override;
  CUresult Pull(void* to, uint64_t device, uint64_t bytes) override;

  // Memory of the device, and where it is read to.
  struct Part {
    void* to;
    uint64_t device;
    uint64_t bytes;
  };
  // Reads all parts in about the time of one.
  CUresult PullAll(absl::Span<const Part> parts);

  // Zeroes device memory, before any work that is asked for later.
  CUresult Zero(uint64_t device, uint64_t bytes);
  // Makes the work that any stream is given from now on see the bytes that were pushed. One thread
  // at a time pushes and orders.
  CUresult Order();
  // Waits until the bytes that were pushed have arrived.
  void AwaitArrival();

 private:
  // Returns the stream of the device whose memory is at `device`, which exists from now on.
  uint64_t For(uint64_t device);
  uint64_t On(uint32_t device) const { return HandleOnDevice(device, first_); }

  const SessionTerms& terms_;
  Commands* const commands_;
  SessionStatus* const status_;
  const uint64_t first_;
  Look look_;

  // One bit for each device: those that have their stream, those that were pushed to since the
  // latest Order(), and those whose stream a thread is creating.
  std::atomic<uint32_t> there_{0};
  std::atomic<uint32_t> pushed_{0};
  Mutex mu_;
  CondVar created_;
  uint32_t creating_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MANAGED_MIRROR_STREAMS_H_
