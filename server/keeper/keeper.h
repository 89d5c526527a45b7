// The keeper of one device: makes, scrubs and exports memory for the server that started it, moves
// it to host memory and back, and never runs a tenant's code.
#ifndef WARPLINE_SERVER_KEEPER_KEEPER_H_
#define WARPLINE_SERVER_KEEPER_KEEPER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/mapped_memory.h"
#include "common/unique_fd.h"
#include "proto/worker.pb.h"
#include "server/device/device.h"

namespace warpline {

// Thread-compatible.
class Keeper {
 public:
  // The type of device::OpenBackend; tests pass another function.
  using OpenBackend =
      std::function<absl::StatusOr<std::unique_ptr<device::Backend>>(std::string_view name)>;

  explicit Keeper(OpenBackend open_backend) : open_backend_(std::move(open_backend)) {}

  // Answers the packets on `fd` (proto/worker.proto) until the server closes it. Blocks. Returns OK
  // at the end of the stream, otherwise what was wrong with the socket or a packet.
  absl::Status Serve(int fd);

 private:
  using FromKeeper = warpline_internal::FromKeeper;

  // Opens the device inside the jail that the request has.
  absl::Status OpenJailed(const warpline_internal::OpenKeeper& request, FromKeeper* reply);
  // Each of these fills in `*reply`, and returns the status for its code and message.
  absl::Status Open(const warpline_internal::OpenKeeper& request, FromKeeper* reply);
  absl::Status Create(const warpline_internal::CreateChunks& request, FromKeeper* reply,
                      std::vector<UniqueFd>* created);
  absl::Status ReadFree(FromKeeper* reply);
  absl::Status AddBlock(const warpline_internal::AddHostBlock& request,
                        const std::vector<UniqueFd>& fds);
  absl::Status Find(const warpline_internal::FindUsed& request, const std::vector<UniqueFd>& fds,
                    FromKeeper* reply);
  absl::Status Move(const warpline_internal::MoveChunks& request, const std::vector<UniqueFd>& fds);

  const OpenBackend open_backend_;
  std::unique_ptr<device::Backend> backend_;
  // By number. Before the source, which has them registered.
  std::map<uint32_t, MappedMemory> blocks_;
  std::unique_ptr<device::ChunkSource> chunks_;
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_KEEPER_KEEPER_H_
