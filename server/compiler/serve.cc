#include "server/compiler/serve.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/packets/packet_socket.h"
#include "common/unique_fd.h"
#include "proto/compiler.pb.h"
#include "server/compiler/broker.h"
#include "server/compiler/jit_link.h"
#include "server/compiler/stages.h"
#include "server/jail/jail.h"

namespace warpline::compiler {
namespace {

using warpline_internal::CompilerPrepared;
using warpline_internal::FromCompiler;
using warpline_internal::PrepareCompiler;
using warpline_internal::ToCompiler;

// Closes the jail once the library is there, which may lie anywhere.
absl::Status CloseJail(const PrepareCompiler& prepare, CompilerPrepared* prepared) {
  if (!prepare.has_jail()) return absl::OkStatus();
  jail::Jail jail(prepare.jail());
  absl::Status status = jail.CloseBeforeDriver();
  if (status.ok()) status = jail.CloseBeforeTenants();
  *prepared->mutable_jail() = jail.report();
  return status;
}

// Whether the server has more to say.
bool OnServer(int socket, Broker* broker) {
  ToCompiler message;
  std::vector<UniqueFd> fds;
  const absl::Status received = ReceivePacket(socket, &message, &fds);
  // The worker finds that nobody holds the other end.
  if (absl::IsResourceExhausted(received)) return true;
  if (!received.ok()) return false;
  if (message.has_add_worker() && fds.size() == 1) broker->AddClient(std::move(fds[0]));
  return true;
}

}  // namespace

absl::Status Serve(int socket) {
  ToCompiler order;
  std::vector<UniqueFd> none;
  const absl::Status received = ReceivePacket(socket, &order, &none);
  if (!received.ok()) return received;
  if (!order.has_prepare()) return absl::InvalidArgumentError("a compiler without its orders");

  FromCompiler answer;
  CompilerPrepared& prepared = *answer.mutable_prepared();
  absl::StatusOr<JitLink> jit = absl::NotFoundError("no machine code is asked for");
  if (order.prepare().compiles()) {
    jit = JitLink::Load(order.prepare().library());
    if (jit.ok()) {
      prepared.set_library_version(jit->version());
    } else {
      prepared.set_no_library(std::string(jit.status().message()));
    }
  }
  const absl::Status closed = CloseJail(order.prepare(), &prepared);
  if (!closed.ok()) prepared.set_error(std::string(closed.message()));
  const absl::Status sent = SendPacket(socket, answer, {});
  if (!closed.ok()) return closed;
  if (!sent.ok()) return sent;

  BrokerOptions options;
  options.stages = RealStages(jit.ok() ? &*jit : nullptr);
  options.library_version = prepared.library_version();
  if (order.prepare().cache_bytes() > 0) options.cache_bytes = order.prepare().cache_bytes();
  Broker broker(std::move(options));
  broker.Run(socket, [&] { return OnServer(socket, &broker); });
  return absl::OkStatus();
}

}  // namespace warpline::compiler
