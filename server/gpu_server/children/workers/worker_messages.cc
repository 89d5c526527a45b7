#include "server/gpu_server/children/workers/worker_messages.h"

#include <utility>

#include "absl/status/status.h"

namespace warpline::server {

using warpline_internal::FromWorker;

absl::StatusOr<bool> HandOn(const FromWorker& message, std::vector<UniqueFd> fds,
                            WorkerEvents* events) {
  switch (message.kind_case()) {
    case FromWorker::kOpened:
      events->OnWorkerOpened(message.opened());
      return true;
    case FromWorker::kMemoryDone:
      events->OnMemoryDone(message.memory_done());
      return true;
    case FromWorker::kSaved:
      events->OnVariablesSaved(message.saved());
      return true;
    case FromWorker::kHostDone:
      events->OnHostDone(message.host_done());
      return true;
    case FromWorker::kReadDone:
      events->OnReadDone(message.read_done());
      return true;
    case FromWorker::kCharge:
      events->OnCharge(message.charge());
      // It waits for the answer, so nothing else is due from it. Others have their turn before the
      // next of one that does not wait.
      return false;
    case FromWorker::kUncharge:
      events->OnUncharge(message.uncharge());
      return true;
    case FromWorker::kFindModule:
      events->OnFindModule(message.find_module());
      return true;
    case FromWorker::kKeepModule:
      // Without one, there was no room for it here. It is an offer.
      if (fds.empty()) return true;
      if (fds.size() != 1) break;
      events->OnKeepModule(message.keep_module(), std::move(fds[0]));
      return true;
    case FromWorker::kModuleLoaded:
      events->OnModuleLoaded(message.module_loaded());
      return true;
    default:
      break;
  }
  return absl::InvalidArgumentError("bad message: unknown kind");
}

std::vector<int> OpeningFiles(const WorkerRings* rings, const SessionFiles& files) {
  if (rings == nullptr) return {};
  std::vector<int> fds = rings->child_fds();
  fds.push_back(files.journal);
  for (const int file : {files.board, files.variables, files.compiler, files.dispatch}) {
    if (file >= 0) fds.push_back(file);
  }
  return fds;
}

}  // namespace warpline::server
