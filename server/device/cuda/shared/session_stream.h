// A stream of a context of a shared device. For the driver each of them is non-blocking; what
// CUDA's legacy order asks of it is in its kind.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_SESSION_STREAM_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_SESSION_STREAM_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "server/device/cuda/driver_api.h"

namespace warpline::device {

// A number that several threads raise and none lowers. Thread-safe.
class Watermark {
 public:
  uint64_t value() const { return value_.load(std::memory_order_acquire); }
  void Increment() { value_.fetch_add(1, std::memory_order_acq_rel); }
  void Raise(uint64_t to) {
    uint64_t now = value_.load(std::memory_order_relaxed);
    while (now < to && !value_.compare_exchange_weak(now, to, std::memory_order_acq_rel)) {
    }
  }

 private:
  std::atomic<uint64_t> value_{0};
};

// An event that is recorded on one stream again and again. Every record comes after all earlier
// ones, so whoever waits for the event waits for enough, whichever thread recorded it last. It may
// outlive its stream. Thread-safe.
class StreamMark {
 public:
  // Takes the event.
  StreamMark(const DriverApi* api, CUevent event) : api_(api), event_(event) {}
  StreamMark(const StreamMark&) = delete;
  StreamMark& operator=(const StreamMark&) = delete;
  ~StreamMark() { api_->p_cuEventDestroy(event_); }

  CUevent event() const { return event_; }
  // Has the event recorded on `stream`, which is the mark's, unless a former record comes after the
  // stream's first `operations` already. As many have been issued.
  CUresult Cover(CUstream stream, uint64_t operations);

 private:
  const DriverApi* const api_;
  const CUevent event_;
  Watermark covered_;
};

// Thread-safe. Who holds a pointer may use the driver's stream; it is destroyed with the last one,
// which in the sense of CUDA lets work complete that was submitted. A context is current then.
class SessionStream {
 public:
  enum class Kind { kLegacy, kBlocking, kNonBlocking };

  // Takes `native`, which it destroys on failure, too.
  static CUresult Make(const DriverApi* api, CUstream native, Kind kind,
                       std::shared_ptr<SessionStream>* stream);
  SessionStream(const SessionStream&) = delete;
  SessionStream& operator=(const SessionStream&) = delete;
  ~SessionStream() { api_->p_cuStreamDestroy(native_); }

  CUstream native() const { return native_; }
  Kind kind() const { return kind_; }
  const std::shared_ptr<StreamMark>& mark() const { return mark_; }

  // How many operations have been issued to it: their driver calls have returned.
  Watermark issued;
  // For a blocking stream, how many of its operations the legacy stream waits for, and for how many
  // of the legacy stream's it waits.
  Watermark awaited;
  Watermark awaits;

 private:
  SessionStream(const DriverApi* api, CUstream native, Kind kind, CUevent mark)
      : api_(api), native_(native), kind_(kind), mark_(std::make_shared<StreamMark>(api, mark)) {}

  const DriverApi* const api_;
  const CUstream native_;
  const Kind kind_;
  const std::shared_ptr<StreamMark> mark_;  // Shared with those who wait when the stream is gone.
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_SESSION_STREAM_H_
