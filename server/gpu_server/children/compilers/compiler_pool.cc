#include "server/gpu_server/children/compilers/compiler_pool.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "common/log/log.h"
#include "common/packets/packet_socket.h"
#include "common/text.h"

namespace warpline::server {
namespace {

enum CompilerLine : size_t { kOverLine, kCompilerLineCount };
constexpr LogKind kCompilerLines[kCompilerLineCount] = {{"compiler_ends", 10, absl::Minutes(1)}};

}  // namespace

CompilerPool::CompilerPool(EventLoop* control, EventLoop* spawner, CompilerOptions options)
    : control_(control), spawner_(spawner), options_(std::move(options)), log_(kCompilerLines) {}

CompilerConnection CompilerPool::Connect(const std::string& tenant) {
  auto pair = PacketSocketPair();
  if (!pair.ok()) return {};
  Tenant& found = by_tenant_[tenant];
  if (found.process == nullptr || found.process->over()) found.process = NewProcess();
  found.used = ++last_use_;
  found.process->AddWorker(std::move(pair->second));
  CompilerConnection connection = {found.process, std::move(pair->first)};
  EndIdle();
  return connection;
}

std::shared_ptr<CompilerProcess> CompilerPool::NewProcess() {
  auto process = std::make_shared<CompilerProcess>(control_, spawner_);
  CompilerProcess::Events events;
  // The pool ends its processes before it goes, and then they say nothing more.
  events.ready = [this](const std::string& library_version, const std::string& no_library) {
    control_loop.AssertOnLoop();
    OnReady(library_version, no_library);
  };
  events.over = [this](const std::string& why) {
    control_loop.AssertOnLoop();
    OnOver(why);
  };
  process->Start(options_, std::move(events));
  return process;
}

void CompilerPool::EndIdle() {
  while (true) {
    size_t idle = 0;
    auto oldest = by_tenant_.end();
    for (auto it = by_tenant_.begin(); it != by_tenant_.end(); ++it) {
      // Loops may hold it, too, for a moment; then it is looked at the next time.
      if (it->second.process.use_count() > 2 || it->second.used == last_use_) continue;
      ++idle;
      if (oldest == by_tenant_.end() || it->second.used < oldest->second.used) oldest = it;
    }
    if (idle <= kMostIdle) return;
    oldest->second.process->End();
    by_tenant_.erase(oldest);
  }
}

void CompilerPool::OnReady(const std::string& library_version, const std::string& no_library) {
  if (!options_.compiles || std::exchange(said_library_, true)) return;
  if (no_library.empty()) {
    LogInfo("guarded modules are compiled apart libnvJitLink=", library_version);
  } else {
    LogInfo("guarded modules are compiled by the driver, in the session's worker: ",
            Quoted(no_library));
  }
}

void CompilerPool::OnOver(const std::string& why) {
  if (const LogPermit permit = log_.Ask(kOverLine)) {
    permit.Warning("a compiler has ended: ", Quoted(why));
  }
}

void CompilerPool::Stop() {
  for (auto& [tenant, compiler] : by_tenant_) compiler.process->End();
  by_tenant_.clear();
}

}  // namespace warpline::server
