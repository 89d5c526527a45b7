// Copies out what a session's module variables hold, and copies it into those of its next worker.
//
// It serves planned replacements. Whatever a kernel may have written is saved, whether or not the
// client ever asked for its address. Kernels may have kept addresses themselves, so every variable
// must come to lie where it was.
#ifndef WARPLINE_SERVER_WORKER_CONTINUITY_VARIABLE_CARRIER_H_
#define WARPLINE_SERVER_WORKER_CONTINUITY_VARIABLE_CARRIER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "server/device/device.h"
#include "server/hostlink/handover/variable_file.h"
#include "server/worker/continuity/module_variables.h"
#include "server/worker/memory/file_copies.h"

namespace warpline::worker {

// Thread-safe. Save() and Restore() are for a session with nothing in flight, and wait for the
// device.
class VariableCarrier {
 public:
  // Both are borrowed; `code` has loaded the modules.
  VariableCarrier(device::Context* context, device::Modules* code)
      : context_(context), code_(code) {}

  // In all of these, `module` is the client's handle.
  void OnLoaded(uint64_t module, device::ModuleId id, ModuleVariables variables);
  void OnUnloading(uint64_t module);
  // The client was told where a variable or constant lies, and may write it directly.
  void OnFound(uint64_t module, std::string_view name);

  // Writes all variables into the file behind `fd` (borrowed; see
  // server/hostlink/handover/variable_file.h), and calls `saved` for each, so that the next worker
  // is told where to put it. FAILED_PRECONDITION when a module has variables besides those that are
  // known, RESOURCE_EXHAUSTED when they do not fit, INTERNAL when the device fails.
  using Saved = std::function<void(uint64_t module, const std::string& name, uint64_t address,
                                   uint64_t bytes)>;
  absl::Status Save(int fd, const Saved& saved);
  // Reads such a file back after the same modules were loaded. ABORTED when a variable is not where
  // it was or the device fails, INVALID_ARGUMENT when the file is not of this kind.
  absl::Status Restore(int fd);

 private:
  struct Loaded {
    device::ModuleId id{};
    std::set<std::string> names;
    bool complete = true;
  };
  using Modules = std::map<uint64_t, Loaded>;

  Modules Known();
  // Writes one variable at `*at`, and moves `*at` past it.
  absl::Status SaveOne(const Loaded& module, const std::string& name, SavedVariable* saved, int fd,
                       FileCopies* copies, uint64_t* at);
  absl::Status RestoreOne(const Modules& modules, int fd, FileCopies* copies, uint64_t* at);

  device::Context* const context_;
  device::Modules* const code_;
  Mutex mu_;
  Modules modules_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_CONTINUITY_VARIABLE_CARRIER_H_
