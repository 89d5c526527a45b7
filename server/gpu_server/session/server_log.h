// What the server says in the log of its clients, and how often: anybody who can reach it can open
// sessions, lose connections and send nonsense as fast as the network takes it.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_SERVER_LOG_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_SERVER_LOG_H_

#include <cstddef>
#include <string>

#include "common/log/keyed_log_budget.h"

namespace warpline::server {

enum ServerLine : size_t {
  kSessionLine,        // It opened and closed; its worker's lines go with it.
  kRefusedLine,        // It ended before it had a device.
  kProtocolErrorLine,  // Of a client, with or without a session.
  kConnectionLine,     // Lost, or found again.
  kWorkerLostLine,
  kKilledLine,  // For more urgent work.
  kTakeOverLine,
  kReplacedLine,
  kReclaimedLine,
  kMovedLine,  // Its memory was moved to the host for another session.
  kReaderLine,
  kRelayLine,  // It could not be started, or ended too soon.
  kServerLineCount,
};

// For a KeyedLogBudget by LogKey().
KeyedLogBudgetOptions ServerLogOptions();

// Whose lines they are: the tenant's where there is one, otherwise those of the peer's certificate
// or address (PeerUnit()). `peer` is as Acceptor::Accept() gets it.
std::string LogKey(const std::string& tenant, const std::string& peer);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_SERVER_LOG_H_
