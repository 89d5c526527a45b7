// The list of UCX's transports that the connections of sessions may use, such as "rc,tcp": what
// UCX calls UCX_TLS. The operator names it (--ucx_transports), and both ends of a session have it.
//
//   const auto transports = UcxTransports::Parse("rc,tcp");
#ifndef WARPLINE_TRANSPORT_UCX_UCX_TRANSPORTS_H_
#define WARPLINE_TRANSPORT_UCX_UCX_TRANSPORTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpline {

// Thread-compatible.
class UcxTransports {
 public:
  // TCP alone.
  UcxTransports() = default;
  // Parses names, separated by commas. UCX alone knows which names mean something: see
  // UcxEnd::CheckTransports(). INVALID_ARGUMENT for what cannot be such a list.
  static absl::StatusOr<UcxTransports> Parse(absl::string_view text);
  // Parses the list that a server tells its client. Servers that know of no lists tell an empty
  // one, which is TCP alone.
  static absl::StatusOr<UcxTransports> ParseTold(absl::string_view text);

  const std::vector<std::string>& names() const { return names_; }
  std::string ToString() const;

  bool HasTcp() const;
  bool IsOnlyTcp() const { return names_ == UcxTransports().names_; }
  // Every one of them shares memory within a host. UCX does not tell on these when the other end is
  // gone.
  bool AreWithinOneHost() const;
  // INVALID_ARGUMENT, saying which, where one of them is none between hosts.
  absl::Status CheckBetweenHosts() const;

  bool operator==(const UcxTransports& other) const { return names_ == other.names_; }

 private:
  std::vector<std::string> names_ = {"tcp"};
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_UCX_UCX_TRANSPORTS_H_
