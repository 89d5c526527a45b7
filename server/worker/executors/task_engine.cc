#include "server/worker/executors/task_engine.h"

#include <limits>
#include <variant>

#include "proto/frames.h"
#include "server/worker/executors/kernel.h"

namespace warpline::worker {
namespace {

// What has no address on the host's side.
constexpr uint64_t kOnDevice = 0;

// A copy between two addresses goes over the bus where one of them is host memory that the device
// reaches; `otherwise` for one that stays on the device.
Engine EngineBetween(uint64_t dst, uint64_t src, Engine otherwise) {
  if (InHostArena(dst)) return Engine::kCopyOut;
  return InHostArena(src) ? Engine::kCopyIn : otherwise;
}

// Of extents that nobody has looked at yet: an absurd one counts as a very large one, so that it is
// not taken for a small copy.
uint64_t BoxBytes(uint64_t width, uint64_t height, uint64_t depth) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(width, height, &bytes) ||
      __builtin_mul_overflow(bytes, depth, &bytes)) {
    return std::numeric_limits<uint32_t>::max();
  }
  return bytes;
}

template <typename Box>
uint64_t BoxBytes(const Box& box) {
  return BoxBytes(box.width, box.height, box.depth);
}

// How each command that copies is one between host and device, and of how much. Others bring their
// data, or move none.
struct Look {
  const Engine engine;  // Of the command's row.
  const uint64_t tail_bytes;

  EngineWork operator()(const cmd::CopyFromDevice& copy) const { return {engine, copy.bytes}; }
  EngineWork operator()(const cmd::CopyBoxFromDevice& copy) const {
    return {engine, BoxBytes(copy)};
  }
  EngineWork operator()(const cmd::CopyFromArray& copy) const { return {engine, BoxBytes(copy)}; }
  EngineWork operator()(const cmd::CopyOnDevice& copy) const {
    return {EngineBetween(copy.dst, copy.src, engine), copy.bytes};
  }
  EngineWork operator()(const cmd::CopyBoxOnDevice& copy) const {
    return {EngineBetween(copy.dst, copy.src, engine), BoxBytes(copy)};
  }
  EngineWork operator()(const cmd::CopyDeviceToArray& copy) const {
    return {EngineBetween(kOnDevice, copy.src, engine), BoxBytes(copy)};
  }
  EngineWork operator()(const cmd::CopyArrayToDevice& copy) const {
    return {EngineBetween(copy.dst, kOnDevice, engine), BoxBytes(copy)};
  }
  template <typename Command>
  EngineWork operator()(const Command&) const {
    return {engine, tail_bytes};
  }
};

template <typename Command>
dispatch::KernelFacts FactsOf(const Kernel& kernel, const Command& launch) {
  dispatch::KernelFacts facts = kernel.on_device->facts;
  // Extents that nobody has looked at yet may have a product that wraps around.
  facts.grid_blocks = uint64_t{launch.grid_x} * launch.grid_y * launch.grid_z;
  facts.block_threads = launch.block_x * launch.block_y * launch.block_z;
  facts.shared_bytes += launch.dynamic_shared_bytes;
  return facts;
}

}  // namespace

dispatch::KernelFacts KernelFactsOf(const Task& task) {
  if (task.kernel == nullptr || task.kernel->on_device == nullptr) return {};
  if (const auto* launch = std::get_if<cmd::Launch>(&task.command)) {
    return FactsOf(*task.kernel, *launch);
  }
  if (const auto* launch = std::get_if<cmd::LaunchEx>(&task.command)) {
    return FactsOf(*task.kernel, *launch);
  }
  return {};
}

EngineWork EngineWorkOf(const Task& task) {
  const Look look = {FindCommand(task.id).engine, task.tail.size()};
  const EngineWork work = std::visit(look, task.command);
  if (work.engine != Engine::kCopyIn && work.engine != Engine::kCopyOut) return {work.engine, 0};
  return work.bytes == 0 ? EngineWork{} : work;
}

}  // namespace warpline::worker
