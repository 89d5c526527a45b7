#include "server/worker/lanes/task_engine.h"

#include "common/cuda/box.h"
#include "proto/frames.h"

namespace warpline::worker {
namespace {

uint64_t BytesOf(const Task& task) {
  if (const auto* const out = std::get_if<cmd::CopyFromDevice>(&task.command)) return out->bytes;
  if (const auto* const any = std::get_if<cmd::CopyOnDevice>(&task.command)) return any->bytes;
  if (const auto* const box = std::get_if<cmd::CopyBoxFromDevice>(&task.command)) {
    return BoxExtent{box->width, box->height, box->depth}.bytes();
  }
  return task.tail.size();
}

}  // namespace

Engine EngineOfCopy(const cmd::CopyOnDevice& copy) {
  if (InHostArena(copy.dst)) return Engine::kCopyOut;
  if (InHostArena(copy.src)) return Engine::kCopyIn;
  return FindCommand(CommandId::kCopyOnDevice).engine;
}

EngineWork EngineWorkOf(const Task& task) {
  const auto* const copy = std::get_if<cmd::CopyOnDevice>(&task.command);
  const Engine engine = copy != nullptr ? EngineOfCopy(*copy) : FindCommand(task.id).engine;
  if (engine != Engine::kCopyIn && engine != Engine::kCopyOut) return {engine, 0};
  const uint64_t bytes = BytesOf(task);
  return bytes == 0 ? EngineWork{} : EngineWork{engine, bytes};
}

}  // namespace warpline::worker
