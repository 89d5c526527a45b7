#include "server/gpu_server/worker_program.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/hostlink/backends/backend_names.h"

namespace warpline::server {
namespace {

// Of a shared worker: as many as the driver has for a process.
constexpr int kSharedHardwareQueues = 32;

ChildOptions Program(std::string path, const std::string& backend, const char* loading,
                     int hardware_queues) {
  ChildOptions program;
  program.path = std::move(path);
  if (!UsesNvidiaDriver(backend)) return program;
  // NVIDIA's driver places module variables by the process's layout, and a worker that takes over
  // from another must find them where they were.
  program.same_addresses = true;
  // The driver's cache of what it compiled would be one for all tenants, who could tell by the time
  // that a load takes what others have loaded, or change it for them.
  program.environment = {{"CUDA_MODULE_LOADING", loading}, {"CUDA_CACHE_DISABLE", "1"}};
  if (hardware_queues > 0) {
    program.environment.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", absl::StrCat(hardware_queues));
  }
  return program;
}

}  // namespace

ChildOptions WorkerProgram(std::string path, const std::string& backend, int hardware_queues) {
  return Program(std::move(path), backend, "LAZY", hardware_queues);
}

// Loading is lazy because NVIDIA's libraries have more kernels than a device has room for. The
// worker has the kernels of sessions' modules loaded itself, at quiet moments.
ChildOptions SharedWorkerProgram(std::string path, const std::string& backend,
                                 const std::string& libraries) {
  ChildOptions program = Program(std::move(path), backend, "LAZY", kSharedHardwareQueues);
  if (!libraries.empty() && UsesNvidiaDriver(backend)) {
    program.environment.emplace_back("WARPLINE_CUDA_LIBRARIES", libraries);
  }
  return program;
}

}  // namespace warpline::server
