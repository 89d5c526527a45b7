// The first words of a session: what its client and its worker say, and what they are told.
#ifndef WARPLINE_SERVER_SESSION_SESSION_MESSAGES_H_
#define WARPLINE_SERVER_SESSION_SESSION_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lease/entitlement.h"
#include "proto/session.pb.h"
#include "proto/worker.pb.h"
#include "server/memory/session_devices.h"
#include "server/process/control_loop.h"
#include "server/session/session_options.h"
#include "server/workers/worker_pool.h"

namespace warpline::server {

// The version that both ends speak. Otherwise the client has broken the protocol, and this says
// how. Cuts what is too long.
absl::StatusOr<uint32_t> CheckHello(warpline_internal::Hello* hello);
// The devices that a session asks for: of those of its lease, if that names some; the ordinals that
// a program uses count those then. Errors as PlaceSession().
absl::StatusOr<std::vector<std::string>> WantedDevices(const warpline_internal::Hello& hello,
                                                       const Entitlement& entitlement);
// What a client is told whose worker has not opened. Of the arena alone, so that it tries another.
absl::Status WhyNotOpened(const warpline_internal::WorkerOpened& opened,
                          const warpline_internal::Hello& hello);
// For each of so many devices, a bit for each that it can access, itself included.
std::vector<uint32_t> PeersOf(const warpline_internal::WorkerOpened& opened, size_t devices);

// What a session is told of itself. All are borrowed.
struct SessionFacts {
  uint64_t id = 0;
  const SessionOptions* options = nullptr;
  const warpline_internal::Hello* hello = nullptr;
  const Entitlement* entitlement = nullptr;
  const SessionDevices* devices = nullptr;
  bool keeps_modules = false;
  bool records_modules = false;
  bool offers_lanes = false;
};

// The devices that its worker opens.
WorkerDevice WorkersDevice(const SessionDevices& devices) RUNS_ON(control_loop);

// For a worker that is the session's first; at most `streams` at a time.
warpline_internal::OpenWorker MakeOpenWorker(const SessionFacts& facts, uint64_t streams)
    RUNS_ON(control_loop);

// What the client needs to go on with a session that is open.
struct WelcomeTerms {
  uint32_t version = 0;
  bool resumable = false;
  std::string secret;
  std::vector<uint32_t> peers;  // As Welcome.peers.
};
warpline_internal::Welcome MakeWelcome(const SessionFacts& facts, const WelcomeTerms& terms)
    RUNS_ON(control_loop);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_SESSION_SESSION_MESSAGES_H_
