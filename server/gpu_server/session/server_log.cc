#include "server/gpu_server/session/server_log.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/serving/listen_address.h"

namespace warpline::server {
namespace {

// Of one peer: generous at once, so that the log of a busy day is whole, and little in the long
// run.
constexpr LogKind kEach[kServerLineCount] = {
    {"sessions", 200, absl::Seconds(30)},      {"refused", 20, absl::Minutes(1)},
    {"protocol_errors", 20, absl::Minutes(1)}, {"connections", 40, absl::Minutes(1)},
    {"workers_lost", 20, absl::Minutes(1)},    {"killed", 20, absl::Minutes(1)},
    {"take_overs", 20, absl::Minutes(1)},      {"workers_replaced", 20, absl::Minutes(1)},
    {"reclaimed", 20, absl::Minutes(1)},       {"readers", 20, absl::Minutes(1)},
    {"relays", 20, absl::Minutes(1)},
};
// Of all peers together.
constexpr LogKind kAll[kServerLineCount] = {
    {"sessions", 2000, absl::Seconds(5)},        {"refused", 200, absl::Seconds(10)},
    {"protocol_errors", 200, absl::Seconds(10)}, {"connections", 400, absl::Seconds(10)},
    {"workers_lost", 200, absl::Seconds(10)},    {"killed", 200, absl::Seconds(10)},
    {"take_overs", 200, absl::Seconds(10)},      {"workers_replaced", 200, absl::Seconds(10)},
    {"reclaimed", 200, absl::Seconds(10)},       {"readers", 200, absl::Seconds(10)},
    {"relays", 200, absl::Seconds(10)},
};

}  // namespace

KeyedLogBudgetOptions ServerLogOptions() {
  KeyedLogBudgetOptions options;
  options.each = kEach;
  options.all = kAll;
  return options;
}

std::string LogKey(const std::string& tenant, const std::string& peer) {
  return tenant.empty() ? PeerUnit(peer) : absl::StrCat("tenant ", tenant);
}

}  // namespace warpline::server
