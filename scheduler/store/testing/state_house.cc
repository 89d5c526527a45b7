#include "scheduler/store/testing/state_house.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/etcd/etcd_key_value_store.h"
#include "scheduler/etcd/testing/local_etcd.h"
#include "scheduler/store/sqlite_key_value_store.h"

namespace warpline::scheduler {
namespace {

std::string FileIn(const std::string& folder) { return folder + "/state.db"; }

}  // namespace

StateHouse::StateHouse(std::string folder, std::unique_ptr<EtcdClient> client)
    : folder_(std::move(folder)), client_(std::move(client)) {}

std::unique_ptr<StateHouse> StateHouse::Make(StateKind kind, const std::string& folder) {
  if (kind == StateKind::kSqlite) {
    return std::unique_ptr<StateHouse>(new StateHouse(folder, nullptr));
  }
  // One for all tests of the process; each has a prefix of its own.
  static const std::unique_ptr<LocalEtcd> etcd = LocalEtcd::Start();
  if (etcd == nullptr) return nullptr;
  return std::unique_ptr<StateHouse>(
      new StateHouse(folder, std::make_unique<EtcdClient>(etcd->options())));
}

absl::StatusOr<std::unique_ptr<KeyValueStore>> StateHouse::OpenKeys() {
  if (client_ == nullptr) return SqliteKeyValueStore::Open(FileIn(folder_));
  const std::string prefix = folder_ + "/";
  const auto guard = TakeLead(client_.get(), absl::StrCat(prefix, kLeaderKey));
  if (!guard.ok()) return guard.status();
  return std::make_unique<EtcdKeyValueStore>(client_.get(), prefix, *guard, /*on_lost=*/nullptr);
}

absl::StatusOr<std::unique_ptr<Store>> StateHouse::OpenStore() {
  auto keys = OpenKeys();
  if (!keys.ok()) return keys.status();
  return Store::Open(*std::move(keys));
}

absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path) {
  auto keys = SqliteKeyValueStore::Open(path);
  if (!keys.ok()) return keys.status();
  return Store::Open(*std::move(keys));
}

}  // namespace warpline::scheduler
