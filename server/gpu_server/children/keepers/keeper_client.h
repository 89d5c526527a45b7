// The server's end of a keeper process: starts it, asks it, and starts it again when it dies.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_KEEPERS_KEEPER_CLIENT_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_KEEPERS_KEEPER_CLIENT_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "memory/chunk_pool.h"
#include "proto/worker.pb.h"
#include "server/hostlink/process/child_process.h"
#include "server/hostlink/process/running_process.h"
#include "server/jail/jailer.h"

namespace warpline::server {

struct KeeperOptions {
  ProcessLauncher* launcher = ChildLauncher();  // Borrowed.
  jail::Jailer* jailer = nullptr;               // Borrowed; null for no jail, in tests.
  ChildOptions program;
  std::string backend = "auto";
  int ordinal = 0;
  // The 16 bytes by which the device is known; empty for those that CUDA says, which for a MIG
  // instance may be its GPU's.
  std::string uuid = {};
  // A keeper that does not answer a request for so long counts as dead.
  absl::Duration answer_timeout = absl::Seconds(60);
};

// Runs on one thread, which blocks in every call and must outlive the keeper process.
class KeeperClient : public ChunkMaker {
 public:
  explicit KeeperClient(KeeperOptions options) : options_(std::move(options)) {}

  // Starts the process and opens the device. Also restarts one that died; what "auto" turned out to
  // be stays.
  absl::Status Start();

  bool running() const { return process_ != nullptr; }
  // Readable when the keeper has exited; -1 when it is not running.
  int exit_fd() const { return process_ == nullptr ? -1 : process_->exit_fd(); }
  pid_t pid() const { return process_ == nullptr ? 0 : process_->pid(); }
  // Ends the process if it is there, and says how it ended.
  std::string Stop();

  // What the last successful Start() found.
  const warpline_internal::DeviceInfo& device() const { return device_; }
  int device_count() const { return device_count_; }
  const std::string& backend() const { return options_.backend; }
  // Why "auto" did not choose a GPU; empty when it did or was not asked.
  const std::string& note() const { return note_; }

  // ChunkMaker. UNAVAILABLE when the keeper is not running or dies meanwhile; it is then stopped.
  absl::StatusOr<std::vector<UniqueFd>> Create(uint64_t bytes, size_t count) override;
  absl::StatusOr<std::optional<uint64_t>> FreeBytes() override;

  // Send the keeper the message of this name in proto/worker.proto, and wait for its answer. The
  // descriptors are borrowed. They return the errors of ChunkMaker. A keeper that was started again
  // has no host blocks.
  absl::Status AddHostBlock(uint32_t number, int fd, uint64_t bytes);
  absl::StatusOr<std::vector<bool>> FindUsed(const warpline_internal::FindUsed& find,
                                             absl::Span<const int> fds);
  absl::Status Move(const warpline_internal::MoveChunks& move, absl::Span<const int> fds);

 private:
  // One request, with descriptors, and its answer.
  absl::StatusOr<warpline_internal::FromKeeper> Ask(const warpline_internal::ToKeeper& request,
                                                    absl::Span<const int> sent,
                                                    std::vector<UniqueFd>* received);

  KeeperOptions options_;
  std::unique_ptr<jail::Cell> cell_;  // The process's; null for none.
  std::unique_ptr<RunningProcess> process_;
  UniqueFd socket_;
  warpline_internal::DeviceInfo device_;
  int device_count_ = 0;
  std::string note_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_KEEPERS_KEEPER_CLIENT_H_
