// The parts of a GPU's multiprocessors on which sessions run. They are green contexts, which are
// all made at once, because making one waits for running kernels.
//
//   GreenContexts contexts(api, device);
//   CUstream stream = nullptr;
//   CUresult result = contexts.MakeStream(plan[0], &stream);
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_GREEN_CONTEXTS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_GREEN_CONTEXTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/device/cuda/driver_api.h"
#include "server/device/cuda/shared/share_plan.h"

namespace warpline::device {

// Thread-safe. It outlives the streams of its contexts.
//
// The device is divided into slots of neighbouring multiprocessors; the first eight slots are
// small. There is a green context for every row of slots except the whole device, which needs none.
// An H100 has 77 of them. Each takes 5 MiB of device memory, and 2.2 ms to make.
class GreenContexts {
 public:
  // Makes as many as the driver and the device can; a device that cannot be divided has one slot.
  // The device's primary context must be current, and must stay retained.
  GreenContexts(const DriverApi* api, CUdevice device);
  GreenContexts(const GreenContexts&) = delete;
  GreenContexts& operator=(const GreenContexts&) = delete;
  ~GreenContexts() { DestroyAll(); }

  // The slots' numbers of multiprocessors.
  const std::vector<int>& slots() const { return slots_; }
  SlotRange whole() const { return {0, static_cast<uint16_t>(slots_.size())}; }
  size_t contexts() const { return made_.size(); }

  // Makes a non-blocking stream whose kernels run on these slots. The primary context must be
  // current.
  CUresult MakeStream(const SlotRange& range, CUstream* stream) const;
  // Returns the context in which kernels of graphs run on these slots; null stands for the primary
  // context.
  CUcontext ContextOf(const SlotRange& range) const { return Of(range).context; }

 private:
  struct Green {
    CUgreenCtx green = nullptr;
    CUcontext context = nullptr;
  };

  Green Of(const SlotRange& range) const;
  void Make(CUdevice device);
  bool MakeRange(CUdevice device, std::vector<std::vector<CUdevResource>>* groups,
                 const SlotRange& range);
  void DestroyAll();

  const DriverApi* const api_;
  std::vector<int> slots_;
  std::vector<std::vector<Green>> of_;  // Indexed by first slot, and by number of slots less one.
  std::vector<CUgreenCtx> made_;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_GREEN_CONTEXTS_H_
