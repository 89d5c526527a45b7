// Keeps schedulers from leading while something else works on their state in etcd, as a copy does:
// holds the leader's key.
#ifndef WARPLINE_SCHEDULER_ETCD_ETCD_HOLD_H_
#define WARPLINE_SCHEDULER_ETCD_ETCD_HOLD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "scheduler/etcd/etcd_client.h"
#include "scheduler/etcd/etcd_key_value_store.h"

namespace warpline::scheduler {

// Not thread-safe. Changes that are guarded by guard() are refused by etcd once the hold is over,
// so a holder that is slow loses its work and harms nothing.
class EtcdHold {
 public:
  // FAILED_PRECONDITION, naming it, when a scheduler leads or somebody else holds the state.
  // `client` is borrowed.
  static absl::StatusOr<std::unique_ptr<EtcdHold>> Take(EtcdClient* client,
                                                        const std::string& prefix,
                                                        absl::Duration ttl = absl::Seconds(30));
  // Schedulers may lead again at once.
  ~EtcdHold();
  EtcdHold(const EtcdHold&) = delete;
  EtcdHold& operator=(const EtcdHold&) = delete;

  const EtcdGuard& guard() const { return guard_; }
  // Has the hold last for another `ttl`. Call it from time to time. FAILED_PRECONDITION when it is
  // over.
  absl::Status Extend();

 private:
  EtcdHold(EtcdClient* client, int64_t lease, EtcdGuard guard)
      : client_(client), lease_(lease), guard_(std::move(guard)) {}

  EtcdClient* const client_;
  const int64_t lease_;
  const EtcdGuard guard_;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_ETCD_ETCD_HOLD_H_
