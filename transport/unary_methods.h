// Small services that a listener answers beside its sessions.
#ifndef WARPLINE_TRANSPORT_UNARY_METHODS_H_
#define WARPLINE_TRANSPORT_UNARY_METHODS_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace warpline {

// Unary methods by path ("/package.Service/Method"), over serialized messages. Called on the
// accepting thread one at a time, so they have to be quick. `peer` is the other end as in
// Acceptor::Accept(). An error becomes the call's status.
using UnaryMethods =
    std::map<std::string, std::function<absl::StatusOr<std::string>(const std::string& peer,
                                                                    const std::string& request)>>;

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_UNARY_METHODS_H_
