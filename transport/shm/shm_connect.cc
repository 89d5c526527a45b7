#include "transport/shm/shm_connect.h"

#include <utility>

#include "transport/shm/shm_end.h"
#include "transport/shm/shm_packets.h"

namespace warpline {

absl::StatusOr<std::unique_ptr<LinkEnd>> ShmConnectOn(UniqueFd socket, absl::Time until) {
  auto answer = shm_internal::Await(socket.get(), until);
  if (!answer.ok()) return answer.status();
  if (!answer->status.ok()) return answer->status;
  if (!answer->rings.has_value()) return absl::InvalidArgumentError("the server gives no rings");
  return shm_internal::ShmEnd::Create(std::move(socket), std::move(answer->rings->to_server),
                                      std::move(answer->rings->to_client));
}

}  // namespace warpline
