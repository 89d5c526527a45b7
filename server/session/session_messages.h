// The first words of a session: to its worker, and to its client.
#ifndef WARPLINE_SERVER_SESSION_SESSION_MESSAGES_H_
#define WARPLINE_SERVER_SESSION_SESSION_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lease/entitlement.h"
#include "proto/session.pb.h"
#include "proto/worker.pb.h"
#include "server/memory/session_devices.h"
#include "server/session/session_options.h"
#include "server/workers/worker_pool.h"

namespace warpline {

// What a session is told of itself. All are borrowed.
struct SessionFacts {
  uint64_t id = 0;
  const SessionOptions* options = nullptr;
  const warpline_internal::Hello* hello = nullptr;
  const Entitlement* entitlement = nullptr;
  const SessionDevices* devices = nullptr;
  bool keeps_modules = false;
};

// The devices that its worker opens.
WorkerDevice WorkersDevice(const SessionDevices& devices);

// For a worker that is the session's first; at most `streams` at a time.
warpline_internal::OpenWorker MakeOpenWorker(const SessionFacts& facts, uint64_t streams);

// What the client needs to go on with a session that is open.
struct WelcomeTerms {
  uint32_t version = 0;
  bool resumable = false;
  std::string secret;
  std::vector<uint32_t> peers;  // As Welcome.peers.
};
warpline_internal::Welcome MakeWelcome(const SessionFacts& facts, const WelcomeTerms& terms);

}  // namespace warpline

#endif  // WARPLINE_SERVER_SESSION_SESSION_MESSAGES_H_
