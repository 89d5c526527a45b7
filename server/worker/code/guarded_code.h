// The code of a guarded session, on all its devices.
//
//   GuardedCode code(options, contexts, output);
//   devices[0].code = code.modules(0);
//   session.output = code.output();
#ifndef WARPLINE_SERVER_WORKER_CODE_GUARDED_CODE_H_
#define WARPLINE_SERVER_WORKER_CODE_GUARDED_CODE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "proto/guard.h"
#include "server/device/device.h"
#include "server/worker/code/guard_notes.h"
#include "server/worker/code/guarded_modules.h"
#include "server/worker/code/guarded_output.h"
#include "server/worker/executors/print_relay.h"

namespace warpline::worker {

// Immutable; its parts say which threads they are for.
class GuardedCode {
 public:
  struct Options {
    GuardMode mode = GuardMode::kHardened;  // Not kOff
    int sm = 0;                             // That of the devices, such as 90
    // The session's arena.
    uint64_t arena_base = 0;
    uint64_t arena_bytes = 0;
    // The device is one that other sessions share: the window is the arena alone, and there has to
    // be a compiler.
    bool shared = false;
    // See GuardedModules::Options.
    uint64_t shared_room_bytes = 0;
    uint64_t most_local_bytes = 0;
    compiler::CompilerClient* compiler = nullptr;
    compiler::Output output = compiler::Output::kCubin;
    // The same, of the device with this number in the session.
    std::function<void(size_t device, bool begins)> on_load = {};
  };

  // The contexts of the session's devices are borrowed, as is `driver`, what the driver prints
  // (null for nothing).
  GuardedCode(const Options& options, const std::vector<device::Context*>& contexts,
              OutputSource* driver);

  device::Modules* modules(size_t device) const { return devices_[device].get(); }
  OutputSource* output() const { return output_.get(); }
  // Has the session's kernels end that ask whether to stop, and those that come later.
  void StopKernels();
  // How fast they go; as GuardedModules::SetNap().
  void SetNap(uint32_t nap_ns);

 private:
  GuardNotes notes_;
  std::vector<std::unique_ptr<GuardedModules>> devices_;
  std::unique_ptr<GuardedOutput> output_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_CODE_GUARDED_CODE_H_
