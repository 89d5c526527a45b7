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
// time: those that have a lane on a thread for all of them, the others on the accepting thread, so
// that these have to be quick. `peer` is the other end as in Acceptor::Accept(). An error becomes
// the call's status.
using UnaryMethods =
    std::map<std::string, std::function<absl::StatusOr<std::string>(const std::string& peer,
                                                                    const std::string& request)>>;

// Lanes of methods, numbered from 0. Each lane in turn has one call answered, so calls wait only
// for those of their own lane, and for one of each other. When very many wait in a lane, the next
// ones are answered with UNAVAILABLE.
using UnaryMethodLanes = std::map<std::string, size_t>;

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_UNARY_METHODS_H_
