// Schedulers that follow each other over one etcd, servers that report and clients that come and
// go, in a simulation: a seed decides in which order everything happens, what etcd answers and
// which answers are lost. No device's memory is ever promised twice, and no lease that has sessions
// is ended for having none.
//
// WARPLINE_HANDOVERS=N runs until N schedulers have taken over (10,000 take half a minute), and
// WARPLINE_SEED=N begins with that seed.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/log/log_capture.h"
#include "gtest/gtest.h"
#include "scheduler/etcd/etcd_client.h"
#include "scheduler/etcd/etcd_key_value_store.h"
#include "scheduler/etcd/testing/fake_etcd.h"
#include "scheduler/etcd/testing/local_etcd.h"
#include "scheduler/scheduler.h"
#include "scheduler/state_folder.h"
#include "scheduler/store/store.h"

namespace warpline::scheduler {
namespace {

using warpline_internal::AcquireRequest;
using warpline_internal::LeaseReply;
using warpline_internal::ReportReply;
using warpline_internal::ServerReport;

constexpr uint64_t kGiB = 1ull << 30;
constexpr uint64_t kCapacity = 16 * kGiB;
constexpr int kSteps = 600;

class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seed) {
    for (Process& process : processes_) {
      process.client = std::make_unique<EtcdClient>(EtcdClientOptions{
          .members = {}, .answer = [this](const std::string& method, const std::string& request) {
            return Etcd(method, request);
          }});
    }
    for (const char* const name : {"a", "b"}) servers_[name].name = name;
    clients_.resize(static_cast<size_t>(Pick(3, 20)));
    ttl_ = absl::Seconds(Pick(2, 12));
    lost_after_ = absl::Seconds(Pick(2, 8));
    const auto rate = [this](int often, int seldom) { return Chance(2) ? often : seldom; };
    takeover_ = rate(25, 200);
    renewal_ = rate(4, 40);
    release_ = rate(30, 300);
    silence_ = rate(60, 1000);
  }

  // Returns what went wrong; empty for nothing.
  std::string Run() {
    for (int step = 0; step < kSteps; ++step) {
      now_ += absl::Milliseconds(Pick(20, 700));
      etcd_.FinishDelayed();
      if (Chance(30)) {
        // Mostly it answers. Sometimes it answers nobody for seconds.
        full_ = Chance(3);
        trouble_ = Chance(3) ? Pick(20, 95) : Chance(4) ? 5 : Chance(4) ? 100 : 0;
      }
      if ((Leader() == nullptr && Chance(3)) || Chance(takeover_))
        TakeOver(&processes_[Pick(0, 1)]);
      for (auto& [name, server] : servers_) {
        // Sometimes one cannot reach anybody for a while.
        if (Chance(silence_)) server.silent_until = now_ + absl::Seconds(Pick(1, 30));
        if (now_ >= server.silent_until && Chance(3)) Report(&server);
      }
      for (Client& client : clients_) Act(&client);
      for (Process& process : processes_) {
        if (process.scheduler != nullptr && Chance(2)) process.scheduler->Housekeep();
        if (process.gives_up) process.scheduler = nullptr;
      }
      const std::string wrong = Judge();
      if (!wrong.empty()) return absl::StrCat("at step ", step, ": ", wrong);
    }
    return "";
  }

  int takeovers() const { return takeovers_; }
  int granted() const { return granted_; }

 private:
  struct Process {
    std::unique_ptr<EtcdClient> client;
    std::shared_ptr<Scheduler> scheduler;
    bool gives_up = false;
    int64_t term = 0;
  };
  struct Held {
    std::string id, token, server;
    uint64_t bytes = 0;
    absl::Time expires;  // When its token does.
    uint64_t epoch = 0;
  };
  struct Client {
    Held lease;  // None when it has no id.
  };
  struct Server {
    std::string name;
    std::map<std::string, Held> sessions;  // The leases that have some.
    std::set<std::string> idle;            // Since the last report that was answered.
    std::set<std::string> ended;           // As it was told.
    std::map<std::string, uint64_t> epochs;
    bool heard = false;
    absl::Time silent_until = absl::InfinitePast();
  };

  int Pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  // Once in `n` times.
  bool Chance(int n) { return Pick(1, n) == 1; }

  absl::StatusOr<std::string> Etcd(const std::string& method, const std::string& request) {
    using Mood = FakeEtcd::Mood;
    const bool fails = Pick(1, 100) <= trouble_;
    const Mood moods[] = {Mood::kRefuses, Mood::kFull, Mood::kLoses, Mood::kDelays};
    etcd_.SetMood(fails ? full_ ? Mood::kFull : moods[Pick(0, 3)] : Mood::kAnswers);
    return etcd_.Answer(method, request);
  }

  Process* Leader() {
    Process* leader = nullptr;
    for (Process& process : processes_) {
      if (process.scheduler == nullptr) continue;
      if (leader == nullptr || process.term > leader->term) leader = &process;
    }
    return leader;
  }

  // The one before may not have noticed yet.
  void TakeOver(Process* process) {
    process->scheduler = nullptr;
    const auto guard = TakeLead(process->client.get(), "w/leader");
    if (!guard.ok()) return;
    auto store = Store::Open(std::make_unique<EtcdKeyValueStore>(
        process->client.get(), "w/", *guard,
        [process](const std::string&) { process->gives_up = true; }));
    if (!store.ok()) return;
    SchedulerOptions options;
    options.operator_credential = "operator";
    options.lease_ttl = ttl_;
    options.lost_after = lost_after_;
    options.tenant_calls_per_second = options.tenant_calls_at_once = 1e9;
    options.clock = [this] { return now_; };
    auto keys =
        KeyRing::Open((*store)->SigningKeys(), absl::Hours(100), absl::ZeroDuration(), now_);
    if (!keys.ok()) return;
    auto scheduler = Scheduler::Create(options, *std::move(store), *std::move(keys));
    if (!scheduler.ok()) return;
    process->scheduler = *std::move(scheduler);
    process->gives_up = false;
    process->term = guard->create_revision;
    ++takeovers_;
  }

  // Asks the leader, or one that was it, as role.h does.
  template <typename Body>
  auto Ask(Body body) -> decltype(body(std::declval<Scheduler&>())) {
    Process* process = Leader();
    if (Chance(6)) process = &processes_[Pick(0, 1)];
    if (process == nullptr || process->scheduler == nullptr) {
      return absl::UnavailableError("nobody leads");
    }
    const uint64_t mark = process->scheduler->Confirmations();
    auto answer = body(*process->scheduler);
    if (auto status = process->scheduler->ConfirmSince(mark); !status.ok()) {
      return absl::UnavailableError(status.message());
    }
    if (Chance(20)) return absl::UnavailableError("the answer was lost");
    return answer;
  }

  void Report(Server* server) {
    ServerReport report;
    report.set_name(server->name);
    report.set_endpoint(server->name + ":14000");
    report.set_heard(server->heard);
    auto* const device = report.add_devices();
    device->set_uuid("GPU-" + server->name);
    device->set_capacity_bytes(kCapacity);
    for (const auto& [id, held] : server->sessions) {
      auto* const lease = report.add_leases();
      lease->set_lease(id);
      lease->set_sessions(1);
    }
    for (const std::string& id : server->idle) report.add_idle_leases(id);
    const auto reply =
        Ask([&](Scheduler& scheduler) { return scheduler.Report(report, /*local=*/true); });
    server->heard = reply.ok();
    if (!reply.ok()) return;
    server->idle.clear();
    for (const auto& ended : reply->ended()) {
      // The scheduler was told of these with each report since they were opened.
      if (ended.reason() == "it has no sessions and nobody renewed it" &&
          server->sessions.count(ended.lease()) != 0) {
        wrong_ = absl::StrCat("server ", server->name, " is told that lease ", ended.lease(),
                              " has no sessions");
      }
      server->sessions.erase(ended.lease());
      server->ended.insert(ended.lease());
    }
  }

  void Take(const LeaseReply& reply, uint64_t epoch, Held* held) {
    // The same answer again has the same token, which expires when it did.
    if (reply.token() == held->token) return;
    held->token = reply.token();
    held->expires = now_ + ttl_;
    held->epoch = epoch;
  }

  void Act(Client* client) {
    Held& lease = client->lease;
    if (lease.id.empty()) {
      if (Chance(4)) Acquire(&lease);
      return;
    }
    Server& server = servers_[lease.server];
    const bool in_session = server.sessions.count(lease.id) != 0;
    if (Chance(renewal_)) Renew(&lease);
    if (lease.id.empty()) return;
    if (!in_session && Chance(3)) {
      uint64_t& newest = server.epochs[lease.id];
      if (now_ < lease.expires && server.ended.count(lease.id) == 0 && lease.epoch >= newest) {
        newest = lease.epoch;
        server.sessions[lease.id] = lease;
        server.idle.erase(lease.id);
      }
    } else if (in_session && Chance(25)) {
      server.sessions.erase(lease.id);
      server.idle.insert(lease.id);
    }
    if (Chance(release_)) {
      if (server.sessions.erase(lease.id) != 0) server.idle.insert(lease.id);
      const absl::Status released =
          Ask([&](Scheduler& scheduler) -> absl::StatusOr<bool> {
            if (auto status = scheduler.Release(lease.token); !status.ok()) return status;
            return true;
          }).status();
      (void)released;  // Whatever came of it, its holder uses it no more.
      lease = Held();
    } else if (Chance(60)) {
      // The holder is gone, without a word. A session that it has goes on.
      vanished_.push_back(lease);
      lease = Held();
    }
  }

  void Acquire(Held* lease) {
    AcquireRequest request;
    request.set_memory_bytes(static_cast<uint64_t>(Pick(1, 7)) * kGiB);
    request.set_program("program");
    uint64_t epoch = 0;
    const auto reply = Ask([&](Scheduler& scheduler) {
      epoch = scheduler.Epoch();
      return scheduler.Acquire(request, /*by_sessions=*/false, /*local=*/true);
    });
    if (!reply.ok()) return;
    lease->id = reply->lease();
    lease->server = reply->server();
    lease->bytes = reply->memory_bytes();
    Take(*reply, epoch, lease);
    ++granted_;
  }

  void Renew(Held* lease) {
    uint64_t epoch = 0;
    const auto reply = Ask([&](Scheduler& scheduler) {
      epoch = scheduler.Epoch();
      return scheduler.Renew(lease->token);
    });
    if (reply.ok()) return Take(*reply, epoch, lease);
    const auto code = reply.status().code();
    const bool over =
        code == absl::StatusCode::kNotFound || code == absl::StatusCode::kFailedPrecondition;
    // Its server may not have been told yet, and then a session that it has goes on.
    if (over) *lease = Held();
  }

  // What is promised of each server's memory: leases with sessions, and those whose holders have a
  // token that the server takes.
  std::string Judge() {
    if (!wrong_.empty()) return wrong_;
    std::erase_if(vanished_, [this](const Held& lease) { return now_ >= lease.expires; });
    for (const auto& [name, server] : servers_) {
      std::map<std::string, uint64_t> promised;
      for (const auto& [id, held] : server.sessions) promised[id] = held.bytes;
      const auto add = [&](const Held& lease) {
        if (lease.id.empty() || lease.server != name || now_ >= lease.expires) return;
        if (server.ended.count(lease.id) == 0) promised[lease.id] = lease.bytes;
      };
      for (const Client& client : clients_) add(client.lease);
      for (const Held& lease : vanished_) add(lease);
      uint64_t sum = 0;
      std::string list;
      for (const auto& [id, bytes] : promised) {
        sum += bytes;
        absl::StrAppend(&list, " ", id, "=", bytes / kGiB, "GiB",
                        server.sessions.count(id) != 0 ? " with sessions" : "");
      }
      if (sum > kCapacity) return absl::StrCat("server ", name, " has promised", list);
    }
    return "";
  }

  std::mt19937_64 random_;
  absl::Time now_ = absl::FromUnixSeconds(1'000'000'000);
  FakeEtcd etcd_;
  bool full_ = false;  // What it says then: that it is full, and nothing else.
  int trouble_ = 0;    // Of a hundred calls of etcd, those that fail.
  absl::Duration ttl_;
  absl::Duration lost_after_;
  // Once in so many steps, or turns of a client or server.
  int takeover_ = 0, renewal_ = 0, release_ = 0, silence_ = 0;
  Process processes_[2];
  std::map<std::string, Server> servers_;
  std::vector<Client> clients_;
  std::vector<Held> vanished_;
  std::string wrong_;
  int takeovers_ = 0;
  int granted_ = 0;
};

int Number(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  int number = 0;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number : otherwise;
}

TEST(HandoverTest, NoMemoryIsPromisedTwice) {
  const int handovers = Number("WARPLINE_HANDOVERS", 1000);
  auto seed = static_cast<uint64_t>(Number("WARPLINE_SEED", 1));
  int64_t seen = 0, granted = 0;
  for (; seen < handovers; ++seed) {
    const LogCapture quiet;
    Simulation simulation(seed);
    const std::string wrong = simulation.Run();
    ASSERT_EQ(wrong, "") << "WARPLINE_SEED=" << seed;
    seen += simulation.takeovers();
    granted += simulation.granted();
  }
  EXPECT_GT(granted, handovers / 2);
  RecordProperty("granted", static_cast<int>(granted));
}

}  // namespace
}  // namespace warpline::scheduler
