#include "tools/cli/migrate.h"

#include <cstdio>
#include <list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/cli/asker.h"
#include "tools/cli/child.h"
#include "tools/cli/lease.h"
#include "tools/cli/operator.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

using warpline_internal::LeaseList;
using warpline_internal::MoveReply;
using warpline_internal::MoveRequest;
using warpline_internal::Operator;

constexpr absl::Duration kPollInterval = absl::Milliseconds(200);
// For how long a scheduler may be silent, as when another one begins to lead.
constexpr absl::Duration kPatience = absl::Seconds(30);
// How many leases of a server move at a time.
constexpr size_t kAtOnce = 4;

// One lease on its way.
class OneMove {
 public:
  explicit OneMove(MoveRequest request) : request_(std::move(request)) {}

  const std::string& lease() const { return request_.lease(); }

  // Begins it, and says where the lease goes. Returns false, having complained, if it does not.
  bool Begin(const MigrationCalls& calls) {
    begun_ = heard_ = calls.clock();
    auto reply = calls.ask(request_);
    if (!reply.ok()) {
      Fail(calls, reply.status().message());
      return false;
    }
    request_.set_to(reply->server());
    request_.set_only_ask(true);
    calls.say(absl::StrCat("moves lease=", Shown(lease()), " to server=", Shown(reply->server()),
                           " device=", Shown(reply->device())));
    return true;
  }

  // Asks how it is. Returns true when it is over, and has said or complained so.
  bool Poll(const MigrationCalls& calls) {
    auto reply = calls.ask(request_);
    const absl::Time now = calls.clock();
    if (!reply.ok()) {
      if (absl::IsUnavailable(reply.status()) && now - heard_ < kPatience) return false;
      Fail(calls, reply.status().message());
      return true;
    }
    heard_ = now;
    if (reply->state() == MoveReply::MOVING) return false;
    if (reply->state() != MoveReply::MOVED) {
      Fail(calls, reply->why());
      return true;
    }
    moved_ = true;
    calls.say(absl::StrCat("moved lease=", Shown(lease()), " to server=", Shown(reply->server()),
                           " device=", Shown(reply->device()), " sessions=", reply->sessions(),
                           " bytes=", reply->bytes(), " in ",
                           absl::StrFormat("%.1f s", absl::ToDoubleSeconds(now - begun_))));
    return true;
  }

  bool moved() const { return moved_; }

 private:
  void Fail(const MigrationCalls& calls, absl::string_view why) {
    calls.complain(absl::StrCat("lease ", lease(), " was not moved: ", why));
  }

  MoveRequest request_;
  absl::Time begun_;
  absl::Time heard_;
  bool moved_ = false;
};

MigrationCalls CallsOf(Asker* asker) {
  return CallsBy<MoveRequest, MoveReply>(
      [asker](const MoveRequest& request) { return asker->Ask<MoveReply>("Move", request); });
}

// The leases that the server has now.
absl::StatusOr<std::vector<std::string>> LeasesOf(const std::string& server,
                                                  const std::string& credential, Asker* asker) {
  Operator reader;
  reader.set_credential(credential);
  const auto list = asker->AskForList<LeaseList>("Leases", reader);
  if (!list.ok()) return list.status();
  std::vector<std::string> leases;
  for (const auto& lease : list->leases()) {
    if (lease.server() == server && lease.state() == "active") leases.push_back(lease.id());
  }
  return leases;
}

}  // namespace

int MoveLease(const MoveRequest& request, bool wait, const MigrationCalls& calls) {
  OneMove move(request);
  if (!move.Begin(calls)) return 1;
  if (!wait) return 0;
  while (true) {
    if (const int signal = calls.pause(kPollInterval); signal != 0) {
      calls.complain(absl::StrCat("the move of lease ", request.lease(),
                                  " goes on; `warpline lease list` shows it"));
      return 128 + signal;
    }
    if (move.Poll(calls)) return move.moved() ? 0 : 1;
  }
}

int MoveLeases(const std::string& credential, const std::vector<std::string>& leases,
               const MigrationCalls& calls) {
  std::list<OneMove> under_way;
  auto next = leases.begin();
  while (next != leases.end() || !under_way.empty()) {
    while (next != leases.end() && under_way.size() < kAtOnce) {
      MoveRequest request;
      request.set_credential(credential);
      request.set_lease(*next++);
      OneMove& move = under_way.emplace_back(std::move(request));
      if (!move.Begin(calls)) under_way.pop_back();
    }
    if (under_way.empty()) continue;
    if (const int signal = calls.pause(kPollInterval); signal != 0) {
      calls.complain("moves that have begun go on; `warpline lease list` shows them");
      return signal;
    }
    under_way.remove_if([&](OneMove& move) { return move.Poll(calls); });
  }
  return 0;
}

int Migrate(const CommandLine& line, const std::string& endpoint) {
  const auto credential = OperatorCredential();
  if (!credential.ok()) {
    return Complain("warpline", std::string(credential.status().message()), 1);
  }
  MoveRequest request;
  request.set_credential(*credential);
  request.set_lease(line.rest[0]);
  request.set_to(line.Text("to"));
  request.set_device(line.Text("device"));
  BlockForwardedSignals();
  Asker asker(endpoint);
  return MoveLease(request, /*wait=*/!line.Has("nowait"), CallsOf(&asker));
}

int DrainByMoving(const CommandLine& line, const std::string& endpoint) {
  const auto complain = [](const absl::Status& status) {
    return Complain("warpline", std::string(status.message()), 1);
  };
  const auto credential = OperatorCredential();
  if (!credential.ok()) return complain(credential.status());
  // From then on the server gets no new leases.
  const auto drained = Operate(line, endpoint);
  if (!drained.ok()) return complain(drained.status());
  BlockForwardedSignals();
  const std::string& server = line.rest[0];
  Asker asker(endpoint);
  const auto leases = LeasesOf(server, *credential, &asker);
  if (!leases.ok()) return complain(leases.status());
  const int signal = MoveLeases(*credential, *leases, CallsOf(&asker));
  if (signal != 0) return 128 + signal;
  const auto left = LeasesOf(server, *credential, &asker);
  if (!left.ok()) return complain(left.status());
  std::printf("server=%s had %zu leases, and has %zu\n", Shown(server).c_str(), leases->size(),
              left->size());
  return left->empty() ? 0 : 1;
}

}  // namespace warpline::cli
