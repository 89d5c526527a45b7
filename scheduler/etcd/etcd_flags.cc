#include "scheduler/etcd/etcd_flags.h"

#include <memory>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/serving/duration_flag.h"
#include "common/serving/listen_address.h"
#include "common/serving/tls_files.h"
#include "common/text.h"
#include "transport/grpc/tls/grpc_tls.h"

ABSL_FLAG(std::string, etcd_prefix, "/warpline/",
          "With --state=etcd://...: the beginning of all keys, different for each "
          "pool.");
ABSL_FLAG(std::string, etcd_ca, "",
          "With --state=etcd://...: PEM file with the certificates that sign those of "
          "etcd's members. Without it the connection is plain text, and reaches only "
          "members on this host.");
ABSL_FLAG(std::string, etcd_cert, "",
          "PEM file with the certificate that this scheduler shows to etcd.");
ABSL_FLAG(std::string, etcd_key, "", "PEM file with the private key of --etcd_cert.");
ABSL_FLAG(std::string, etcd_server_name, "",
          "The name that the certificates of etcd's members must carry. Empty for their host.");
ABSL_FLAG(warpline::DurationFlag, leader_ttl, absl::Seconds(2),
          "With --state=etcd://...: how long a scheduler leads after etcd last heard "
          "of it. etcd keeps at least 1.5 of its --election-timeout.");
ABSL_FLAG(std::string, advertise, "",
          "With --state=etcd://...: the address at which servers and clients reach "
          "this scheduler. The other schedulers tell it to them while this one leads. "
          "Empty for the first of --listen.");
ABSL_FLAG(std::string, state_folder, "",
          "With --state=etcd://...: the folder of this scheduler's own files: its "
          "lock and operator.credential. Empty for ~/.local/state/warpline-scheduler.");

namespace warpline::scheduler {
namespace {

constexpr char kScheme[] = "etcd://";
constexpr size_t kMaxMembers = 16;

}  // namespace

bool IsEtcdState(absl::string_view state) { return absl::StartsWith(state, kScheme); }

absl::StatusOr<std::vector<std::string>> ParseEtcdState(absl::string_view state) {
  absl::string_view names = state;
  std::vector<std::string> members;
  bool sound = absl::ConsumePrefix(&names, kScheme);
  for (const absl::string_view name : absl::StrSplit(names, ',')) {
    const size_t colon = name.rfind(':');
    sound = sound && colon != absl::string_view::npos && colon > 0 && colon + 1 < name.size() &&
            name.find('/') == absl::string_view::npos;
    members.emplace_back(name);
  }
  if (!sound || members.size() > kMaxMembers) {
    return absl::InvalidArgumentError(
        absl::StrCat("--state=", state, ": expected a folder, or etcd://host:port,host:port,..."));
  }
  return members;
}

absl::StatusOr<EtcdClientOptions> EtcdClientFromFlags(absl::string_view state) {
  const auto members = ParseEtcdState(state);
  if (!members.ok()) return members.status();
  const TlsFiles files = {.ca = absl::GetFlag(FLAGS_etcd_ca),
                          .cert = absl::GetFlag(FLAGS_etcd_cert),
                          .key = absl::GetFlag(FLAGS_etcd_key),
                          .server_name = absl::GetFlag(FLAGS_etcd_server_name)};
  if (!files.empty() && files.ca.empty()) {
    return absl::InvalidArgumentError("TLS with etcd needs --etcd_ca");
  }
  EtcdClientOptions options;
  std::shared_ptr<TlsSource> tls;
  if (!files.empty()) tls = std::make_shared<TlsSource>(TlsSource::Side::kClient, files);
  for (const std::string& member : *members) {
    // The keys that sign tokens are among what would be read on the way.
    if (tls == nullptr && !CheckListenAddress(member, /*tls=*/false).ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "etcd at ", member, " is on another host: it is reached with TLS only, see --etcd_ca"));
    }
    options.members.push_back({.address = member, .tls = tls});
  }
  return options;
}

absl::StatusOr<std::string> EtcdPrefixFromFlags() {
  std::string prefix = absl::GetFlag(FLAGS_etcd_prefix);
  if (!absl::EndsWith(prefix, "/")) prefix += '/';
  if (!absl::StartsWith(prefix, "/") || prefix.size() < 2 || !IsPlainName(prefix, 256, "-_.:/")) {
    return absl::InvalidArgumentError("--etcd_prefix is a path such as /warpline/");
  }
  return prefix;
}

absl::StatusOr<absl::Duration> LeaderTtlFromFlags() {
  const absl::Duration ttl = absl::GetFlag(FLAGS_leader_ttl).get();
  // etcd counts whole seconds.
  if (ttl < absl::Seconds(1) || ttl > absl::Minutes(1) ||
      ttl % absl::Seconds(1) != absl::ZeroDuration()) {
    return absl::InvalidArgumentError("--leader_ttl must be whole seconds, from 1s to 60s");
  }
  return ttl;
}

std::string AdvertisedFromFlags() { return absl::GetFlag(FLAGS_advertise); }

std::string StateFolderFromFlags() { return absl::GetFlag(FLAGS_state_folder); }

}  // namespace warpline::scheduler
