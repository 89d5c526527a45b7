// Where the states of tests are, of either kind: they are opened, closed and opened again.
#ifndef WARPLINE_SCHEDULER_STORE_TESTING_STATE_HOUSE_H_
#define WARPLINE_SCHEDULER_STORE_TESTING_STATE_HOUSE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "scheduler/etcd/etcd_client.h"
#include "scheduler/store/key_value_store.h"
#include "scheduler/store/store.h"

namespace warpline::scheduler {

enum class StateKind { kSqlite, kEtcd };

// Tests are made for both kinds with INSTANTIATE_TEST_SUITE_P(States, ..., kStateKinds,
// StateKindName).
inline const auto kStateKinds = ::testing::Values(StateKind::kSqlite, StateKind::kEtcd);

inline std::string StateKindName(const ::testing::TestParamInfo<StateKind>& kind) {
  return kind.param == StateKind::kSqlite ? "Sqlite" : "Etcd";
}

// Not thread-safe.
class StateHouse {
 public:
  // A state of its own for each `folder`, which exists. Returns null where etcd is not installed.
  static std::unique_ptr<StateHouse> Make(StateKind kind, const std::string& folder);

  // Each opening is another term, in which the keys may be written.
  absl::StatusOr<std::unique_ptr<KeyValueStore>> OpenKeys();
  absl::StatusOr<std::unique_ptr<Store>> OpenStore();

 private:
  StateHouse(std::string folder, std::unique_ptr<EtcdClient> client);

  const std::string folder_;
  const std::unique_ptr<EtcdClient> client_;  // Null for SQLite.
};

// The state in a file of SQLite.
absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_STORE_TESTING_STATE_HOUSE_H_
