#include "server/compiler/broker.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/steady_time.h"
#include "guard/guard.h"
#include "server/compiler/frozen_file.h"

namespace warpline::compiler {
namespace {

constexpr const char* kStageNames[] = {"the rewriter", "the verifier", "the compiler"};

// Whether the guard has such options; what it makes of them is its own.
bool MakesSense(const CompileRequest& request) {
  return request.magic == CompileRequest::kMagic && request.output <= Output::kText &&
         request.arena_bits >= 32 && request.arena_bits <= 47 && request.hardened <= 1 &&
         request.checks <= 1 && request.sm >= 10 && request.sm <= 999 &&
         request.source <= Source::kImage;
}

absl::StatusOr<ContentHash> KeyOf(const CompileRequest& request, int ptx,
                                  const std::string& library_version) {
  const auto text = FrozenView::Map(ptx, MostBytes(request.source));
  if (!text.ok()) return text.status();
  ContentHash of_text;
  ContentHash key;
  ContentHasher hasher;
  if (!HashContent(text->bytes(), &of_text)) return absl::InternalError("no hash");
  hasher.Add({reinterpret_cast<const char*>(of_text.data()), of_text.size()});
  hasher.Add({reinterpret_cast<const char*>(&request), sizeof(request)});
  const uint32_t version = guard::kGuardVersion;
  hasher.Add({reinterpret_cast<const char*>(&version), sizeof(version)});
  hasher.Add(library_version);
  if (!hasher.Finish(&key)) return absl::InternalError("no hash");
  return key;
}

// What the stage has to say, cut.
std::string ReportOf(int report) {
  std::string text(CompileReply::kMostReason, '\0');
  const ssize_t got = pread(report, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

// Half of the descriptors that the process may have are for results; each has two.
size_t MostEntries() {
  constexpr size_t kMost = 4096;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return std::min<size_t>(limit.rlim_cur / 4, kMost);
}

uint32_t Microseconds(absl::Duration took) {
  return static_cast<uint32_t>(
      std::clamp<int64_t>(absl::ToInt64Microseconds(took), 1, int64_t{UINT32_MAX}));
}

}  // namespace

Broker::Broker(BrokerOptions options)
    : options_(std::move(options)), cache_(options_.cache_bytes, MostEntries()) {}

void Broker::AddClient(UniqueFd socket) {
  if (clients_.size() >= kMostClients) return;
  // One that does not read must not hold up the others.
  fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  clients_.push_back({std::move(socket), nullptr, false});
}

size_t Broker::jobs() const {
  return static_cast<size_t>(std::count_if(clients_.begin(), clients_.end(),
                                           [](const Client& c) { return c.job != nullptr; }));
}

int Broker::TimeoutMs() const {
  absl::Duration least = absl::InfiniteDuration();
  for (const Client& client : clients_) {
    if (client.job != nullptr) least = std::min(least, client.job->stage->deadline() - SteadyNow());
  }
  if (least == absl::InfiniteDuration()) return -1;
  const int64_t ms = absl::ToInt64Milliseconds(absl::Ceil(least, absl::Milliseconds(1)));
  return static_cast<int>(std::clamp<int64_t>(ms, 0, INT_MAX));
}

void Broker::Run(int control, const std::function<bool()>& on_control) {
  while (true) {
    std::vector<pollfd> entries = {{control, POLLIN, 0}};
    const bool room = jobs() < kMostJobs;
    for (const Client& client : clients_) {
      // Whether its peer is there is looked at in any case.
      const short events = client.job == nullptr && room ? POLLIN : 0;
      entries.push_back({client.socket.get(), events, 0});
      const int exit = client.job == nullptr ? -1 : client.job->stage->exit_fd();
      entries.push_back({exit, POLLIN, 0});
    }
    if (poll(entries.data(), entries.size(), TimeoutMs()) < 0) continue;
    size_t at = 1;
    for (Client& client : clients_) {
      const pollfd& socket = entries[at++];
      const pollfd& exit = entries[at++];
      if ((socket.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
        // Nobody waits for what is under way.
        client.gone = true;
      } else if (client.job != nullptr) {
        const bool late = client.job->stage->deadline() <= SteadyNow();
        if (exit.revents != 0 || late) OnStageEnd(&client);
      } else if (socket.revents != 0 && jobs() < kMostJobs) {
        OnRequest(&client);
      }
    }
    clients_.remove_if([](const Client& client) { return client.gone; });
    if (entries[0].revents != 0 && !on_control()) return;
  }
}

void Broker::OnRequest(Client* client) {
  auto job = std::make_unique<Job>();
  std::vector<UniqueFd> fds;
  const absl::Status received =
      ReceiveRecord(client->socket.get(), &job->request, sizeof(job->request), &fds);
  if (absl::IsNotFound(received)) return;
  if (!received.ok() || fds.size() != 1 || !MakesSense(job->request)) {
    client->gone = true;
    return;
  }
  job->ptx = std::move(fds[0]);
  client->job = std::move(job);
  Job& started = *client->job;
  if (started.request.output == Output::kCubin && options_.stages.compile == nullptr) {
    return Refuse(client, absl::StatusCode::kUnimplemented, "no compiler was found");
  }
  const auto key = KeyOf(started.request, started.ptx.get(), options_.library_version);
  if (!key.ok()) return Refuse(client, key.status().code(), std::string(key.status().message()));
  started.key = *key;
  if (const Result* const known = cache_.Find(*key); known != nullptr) {
    started.reply.cached = 1;
    return Answer(client, known);
  }
  StartStep(client);
}

void Broker::StartStep(Client* client) {
  auto stage = StartStage(client->job.get());
  if (!stage.ok()) {
    return Refuse(client, stage.status().code(), std::string(stage.status().message()));
  }
  client->job->stage = *std::move(stage);
}

absl::StatusOr<std::unique_ptr<StageProcess>> Broker::StartStage(Job* job) {
  auto report = NewFile("report");
  if (!report.ok()) return report.status();
  job->report = *std::move(report);
  const CompileRequest& request = job->request;
  const int last = job->report.get();
  if (job->step == Step::kRewrite) {
    auto text = NewFile("guarded");
    if (!text.ok()) return text.status();
    auto layout = NewFile("layout");
    if (!layout.ok()) return layout.status();
    job->text = *std::move(text);
    job->layout = *std::move(layout);
    return StageProcess::Start(
        [&](absl::Span<const int> fds) {
          return options_.stages.rewrite(request, fds[0], fds[1], fds[2], fds[3]);
        },
        options_.rewrite_limits, {job->ptx.get(), job->text.get(), job->layout.get(), last});
  }
  if (job->step == Step::kVerify) {
    return StageProcess::Start(
        [&](absl::Span<const int> fds) {
          return ResultOf(options_.stages.verify(request, fds[0], fds[1]));
        },
        options_.verify_limits, {job->text.get(), last});
  }
  auto code = NewFile("code");
  if (!code.ok()) return code.status();
  job->code = *std::move(code);
  return StageProcess::Start(
      [&](absl::Span<const int> fds) {
        return ResultOf(options_.stages.compile(request, fds[0], fds[1], fds[2]));
      },
      options_.compile_limits, {job->text.get(), job->code.get(), last});
}

void Broker::OnStageEnd(Client* client) {
  Job& job = *client->job;
  const StageEnd end = job.stage->End();
  const char* const name = kStageNames[static_cast<size_t>(job.step)];
  const uint32_t took = Microseconds(end.took);
  switch (end.kind) {
    case StageEnd::Kind::kDone:
      break;
    case StageEnd::Kind::kNoPtx:
      // Only the rewriter looks for it. Others that say so have been taken over.
      if (job.step == Step::kRewrite) {
        return Refuse(client, absl::StatusCode::kNotFound, ReportOf(job.report.get()));
      }
      [[fallthrough]];
    case StageEnd::Kind::kRefused: {
      const std::string report = ReportOf(job.report.get());
      return Refuse(client, absl::StatusCode::kInvalidArgument,
                    job.step == Step::kRewrite ? report : absl::StrCat(name, ": ", report));
    }
    case StageEnd::Kind::kLimit:
      return Refuse(client, absl::StatusCode::kResourceExhausted, absl::StrCat(name, " ", end.why));
    case StageEnd::Kind::kCrashed:
    case StageEnd::Kind::kNotJailed:
      return Refuse(client, absl::StatusCode::kInternal, absl::StrCat(name, " ", end.why));
  }
  // What the stage has written is from now on what it is.
  absl::Status frozen;
  if (job.step == Step::kRewrite) {
    job.reply.rewrite_us = took;
    frozen = Freeze(job.text.get());
    if (frozen.ok()) frozen = Freeze(job.layout.get());
    job.step = Step::kVerify;
  } else if (job.step == Step::kVerify) {
    job.reply.verify_us = took;
    if (job.request.output == Output::kText) {
      job.code = std::move(job.text);
      return Finish(client);
    }
    job.step = Step::kCompile;
  } else {
    job.reply.compile_us = took;
    frozen = Freeze(job.code.get());
    if (frozen.ok()) return Finish(client);
  }
  if (!frozen.ok()) return Refuse(client, frozen.code(), std::string(frozen.message()));
  StartStep(client);
}

void Broker::Finish(Client* client) {
  Job& job = *client->job;
  Result result = {std::move(job.code), std::move(job.layout), 0};
  for (const UniqueFd* file : {&result.code, &result.layout}) {
    result.bytes += FrozenBytes(file->get()).value_or(0);
  }
  const ContentHash key = job.key;
  Answer(client, &result);
  cache_.Add(key, std::move(result));
}

void Broker::Refuse(Client* client, absl::StatusCode code, const std::string& why) {
  CompileReply& reply = client->job->reply;
  reply.code = static_cast<int32_t>(code);
  reply.reason_bytes = static_cast<uint32_t>(std::min(why.size(), sizeof(reply.reason)));
  memcpy(reply.reason, why.data(), reply.reason_bytes);
  Answer(client, nullptr);
}

void Broker::Answer(Client* client, const Result* result) {
  const std::unique_ptr<Job> job = std::move(client->job);
  std::vector<int> fds;
  if (result != nullptr) fds = {result->code.get(), result->layout.get()};
  // It asked for one thing and has one answer, so its socket has room.
  if (!SendRecord(client->socket.get(), &job->reply, sizeof(job->reply), fds).ok()) {
    client->gone = true;
  }
}

}  // namespace warpline::compiler
