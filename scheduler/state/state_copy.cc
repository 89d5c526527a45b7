#include "scheduler/state/state_copy.h"

#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/etcd/etcd_hold.h"
#include "scheduler/etcd/etcd_key_value_store.h"
#include "scheduler/state_folder.h"
#include "scheduler/store/key_value_store.h"
#include "scheduler/store/sqlite_key_value_store.h"
#include "scheduler/store/state_keys.h"

namespace warpline::scheduler {
namespace {

using namespace state_keys;  // NOLINT(google-build-using-namespace): a page of constants.

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

absl::Status NoState(const std::string& where) {
  return absl::FailedPreconditionError(absl::StrCat("there is no state ", where));
}

absl::Status NotOverwritten(const std::string& place) {
  return absl::FailedPreconditionError(absl::StrCat(
      "there is a state in ", place, ", which is not overwritten: name another place"));
}

// Returns whether the key is that of a record. The version is written last, and secrets have places
// of their own in a folder.
bool IsOfRecord(absl::string_view key) {
  return key != kVersion && key != kSigningKeys && key != kOperator;
}

// Writes the batch, and extends the hold on the state in etcd.
absl::Status WriteAndExtend(KeyValueStore* store, WriteBatch* batch, EtcdHold* hold) {
  if (batch->size() == 0) return absl::OkStatus();
  const absl::Status status = store->Write(*batch);
  *batch = {};
  return status.ok() ? hold->Extend() : status;
}

// Has no scheduler start with the state, and removes what an earlier copy left that did not end.
absl::Status BeginFilling(KeyValueStore* to, EtcdHold* hold) {
  const std::string filling = absl::StrCat(kFillingStateVersion);
  const auto version = to->Get(kVersion);
  if (!version.ok()) return version.status();
  std::vector<std::string> keys;
  absl::Status status = to->ForEach([&](absl::string_view key, const std::string&) {
    if (*version != filling) return NotOverwritten(to->name());
    if (key != kVersion) keys.emplace_back(key);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  WriteBatch batch = {.puts = {{kVersion, filling}}};
  for (std::string& key : keys) {
    if (batch.size() == KeyValueStore::kMaxBatch) {
      if (status = WriteAndExtend(to, &batch, hold); !status.ok()) return status;
    }
    batch.deletes.push_back(std::move(key));
  }
  return WriteAndExtend(to, &batch, hold);
}

absl::Status CopyRecords(KeyValueStore* from, KeyValueStore* to, EtcdHold* hold) {
  WriteBatch batch;
  const absl::Status status =
      from->ForEach([&](absl::string_view key, const std::string& value) -> absl::Status {
        if (!IsOfRecord(key)) return absl::OkStatus();
        batch.puts.emplace_back(key, value);
        return batch.size() < KeyValueStore::kMaxBatch ? absl::OkStatus()
                                                       : WriteAndExtend(to, &batch, hold);
      });
  return status.ok() ? WriteAndExtend(to, &batch, hold) : status;
}

// DATA_LOSS, naming the key, unless both have the same records.
absl::Status CompareRecords(KeyValueStore* from, KeyValueStore* to) {
  std::map<std::string, std::string, std::less<>> left;
  absl::Status status = from->ForEach([&](absl::string_view key, const std::string& value) {
    if (IsOfRecord(key)) left.emplace(key, value);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  const auto differs = [&](absl::string_view key) {
    return absl::DataLossError(absl::StrCat("what was written to ", to->name(),
                                            " is not what was read: it differs in ", key,
                                            ". The copy does not count; run it again"));
  };
  status = to->ForEach([&](absl::string_view key, const std::string& value) -> absl::Status {
    if (!IsOfRecord(key)) return absl::OkStatus();
    const auto found = left.find(key);
    if (found == left.end() || found->second != value) return differs(key);
    left.erase(found);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return left.empty() ? absl::OkStatus() : differs(left.begin()->first);
}

absl::Status FinishFilling(KeyValueStore* to) {
  return to->Write({.puts = {{kVersion, absl::StrCat(kStateVersion)}}});
}

}  // namespace

std::string Summary(const Store& store) {
  return absl::StrCat(store.Tenants().size(), " tenants, ", store.Slices().size(), " slices, ",
                      store.Servers().size(), " servers, ", store.ServersWithCredential().size(),
                      " credentials of servers, ", store.Cordons().size(), " cordons, ",
                      store.AuditHeads().size(), " ends of audits, ", store.Leases().size(),
                      " leases");
}

absl::StatusOr<std::unique_ptr<Store>> OpenFolderToRead(const std::string& folder) {
  if (!Exists(StateFileIn(folder))) return NoState("in " + folder);
  if (auto status = HoldStateFolder(folder); !status.ok()) return status;
  auto keys = SqliteKeyValueStore::Open(StateFileIn(folder));
  if (!keys.ok()) return keys.status();
  auto store = Store::OpenToRead(*std::move(keys));
  if (store.ok() && (*store)->empty()) return NoState("in " + folder);
  return store;
}

absl::StatusOr<std::unique_ptr<Store>> OpenEtcdToRead(EtcdClient* client,
                                                      const std::string& prefix) {
  auto store = Store::OpenToRead(std::make_unique<EtcdKeyValueStore>(client, prefix));
  if (store.ok() && (*store)->empty()) return NoState("under " + (*store)->keys()->name());
  return store;
}

std::string StateFileIn(const std::string& folder) { return folder + "/state.db"; }
std::string KeysFileIn(const std::string& folder) { return folder + "/keys"; }
std::string OperatorFileIn(const std::string& folder) { return folder + "/operator.credential"; }
std::string EpochFileIn(const std::string& folder) { return folder + "/epoch"; }

absl::StatusOr<std::string> CopyToEtcd(const std::string& folder, EtcdClient* client,
                                       const std::string& prefix) {
  const auto source = OpenFolderToRead(folder);
  if (!source.ok()) return source.status();
  const auto keys = KeyFile(KeysFileIn(folder)).Read();
  if (!keys.ok()) return keys.status();
  const auto credential = CredentialIn(OperatorFileIn(folder));
  if (!credential.ok()) return credential.status();
  const auto epoch = EpochIn(EpochFileIn(folder));
  if (!epoch.ok()) return epoch.status();

  const auto hold = EtcdHold::Take(client, prefix);
  if (!hold.ok()) return hold.status();
  EtcdKeyValueStore target(client, prefix, (*hold)->guard(), /*on_lost=*/nullptr);
  WriteBatch secrets = {.puts = {{kOperator, HashCredential(*credential)}}};
  if (!keys->empty()) secrets.puts.emplace_back(kSigningKeys, *keys);
  absl::Status status = BeginFilling(&target, hold->get());
  if (status.ok()) status = CopyRecords((*source)->keys(), &target, hold->get());
  if (status.ok()) status = WriteAndExtend(&target, &secrets, hold->get());
  if (status.ok()) status = CompareRecords((*source)->keys(), &target);
  if (status.ok()) status = FinishFilling(&target);
  if (!status.ok()) return absl::IsFailedPrecondition(status) ? status : target.Explain(status);
  std::string said =
      absl::StrCat("copied and read back: ", Summary(**source), "\nfrom ", folder, "\nto ",
                   target.name(), "\nThe operator's credential is the one in ", folder, ".\n");
  if (target.epoch() <= *epoch) {
    absl::StrAppend(&said, "Servers have heard of term ", *epoch, ", and terms begin with ",
                    target.epoch(),
                    " in this etcd: servers that run take no word of its schedulers before they "
                    "are restarted.\n");
  }
  return said;
}

absl::StatusOr<std::string> CopyToFolder(EtcdClient* client, const std::string& prefix,
                                         const std::string& folder) {
  const auto hold = EtcdHold::Take(client, prefix);
  if (!hold.ok()) return hold.status();
  const auto source = OpenEtcdToRead(client, prefix);
  if (!source.ok()) return source.status();
  const std::string keys = (*source)->SigningKeys()->Read().value_or("");
  if (auto status = HoldStateFolder(folder); !status.ok()) return status;
  const auto there = KeyFile(KeysFileIn(folder)).Read();
  if (!there.ok()) return there.status();
  // An attempt before this one may have written the keys.
  if (!there->empty() && *there != keys) return NotOverwritten(folder);
  auto target = SqliteKeyValueStore::Open(StateFileIn(folder));
  if (!target.ok()) return target.status();
  absl::Status status = BeginFilling(target->get(), hold->get());
  if (status.ok()) status = CopyRecords((*source)->keys(), target->get(), hold->get());
  if (!status.ok()) return absl::IsFailedPrecondition(status) ? status : (*target)->Explain(status);
  // The records are read from the file again.
  target->reset();
  target = SqliteKeyValueStore::Open(StateFileIn(folder));
  if (!target.ok()) return target.status();
  status = CompareRecords((*source)->keys(), target->get());
  if (status.ok() && !keys.empty()) status = WriteSecret(KeysFileIn(folder), keys);
  const uint64_t epoch = static_cast<uint64_t>((*hold)->guard().create_revision);
  if (status.ok()) status = WriteSecret(EpochFileIn(folder), absl::StrCat(epoch, "\n"));
  if (status.ok()) status = (*hold)->Extend();
  if (status.ok()) status = FinishFilling(target->get());
  if (!status.ok()) return status;
  const auto credential = CredentialIn(OperatorFileIn(folder));
  if (!credential.ok()) return credential.status();
  const bool same = HashCredential(*credential) == (*source)->operator_hash();
  return absl::StrCat("copied and read back: ", Summary(**source), "\nfrom ",
                      (*source)->keys()->name(), "\nto ", folder, "\nThe operator's credential is ",
                      same ? "the same" : "another one", ", the one in ", OperatorFileIn(folder),
                      ".\nLeave the schedulers of etcd stopped: both would place leases on the "
                      "same devices.\n");
}

}  // namespace warpline::scheduler
