// Small services that a listener answers beside its sessions.
#ifndef WARPLINE_TRANSPORT_UNARY_METHODS_H_
#define WARPLINE_TRANSPORT_UNARY_METHODS_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace warpline {

// Unary methods by path ("/package.Service/Method"), over serialized messages. Called one at a
// time: those that have a queue on a thread for all of them, the others on the accepting thread, so
// that these have to be quick. `peer` is the other end as in Acceptor::Accept(). An error becomes
// the call's status.
using UnaryMethods =
    std::map<std::string, std::function<absl::StatusOr<std::string>(const std::string& peer,
                                                                    const std::string& request)>>;

// In whose name a call waits in its queue. Callers of different names have turns.
struct UnaryCaller {
  std::string name;
  // Calls of known callers find room when those of others fill the queue.
  bool known = false;
};

// The queue in which a method's calls wait. Queues are numbered from 0.
struct UnaryQueue {
  size_t number = 0;
  // Tells whose call it is, before anything else is done for it, or refuses the call. Called on the
  // accepting thread, so it must be quick. When empty, the caller is the peer without its port.
  std::function<absl::StatusOr<UnaryCaller>(const std::string& peer, const std::string& request)>
      admit = nullptr;
};

// Queues of methods by path. Each queue in turn has one call answered, and in each queue each
// caller in turn. So a call waits only for those of its own caller in its own queue, and for one of
// each other caller and queue. When too many wait, the next ones are answered with UNAVAILABLE.
using UnaryMethodQueues = std::map<std::string, UnaryQueue>;

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_UNARY_METHODS_H_
