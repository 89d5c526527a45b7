// The keys of a state that several schedulers share, in etcd, as one of them sees it that leads, or
// that only reads.
//
// Each batch is one transaction that is guarded by the key by which the scheduler leads: etcd
// refuses it once another one leads, however long this one was paused in between.
//
// It is not always known whether a batch was written, because its answer may be lost. Such a store
// takes no further batch and confirms nothing, and says so to whoever leads with it. A new term,
// which reads everything again, is the way on; a batch that is still under way then is refused,
// because its guard has gone.
#ifndef WARPLINE_SCHEDULER_ETCD_ETCD_KEY_VALUE_STORE_H_
#define WARPLINE_SCHEDULER_ETCD_ETCD_KEY_VALUE_STORE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/etcd/etcd_client.h"
#include "scheduler/store/key_value_store.h"

namespace warpline::scheduler {

// The key, behind the prefix of a state, by which a scheduler leads. It is none of the state's.
inline constexpr char kLeaderKey[] = "leader";

// The key by which a scheduler leads. It has `create_revision` for as long as that scheduler does.
struct EtcdGuard {
  std::string key;
  int64_t create_revision = 0;
};

// Thread-compatible. Every call waits for etcd.
class EtcdKeyValueStore : public KeyValueStore {
 public:
  // The keys under `prefix`, for the scheduler that leads by `guard`. `client` is borrowed.
  // `on_lost` is called at most once, from within a call to the store, when the store takes no
  // further batch, and says why; it must not call the store, and may be null.
  EtcdKeyValueStore(EtcdClient* client, std::string prefix, EtcdGuard guard,
                    std::function<void(const std::string& why)> on_lost);
  // For a scheduler that does not lead: takes no batch.
  EtcdKeyValueStore(EtcdClient* client, std::string prefix);

  std::string name() const override;
  absl::Status Explain(const absl::Status& error) const override;
  uint64_t epoch() const override { return static_cast<uint64_t>(guard_.create_revision); }
  uint64_t confirmations() const override { return confirmations_; }
  absl::Status ConfirmSince(uint64_t mark) override;
  absl::StatusOr<std::optional<std::string>> Get(const std::string& key) override;
  absl::Status ForEach(const Visitor& visit) override;
  absl::Status Write(const WriteBatch& batch) override;

 private:
  absl::Status Lose(const std::string& why);

  EtcdClient* const client_;
  const std::string prefix_;
  const EtcdGuard guard_;
  const std::function<void(const std::string& why)> on_lost_;
  // Another scheduler leads, or a batch may or may not have been written.
  bool lost_ = false;
  uint64_t confirmations_ = 0;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_ETCD_ETCD_KEY_VALUE_STORE_H_
