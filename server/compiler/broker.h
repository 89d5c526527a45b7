// A tenant's compiler: takes modules from the tenant's workers, has each guarded, verified and
// compiled by processes of its own (stages.h), and keeps the results for the tenant's next session.
//
// It parses nothing of a tenant's but records of fixed size. It hashes modules, and otherwise only
// passes descriptors on, so that its memory, which its stages are copies of, holds nothing that a
// tenant has written.
#ifndef WARPLINE_SERVER_COMPILER_BROKER_H_
#define WARPLINE_SERVER_COMPILER_BROKER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/crypto/content_hash.h"
#include "common/unique_fd.h"
#include "server/compiler/result_cache.h"
#include "server/compiler/stage_process.h"
#include "server/compiler/stages.h"
#include "server/compiler/wire.h"

namespace warpline::compiler {

struct BrokerOptions {
  Stages stages;
  // Of the compiler's library; part of what results are kept by.
  std::string library_version;
  uint64_t cache_bytes = uint64_t{128} << 20;
  StageLimits rewrite_limits = {};
  StageLimits verify_limits = {};
  StageLimits compile_limits = {
      .wall = absl::Seconds(300), .cpu_seconds = 300, .memory_bytes = uint64_t{8} << 30};
};

// Used by one thread, in a process that has no other.
class Broker {
 public:
  static constexpr size_t kMostClients = 256;
  // Modules whose stages run at a time; others wait.
  static constexpr size_t kMostJobs = 4;

  explicit Broker(BrokerOptions options);
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  // From now on `socket` is served: its peer is one worker. A client that says what makes no sense,
  // or that has too many before it, is closed.
  void AddClient(UniqueFd socket);

  // Serves until `on_control` says that it is over, which is called whenever `control` (borrowed)
  // is readable or at its end.
  void Run(int control, const std::function<bool()>& on_control);

  const ResultCache& cache() const { return cache_; }

 private:
  enum class Step { kRewrite, kVerify, kCompile };
  struct Job {
    CompileRequest request;
    ContentHash key = {};
    UniqueFd ptx;
    Step step = Step::kRewrite;
    std::unique_ptr<StageProcess> stage;
    UniqueFd report;  // Of the stage that runs.
    UniqueFd text;    // What the rewriter wrote, and the verifier accepted
    UniqueFd layout;
    UniqueFd code;
    CompileReply reply;
  };
  struct Client {
    UniqueFd socket;
    std::unique_ptr<Job> job;  // Null while nothing is under way.
    bool gone = false;
  };

  void OnRequest(Client* client);
  // Starts the step's stage; the client is answered if that cannot be.
  void StartStep(Client* client);
  absl::StatusOr<std::unique_ptr<StageProcess>> StartStage(Job* job);
  // The stage has ended, or its time is over.
  void OnStageEnd(Client* client);
  void Finish(Client* client);
  // Answers with an error.
  static void Refuse(Client* client, absl::StatusCode code, const std::string& why);
  static void Answer(Client* client, const Result* result);
  size_t jobs() const;
  int TimeoutMs() const;

  const BrokerOptions options_;
  ResultCache cache_;
  std::list<Client> clients_;
};

}  // namespace warpline::compiler

#endif  // WARPLINE_SERVER_COMPILER_BROKER_H_
