#include "server/device/gate/address_gate.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace warpline::device {
namespace {

bool Within(uint64_t address, uint64_t bytes, uint64_t start, uint64_t size) {
  const uint64_t offset = address - start;
  return address >= start && offset < size && bytes <= size - offset;
}

// CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, and where its value has the window.
constexpr uint32_t kAccessPolicyWindow = 1;
// CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, _PROGRAMMATIC_EVENT and _PRIORITY.
constexpr uint32_t kLimited[] = {6, 7, 8};
struct Window {
  uint64_t address;
  uint64_t bytes;
};

}  // namespace

void AddressGate::SetArena(uint64_t base, uint64_t bytes) {
  base_.store(base, std::memory_order_relaxed);
  bytes_.store(bytes, std::memory_order_release);
}

void AddressGate::AddHost(uint64_t named, uint64_t bytes, uint64_t address) {
  MutexLock lock(&mu_);
  hosts_[named] = {bytes, address};
}

bool AddressGate::RemoveHost(uint64_t named, uint64_t bytes) {
  MutexLock lock(&mu_);
  const auto it = hosts_.find(named);
  if (it == hosts_.end() || it->second.bytes != bytes) return false;
  hosts_.erase(it);
  removals_.fetch_add(1, std::memory_order_release);
  return true;
}

void AddressGate::AddVariable(uint64_t named, uint64_t bytes, uint64_t address) {
  MutexLock lock(&mu_);
  variables_[named] = {bytes, address};
  if (named == address) return;
  first_named_.store(std::min(first_named_.load(), named), std::memory_order_release);
}

void AddressGate::RemoveVariable(uint64_t named) {
  MutexLock lock(&mu_);
  variables_.erase(named);
  removals_.fetch_add(1, std::memory_order_release);
}

std::optional<uint64_t> AddressGate::FindIn(const Places& places, uint64_t named, uint64_t bytes) {
  const auto next = places.upper_bound(named);
  if (next == places.begin()) return std::nullopt;
  const auto& [start, place] = *std::prev(next);
  if (!Within(named, bytes, start, place.bytes)) return std::nullopt;
  return place.address + (named - start);
}

std::optional<GatedSpan> AddressGate::Admit(uint64_t address, uint64_t bytes, MemoryUse use) const {
  if (!InArena(address, bytes)) return AdmitOutsideArena(address, bytes);
  if (address >= first_named_.load(std::memory_order_acquire)) {
    std::optional<uint64_t> variable;
    {
      MutexLock lock(&mu_);
      variable = FindIn(variables_, address, bytes);
    }
    if (variable) return AdmitVariables(*variable, address, bytes);
  }
  if (!facts_->IsMapped(address, bytes, use)) return std::nullopt;
  return GatedSpan(address, bytes, MemoryKind::kArena, 0);
}

std::optional<GatedSpan> AddressGate::AdmitOutsideArena(uint64_t address, uint64_t bytes) const {
  {
    MutexLock lock(&mu_);
    if (const auto host = FindIn(hosts_, address, bytes)) {
      return GatedSpan(*host, address, bytes, MemoryKind::kHost, 0);
    }
    if (limits_variables_.load(std::memory_order_acquire)) {
      // One that is named in the arena has no other name.
      const std::optional<uint64_t> variable = FindIn(variables_, address, bytes);
      if (!variable || *variable != address) return std::nullopt;
    }
  }
  return AdmitVariables(address, address, bytes);
}

std::optional<GatedSpan> AddressGate::AdmitVariables(uint64_t address, uint64_t named,
                                                     uint64_t bytes) const {
  VariableBlock block;
  if (!facts_->FindVariables(address, &block) ||
      !Within(address, bytes, block.address, block.bytes)) {
    return std::nullopt;
  }
  return GatedSpan(address, named, bytes, MemoryKind::kVariables, block.owner);
}

std::optional<VariableBlock> AddressGate::FindVariables(uint64_t address) const {
  std::optional<GatedSpan> span = Admit(address, 1, MemoryUse::kRead);
  if (!span || span->kind() != MemoryKind::kVariables) return std::nullopt;
  if (limits_variables_.load(std::memory_order_acquire)) {
    MutexLock lock(&mu_);
    const auto next = variables_.upper_bound(address);
    if (next == variables_.begin()) return std::nullopt;
    const auto& [named, place] = *std::prev(next);
    if (!Within(address, 1, named, place.bytes)) return std::nullopt;
    return VariableBlock{named, place.bytes, span->owner()};
  }
  VariableBlock block;
  if (!facts_->FindVariables(address, &block)) return std::nullopt;
  return block;
}

std::optional<GatedSpan> AddressGate::AdmitElements(uint64_t address, uint64_t width,
                                                    uint64_t count, MemoryUse use) const {
  uint64_t bytes;
  if (__builtin_mul_overflow(width, count, &bytes)) return std::nullopt;
  return Admit(address, bytes, use);
}

std::optional<GatedBox> AddressGate::AdmitRows(uint64_t address, uint64_t pitch, uint64_t width,
                                               uint64_t columns, uint64_t rows,
                                               MemoryUse use) const {
  BoxExtent extent = {0, rows, 1};
  if (__builtin_mul_overflow(width, columns, &extent.width)) return std::nullopt;
  return AdmitBox({address, pitch, 0}, extent, use);
}

std::optional<GatedBox> AddressGate::AdmitBox(const BoxPlace& place, const BoxExtent& extent,
                                              MemoryUse use) const {
  uint64_t bytes;
  if (!BoxSpan(place, extent, &bytes)) return std::nullopt;
  const std::optional<GatedSpan> span = Admit(place.address, bytes, use);
  if (!span) return std::nullopt;
  BoxPlace there = place;
  there.address = span->address();
  return GatedBox(*span, there);
}

bool AddressGate::AdmitsWord(const MemOp& operation) const {
  const bool wide = operation.kind == MemOp::kWait64 || operation.kind == MemOp::kWrite64;
  const uint64_t bytes = wide ? 8 : 4;
  if (operation.address % bytes != 0) return false;
  const std::optional<GatedSpan> span =
      Admit(operation.address, bytes, IsWait(operation) ? MemoryUse::kRead : MemoryUse::kWrite);
  return span && span->kind() != MemoryKind::kVariables && span->address() == span->named();
}

bool AddressGate::AdmitsAttribute(const LaunchAttribute& attribute) const {
  if (attribute.id != kAccessPolicyWindow) {
    return !limits_attributes_.load(std::memory_order_acquire) ||
           !std::count(std::begin(kLimited), std::end(kLimited), attribute.id);
  }
  Window window;
  std::memcpy(&window, attribute.value.data(), sizeof(window));
  // A window without bytes takes back what was said before.
  if (window.bytes == 0) return true;
  const auto span = Admit(window.address, window.bytes, MemoryUse::kRead);
  return span && span->address() == span->named();
}

}  // namespace warpline::device
