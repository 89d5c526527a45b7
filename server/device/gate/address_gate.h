// The gate through which every address passes that comes from a tenant.
//
// The process of a worker holds more than its session's memory: its own data, heap and stacks, the
// staging buffers, code. A driver with unified addressing takes any pointer of the process, and the
// CPU device dereferences what it is given. So a backend asks the gate first, with the whole span
// that a command would touch, and goes on with what the gate returns and with nothing else.
//
//   const auto to = gate.Admit(dst, bytes, MemoryUse::kWrite);
//   if (!to) return CudaResult::kInvalidValue;
//   if (to->kind() == MemoryKind::kHost) ...
//
// What is no span that a command touches does not pass here: parameters of kernels and tensor maps
// are numbers for kernels, which reach what the device's page tables let them reach.
#ifndef WARPLINE_SERVER_DEVICE_GATE_ADDRESS_GATE_H_
#define WARPLINE_SERVER_DEVICE_GATE_ADDRESS_GATE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "common/cuda/box.h"
#include "common/mutex.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// Where a span lies.
enum class MemoryKind : uint8_t {
  kArena,      // In the arena.
  kHost,       // In memory of the host that the session has.
  kVariables,  // Among the variables of the session's modules, or in one where these are limited.
};

enum class MemoryUse : uint8_t { kRead, kWrite };

// A block of memory that holds variables of modules.
struct VariableBlock {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t owner = 0;  // The place of its context among those that were opened together.
};

// What the gate asks of a backend. Thread-safe.
class MemoryFacts {
 public:
  virtual ~MemoryFacts() = default;
  // Whether all of the span, which lies in the arena, is mapped for this use. A backend may say yes
  // to all if its driver refuses the rest itself: nothing else of the process can lie in the arena,
  // whose addresses are reserved.
  virtual bool IsMapped(uint64_t address, uint64_t bytes, MemoryUse use) = 0;
  // Finds the block in which `address` lies. Returns false for everything that is not memory of a
  // module's variables, such as any other pointer of the process.
  virtual bool FindVariables(uint64_t address, VariableBlock* block) = 0;
};

// A span that a gate has admitted.
class GatedSpan {
 public:
  // Where the memory is. It is what the tenant named, but for what has another name: a variable,
  // or memory of the host.
  uint64_t address() const { return address_; }
  // What the tenant named.
  uint64_t named() const { return named_; }
  uint64_t bytes() const { return bytes_; }
  MemoryKind kind() const { return kind_; }
  // VariableBlock::owner. Only kVariables has one.
  uint32_t owner() const { return owner_; }
  // REQUIRES: kHost.
  void* host() const { return reinterpret_cast<void*>(address_); }

 private:
  friend class AddressGate;
  GatedSpan(uint64_t address, uint64_t bytes, MemoryKind kind, uint32_t owner)
      : GatedSpan(address, address, bytes, kind, owner) {}
  GatedSpan(uint64_t address, uint64_t named, uint64_t bytes, MemoryKind kind, uint32_t owner)
      : address_(address), named_(named), bytes_(bytes), owner_(owner), kind_(kind) {}

  uint64_t address_;
  uint64_t named_;
  uint64_t bytes_;
  uint32_t owner_;
  MemoryKind kind_;
};

// A box all of whose rows, and what is between them, a gate has admitted.
class GatedBox {
 public:
  const GatedSpan& span() const { return span_; }
  const BoxPlace& place() const { return place_; }

 private:
  friend class AddressGate;
  GatedBox(const GatedSpan& span, const BoxPlace& place) : span_(span), place_(place) {}

  GatedSpan span_;
  BoxPlace place_;
};

// Thread-safe. A span in the arena takes no lock and does not lead to FindVariables(). An empty
// span is admitted where one of a byte would be.
class AddressGate {
 public:
  // `facts` is borrowed.
  explicit AddressGate(MemoryFacts* facts) : facts_(facts) {}
  AddressGate(const AddressGate&) = delete;
  AddressGate& operator=(const AddressGate&) = delete;

  // --- What the session has, as the server says it, not the tenant.
  // The addresses of the arena are reserved from now on. Called once.
  void SetArena(uint64_t base, uint64_t bytes);
  uint64_t arena_base() const { return base_.load(std::memory_order_relaxed); }
  uint64_t arena_bytes() const { return bytes_.load(std::memory_order_acquire); }
  // Returns false before SetArena().
  bool InArena(uint64_t address, uint64_t bytes) const {
    const uint64_t size = arena_bytes();
    const uint64_t offset = address - arena_base();
    return offset < size && bytes <= size - offset;
  }
  // A segment of host memory is mapped from now on, at the address by which commands name it.
  void AddHost(uint64_t address, uint64_t bytes) { AddHost(address, bytes, address); }
  // The same, but host and device have it at `address`.
  void AddHost(uint64_t named, uint64_t bytes, uint64_t address);
  // It is about to be unmapped. Returns false, and does nothing, when there is no such segment.
  bool RemoveHost(uint64_t named, uint64_t bytes);
  // From now on, of the memory of modules, only variables are admitted that AddVariable() names: a
  // block of the backend's may also hold what is not for the tenant.
  void LimitVariables() { limits_variables_.store(true, std::memory_order_release); }
  // From now on no attribute is admitted by which a launch would go before those of others, or
  // begin before its time: others share the device.
  void LimitAttributes() { limits_attributes_.store(true, std::memory_order_release); }
  // A variable exists from now on, at an address where no other begins; without effect before
  // LimitVariables(). Commands name it at `named`: at its address, or anywhere in the arena.
  void AddVariable(uint64_t named, uint64_t bytes, uint64_t address);
  // Its module is about to go.
  void RemoveVariable(uint64_t named);

  // Finds the memory of modules in which `address` lies: the whole block of the backend's or, where
  // variables are limited, one variable. Returns nothing for all other memory.
  std::optional<VariableBlock> FindVariables(uint64_t address) const;

  // How often something that was admitted may have ceased to be. Who keeps a span for later, as a
  // graph does, asks again when this has changed since before it was admitted.
  uint64_t removals() const { return removals_.load(std::memory_order_acquire); }

  // --- What a tenant names. Nothing is returned for a span of which any byte lies elsewhere, that
  // wraps around, or whose size overflows; CUDA's error for all of these is kInvalidValue.
  std::optional<GatedSpan> Admit(uint64_t address, uint64_t bytes, MemoryUse use) const;
  // `count` elements of `width` bytes.
  std::optional<GatedSpan> AdmitElements(uint64_t address, uint64_t width, uint64_t count,
                                         MemoryUse use) const;
  // The same in each of `rows` rows that are `pitch` bytes apart and do not overlap.
  std::optional<GatedBox> AdmitRows(uint64_t address, uint64_t pitch, uint64_t width,
                                    uint64_t columns, uint64_t rows, MemoryUse use) const;
  // What BoxSpan() refuses is no box.
  std::optional<GatedBox> AdmitBox(const BoxPlace& place, const BoxExtent& extent,
                                   MemoryUse use) const;
  // An aligned word of an operation on a stream. Variables are not admitted: a worker that takes
  // over could not know what was written. Neither is what has another name: the word is passed on
  // as it is.
  bool AdmitsWord(const MemOp& operation) const;
  // Whether the attribute may be set: a hint about memory (an access policy window) if that is the
  // session's own and has no other name, another one unless attributes are limited.
  bool AdmitsAttribute(const LaunchAttribute& attribute) const;

 private:
  // What lies elsewhere than where it is named, perhaps.
  struct Place {
    uint64_t bytes = 0;
    uint64_t address = 0;
  };

  std::optional<GatedSpan> AdmitOutsideArena(uint64_t address, uint64_t bytes) const;
  // A span of variables, if it is one.
  std::optional<GatedSpan> AdmitVariables(uint64_t address, uint64_t named, uint64_t bytes) const;
  using Places = std::map<uint64_t, Place>;  // By what they are named.
  // The address of what lies within one of the places, which the span names.
  static std::optional<uint64_t> FindIn(const Places& places, uint64_t named, uint64_t bytes);

  MemoryFacts* const facts_;
  std::atomic<uint64_t> base_{0};
  std::atomic<uint64_t> bytes_{0};  // Set last: the arena exists once this is not zero.
  std::atomic<bool> limits_variables_{false};
  std::atomic<bool> limits_attributes_{false};
  std::atomic<uint64_t> removals_{0};
  // No variable is named in the arena below this address.
  std::atomic<uint64_t> first_named_{~uint64_t{0}};
  mutable Mutex mu_;  // No other lock is taken under it, and no call made.
  Places hosts_ ABSL_GUARDED_BY(mu_);
  Places variables_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_GATE_ADDRESS_GATE_H_
