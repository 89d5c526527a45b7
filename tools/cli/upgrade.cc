#include "tools/cli/upgrade.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/crypto/secret.h"
#include "tools/cli/administration.h"
#include "tools/cli/child.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

using warpline_internal::UpgradeReply;
using warpline_internal::UpgradeRequest;

constexpr absl::Duration kPollInterval = absl::Milliseconds(100);
// For how long no server may answer: the next version has a minute, and the former one some more.
constexpr absl::Duration kPatience = absl::Minutes(3);
constexpr size_t kNumberBytes = 8;

std::string Outcome(const UpgradeReply& reply) {
  return absl::StrCat(reply.sessions(), " sessions go on after a pause of ",
                      absl::StrFormat("%.1f s", reply.pause_ms() / 1000.0));
}

// Says how the upgrade ended. Returns the exit code, or -1 while it goes on.
int CodeOf(const UpgradeReply& reply, const UpgradeCalls& calls) {
  switch (reply.state()) {
    case UpgradeReply::DONE:
      calls.say(absl::StrCat("upgraded from version ", Shown(reply.from_version()), " to ",
                             Shown(reply.to_version()), ": ", Outcome(reply)));
      return 0;
    case UpgradeReply::ROLLED_BACK:
      calls.complain(absl::StrCat("the upgrade was rolled back: ", Shown(reply.why())));
      calls.say(
          absl::StrCat("version ", Shown(reply.from_version()), " is back: ", Outcome(reply)));
      return 1;
    case UpgradeReply::REFUSED:
      calls.complain(
          absl::StrCat("the server was not upgraded, and goes on as before: ", Shown(reply.why())));
      return 1;
    default:
      return -1;
  }
}

}  // namespace

int FollowUpgrade(UpgradeRequest request, const UpgradeCalls& calls) {
  auto reply = calls.ask(request);
  if (!reply.ok()) {
    calls.complain(std::string(reply.status().message()));
    return 1;
  }
  request.set_only_ask(true);
  absl::Time heard = calls.clock();
  UpgradeReply::State said = UpgradeReply::UNKNOWN;
  while (true) {
    if (reply.ok()) {
      if (const int code = CodeOf(*reply, calls); code >= 0) return code;
      if (reply->state() != UpgradeReply::UNKNOWN) heard = calls.clock();
      if (reply->state() == UpgradeReply::CHECKING && said != reply->state()) {
        calls.say("checks the other version with the server's flags");
      }
      if (reply->state() == UpgradeReply::RESTING && said != reply->state()) {
        calls.say("sessions come to rest, and the other version starts");
      }
      said = reply->state();
    }
    if (calls.clock() - heard > kPatience) {
      calls.complain(absl::StrCat("no server says how the upgrade ended; its log does",
                                  reply.ok() ? "" : ": ",
                                  reply.ok() ? "" : reply.status().message()));
      return 1;
    }
    if (const int signal = calls.pause(kPollInterval); signal != 0) {
      calls.complain("the upgrade goes on; the server's log says how it ends");
      return 128 + signal;
    }
    reply = calls.ask(request);
  }
}

int UpgradeServer(const CommandLine& line, const std::string& endpoint) {
  const auto admin = AdminOf(endpoint);
  if (!admin.ok()) return Complain("warpline", std::string(admin.status().message()), 1);
  UpgradeRequest request;
  request.set_number(absl::BytesToHexString(RandomBytes(kNumberBytes)));
  request.set_force(line.Has("force"));
  if (line.Has("to")) {
    std::error_code error;
    request.set_program(std::filesystem::absolute(line.Text("to"), error));
    if (error) return Complain("warpline", "no such path: " + Shown(line.Text("to")), 1);
  }
  BlockForwardedSignals();
  return FollowUpgrade(std::move(request), CallsTo<UpgradeRequest, UpgradeReply>(
                                               &*admin, "/warpline_internal.Admin/Upgrade"));
}

}  // namespace warpline::cli
