#include "server/worker/code/guarded_code.h"

#include <utility>

#include "proto/devices.h"

namespace warpline::worker {

GuardedCode::GuardedCode(const Options& options, const std::vector<device::Context*>& contexts,
                         OutputSource* driver) {
  const uint64_t part =
      DeviceArenaBytes(options.arena_bytes, static_cast<uint32_t>(contexts.size()));
  std::vector<GuardedModules*> devices;
  for (size_t i = 0; i < contexts.size(); ++i) {
    GuardedModules::Options of;
    of.sm = options.sm;
    of.mode = options.mode;
    of.window = options.shared ? ArenaWindow(options.arena_base, options.arena_bytes)
                               : GuardWindowOf(options.arena_base, options.arena_bytes);
    of.shared = options.shared;
    of.shared_room_bytes = options.shared_room_bytes;
    of.part_base = options.arena_base + i * part;
    of.part_bytes = part;
    of.most_local_bytes = options.most_local_bytes;
    of.compiler = options.compiler;
    of.output = options.output;
    if (options.on_load) {
      of.on_load = [on_load = options.on_load, i](bool begins) { on_load(i, begins); };
    }
    devices_.push_back(std::make_unique<GuardedModules>(contexts[i], of, &notes_));
    devices.push_back(devices_.back().get());
  }
  output_ = std::make_unique<GuardedOutput>(driver, &notes_, std::move(devices));
}

void GuardedCode::StopKernels() {
  for (const auto& device : devices_) device->StopKernels();
}

void GuardedCode::SetNap(uint32_t nap_ns) {
  // A device that cannot write it has lost its context, which others notice.
  for (const auto& device : devices_) (void)device->SetNap(nap_ns);
}

}  // namespace warpline::worker
