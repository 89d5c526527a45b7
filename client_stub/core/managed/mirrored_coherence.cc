// Moves the bytes of mirrored memory between host and device: the host's writes are sent before
// work, and the device's come when they are touched.
#include <algorithm>
#include <atomic>
#include <iterator>

#include "client_stub/core/managed/fault_handler.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/managed/system_calls.h"
#include "proto/wire.h"

namespace warpline::stub {
namespace {

// Small enough for the lock that is held while a command's bytes are copied.
constexpr uint64_t kPartBytes = kMaxTail;

// The process's one object, for the signal handler's thread.
std::atomic<MirroredMemory*> g_memory{nullptr};

}  // namespace

MirroredMemory::MirroredMemory(Session* session, DeviceMemory* memory, uint64_t stream)
    : terms_(session->terms()),
      commands_(&session->commands()),
      status_(&session->status()),
      memory_(memory),
      stream_(stream) {
  g_memory.store(this);
}

// ---- From one side to the other.

void MirroredMemory::CountLocked() {
  int count = static_cast<int>(coming_.size());
  for (const auto& [page, entry] : entries_) count += entry.mirror->host_has_any() ? 1 : 0;
  host_has_.store(count, std::memory_order_release);
}

CUresult MirroredMemory::Push(uint64_t device, std::string_view bytes) {
  const uint64_t stream = StreamFor(device);
  pushed_.fetch_or(1u << DeviceOfHandle(stream));
  for (uint64_t done = 0; done < bytes.size(); done += kPartBytes) {
    const uint64_t seq =
        commands_->Send(cmd::CopyToDevice{stream, device + done}, bytes.substr(done, kPartBytes));
    if (seq == 0) return ToCu(status_->error());
  }
  return CUDA_SUCCESS;
}

// This is no copy that waits, because such a copy would write the output of kernels with the
// application's stdio, whose lock the thread that touched the memory may hold.
CUresult MirroredMemory::Pull(void* to, uint64_t device, uint64_t bytes) {
  const uint64_t stream = StreamFor(device);
  uint64_t seq = 0;
  WARPLINE_TRY(ToCu(commands_->CopyOut(stream, to, device, bytes, /*wait=*/false, &seq)));
  return ToCu(commands_->Call(WaitKind::kRoundTrip, cmd::StreamSync{stream}));
}

// Makes the work that any stream is given from now on see the bytes that were pushed.
CUresult MirroredMemory::Order() {
  uint32_t pushed = pushed_.exchange(0);
  for (uint32_t device = 0; pushed != 0; ++device, pushed >>= 1) {
    if ((pushed & 1) == 0) continue;
    if (commands_->Send(cmd::StreamBarrier{StreamOn(device)}) == 0) return ToCu(status_->error());
  }
  return CUDA_SUCCESS;
}

CUresult MirroredMemory::GiveAll(uint64_t stream) {
  MutexLock lock(&mu_);
  coming_.clear();
  CUresult result = CUDA_SUCCESS;
  for (auto& [page, entry] : entries_) {
    if (!entry.mirror->host_has_any()) continue;
    // Its attachment says that no kernel of this stream accesses it.
    if (entry.range.attached == CU_MEM_ATTACH_HOST) continue;
    if (entry.range.attached == CU_MEM_ATTACH_SINGLE && entry.range.stream != stream) continue;
    const CUresult given = entry.mirror->GiveToDevice(0, entry.mirror->bytes());
    if (result == CUDA_SUCCESS) result = given;
  }
  Renew();
  // Done before the count changes: a thread that finds no pages of the host in the count does not
  // come here, and sends its work.
  const CUresult ordered = Order();
  CountLocked();
  return result == CUDA_SUCCESS ? ordered : result;
}

CUresult MirroredMemory::Give(uint64_t device, uint64_t bytes) {
  MutexLock lock(&mu_);
  CUresult result = CUDA_SUCCESS;
  for (auto& [page, entry] : entries_) {
    Mirror& mirror = *entry.mirror;
    if (device >= mirror.device() + mirror.bytes() || device + bytes <= mirror.device()) continue;
    const uint64_t id = entry.range.id;
    std::erase_if(coming_, [id](const Pages& pages) { return pages.id == id; });
    const uint64_t begin = std::max(device, mirror.device());
    const uint64_t end = std::min(device + bytes, mirror.device() + mirror.bytes());
    const CUresult given = mirror.GiveToDevice(begin - mirror.device(), end - begin);
    if (result == CUDA_SUCCESS) result = given;
  }
  const CUresult ordered = Order();
  CountLocked();
  return result == CUDA_SUCCESS ? ordered : result;
}

void MirroredMemory::AfterHostCall() {
  if (host_has_.load(std::memory_order_acquire) == 0) return;
  GiveAll(kNoStream);
  uint32_t streams = streams_.load();
  for (uint32_t device = 0; streams != 0; ++device, streams >>= 1) {
    if ((streams & 1) != 0) {
      commands_->Call(WaitKind::kRoundTrip, cmd::StreamSync{StreamOn(device)});
    }
  }
}

void MirroredMemory::AwaitWork() {
  if (commands_->Retired(kNoStream, commands_->last_seq())) return;
  commands_->Call(WaitKind::kRoundTrip, cmd::ContextSync{});
}

// ---- Touches.

// Installs the signal handler and the C library's hooks again; called whenever pages become
// inaccessible.
void MirroredMemory::Renew() {
  RenewFaultHandler();
  InterposeSystemCalls([](uint64_t address, uint64_t bytes, bool write) {
    return g_memory.load()->Touch(address, bytes, write);
  });
}

bool MirroredMemory::OnFault(uint64_t address, bool write, bool host_call) {
  MirroredMemory* const memory = g_memory.load();
  return memory != nullptr && memory->Resolve(address, write, host_call);
}

bool MirroredMemory::Resolve(uint64_t address, bool write, bool host_call) {
  bool waited = host_call;  // The order of its stream has waited already.
  while (true) {
    {
      MutexLock lock(&mu_);
      Entry* entry = FindHost(address);
      if (entry == nullptr) return false;
      const uint64_t offset = address - entry->mirror->host();
      if (waited || !entry->mirror->OnDevice(offset)) {
        // If the device's bytes do not come, the session is lost, and the program finds out by
        // itself.
        entry->mirror->Touch(offset, write);
        CountLocked();
        return true;
      }
    }
    // Waits without the lock, because the work may include a function that touches memory itself.
    AwaitWork();
    waited = true;
  }
}

bool MirroredMemory::Touch(uint64_t address, uint64_t bytes, bool write) {
  if (bytes == 0) return false;
  bool found = false;
  bool waited = false;
  for (uint64_t at = address; at < address + bytes;) {
    uint64_t next;
    {
      MutexLock lock(&mu_);
      auto after = entries_.upper_bound(at);
      const bool inside = after != entries_.begin() &&
                          at - std::prev(after)->first < std::prev(after)->second.mirror->bytes();
      next = after == entries_.end() ? address + bytes : after->first;
      if (inside) {
        Mirror& mirror = *std::prev(after)->second.mirror;
        found = true;
        const uint64_t end = std::min(address + bytes, mirror.host() + mirror.bytes());
        if (waited) {
          mirror.Fetch(at - mirror.host(), end - at, write);
          CountLocked();
          next = end;
        } else {
          next = at;
        }
      }
    }
    if (next == at) {
      AwaitWork();
      waited = true;
    }
    at = next;
  }
  return found;
}

}  // namespace warpline::stub
