#include "scheduler/state/state_command.h"

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/etcd/etcd_client.h"
#include "scheduler/etcd/etcd_flags.h"
#include "scheduler/etcd/etcd_hold.h"
#include "scheduler/etcd/etcd_records.h"
#include "scheduler/etcd/etcd_store.h"
#include "scheduler/sqlite.h"
#include "scheduler/sqlite_schema.h"
#include "scheduler/sqlite_store.h"
#include "scheduler/state/state_contents.h"
#include "scheduler/state/state_copy.h"
#include "scheduler/state_folder.h"

ABSL_FLAG(int64_t, state_version, 0,
          "With `state back`: the version that the state becomes, which `state show` says of a "
          "scheduler.");
ABSL_FLAG(bool, accept_loss, false,
          "With `state back`: also if there is something that the former version has no place "
          "for, which is dropped.");
ABSL_FLAG(std::string, into, "",
          "With `state copy`: where the state is copied to, in the form of --state.");

namespace warpline::scheduler {

const char kStateUsage[] = R"(looks at a state, or changes it, while no scheduler has it.

  warpline-scheduler state show [--state=...]
      says of which version it is, what is in it, and what each former version has no place for.
  warpline-scheduler state back --state_version=N [--accept_loss] [--state=...]
      writes it as version N has it, for a scheduler of before. In a folder a copy is kept beside it.
      Nothing changes if something would be lost, unless --accept_loss is given.
  warpline-scheduler state copy --state=FOLDER --into=etcd://host:port,...
  warpline-scheduler state copy --state=etcd://host:port,... --into=FOLDER
      copies it, with the keys that sign tokens, and reads it back. Nothing is overwritten.

A scheduler brings an older state to its own version when it starts. --state and the flags of etcd
are those of a scheduler. Exit code 2 says that nothing was done, and why.)";

namespace {

// The newest version that this scheduler knows, and whether the state is of it.
std::string OfVersion(int64_t version, int64_t newest) {
  return absl::StrCat("version ", version,
                      version == newest ? ", the newest that this scheduler knows"
                                        : absl::StrCat("; this scheduler knows up to ", newest));
}

std::string LossLine(int64_t version, const std::vector<std::string>& lost) {
  return absl::StrCat(
      "back to version ", version, ": ",
      lost.empty() ? "nothing is lost" : absl::StrCat("loses ", absl::StrJoin(lost, ", ")), "\n");
}

absl::Status WouldLose(int64_t version, const std::vector<std::string>& lost) {
  return absl::FailedPreconditionError(absl::StrCat(
      "version ", version, " has no place for ", absl::StrJoin(lost, ", "),
      ": remove them first, or have them dropped with --accept_loss. Nothing has changed"));
}

std::string WentBack(int64_t version, const std::vector<std::string>& lost) {
  return absl::StrCat("the state is of version ", version, " now",
                      lost.empty() ? "" : absl::StrCat(", without ", absl::StrJoin(lost, ", ")),
                      ". Start a scheduler of before: one of this version may raise it again.\n");
}

// The state in a folder, which no scheduler has meanwhile.
class FolderState {
 public:
  static absl::StatusOr<FolderState> Open(const std::string& folder) {
    const std::string path = StateFileIn(folder);
    if (access(path.c_str(), F_OK) != 0) {
      return absl::FailedPreconditionError(absl::StrCat("there is no state in ", folder));
    }
    if (auto status = HoldStateFolder(folder); !status.ok()) return status;
    auto database = Database::Open(path);
    if (!database.ok()) return ExplainStoreError(path, database.status());
    const auto version = SchemaVersion(database->get());
    if (!version.ok()) return ExplainStoreError(path, version.status());
    return FolderState(path, *std::move(database), *version);
  }

  absl::StatusOr<std::string> Show() {
    std::string said =
        absl::StrCat("state: ", path_, "\n", OfVersion(version_, NewestSchema()), "\n");
    // An older one is only read as what it is: opening it would change it.
    if (version_ == NewestSchema()) {
      auto store = SqliteStore::Open(path_);
      if (!store.ok()) return store.status();
      const auto contents = ReadState(store->get());
      if (!contents.ok()) return contents.status();
      absl::StrAppend(&said, Summary(*contents), "\n");
    }
    for (int64_t version = version_ - 1; version >= 1; --version) {
      const auto lost = LostInSchema(database_.get(), version);
      if (!lost.ok()) return ExplainStoreError(path_, lost.status());
      absl::StrAppend(&said, LossLine(version, *lost));
    }
    for (int64_t version = 1; version <= NewestSchema(); ++version) {
      const std::string copy = KeptCopyOf(path_, version);
      if (access(copy.c_str(), F_OK) == 0) absl::StrAppend(&said, "kept copy: ", copy, "\n");
    }
    return said;
  }

  absl::StatusOr<std::string> Back(int64_t version, bool accept_loss) {
    const auto lost = LostInSchema(database_.get(), version);
    if (!lost.ok()) return ExplainStoreError(path_, lost.status());
    if (!lost->empty() && !accept_loss) return WouldLose(version, *lost);
    if (auto status = BackToSchema(path_, database_.get(), version); !status.ok()) {
      return absl::IsInvalidArgument(status) ? status : ExplainStoreError(path_, status);
    }
    return version == version_ ? absl::StrCat("the state is of version ", version, " already.\n")
                               : absl::StrCat(WentBack(version, *lost), "What it was is kept in ",
                                              KeptCopyOf(path_, version_), ".\n");
  }

 private:
  FolderState(std::string path, std::unique_ptr<Database> database, int64_t version)
      : path_(std::move(path)), database_(std::move(database)), version_(version) {}

  std::string path_;
  std::unique_ptr<Database> database_;
  int64_t version_;
};

struct EtcdPlace {
  std::unique_ptr<EtcdClient> client;
  std::string prefix;
};

absl::StatusOr<EtcdPlace> EtcdPlaceOf(const std::string& state) {
  auto options = EtcdClientFromFlags(state);
  if (!options.ok()) return options.status();
  auto prefix = EtcdPrefixFromFlags();
  if (!prefix.ok()) return prefix.status();
  EtcdPlace place;
  place.client = std::make_unique<EtcdClient>(*std::move(options));
  place.prefix = *std::move(prefix);
  return place;
}

absl::StatusOr<std::string> ShowEtcd(const EtcdPlace& place) {
  auto store = EtcdStore::OpenToRead(place.client.get(), place.prefix);
  if (!store.ok()) return store.status();
  const int64_t format = (*store)->format();
  if (format == 0) {
    return absl::FailedPreconditionError(absl::StrCat("there is no state under ", place.prefix,
                                                      " in etcd at ", place.client->name()));
  }
  const auto contents = ReadState(store->get());
  if (!contents.ok()) return contents.status();
  std::string said =
      absl::StrCat("state: ", place.prefix, " in etcd at ", place.client->name(), "\n",
                   OfVersion(format, kEtcdFormat), "\n", Summary(*contents), "\n");
  for (int64_t former = format - 1; former >= kFirstEtcdFormat; --former) {
    absl::StrAppend(&said, LossLine(former, (*store)->LostInFormat(former)));
  }
  return said;
}

absl::StatusOr<std::string> BackInEtcd(const EtcdPlace& place, int64_t version, bool accept_loss) {
  const auto hold = EtcdHold::Take(place.client.get(), place.prefix);
  if (!hold.ok()) return hold.status();
  // Opening would make a state where there is none.
  const auto there = EtcdStore::OpenToRead(place.client.get(), place.prefix);
  if (!there.ok()) return there.status();
  if ((*there)->format() == 0) {
    return absl::FailedPreconditionError(absl::StrCat("there is no state under ", place.prefix));
  }
  auto store =
      EtcdStore::Open(place.client.get(), place.prefix, (*hold)->guard(), /*on_lost=*/nullptr);
  if (!store.ok()) return store.status();
  const int64_t former = (*store)->format();
  const auto lost = (*store)->LostInFormat(version);
  if (version >= kFirstEtcdFormat && !lost.empty() && !accept_loss) return WouldLose(version, lost);
  if (auto status = (*store)->BackToFormat(version); !status.ok()) {
    return absl::IsInvalidArgument(status) ? status : (*store)->Explain(status);
  }
  return version == former ? absl::StrCat("the state is of version ", version, " already.\n")
                           : WentBack(version, lost);
}

absl::StatusOr<std::string> Copy(const StatePlace& from, const std::string& into) {
  if (into.empty()) return absl::InvalidArgumentError("--into names no place to copy the state to");
  if (IsEtcdState(from.state) == IsEtcdState(into)) {
    return absl::InvalidArgumentError(
        "one of --state and --into is in etcd (etcd://host:port,...), and the other a folder: a "
        "folder is copied with cp, while no scheduler has it, and etcd with etcdctl snapshot");
  }
  auto etcd = EtcdPlaceOf(IsEtcdState(into) ? into : from.state);
  if (!etcd.ok()) return etcd.status();
  return IsEtcdState(into) ? CopyToEtcd(from.folder, etcd->client.get(), etcd->prefix)
                           : CopyToFolder(etcd->client.get(), etcd->prefix, into);
}

}  // namespace

bool IsStateVerb(absl::string_view verb) {
  return verb == "show" || verb == "back" || verb == "copy";
}

absl::StatusOr<std::string> RunStateVerb(absl::string_view verb, const StatePlace& place) {
  if (verb == "copy") return Copy(place, absl::GetFlag(FLAGS_into));
  const int64_t version = absl::GetFlag(FLAGS_state_version);
  const bool accept_loss = absl::GetFlag(FLAGS_accept_loss);
  if (verb == "back" && version < 1) {
    return absl::InvalidArgumentError("--state_version names no version to go back to");
  }
  if (IsEtcdState(place.state)) {
    const auto etcd = EtcdPlaceOf(place.state);
    if (!etcd.ok()) return etcd.status();
    return verb == "show" ? ShowEtcd(*etcd) : BackInEtcd(*etcd, version, accept_loss);
  }
  auto folder = FolderState::Open(place.folder);
  if (!folder.ok()) return folder.status();
  return verb == "show" ? folder->Show() : folder->Back(version, accept_loss);
}

}  // namespace warpline::scheduler
