#include "client_stub/core/lifecycle/initialization.h"

#include <pthread.h>
#include <stdlib.h>

#include <atomic>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client_stub/arena/allocator.h"
#include "client_stub/core/base/environment.h"
#include "client_stub/core/bulk/bulk_copies.h"
#include "client_stub/core/checks/checked_ranges.h"
#include "client_stub/core/context/context_limits.h"
#include "client_stub/core/managed/fault_handler.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/managed/system_calls.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/memory/host_memory.h"
#include "client_stub/core/memory/ipc_memory.h"
#include "client_stub/core/memory/shared_host_memory.h"
#include "client_stub/core/memory/virtual_memory.h"
#include "client_stub/core/pinned/pinned_memory.h"
#include "client_stub/core/registered/registered_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/host_calls.h"
#include "client_stub/core/tier/loaded_files.h"
#include "client_stub/core/tier/tier_opening.h"
#include "common/cuda/cuda_numbers.h"
#include "common/lease/lease_key.h"
#include "common/log/log.h"
#include "common/mutex.h"
#include "common/text_file.h"
#include "common/tier/keyed_lines.h"
#include "common/tier/program_identity.h"
#include "proto/guard.h"

namespace warpline::stub {

namespace {

// How long the server has to take pending commands when the process ends.
constexpr absl::Duration kExitDeadline = absl::Seconds(2);

struct Initialization {
  Mutex mu;
  bool done ABSL_GUARDED_BY(mu) = false;
  CUresult result ABSL_GUARDED_BY(mu) = CUDA_ERROR_NOT_INITIALIZED;
};
constinit NoDestructor<Initialization> g_initialization;

std::atomic<SessionOpener> g_opener{nullptr};
std::atomic<decltype(SessionOptions::printer)> g_printer{nullptr};
// True in the child of a fork that follows the first cuInit.
std::atomic<bool> g_forked{false};

// Runs in a copy of the process that has one thread and whose locks are in any state.
void TurnAwayInChild() {
  g_forked.store(true, std::memory_order_relaxed);
  StopFaultHandler();
  SetBufferSpan(0, 0);
  runtime().gate.store(CUDA_ERROR_NOT_INITIALIZED, std::memory_order_release);
}

// Programs that end without waiting for their kernels still get their kernels' output.
void WaitForOutput(Session& session) {
  if (!session.status().ExpectsOutput()) return;
  const absl::Time end = absl::Now() + kExitDeadline;
  while (session.status().error() == CudaResult::kSuccess &&
         !session.commands().Retired(kNoStream, session.commands().last_seq()) &&
         absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  session.status().WriteOutput();
}

void PrintCounters() {
  const std::string& where = environment().stat;
  if (where.empty() || where == "0") return;
  const Session& session = *runtime().session;
  const std::string text = session.counters().ToText(session.transport());
  if (where == "1") {
    std::cerr << text << std::flush;
    return;
  }
  std::ofstream file(where, std::ios::app);
  file << text;
  if (!file.flush()) LogError("cannot write the counters to ", where, " (WARPLINE_STAT)");
}

void CloseAtExit() {
  CUresult open = CUDA_SUCCESS;
  if (!runtime().gate.compare_exchange_strong(open, CUDA_ERROR_DEINITIALIZED)) return;
  WaitForOutput(*runtime().session);
  runtime().session->Close(kExitDeadline);
  PrintCounters();
}

CUresult RefuseUnreachable(const absl::Status& status) {
  const Environment& env = environment();
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      LogError(status.message(), ": start warpline-server at ", env.endpoint,
               ", or correct WARPLINE_ENDPOINT");
      return CUDA_ERROR_SYSTEM_NOT_READY;
    case absl::StatusCode::kNotFound:
      LogError("the server at ", env.endpoint, " has no device ", env.visible.device, " (",
               status.message(), "): correct CUDA_VISIBLE_DEVICES");
      return CUDA_ERROR_NO_DEVICE;
    case absl::StatusCode::kInvalidArgument:
      if (env.visible.device.find(',') == std::string::npos) break;
      LogError("the server at ", env.endpoint, " takes no such list of devices (", status.message(),
               "): correct CUDA_VISIBLE_DEVICES");
      return CUDA_ERROR_NO_DEVICE;
    case absl::StatusCode::kUnauthenticated:
      // TLS failed, and the message says what to do.
      LogError(status.message());
      return CUDA_ERROR_NOT_PERMITTED;
    default:
      break;
  }
  LogError("the server at ", env.endpoint,
           " opened no session: ", status.ToString(absl::StatusToStringMode::kWithNoExtraData));
  return ToCu(CudaResultFromStatus(status));
}

void AddDevice(Device* device) {
  Runtime& r = runtime();
  device->limits = LimitsOf(*device->remote);
  device->legacy.handle = CU_STREAM_LEGACY;
  device->legacy.wire = HandleOnDevice(device->number, kLegacyStreamHandle);
  device->legacy.device = device;
  r.contexts.Add([&](Context& context, uint64_t handle) {
    context.handle = HandleOf<CUcontext>(handle);
    context.primary = true;
    context.device = device;
    context.references = 0;
    context.id = r.next_context_id.fetch_add(1);
    InitializeLimits(&context);
    device->primary = &context;
  });
  r.pools.Add([&](MemoryPool& pool, uint64_t handle) {
    pool.handle = HandleOf<CUmemoryPool>(handle);
    pool.device = device;
    device->default_pool = &pool;
  });
  device->current_pool.store(device->default_pool);
}

std::vector<Allocator*> AddDevices() {
  Runtime& r = runtime();
  std::vector<Allocator*> allocators;
  r.device_count = static_cast<uint32_t>(r.terms->devices.size());
  r.legacy_overtaken.store(r.several_devices());
  for (uint32_t i = 0; i < r.device_count; ++i) {
    Device& device = r.devices[i];
    device.number = i;
    device.remote = &r.terms->device(i);
    device.allocator = new Allocator(r.session, i);
    allocators.push_back(device.allocator);
    AddDevice(&device);
  }
  return allocators;
}

void OpenGate(OpenedInTier opened) {
  Runtime& r = runtime();
  r.session = opened.session.release();  // Lives as long as the process, as all that follows.
  r.tier_watch = opened.watch.release();
  r.terms = &r.session->terms();
  r.commands = &r.session->commands();
  r.status = &r.session->status();
  const std::vector<Allocator*> allocators = AddDevices();
  r.virtual_memory = new VirtualMemory(r.session, allocators);
  r.ipc_memory = new IpcMemory(&r.session->memory(), r.virtual_memory);
  r.memory = new DeviceMemory(*r.terms, allocators, r.virtual_memory, r.ipc_memory);
  r.host_memory = new HostMemory;
  r.shared_host_memory =
      new SharedHostMemory(*r.terms, &r.session->memory(), environment().share_memory);
  r.registered = new RegisteredMemory(r.shared_host_memory);
  r.bulk_copies = new BulkCopies({.shared = r.shared_host_memory,
                                  .relay = &r.session->relay_bulk(),
                                  .server = &r.session->bulk()},
                                 r.commands);
  r.mirrored = new MirroredMemory(r.session, r.memory, r.NewNumber());
  r.pinned = new PinnedMemory({.terms = r.terms,
                               .host = r.host_memory,
                               .shared = r.shared_host_memory,
                               .registered = r.registered,
                               .mirrored = r.mirrored,
                               .memory = r.memory,
                               .addresses = r.virtual_memory});
  r.explain = [](CudaResult error) { runtime().pinned->Explain(error); };
  r.host_calls = new HostCalls(r.session);
  if (environment().guard == GuardMode::kReport) {
    r.checked_ranges = new CheckedRanges(*r.terms, r.device_count, r.memory);
  }
  r.launch_blocking = environment().launch_blocking;
  r.wait_limit = environment().wait_limit;
  r.gate.store(CUDA_SUCCESS, std::memory_order_release);
  atexit(CloseAtExit);
}

// Reads token and credential. Logs what cannot be read.
bool ReadSecrets(const Environment& env, SessionOptions* options) {
  options->slice = env.slice;
  absl::StatusOr<std::string> credential = std::string();
  if (!env.credential.empty()) {
    credential = OnlyWordOf(env.credential);
  } else if (!env.credential_file.empty()) {
    credential = ReadWordFile(env.credential_file);
  }
  if (!credential.ok()) {
    LogError("no credential: ", credential.status().message(), " (WARPLINE_CREDENTIAL",
             env.credential.empty() ? "_FILE)" : ")");
    return false;
  }
  options->credential = *std::move(credential);
  auto token =
      ReadLeaseToken({.key = env.lease_key, .file = env.token_file, .endpoint = env.endpoint});
  if (!token.ok()) {
    LogError("no token of the lease: ", token.status().message());
    return false;
  }
  options->token = *std::move(token);
  return true;
}

bool DropLastDevice(SessionOptions* options) {
  const size_t comma = options->device.rfind(',');
  if (comma == std::string::npos) return false;
  options->device.resize(comma);
  return true;
}

absl::StatusOr<std::unique_ptr<Session>> OpenSession(SessionOptions options) {
  auto session = g_opener.load()(options);
  // As in CUDA, the list ends before the first entry that names no device.
  while (session.status().code() == absl::StatusCode::kNotFound && DropLastDevice(&options)) {
    session = g_opener.load()(options);
  }
  return session;
}

TierOpening OpeningFor(const Environment& env) {
  TierOpening::Options options;
  options.choice = *env.tier;
  options.program = tier::IdentifySelf;
  options.files = LoadedFiles;
  options.cache_folder = tier::CacheFolder();
  return TierOpening(std::move(options), OpenSession);
}

CUresult Open() {
  const Environment& env = environment();
  if (env.visible.none) return CUDA_ERROR_NO_DEVICE;
  if (env.endpoint.empty()) {
    LogError(
        "no GPU server is named: set WARPLINE_ENDPOINT to its address, as in "
        "WARPLINE_ENDPOINT=127.0.0.1:14000");
    return CUDA_ERROR_NO_DEVICE;
  }
  if (!env.guard.has_value()) {
    LogError(absl::StrCat("WARPLINE_GUARD is none of ", GuardModeChoices()));
    return CUDA_ERROR_NO_DEVICE;
  }
  if (!env.tier.has_value()) {
    LogError("WARPLINE_TIER is none of isolated, guarded and auto");
    return CUDA_ERROR_NO_DEVICE;
  }
  SessionOptions options;
  options.guard = *env.guard;
  options.endpoint = env.endpoint;
  options.device = env.visible.device;
  options.deadline = env.connect_timeout;
  options.printer = g_printer.load();
  options.resume = env.resume;
  options.transfer = env.transfer;
  options.relays = env.relays;
  if (!ReadSecrets(env, &options)) return CUDA_ERROR_NOT_PERMITTED;
  auto opened = OpeningFor(env).Open(options);
  if (!opened.ok()) return RefuseUnreachable(opened.status());
  const std::unique_ptr<Session>& session = opened->session;
  const int server_version = session->terms().device().driver_version;
  if (server_version < env.driver_version) {
    LogError("the server's driver is for CUDA ", server_version, ", older than ",
             env.driver_version, ": update it, or set WARPLINE_DRIVER_VERSION=", server_version);
    session->Close(kExitDeadline);
    return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  }
  OpenGate(*std::move(opened));
  return CUDA_SUCCESS;
}

}  // namespace

void SetSessionOpener(SessionOpener opener) { g_opener.store(opener); }

void SetPrinter(int (*printer)(int descriptor, const char* text, size_t bytes, int wait)) {
  g_printer.store(printer);
}

CUresult InitializeDriver() {
  const CUresult gate = EnterInitialized();
  if (gate != CUDA_ERROR_NOT_INITIALIZED) return gate;
  if (g_forked.load(std::memory_order_relaxed)) return CUDA_ERROR_NOT_INITIALIZED;
  Initialization& initialization = g_initialization.value;
  MutexLock lock(&initialization.mu);
  if (!initialization.done) {
    // Installed before the first thread starts, so that no fork goes unnoticed.
    pthread_atfork(nullptr, nullptr, TurnAwayInChild);
    initialization.result = Open();
    initialization.done = true;
  }
  return initialization.result;
}

}  // namespace warpline::stub
