// Servers and holders of leases for a scheduler whose page is looked at; there is no device behind
// them. It does what its input says, a line each, and answers "ok ..." or "error ..." to each:
//
//   server NAME GPUS GIB CREDENTIAL  reports a server from now on
//   silence NAME                     reports it no more
//   sessions NAME COUNT              has the server report so many sessions
//   lease TENANT GIB GPUS SESSIONS SLICE PROGRAM      takes a lease, which its sessions keep
//   wait TENANT GIB GPUS GANG MEMBERS PROGRAM          asks for one again and again
//
// TENANT and CREDENTIAL are credentials; "-" stands for an empty word. GANG and PROGRAM are in
// hexadecimal, since they may be anything. It ends with its input.
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/mutex.h"
#include "proto/lease_methods.h"
#include "proto/leases.pb.h"
#include "proto/scheduler.pb.h"
#include "server/gpu_server/admin/report_parts.h"
#include "transport/grpc/unary/leader_client.h"

ABSL_FLAG(std::vector<std::string>, schedulers, {}, "Their addresses.");

namespace warpline {
namespace {

using warpline_internal::AcquireRequest;
using warpline_internal::LeaseReply;
using warpline_internal::ReportReply;
using warpline_internal::ServerReport;

constexpr absl::Duration kPatience = absl::Seconds(10);

std::string Method(const char* name) { return absl::StrCat("/warpline_internal.Scheduler/", name); }

uint64_t Number(const std::string& word) {
  uint64_t value = 0;
  return absl::SimpleAtoi(word, &value) ? value : 0;
}

std::string Word(const std::string& word) { return word == "-" ? "" : word; }

class Filler {
 public:
  Filler()
      : client_(
            absl::GetFlag(FLAGS_schedulers),
            [](const std::string& address) { return GrpcTarget{.address = address}; },
            absl::Milliseconds(500)),
        reporter_([this] { Report(); }),
        asker_([this] { AskAgain(); }) {}
  ~Filler() {
    {
      MutexLock lock(&mu_);
      stopping_ = true;
    }
    reporter_.join();
    asker_.join();
  }

  std::string Do(const std::vector<std::string>& words) {
    if (words[0] == "server" && words.size() == 5) return AddServer(words);
    if (words[0] == "silence" && words.size() == 2) {
      MutexLock lock(&mu_);
      reports_.erase(words[1]);
      return "ok";
    }
    if (words[0] == "sessions" && words.size() == 3) {
      MutexLock lock(&mu_);
      sessions_[words[1]] = Number(words[2]);
      return "ok";
    }
    if (words[0] == "lease" && words.size() == 7) return Lease(words);
    if (words[0] == "wait" && words.size() == 7) return Wait(words);
    return "error what?";
  }

 private:
  std::string AddServer(const std::vector<std::string>& words) {
    ServerReport report;
    report.set_name(words[1]);
    report.set_credential(Word(words[4]));
    report.set_endpoint(words[1] + ".example:14000");
    report.set_version("0.9");
    report.set_heard(true);
    for (uint64_t i = 0; i < Number(words[2]); ++i) {
      auto* const device = report.add_devices();
      device->set_uuid(absl::StrCat("GPU-", words[1], "-", i));
      device->set_name("NVIDIA H100 80GB HBM3");
      device->set_backend("cuda");
      device->set_capacity_bytes(Number(words[3]) << 30);
    }
    const auto reply = CallUnary<ReportReply>(&client_, Method("Report"), report, kPatience);
    if (!reply.ok()) return absl::StrCat("error ", reply.status().message());
    MutexLock lock(&mu_);
    reports_[words[1]] = std::move(report);
    return "ok";
  }

  std::string Lease(const std::vector<std::string>& words) {
    AcquireRequest request = Request(words);
    const uint64_t sessions = Number(words[4]);
    request.set_slice(Word(words[5]));
    const auto reply = CallUnary<LeaseReply>(&client_, kAcquireMethod, request, kPatience);
    if (!reply.ok()) return absl::StrCat("error ", reply.status().message());
    MutexLock lock(&mu_);
    auto* const lease = reports_[reply->server()].add_leases();
    lease->set_lease(reply->lease());
    lease->set_sessions(static_cast<uint32_t>(sessions));
    return absl::StrCat("ok ", reply->lease(), " ", reply->server());
  }

  std::string Wait(const std::vector<std::string>& words) {
    AcquireRequest request = Request(words);
    request.set_gang(absl::HexStringToBytes(Word(words[4])));
    request.set_members(static_cast<uint32_t>(Number(words[5])));
    MutexLock lock(&mu_);
    request.set_ticket(absl::StrCat("ticket", asks_.size()));
    asks_.push_back(request);
    return "ok";
  }

  static AcquireRequest Request(const std::vector<std::string>& words) {
    AcquireRequest request;
    request.set_credential(Word(words[1]));
    request.set_memory_bytes(Number(words[2]) << 30);
    request.set_devices(static_cast<uint32_t>(Number(words[3])));
    request.set_program(absl::HexStringToBytes(Word(words[6])));
    return request;
  }

  // A session with texts as long as a server may report them.
  static warpline_internal::SessionStat Session(uint64_t id) {
    warpline_internal::SessionStat session;
    session.set_id(id);
    session.set_state("running");
    session.set_program(std::string(256, 'p'));
    session.set_peer(std::string(500, '7'));
    session.set_reason(std::string(500, 'r'));
    for (int i = 0; i < 30; ++i) {
      auto* const usage = session.add_usage();
      usage->set_name("a_number_of_the_session");
      usage->set_value(id << 20);
    }
    return session;
  }

  void ReportOne(ServerReport report, uint64_t sessions) {
    report.set_number(++number_);
    server::ReportParts parts(&report);
    for (uint64_t i = 0; i < sessions; ++i) parts.Add(Session(i));
    const auto more = parts.Finish();
    (void)CallUnary<ReportReply>(&client_, Method("Report"), report, absl::Seconds(1));
    for (const auto& part : more) {
      (void)CallUnary<warpline_internal::Nothing>(&client_, Method("ReportSessions"), part,
                                                  absl::Seconds(1));
    }
  }

  void Report() {
    while (true) {
      std::map<std::string, ServerReport> reports;
      std::map<std::string, uint64_t> sessions;
      {
        MutexLock lock(&mu_);
        if (stopping_) return;
        reports = reports_;
        sessions = sessions_;
      }
      for (const auto& [name, report] : reports) ReportOne(report, sessions[name]);
      absl::SleepFor(absl::Milliseconds(200));
    }
  }

  void AskAgain() {
    while (true) {
      std::vector<AcquireRequest> asks;
      {
        MutexLock lock(&mu_);
        if (stopping_) return;
        asks = asks_;
      }
      for (const AcquireRequest& ask : asks) {
        (void)CallUnary<LeaseReply>(&client_, kAcquireMethod, ask, absl::Seconds(1));
      }
      absl::SleepFor(absl::Milliseconds(200));
    }
  }

  const LeaderClient client_;
  uint64_t number_ = 0;  // Used by the reporting thread alone.
  Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, ServerReport> reports_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, uint64_t> sessions_ ABSL_GUARDED_BY(mu_);
  std::vector<AcquireRequest> asks_ ABSL_GUARDED_BY(mu_);
  std::thread reporter_;
  std::thread asker_;
};

int Main() {
  Filler filler;
  std::string line;
  while (std::getline(std::cin, line)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    std::puts(filler.Do(words).c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace warpline

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return warpline::Main();
}
