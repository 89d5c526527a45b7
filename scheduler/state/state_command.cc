#include "scheduler/state/state_command.h"

#include <memory>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "scheduler/etcd/etcd_client.h"
#include "scheduler/etcd/etcd_flags.h"
#include "scheduler/state/state_copy.h"
#include "scheduler/store/store.h"

ABSL_FLAG(std::string, into, "",
          "With `state copy`: where the state is copied to, in the form of --state.");

namespace warpline::scheduler {

const char kStateUsage[] = R"(looks at a state, or copies it, while no scheduler has it.

  warpline-scheduler state show [--state=...]
      says its version, and how many records it has.
  warpline-scheduler state copy --state=FOLDER --into=etcd://host:port,...
  warpline-scheduler state copy --state=etcd://host:port,... --into=FOLDER
      copies it, with the keys that sign tokens, and reads it back. Nothing is overwritten.

--state and the flags of etcd are those of a scheduler. Exit code 2 says that nothing was done, and why.)";

namespace {

// Returns the lines of `state show`.
absl::StatusOr<std::string> Described(const absl::StatusOr<std::unique_ptr<Store>>& store) {
  if (!store.ok()) return store.status();
  return absl::StrCat("state: ", (*store)->keys()->name(), "\nversion ", kStateVersion, "\n",
                      Summary(**store), "\n");
}

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

bool IsStateVerb(absl::string_view verb) { return verb == "show" || verb == "copy"; }

absl::StatusOr<std::string> RunStateVerb(absl::string_view verb, const StatePlace& place) {
  if (verb == "copy") return Copy(place, absl::GetFlag(FLAGS_into));
  if (!IsEtcdState(place.state)) return Described(OpenFolderToRead(place.folder));
  const auto etcd = EtcdPlaceOf(place.state);
  if (!etcd.ok()) return etcd.status();
  return Described(OpenEtcdToRead(etcd->client.get(), etcd->prefix));
}

}  // namespace warpline::scheduler
