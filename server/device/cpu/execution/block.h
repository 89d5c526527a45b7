// One block of threads while it runs: its warps, shared memory and barriers.
//
// A warp is a set of groups: lanes that stand at the same instruction. The group at the deepest
// call and, among those, at the lowest program counter runs first, which brings diverged lanes
// together again. A group that keeps running while others could run, because it spins perhaps, has
// to yield after a while. A Block belongs to one host thread at a time, and is reused for one block
// after another of the same launch.
#ifndef WARPLINE_SERVER_DEVICE_CPU_EXECUTION_BLOCK_H_
#define WARPLINE_SERVER_DEVICE_CPU_EXECUTION_BLOCK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/cpu/machine/kernel_code.h"
#include "server/device/cpu/machine/op.h"
#include "server/device/cpu/memory/memory_map.h"

namespace warpline::cpu {

class DeviceHeap;
class HostBudget;
class PrintBuffer;

// What all blocks of a launch share. Immutable while it runs.
struct LaunchShape {
  const KernelCode* code = nullptr;
  const MemoryMap* memory = nullptr;
  absl::Span<const std::byte> params;
  // The variables of the kernel's own module, which are checked without a lock.
  uint64_t variables_address = 0;
  uint64_t variables_bytes = 0;
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::array<uint32_t, 3> block{1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
  uint64_t grid_id = 0;
  // Memory in which the blocks meet when all run at the same time; 0 when they do not.
  uint64_t workspace = 0;
  uint64_t stack_bytes = 1024;    // The limit that holds for recursion
  PrintBuffer* output = nullptr;  // Null when what is printed is dropped
  DeviceHeap* heap = nullptr;     // Null when malloc() fails
  HostBudget* budget = nullptr;   // Null when there is no bound
  uint32_t multiprocessors = 1;
};

enum class GroupState : uint8_t { kReady, kAtBarrier, kAtWarpSync };

// Lanes of a warp that run together.
struct Group {
  uint32_t mask = 0;
  uint32_t pc = 0;
  uint32_t depth = 0;        // Of calls
  uint32_t frame = 0;        // Offset of the register frame
  uint32_t local_frame = 0;  // Offset of the local frame
  GroupState state = GroupState::kReady;
  bool yielded = false;    // It had its turn, so others go first.
  uint8_t barrier = 0;     // Which barrier, with kAtBarrier
  uint32_t sync_mask = 0;  // The lanes that it waits for, with kAtWarpSync
};

// Where a lane continues after a return.
struct ReturnFrame {
  uint32_t pc = 0;
  uint32_t frame = 0;
  uint32_t local_frame = 0;
  uint32_t site = 0;  // The call, in KernelCode::calls
};

struct Warp {
  uint8_t* regs = nullptr;
  uint32_t index = 0;
  uint32_t alive = 0;          // Lanes that have not exited.
  Group current;               // The running group, when `running`.
  uint32_t waiting_count = 0;  // Groups in `waiting`
  std::array<Group, kLanes> waiting;
  uint32_t arrived_barrier = kNoSlot;  // The barrier at which all living lanes wait.
  uint32_t arrive_lanes = 0;           // Lanes that executed bar.arrive, while others have not.
  uint32_t arrive_barrier = 0;         // Of which barrier
  std::vector<std::array<ReturnFrame, kLanes>> returns;  // By depth
};

class Block {
 public:
  enum class Outcome { kDone, kMoreToDo, kFault };

  // `shape` and what it points to must outlive the block.
  explicit Block(const LaunchShape& shape);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block();

  // False when there is no memory for registers or locals, or the budget is used up.
  bool ok() const { return registers_ != nullptr; }

  // Prepares to run block `index` of the grid from its start.
  void Start(uint64_t index);

  // Runs every warp for a while. Call it again after kMoreToDo; after kFault, fault() tells why.
  Outcome Run();

  CudaResult fault() const { return fault_; }
  const std::string& fault_text() const { return fault_text_; }

  // --- For instruction handlers.
  const LaunchShape& shape() const { return shape_; }
  const KernelCode& code() const { return code_; }
  uint8_t* shared() const { return shared_; }
  uint32_t shared_bytes() const { return shared_bytes_; }
  const std::array<uint32_t, 3>& index() const { return index_; }
  // The base of the local memory of a lane, which has local_bytes().
  uint8_t* local(const Warp& warp, int lane) const {
    return locals_ + (uint64_t{warp.index} * kLanes + static_cast<uint32_t>(lane)) * local_stride_;
  }
  uint32_t local_bytes() const { return local_bytes_; }
  bool Fault(CudaResult result, const Op& op, const std::string& text);

 private:
  static constexpr uint32_t kNamedBarriers = 16;
  static constexpr uint32_t kMaxWarpgroups = 8;

  struct Barrier {
    uint32_t warps = 0;     // Warps that wait as a whole
    uint32_t arrived = 0;   // Threads that did bar.arrive
    uint32_t expected = 0;  // Threads; 0 for all of the block
    bool reduces = false;
    bool in_use = false;
  };

  void SizeStacks();

  // --- Scheduling within a warp (block_schedule.cc).
  bool RunWarp(Warp& warp);  // False on a fault.
  bool HasReady(const Warp& warp) const;
  void Deadlock();
  bool SelectGroup(Warp& warp);
  void Park(Warp& warp, const Group& group);
  uint32_t NextJoin(const Warp& warp) const;
  void ExitLanes(Warp& warp, uint32_t mask);

  // --- Execution (block_execute.cc).
  // Runs the current group until it blocks, ends, diverges or has used up its turn.
  bool Execute(Warp& warp, int64_t* budget);
  // These change the current group, and park the lanes that go elsewhere.
  bool Call(Warp& warp, const Op& op, uint32_t site, uint32_t mask);
  bool CallIndirect(Warp& warp, const Op& op, uint32_t mask);
  void Return(Warp& warp, uint32_t mask);
  void ParkRest(Warp& warp, uint32_t taken);
  void CopyCall(Warp& warp, const CallCopy& copy, const Group& caller, const Group& callee,
                uint32_t mask, bool to_callee);
  void FillSpecial(const Warp& warp, uint8_t* regs, Special special, uint32_t slot, uint32_t mask);

  // --- Barriers and exchanges between lanes (block_sync.cc).
  // Both take those lanes out of the current group that have to wait.
  bool EnterBarrier(Warp& warp, const Op& op, uint32_t mask);
  void EnterWarpgroupBarrier(Warp& warp);
  void WaitAtBarrier(Warp& warp, uint32_t id, uint32_t threads);
  bool WarpSettled(Warp& warp);  // False on a fault, as the following.
  bool JoinBarrier(const Op& op, uint32_t id, uint32_t threads);
  void CheckBarrier(uint32_t id);
  void ReleaseBarrier(uint32_t id);
  void EnterWarpSync(Warp& warp, const Op& op, uint32_t mask);
  void ResolveWarpSync(Warp& warp);
  void Exchange(Warp& warp, uint32_t lanes, const uint32_t pcs[kLanes],
                const uint32_t frames[kLanes]);

  const LaunchShape shape_;
  const KernelCode& code_;
  const uint32_t threads_;
  const uint32_t warp_count_;
  // The sizes of the stacks; larger than KernelCode says when the stack limit is.
  uint32_t register_bytes_ = 0;
  uint32_t local_bytes_ = 0;
  uint32_t max_depth_ = 0;
  uint64_t reserved_bytes_ = 0;  // Of the budget
  uint64_t local_stride_ = 0;
  uint32_t shared_bytes_ = 0;
  uint32_t program_shared_bytes_ = 0;  // Of these, what the program has asked for
  uint8_t* registers_ = nullptr;
  uint64_t register_map_bytes_ = 0;
  uint8_t* locals_ = nullptr;
  uint64_t local_map_bytes_ = 0;
  uint8_t* shared_ = nullptr;
  std::vector<std::byte> shared_storage_;
  std::vector<Warp> warps_;
  std::array<Barrier, kNamedBarriers + kMaxWarpgroups> barriers_;  // Those with numbers first
  std::array<uint32_t, 3> index_{};
  uint32_t live_warps_ = 0;
  uint32_t join_pc_ = 0;  // Where the current group meets the next one.
  CudaResult fault_ = CudaResult::kSuccess;
  std::string fault_text_;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_EXECUTION_BLOCK_H_
