#include "scheduler/state/state_copy.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"
#include "scheduler/etcd/etcd_hold.h"
#include "scheduler/etcd/etcd_store.h"
#include "scheduler/sqlite_store.h"
#include "scheduler/state/state_contents.h"
#include "scheduler/state_folder.h"

namespace warpline::scheduler {
namespace {

// How many records are written between two extensions of the hold.
constexpr int kRecordsPerExtension = 64;

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

absl::Status Differs(const std::string& where, const std::string& record) {
  return absl::DataLossError(absl::StrCat("what was written to ", where,
                                          " is not what was read: it differs in ", record,
                                          ". The copy does not count; run it again"));
}

// Extends the hold now and then.
std::function<absl::Status()> Extending(EtcdHold* hold) {
  return [hold, written = 0]() mutable {
    return ++written % kRecordsPerExtension == 0 ? hold->Extend() : absl::OkStatus();
  };
}

absl::Status Remove(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot remove ", path, ": ", strerror(errno)));
}

// Renames the file, and has that on the disk when it returns.
absl::Status Publish(const std::string& from, const std::string& to) {
  const UniqueFd file(open(from.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string folder = to.substr(0, to.rfind('/') + 1);
  const UniqueFd entries(open(folder.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() >= 0 && entries.get() >= 0 && fsync(file.get()) == 0 &&
      rename(from.c_str(), to.c_str()) == 0 && fsync(entries.get()) == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat("cannot write ", to, ": ", strerror(errno)));
}

// The state in the file `part`, which is made anew.
absl::Status WriteFile(const StateContents& contents, const std::string& part, EtcdHold* hold) {
  for (const char* const ending : {"", "-wal", "-shm"}) {
    if (auto status = Remove(part + ending); !status.ok()) return status;
  }
  auto store = SqliteStore::Open(part);
  if (!store.ok()) return store.status();
  if (auto status = WriteState(contents, store->get(), Extending(hold)); !status.ok()) {
    return status;
  }
  store->reset();
  store = SqliteStore::Open(part);
  if (!store.ok()) return store.status();
  const auto written = ReadState(store->get());
  if (!written.ok()) return written.status();
  if (const auto record = FirstDifference(contents, *written); !record.empty()) {
    return Differs(part, record);
  }
  store->reset();
  // Whoever closes it last writes the log of SQLite into it.
  return Exists(part + "-wal") ? absl::UnavailableError(absl::StrCat(part, " is in use"))
                               : absl::OkStatus();
}

// What else the state in etcd has: keys and the hash of the operator's credential.
absl::Status WriteSecrets(EtcdStore* store, const std::string& keys,
                          const std::string& operator_hash) {
  if (!keys.empty()) {
    if (auto status = store->SigningKeys()->Write(keys); !status.ok()) return status;
  }
  return operator_hash.empty() ? absl::OkStatus() : store->PutOperatorHash(operator_hash);
}

absl::Status CheckEtcd(EtcdClient* client, const std::string& prefix, const StateContents& contents,
                       const std::string& keys, const std::string& operator_hash) {
  auto store = EtcdStore::OpenToRead(client, prefix, /*being_filled=*/true);
  if (!store.ok()) return store.status();
  const auto written = ReadState(store->get());
  if (!written.ok()) return written.status();
  std::string record = FirstDifference(contents, *written);
  if (record.empty() && (*store)->SigningKeys()->Read().value_or("") != keys) {
    record = "the keys that sign tokens";
  }
  if (record.empty() && (*store)->operator_hash() != operator_hash) {
    record = "the operator's credential";
  }
  return record.empty() ? absl::OkStatus() : Differs("etcd", record);
}

}  // namespace

std::string StateFileIn(const std::string& folder) { return folder + "/state.db"; }
std::string KeysFileIn(const std::string& folder) { return folder + "/keys"; }
std::string OperatorFileIn(const std::string& folder) { return folder + "/operator.credential"; }
std::string EpochFileIn(const std::string& folder) { return folder + "/epoch"; }

absl::StatusOr<std::string> CopyToEtcd(const std::string& folder, EtcdClient* client,
                                       const std::string& prefix) {
  if (!Exists(StateFileIn(folder))) {
    return absl::FailedPreconditionError(absl::StrCat("there is no state in ", folder));
  }
  if (auto status = HoldStateFolder(folder); !status.ok()) return status;
  auto source = SqliteStore::Open(StateFileIn(folder));
  if (!source.ok()) return source.status();
  const auto contents = ReadState(source->get());
  if (!contents.ok()) return contents.status();
  const auto keys = KeyFile(KeysFileIn(folder)).Read();
  if (!keys.ok()) return keys.status();
  const auto credential = CredentialIn(OperatorFileIn(folder));
  if (!credential.ok()) return credential.status();
  const auto epoch = EpochIn(EpochFileIn(folder));
  if (!epoch.ok()) return epoch.status();
  const std::string operator_hash = HashCredential(*credential);

  const auto hold = EtcdHold::Take(client, prefix);
  if (!hold.ok()) return hold.status();
  auto target = EtcdStore::OpenToFill(client, prefix, (*hold)->guard());
  if (!target.ok()) return target.status();
  absl::Status status = WriteState(*contents, target->get(), Extending(hold->get()));
  if (status.ok()) status = WriteSecrets(target->get(), *keys, operator_hash);
  if (status.ok()) status = CheckEtcd(client, prefix, *contents, *keys, operator_hash);
  if (status.ok()) status = (*target)->FinishFilling();
  if (!status.ok()) return status;
  std::string said = absl::StrCat("copied and read back: ", Summary(*contents), "\nfrom ", folder,
                                  "\nto ", prefix, " in etcd at ", client->name(),
                                  "\nThe operator's credential is the one in ", folder, ".\n");
  if ((*target)->epoch() <= *epoch) {
    absl::StrAppend(&said, "Servers have heard of term ", *epoch, ", and terms begin with ",
                    (*target)->epoch(),
                    " in this etcd: servers that run take no word of its schedulers before they "
                    "are restarted.\n");
  }
  return said;
}

absl::StatusOr<std::string> CopyToFolder(EtcdClient* client, const std::string& prefix,
                                         const std::string& folder) {
  const auto hold = EtcdHold::Take(client, prefix);
  if (!hold.ok()) return hold.status();
  auto source = EtcdStore::OpenToRead(client, prefix);
  if (!source.ok()) return source.status();
  if ((*source)->format() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no state under ", prefix, " in etcd at ", client->name()));
  }
  const auto contents = ReadState(source->get());
  if (!contents.ok()) return contents.status();
  const std::string keys = (*source)->SigningKeys()->Read().value_or("");
  if (auto status = HoldStateFolder(folder); !status.ok()) return status;
  const auto there = KeyFile(KeysFileIn(folder)).Read();
  if (!there.ok()) return there.status();
  // An attempt before this one may have written the keys.
  if (Exists(StateFileIn(folder)) || (!there->empty() && *there != keys)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "there is a state in ", folder, ", which is not overwritten: name another folder"));
  }
  const std::string part = StateFileIn(folder) + ".part";
  if (auto status = WriteFile(*contents, part, hold->get()); !status.ok()) return status;
  if (!keys.empty()) {
    if (auto status = WriteSecret(KeysFileIn(folder), keys); !status.ok()) return status;
  }
  const uint64_t epoch = static_cast<uint64_t>((*hold)->guard().create_revision);
  if (auto status = WriteSecret(EpochFileIn(folder), absl::StrCat(epoch, "\n")); !status.ok()) {
    return status;
  }
  if (auto status = (*hold)->Extend(); !status.ok()) return status;
  if (auto status = Publish(part, StateFileIn(folder)); !status.ok()) return status;
  const auto credential = CredentialIn(OperatorFileIn(folder));
  if (!credential.ok()) return credential.status();
  const bool same = HashCredential(*credential) == (*source)->operator_hash();
  return absl::StrCat("copied and read back: ", Summary(*contents), "\nfrom ", prefix,
                      " in etcd at ", client->name(), "\nto ", folder,
                      "\nThe operator's credential is ", same ? "the same" : "another one",
                      ", the one in ", OperatorFileIn(folder),
                      ".\nLeave the schedulers of etcd stopped: both would place leases on the "
                      "same devices.\n");
}

}  // namespace warpline::scheduler
