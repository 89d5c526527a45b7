// Numbers that stand for the driver's objects: CUstream, CUevent, CUmodule and the like as the
// application sees them.
//
// A handle is never an address: its top byte says what it names, then come the slot's generation
// and its index, and the low four bits are zero (some libraries tag them as they tag pointers).
//   63..56 kind   55..36 generation   35..4 index   3..0 zero
// Looking a handle up takes no lock and never follows a stale handle into freed memory: objects
// live in slots that stay until the process ends. A slot is used again only for the same kind and
// under another generation.
//
// Example:
//
//   HandleTable<Event, HandleKind::kEvent, /*kReuse=*/true> events;
//   const uint64_t handle = events.Add([&](Event& event, uint64_t number) {
//     event.handle = HandleOf<CUevent>(number);  // Valid for others once this has returned.
//   });
//   if (handle == 0) return CUDA_ERROR_OUT_OF_MEMORY;
//   const Event* const event = events.Find(handle);  // No lock.
//   events.Remove(handle, [](Event& removed) { removed.wire = 0; });
#ifndef WARPLINE_CLIENT_STUB_CORE_BASE_HANDLE_TABLE_H_
#define WARPLINE_CLIENT_STUB_CORE_BASE_HANDLE_TABLE_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "common/mutex.h"

namespace warpline::stub {

enum class HandleKind : uint8_t {
  kContext = 0x51,
  kStream = 0x52,
  kEvent = 0x53,
  kModule = 0x54,
  kLibrary = 0x55,
  kKernel = 0x56,  // CUkernel and CUfunction: the runtime passes one where the other is due.
  kMemoryPool = 0x57,
  kArray = 0x58,
  kMipmappedArray = 0x59,
  kLink = 0x5a,
  kGraph = 0x5b,
  kGraphNode = 0x5c,
  kGraphExec = 0x5d,
  kUserObject = 0x5e,
  kGreenContext = 0x5f,
  kResourceDescriptor = 0x60,
};

// Thread-safe. T is default-constructed in its slot. With kReuse a removed slot is used again: an
// application that uses a handle while it destroys it may then read T while T is set up anew, and T
// must tolerate that.
template <typename T, HandleKind kKind, bool kReuse>
class HandleTable {
 public:
  HandleTable() = default;
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  // Calls init(object, handle) and then makes the handle valid. Returns 0, without having called
  // `init`, when there are too many objects.
  template <typename Init>
  uint64_t Add(Init init) {
    MutexLock lock(&mu_);
    uint32_t index;
    if (kReuse && !free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      index = size_.load(std::memory_order_relaxed);
      if (index >= kSegments * kSegmentSlots) return 0;
      std::atomic<Slot*>& segment = segments_[index / kSegmentSlots];
      if (segment.load(std::memory_order_relaxed) == nullptr) {
        segment.store(new Slot[kSegmentSlots], std::memory_order_release);
      }
      size_.store(index + 1, std::memory_order_release);
    }
    Slot* slot = At(index);
    slot->generation = (slot->generation + 1) & 0xfffff;
    const uint64_t handle = uint64_t{static_cast<uint8_t>(kKind)} << 56 |
                            uint64_t{slot->generation} << 36 | uint64_t{index} << 4;
    init(slot->object, handle);
    slot->handle.store(handle, std::memory_order_release);
    live_.fetch_add(1, std::memory_order_relaxed);
    return handle;
  }

  // The number of valid handles.
  uint32_t live() const { return live_.load(std::memory_order_relaxed); }

  // Returns nullptr for a number that is not, or no longer, a handle of this table.
  T* Find(uint64_t handle) const {
    Slot* slot = SlotOf(handle);
    return slot == nullptr ? nullptr : &slot->object;
  }

  // Returns true when `handle` is a handle of this table, or was one. A slot counts its handles in
  // 20 bits; older ones than the latest million of a slot may not be known any more.
  bool Gave(uint64_t handle) {
    const uint64_t index = static_cast<uint32_t>(handle >> 4);
    const uint64_t generation = handle >> 36 & 0xfffff;
    if (handle >> 56 != static_cast<uint8_t>(kKind) || (handle & 0xf) != 0) return false;
    MutexLock lock(&mu_);
    return index < size_.load(std::memory_order_relaxed) && generation != 0 &&
           generation <= At(static_cast<uint32_t>(index))->generation;
  }

  // Makes the handle invalid, then calls finish(object). Returns false, without having called
  // `finish`, unless this very call removed the handle.
  template <typename Finish>
  bool Remove(uint64_t handle, Finish finish) {
    Slot* slot = SlotOf(handle);
    if (slot == nullptr) return false;
    uint64_t expected = handle;
    if (!slot->handle.compare_exchange_strong(expected, 0, std::memory_order_acq_rel)) return false;
    live_.fetch_sub(1, std::memory_order_relaxed);
    finish(slot->object);
    if (kReuse) {
      MutexLock lock(&mu_);
      free_.push_back(static_cast<uint32_t>(handle >> 4));
    }
    return true;
  }

  // Calls visit(object, handle) for every valid handle until it returns false. Takes no lock: a
  // handle that is added meanwhile may be left out.
  template <typename Visit>
  void ForEach(Visit visit) const {
    const uint32_t size = size_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < size; ++i) {
      Slot* slot = At(i);
      const uint64_t handle = slot->handle.load(std::memory_order_acquire);
      if (handle != 0 && !visit(slot->object, handle)) return;
    }
  }

 private:
  static constexpr uint32_t kSegmentSlots = 1024;
  static constexpr uint32_t kSegments = 16384;

  struct Slot {
    std::atomic<uint64_t> handle{0};  // 0 while the slot holds no valid object.
    uint32_t generation = 0;          // Guarded by mu_.
    T object;
  };

  Slot* At(uint32_t index) const {
    return &segments_[index / kSegmentSlots].load(std::memory_order_acquire)[index % kSegmentSlots];
  }

  Slot* SlotOf(uint64_t handle) const {
    const uint32_t index = static_cast<uint32_t>(handle >> 4);
    if (index >= kSegments * kSegmentSlots) return nullptr;
    Slot* segment = segments_[index / kSegmentSlots].load(std::memory_order_acquire);
    if (segment == nullptr || handle == 0) return nullptr;
    Slot* slot = &segment[index % kSegmentSlots];
    return slot->handle.load(std::memory_order_acquire) == handle ? slot : nullptr;
  }

  std::atomic<Slot*> segments_[kSegments] = {};
  std::atomic<uint32_t> size_{0};
  std::atomic<uint32_t> live_{0};
  Mutex mu_;
  std::vector<uint32_t> free_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BASE_HANDLE_TABLE_H_
