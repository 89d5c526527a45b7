// Servers and holders of leases that keep schedulers busy, and write down all that they are told:
//
//   pool_load --schedulers=ADDRESS,ADDRESS --servers=NAME:FILE,NAME:FILE --tenants=FILE,FILE
//
// Servers are a book of leases each (server/gpu_server/leases/lease_book.h), which is what a GPU
// server asks about a token, and report as a GPU server does; there is no device behind them. The
// files hold credentials. Each line on the output is an event: its name, then key=value, with times
// in microseconds since 1970 (SteadyNow()). tests/schedulers/history.py judges them. After a line
// on its input no more leases are asked for, those that are held are given back, and servers go on;
// it ends when its input ends.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/crypto/secret.h"
#include "common/mutex.h"
#include "common/steady_time.h"
#include "lease/end_reason.h"
#include "proto/lease_methods.h"
#include "proto/leases.pb.h"
#include "proto/scheduler.pb.h"
#include "server/gpu_server/leases/lease_book.h"
#include "transport/grpc/unary/leader_client.h"

ABSL_FLAG(std::vector<std::string>, schedulers, {}, "Their addresses.");
ABSL_FLAG(std::vector<std::string>, servers, {}, "Names and files of credentials, as NAME:FILE.");
ABSL_FLAG(std::vector<std::string>, tenants, {}, "Files of credentials.");
ABSL_FLAG(int, holders, 12, "How many ask for leases at a time.");
ABSL_FLAG(uint64_t, capacity, 16, "GiB of each server's device.");

namespace warpline {
namespace {

using server::LeaseBook;
using server::LeaseMembership;
using warpline_internal::AcquireRequest;
using warpline_internal::LeaseReply;
using warpline_internal::Nothing;
using warpline_internal::ReportReply;
using warpline_internal::ServerReport;

constexpr absl::Duration kPatience = absl::Seconds(10);
constexpr absl::Duration kAttempt = absl::Milliseconds(500);

int64_t Us(absl::Time time) { return absl::ToUnixMicros(time); }
int64_t NowUs() { return Us(SteadyNow()); }

std::string Quiet(absl::string_view text) {
  return absl::StrReplaceAll(text, {{" ", "_"}, {"\n", "_"}, {"=", ":"}});
}

// Writes whole lines from any thread.
void Say(const std::string& line) {
  static Mutex mu;
  MutexLock lock(&mu);
  std::puts(line.c_str());
  std::fflush(stdout);
}

LeaderClient MakeClient() {
  return LeaderClient(
      absl::GetFlag(FLAGS_schedulers),
      [](const std::string& address) { return GrpcTarget{.address = address}; }, kAttempt);
}

std::string FirstWordOf(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

std::string Method(const char* name) { return absl::StrCat("/warpline_internal.Scheduler/", name); }

class FakeServer {
 public:
  FakeServer(std::string name, std::string credential)
      : name_(std::move(name)), credential_(std::move(credential)), client_(MakeClient()) {
    server::LeaseBookOptions options;
    options.server_name = name_;
    options.required = true;
    options.clock = [] { return SteadyNow(); };
    book_ = *LeaseBook::Create(options);
    thread_ = std::thread([this] { Run(); });
  }
  ~FakeServer() {
    stopping_.store(true);
    thread_.join();
  }
  LeaseBook* book() { return book_.get(); }

 private:
  void Run() {
    while (!stopping_.load()) {
      Report();
      absl::SleepFor(absl::Milliseconds(100));
    }
  }

  void Report() {
    ServerReport report;
    report.set_name(name_);
    report.set_credential(credential_);
    report.set_endpoint(name_ + ":1");
    report.set_heard(heard_);
    report.set_instance(instance_);
    report.set_number(++reports_);
    auto* device = report.add_devices();
    device->set_uuid("GPU-" + name_);
    device->set_capacity_bytes(absl::GetFlag(FLAGS_capacity) << 30);
    const auto idle = book_->IdleLeases();
    for (const std::string& lease : idle) report.add_idle_leases(lease);
    for (const auto& [lease, sessions] : book_->Sessions()) {
      auto* added = report.add_leases();
      added->set_lease(lease);
      added->set_sessions(sessions);
    }
    const int64_t asked = NowUs();
    const auto reply = CallUnary<ReportReply>(&client_, Method("Report"), report, absl::Seconds(2));
    heard_ = reply.ok() && reply->epoch() >= epoch_;
    if (!heard_) return;
    Say(absl::StrCat("reported asked=", asked, " at=", NowUs(), " server=", name_,
                     " epoch=", reply->epoch()));
    if (reply->epoch() != epoch_) {
      Say(absl::StrCat("follows at=", NowUs(), " server=", name_, " epoch=", reply->epoch()));
    }
    epoch_ = reply->epoch();
    book_->ForgetIdle(idle);
    std::vector<VerifyKey> keys;
    for (const auto& key : reply->keys()) keys.push_back({key.id(), key.key()});
    book_->SetKeys(std::move(keys));
    book_->SetSchedulerTime(absl::FromUnixMillis(reply->now_unix_ms()));
    for (const auto& ended : reply->ended()) {
      book_->MarkEnded(ended.lease(), {ended.reason(), EndCauseOf(ended.cause())});
      if (!told_.insert(ended.lease()).second) continue;
      Say(absl::StrCat("ended at=", NowUs(), " server=", name_, " lease=", ended.lease(),
                       " epoch=", epoch_, " why=", Quiet(ended.reason())));
    }
  }

  const std::string name_;
  const std::string credential_;
  const LeaderClient client_;
  std::unique_ptr<LeaseBook> book_;
  const uint64_t instance_ = RandomNumber() | 1;  // Not 0.
  uint64_t reports_ = 0;
  bool heard_ = false;
  uint64_t epoch_ = 0;
  std::set<std::string> told_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class Holder {
 public:
  Holder(int number, std::string credential,
         const std::map<std::string, std::unique_ptr<FakeServer>>* servers,
         const std::atomic<bool>* stopping)
      : number_(number),
        credential_(std::move(credential)),
        servers_(*servers),
        stopping_(*stopping),
        client_(MakeClient()),
        random_(static_cast<unsigned>(number)) {}

  void Run() {
    while (!stopping_.load()) HoldOne();
  }

 private:
  int Draw(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }

  void HoldOne() {
    AcquireRequest request;
    request.set_credential(credential_);
    request.set_memory_bytes(static_cast<uint64_t>(Draw(1, 6)) << 30);
    request.set_program(absl::StrCat("holder", number_));
    const int64_t asked = NowUs();
    const auto granted = CallUnary<LeaseReply>(&client_, kAcquireMethod, request, kPatience);
    if (!granted.ok()) {
      Say(absl::StrCat("refused asked=", asked, " at=", NowUs(),
                       " code=", static_cast<int>(granted.status().code()),
                       " why=", Quiet(granted.status().message())));
      absl::SleepFor(absl::Milliseconds(100));
      return;
    }
    token_ = granted->token();
    const auto server = servers_.find(granted->server());
    // The server that the lease is on says what the token says.
    LeaseMembership membership;
    absl::Status joined = absl::UnavailableError("no such server");
    if (server != servers_.end()) {
      auto taken = server->second->book()->Join(token_, {}, "");
      joined = taken.status();
      if (taken.ok()) membership = *std::move(taken);
    }
    Say(absl::StrCat("granted asked=", asked, " at=", NowUs(), " lease=", granted->lease(),
                     " server=", granted->server(), " bytes=", granted->memory_bytes(),
                     " ends=", BodyOf(token_).ends_unix_ms() * 1000,
                     " epoch=", BodyOf(token_).epoch(), " joined=", static_cast<int>(joined.code()),
                     " why=", Quiet(joined.message())));
    const bool goes_on = Renew(*granted, absl::Milliseconds(Draw(300, 4000)));
    if (!goes_on) return;
    if (Draw(0, 9) == 0) {
      // A holder that is killed: the lease runs out by itself.
      Say(absl::StrCat("abandoned at=", NowUs(), " lease=", granted->lease()));
      return;
    }
    Release(granted->lease());
  }

  // Returns whether the lease is still held.
  bool Renew(const LeaseReply& lease, absl::Duration time) {
    const absl::Time until = SteadyNow() + time;
    while (SteadyNow() < until && !stopping_.load()) {
      absl::SleepFor(absl::Milliseconds(Draw(100, 500)));
      warpline_internal::LeaseToken request;
      request.set_token(token_);
      const int64_t asked = NowUs();
      const auto reply = CallUnary<LeaseReply>(&client_, kRenewMethod, request, kPatience);
      if (reply.ok()) {
        token_ = reply->token();
        Say(absl::StrCat("renewed asked=", asked, " at=", NowUs(), " lease=", lease.lease(),
                         " epoch=", BodyOf(token_).epoch()));
        continue;
      }
      Say(absl::StrCat("unrenewed asked=", asked, " at=", NowUs(), " lease=", lease.lease(),
                       " code=", static_cast<int>(reply.status().code()),
                       " why=", Quiet(reply.status().message())));
      if (absl::IsNotFound(reply.status()) || absl::IsFailedPrecondition(reply.status())) {
        return false;
      }
    }
    return true;
  }

  void Release(const std::string& lease) {
    warpline_internal::LeaseToken request;
    request.set_token(token_);
    const int64_t asked = NowUs();
    // Said before, since it may be carried out however it is answered.
    Say(absl::StrCat("releasing at=", asked, " lease=", lease));
    const auto reply = CallUnary<Nothing>(&client_, kReleaseMethod, request, kPatience);
    Say(absl::StrCat("released asked=", asked, " at=", NowUs(), " lease=", lease,
                     " code=", static_cast<int>(reply.status().code())));
  }

  // Empty for what is no token.
  static warpline_internal::TokenBody BodyOf(const std::string& token) {
    std::string bytes;
    warpline_internal::TokenBody body;
    const size_t dot = token.find('.');
    if (!absl::WebSafeBase64Unescape(absl::string_view(token).substr(0, dot), &bytes) ||
        !body.ParseFromString(bytes)) {
      body.Clear();
    }
    return body;
  }

  const int number_;
  const std::string credential_;
  const std::map<std::string, std::unique_ptr<FakeServer>>& servers_;
  const std::atomic<bool>& stopping_;
  const LeaderClient client_;
  std::mt19937 random_;
  std::string token_;
};

int Main() {
  std::map<std::string, std::unique_ptr<FakeServer>> servers;
  for (const std::string& server : absl::GetFlag(FLAGS_servers)) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(server, absl::MaxSplits(':', 1));
    servers[parts.first] = std::make_unique<FakeServer>(parts.first, FirstWordOf(parts.second));
  }
  std::atomic<bool> stopping{false};
  std::vector<std::unique_ptr<Holder>> holders;
  std::vector<std::thread> threads;
  const auto tenants = absl::GetFlag(FLAGS_tenants);
  for (int i = 0; i < absl::GetFlag(FLAGS_holders) && !tenants.empty(); ++i) {
    const std::string credential = FirstWordOf(tenants[static_cast<size_t>(i) % tenants.size()]);
    holders.push_back(std::make_unique<Holder>(i, credential, &servers, &stopping));
    threads.emplace_back([holder = holders.back().get()] { holder->Run(); });
  }
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0 && byte != '\n') {
  }
  stopping.store(true);
  for (std::thread& thread : threads) thread.join();
  Say(absl::StrCat("stopped at=", NowUs()));
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

}  // namespace
}  // namespace warpline

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return warpline::Main();
}
