#include "client_stub/core/managed/mirror_streams.h"

#include "common/cuda/cuda_numbers.h"
#include "proto/wire.h"

namespace warpline::stub {
namespace {

// Small enough for the lock that is held while a command's bytes are copied.
constexpr uint64_t kPartBytes = kMaxTail;

}  // namespace

MirrorStreams::MirrorStreams(Session* session, uint64_t first)
    : terms_(session->terms()),
      commands_(&session->commands()),
      status_(&session->status()),
      first_(first) {}

uint64_t MirrorStreams::For(uint64_t device) {
  const auto count = static_cast<uint32_t>(terms_.devices.size());
  const uint64_t at = DeviceOfAddress(device, terms_.arena_base, terms_.arena_bytes, count);
  // Variables lie outside the arena; any device gets to managed ones.
  const uint32_t number = at < count ? static_cast<uint32_t>(at) : 0;
  const uint64_t stream = On(number);
  const uint32_t bit = 1u << number;
  if ((there_.load(std::memory_order_acquire) & bit) != 0) return stream;
  {
    MutexLock lock(&mu_);
    while ((creating_ & bit) != 0) created_.Wait(&mu_);
    if ((there_.load(std::memory_order_acquire) & bit) != 0) return stream;
    creating_ |= bit;
  }
  commands_->Send(cmd::StreamCreate{stream, kStreamNonBlocking, 0});
  // A host function gets the bytes that it touches over this stream, while a copy that waits for
  // the function is queued with its barrier. All other work on the stream was waited for, or its
  // memory is not in use yet.
  commands_->Send(cmd::StreamIgnoreBarriers{stream});
  MutexLock lock(&mu_);
  creating_ &= ~bit;
  there_.fetch_or(bit, std::memory_order_release);
  created_.NotifyAll();
  return stream;
}

CUresult MirrorStreams::Push(uint64_t device, std::string_view bytes) {
  const uint64_t stream = For(device);
  pushed_.fetch_or(1u << DeviceOfHandle(stream));
  if (look_) look_(device, bytes);
  for (uint64_t done = 0; done < bytes.size(); done += kPartBytes) {
    const uint64_t seq =
        commands_->Send(cmd::CopyToDevice{stream, device + done}, bytes.substr(done, kPartBytes));
    if (seq == 0) return ToCu(status_->error());
  }
  return CUDA_SUCCESS;
}

// This is no copy that waits, because such a copy would write the output of kernels with the
// application's stdio, whose lock the thread that touched the memory may hold.
CUresult MirrorStreams::Pull(void* to, uint64_t device, uint64_t bytes) {
  const Part part = {to, device, bytes};
  return PullAll({&part, 1});
}

CUresult MirrorStreams::PullAll(absl::Span<const Part> parts) {
  uint32_t pulled = 0;  // The devices, a bit each.
  for (const Part& part : parts) {
    const uint64_t stream = For(part.device);
    pulled |= 1u << DeviceOfHandle(stream);
    uint64_t seq = 0;
    WARPLINE_TRY(
        ToCu(commands_->CopyOut(stream, part.to, part.device, part.bytes, /*wait=*/false, &seq)));
  }
  for (uint32_t device = 0; pulled != 0; ++device, pulled >>= 1) {
    if ((pulled & 1) == 0) continue;
    WARPLINE_TRY(ToCu(commands_->Call(WaitKind::kRoundTrip, cmd::StreamSync{On(device)})));
  }
  return CUDA_SUCCESS;
}

CUresult MirrorStreams::Zero(uint64_t device, uint64_t bytes) {
  const uint64_t stream = For(device);
  commands_->Send(cmd::Memset{stream, device, bytes / 4, 0, 4});
  return commands_->Send(cmd::StreamBarrier{stream}) == 0 ? ToCu(status_->error()) : CUDA_SUCCESS;
}

CUresult MirrorStreams::Order() {
  uint32_t pushed = pushed_.exchange(0);
  for (uint32_t device = 0; pushed != 0; ++device, pushed >>= 1) {
    if ((pushed & 1) == 0) continue;
    if (commands_->Send(cmd::StreamBarrier{On(device)}) == 0) return ToCu(status_->error());
  }
  return CUDA_SUCCESS;
}

void MirrorStreams::AwaitArrival() {
  uint32_t there = there_.load(std::memory_order_acquire);
  for (uint32_t device = 0; there != 0; ++device, there >>= 1) {
    if ((there & 1) != 0) {
      commands_->Call(WaitKind::kRoundTrip, cmd::StreamSync{On(device)});
    }
  }
}

}  // namespace warpline::stub
