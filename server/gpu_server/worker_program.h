// How the programs of workers are started.
#ifndef WARPLINE_SERVER_GPU_SERVER_WORKER_PROGRAM_H_
#define WARPLINE_SERVER_GPU_SERVER_WORKER_PROGRAM_H_

#include <string>

#include "server/hostlink/process/running_process.h"

namespace warpline::server {

// A worker of one session, at `path`, for devices of `backend`. 0 hardware queues are as many as
// the driver chooses.
ChildOptions WorkerProgram(std::string path, const std::string& backend, int hardware_queues);
// The worker that many guarded sessions share. It finds NVIDIA's libraries in `libraries`, folders
// that colons divide; it has none when that is empty.
ChildOptions SharedWorkerProgram(std::string path, const std::string& backend,
                                 const std::string& libraries);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_WORKER_PROGRAM_H_
