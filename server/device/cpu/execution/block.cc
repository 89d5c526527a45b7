#include "server/device/cpu/execution/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/device/cpu/machine/device_limits.h"
#include "server/device/cpu/memory/host_budget.h"

namespace warpline::cpu {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint32_t kSharedUnit = 16;
constexpr uint32_t kGuardedSharedUnit = 128;
constexpr uint32_t kLeastShared = 1024;  // As much of a block's a GPU's driver keeps for itself.

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

bool DependsOnBlock(Special special) {
  return special == Special::kCtaidX || special == Special::kCtaidY ||
         special == Special::kCtaidZ || special == Special::kSmId;
}

// Maps memory that costs nothing until it is touched; returns null when there is none.
uint8_t* MapLazily(uint64_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<uint8_t*>(at);
}

}  // namespace

Block::Block(const LaunchShape& shape)
    : shape_(shape),
      code_(*shape.code),
      threads_(shape.block[0] * shape.block[1] * shape.block[2]),
      warp_count_((threads_ + kLanes - 1) / kLanes),
      warps_(warp_count_) {
  // Registers start zeroed: a kernel that reads one before writing it gets the same on every run.
  SizeStacks();
  const uint64_t stride = RoundUp(std::max<uint64_t>(register_bytes_, 64), 64);
  register_map_bytes_ = RoundUp(stride * warp_count_, kPage);
  local_stride_ = RoundUp(local_bytes_, 16);
  local_map_bytes_ = RoundUp(std::max<uint64_t>(local_stride_ * warp_count_ * kLanes, 1), kPage);
  // Return addresses are kept for as many levels as calls go deep.
  const uint64_t returns = uint64_t{max_depth_} * sizeof(std::array<ReturnFrame, kLanes>);
  const uint64_t bytes = register_map_bytes_ + local_map_bytes_ + returns * warp_count_;
  if (shape.budget != nullptr) {
    if (!shape.budget->TryReserve(bytes)) return;
    reserved_bytes_ = bytes;
  }
  uint8_t* const registers = MapLazily(register_map_bytes_);
  locals_ = MapLazily(local_map_bytes_);
  if (registers == nullptr || locals_ == nullptr) {
    if (registers != nullptr) munmap(registers, register_map_bytes_);
    return;
  }
  registers_ = registers;

  const uint32_t alignment = std::max<uint32_t>(code_.shared_alignment, 16);
  // GPUs hand it out in pieces of 128 bytes. Smaller ones show more of a program's mistakes.
  program_shared_bytes_ = static_cast<uint32_t>(
      RoundUp(code_.static_shared_bytes + shape.dynamic_shared_bytes, kSharedUnit));
  // Guarded kernels ask how much there is, and rely on a GPU's pieces and on what its driver keeps.
  const bool asks =
      std::any_of(code_.specials.begin(), code_.specials.end(),
                  [](const auto& special) { return special.first == Special::kAggrSmem; });
  shared_bytes_ = program_shared_bytes_;
  if (asks) {
    const auto whole = static_cast<uint32_t>(RoundUp(shared_bytes_, kGuardedSharedUnit));
    shared_bytes_ = std::max(whole, kLeastShared);
  }
  shared_storage_.resize(shared_bytes_ + alignment);
  const auto start = reinterpret_cast<uint64_t>(shared_storage_.data());
  shared_ = reinterpret_cast<uint8_t*>(RoundUp(start, alignment));

  for (uint32_t w = 0; w < warp_count_; ++w) {
    Warp& warp = warps_[w];
    warp.index = w;
    warp.regs = registers_ + w * stride;
    for (const ConstantSlot& constant : code_.constants) {
      uint8_t* const slot = warp.regs + constant.slot;
      if (constant.width == Width::kPred) {
        const uint32_t bits = constant.bits != 0 ? kAllLanes : 0;
        std::memcpy(slot, &bits, sizeof(bits));
        continue;
      }
      const auto bytes = static_cast<size_t>(constant.width);
      for (size_t i = 0; i < kLanes; ++i) std::memcpy(slot + i * bytes, &constant.bits, bytes);
    }
    for (const auto& [special, slot] : code_.specials) {
      FillSpecial(warp, warp.regs, special, slot, kAllLanes);
    }
  }
}

Block::~Block() {
  if (registers_ != nullptr) munmap(registers_, register_map_bytes_);
  if (locals_ != nullptr) munmap(locals_, local_map_bytes_);
  if (reserved_bytes_ != 0) shape_.budget->Release(reserved_bytes_);
}

void Block::SizeStacks() {
  register_bytes_ = code_.register_bytes;
  local_bytes_ = code_.local_bytes;
  max_depth_ = code_.max_depth;
  if (!code_.recursive || shape_.stack_bytes <= kDefaultStackBytes) return;
  const auto grow = [&](uint32_t value, uint64_t limit) {
    const uint64_t scaled = uint64_t{value} * shape_.stack_bytes / kDefaultStackBytes;
    return static_cast<uint32_t>(std::min(scaled, std::max<uint64_t>(limit, value)));
  };
  register_bytes_ = grow(register_bytes_, kMaxRegisterStack);
  local_bytes_ = grow(local_bytes_, kMaxLocalStack);
  max_depth_ = grow(max_depth_, kMaxCallDepth);
}

void Block::Start(uint64_t index) {
  index_[0] = static_cast<uint32_t>(index % shape_.grid[0]);
  index_[1] = static_cast<uint32_t>(index / shape_.grid[0] % shape_.grid[1]);
  index_[2] = static_cast<uint32_t>(index / shape_.grid[0] / shape_.grid[1]);
  barriers_ = {};
  live_warps_ = warp_count_;
  fault_ = CudaResult::kSuccess;
  fault_text_.clear();
  for (Warp& warp : warps_) {
    const uint32_t lanes = std::min<uint32_t>(threads_ - warp.index * kLanes, kLanes);
    warp.alive = lanes == kLanes ? kAllLanes : (1u << lanes) - 1;
    warp.current = Group();
    warp.waiting_count = 1;
    warp.waiting[0] = Group();
    warp.waiting[0].mask = warp.alive;
    warp.waiting[0].pc = code_.functions[0].entry_pc;
    warp.arrived_barrier = kNoSlot;
    warp.arrive_lanes = 0;
    for (const auto& [special, slot] : code_.specials) {
      if (DependsOnBlock(special)) FillSpecial(warp, warp.regs, special, slot, kAllLanes);
    }
  }
}

bool Block::Fault(CudaResult result, const Op& op, const std::string& text) {
  if (fault_ == CudaResult::kSuccess) {
    fault_ = result;
    fault_text_ = absl::StrCat(text, " in kernel ", code_.name, ", PTX line ", op.line, ", block ",
                               index_[0], ",", index_[1], ",", index_[2]);
  }
  return false;
}

}  // namespace warpline::cpu
