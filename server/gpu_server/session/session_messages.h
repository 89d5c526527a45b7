// The first words of a session: what its client and its worker say, and what they are told.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_MESSAGES_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lease/entitlement.h"
#include "proto/session.pb.h"
#include "proto/tier.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/children/workers/worker_pool.h"
#include "server/gpu_server/dispatch/dispatch_registration.h"
#include "server/gpu_server/memory/guarded_sizes.h"
#include "server/gpu_server/memory/session_devices.h"
#include "server/gpu_server/session/session_options.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

// The version that both ends speak. Otherwise the client has broken the protocol, and this says
// how. Cuts what is too long, and sets the guard's mode where the tier implies it.
absl::StatusOr<uint32_t> CheckHello(warpline_internal::Hello* hello);
// Whether the server has the tier that a session asks for. FAILED_PRECONDITION where it does not;
// the text says what there is instead.
absl::Status CheckTier(const warpline_internal::Hello& hello, const SessionOptions& options);
// Whether the session's tenant may have the tier. PERMISSION_DENIED where it may not.
absl::Status CheckTenantsTier(const warpline_internal::Hello& hello,
                              const Entitlement& entitlement);
inline bool IsGuarded(const warpline_internal::Hello& hello) {
  return hello.tier() == static_cast<uint32_t>(Tier::kGuarded);
}
// The largest arena that the session may have.
uint64_t MostArenaBytes(const warpline_internal::Hello& hello, const SessionOptions& options);
// The devices that a session asks for: of those of its lease, if that names some; the ordinals that
// a program uses count those then. Errors as PlaceSession(), and INVALID_ARGUMENT for more devices
// than the tier gives.
absl::StatusOr<std::vector<std::string>> WantedDevices(const warpline_internal::Hello& hello,
                                                       const Entitlement& entitlement);
// What a client is told whose worker has not opened. Of the arena alone, so that it tries another.
absl::Status WhyNotOpened(const warpline_internal::WorkerOpened& opened,
                          const warpline_internal::Hello& hello);
// For each of so many devices, a bit for each that it can access, itself included.
std::vector<uint32_t> PeersOf(const warpline_internal::WorkerOpened& opened, size_t devices);

// What a session is told of itself. All pointers are borrowed.
struct SessionFacts {
  uint64_t id = 0;
  const SessionOptions* options = nullptr;
  const warpline_internal::Hello* hello = nullptr;
  const Entitlement* entitlement = nullptr;
  const SessionDevices* devices = nullptr;
  uint64_t resident_bytes = 0;  // See LeaseMembership.
  GuardedSizes guarded;         // A guarded session's, once they are known.
  bool keeps_modules = false;
  bool records_modules = false;
  bool offers_relays = false;
  bool has_mps = false;  // The server has MPS groups.
};

// The devices that its worker opens.
WorkerDevice WorkersDevice(const SessionDevices& devices) RUNS_ON(control_loop);

// How the memory of a guarded session is divided that its quota has left for it.
// RESOURCE_EXHAUSTED where that is too little.
absl::StatusOr<GuardedSizes> DivideMemoryOf(const SessionFacts& facts) RUNS_ON(control_loop);
// The memory that a guarded session gets in its arena when it opens, which is all that it ever has
// there: want_bytes is 0 where there is none left for it.
warpline_internal::MemoryRequest AllMemoryOf(const SessionFacts& facts) RUNS_ON(control_loop);

// For a worker that is the session's first; at most `streams` at a time. `payer` is who pays for
// the session.
warpline_internal::OpenWorker MakeOpenWorker(const SessionFacts& facts, const std::string& payer,
                                             uint64_t streams) RUNS_ON(control_loop);

// Whom policies know a session by: the tenant of its lease, or who pays for it where no scheduler
// gives leases.
std::string PolicyTenantOf(const Entitlement& entitlement, const std::string& payer);

// The trust group in which an isolated session's workers are, on the one device that it has; empty
// for none.
std::string MpsGroupOf(const SessionFacts& facts, const std::string& payer) RUNS_ON(control_loop);

// Its place in the dispatch of its devices, which it shares with the other sessions of its lease,
// or with those of the same `payer` where no scheduler gives leases.
dispatch::DispatchTerms DispatchTermsOf(const SessionFacts& facts, const std::string& payer)
    RUNS_ON(control_loop);

// What the client needs to go on with a session that is open.
struct WelcomeTerms {
  uint32_t version = 0;
  bool resumable = false;
  std::string secret;
  std::vector<uint32_t> peers;  // As Welcome.peers.
  // What the session has of its first device, and gets no more of; 0 for its quota.
  uint64_t fixed_bytes = 0;
  uint64_t streams = 0;  // How many it may have.
};
warpline_internal::Welcome MakeWelcome(const SessionFacts& facts, const WelcomeTerms& terms)
    RUNS_ON(control_loop);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_MESSAGES_H_
