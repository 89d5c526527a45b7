// Speaks to a cluster of etcd: one connection to each of its members, of which one is used for as
// long as it answers.
#ifndef WARPLINE_SCHEDULER_ETCD_ETCD_CLIENT_H_
#define WARPLINE_SCHEDULER_ETCD_ETCD_CLIENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/etcd/etcd.pb.h"
#include "transport/grpc/unary/unary_connection.h"

namespace warpline::scheduler {

struct EtcdClientOptions {
  std::vector<GrpcTarget> members;  // At least one.
  // How long one member may take before the next is asked, where asking twice does no harm.
  absl::Duration attempt = absl::Milliseconds(500);
  // How long a call may take in all.
  absl::Duration deadline = absl::Milliseconds(1500);
  // For tests: answers calls in the members' place. The method is a path, and request and answer
  // are serialized.
  std::function<absl::StatusOr<std::string>(const std::string& method, const std::string& request)>
      answer = nullptr;
};

// Thread-safe. Calls block. Every call may return UNAVAILABLE or DEADLINE_EXCEEDED when no member
// answers, or no majority is there; other errors are etcd's own.
class EtcdClient {
 public:
  explicit EtcdClient(EtcdClientOptions options);

  // Reads what a majority knows. Asks other members when one does not answer.
  absl::StatusOr<warpline_etcd::RangeResponse> Range(const warpline_etcd::RangeRequest& request);
  // Carries a transaction out. It is sent once: whether it was carried out is not known after an
  // error for which MayHaveHappened().
  absl::StatusOr<warpline_etcd::TxnResponse> Commit(const warpline_etcd::TxnRequest& request);
  // The same for a transaction that changes nothing, which may be sent again.
  absl::StatusOr<warpline_etcd::TxnResponse> Look(const warpline_etcd::TxnRequest& request);

  // Begins a lease of etcd's, which ends by itself after `ttl` (at least a second, rounded up)
  // unless it is kept alive. Returns its id.
  absl::StatusOr<int64_t> GrantLease(absl::Duration ttl);
  // Returns the time that the lease has from now on, zero if it has ended.
  absl::StatusOr<absl::Duration> KeepLeaseAlive(int64_t lease);
  absl::Status RevokeLease(int64_t lease);

  // The members, for people.
  const std::string& name() const { return name_; }

 private:
  enum class Harm { kNone, kIfTwice };
  absl::StatusOr<std::string> Call(const char* method, const std::string& request, Harm harm);
  template <typename Reply, typename Request>
  absl::StatusOr<Reply> CallFor(const char* method, const Request& request, Harm harm);

  const EtcdClientOptions options_;
  std::string name_;
  std::vector<std::unique_ptr<UnaryConnection>> members_;
  std::atomic<size_t> current_{0};
};

// Whether a change that failed with `error` may have been made all the same, now or later.
bool MayHaveHappened(const absl::Status& error);

// The end of the range of all keys that begin with `prefix`, which must not be empty.
std::string EndOfPrefix(absl::string_view prefix);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_ETCD_ETCD_CLIENT_H_
