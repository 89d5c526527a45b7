// Moves the bytes of mirrored memory between host and device: the host's writes are sent before
// work, and the device's come when they are touched.
#include <algorithm>
#include <atomic>
#include <iterator>
#include <system_error>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client_stub/core/managed/fault_handler.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/managed/system_calls.h"
#include "proto/wire.h"
#include "transport/loop_thread.h"

namespace warpline::stub {
namespace {

// See AwaitComplete().
constexpr int kMostTries = 4;
constexpr absl::Duration kMostHold = absl::Milliseconds(50);
constexpr absl::Duration kHoldStep = absl::Microseconds(100);
// The time without a launch after which edges are taken, and how often it is waited for.
constexpr absl::Duration kEdgePause = absl::Milliseconds(1);
constexpr int kMostEdgePauses = 20;

// The process's one object, for the signal handler's thread.
std::atomic<MirroredMemory*> g_memory{nullptr};

}  // namespace

MirroredMemory::MirroredMemory(Session* session, DeviceMemory* memory, uint64_t stream)
    : commands_(&session->commands()),
      status_(&session->status()),
      memory_(memory),
      streams_(session, stream) {
  g_memory.store(this);
}

// ---- Who moves bytes.

MirroredMemory::Turn::Turn(MirroredMemory* memory, bool begins_work) : memory_(memory) {
  MutexLock lock(&memory->mu_);
  while (memory->turn_ || (begins_work && memory->wishes_ != 0)) memory->moved_.Wait(&memory->mu_);
  memory->turn_ = true;
  // Work that is asked for from now on waits for the turn.
  memory->host_has_.fetch_add(1, std::memory_order_release);
  while (memory->fetches_ != 0) memory->moved_.Wait(&memory->mu_);
}

MirroredMemory::Turn::~Turn() {
  MutexLock lock(&memory_->mu_);
  memory_->turn_ = false;
  // No earlier: what was pushed has its barrier now. A thread that finds no pages of the host in
  // the count takes no turn, and sends its work.
  memory_->CountLocked();
  memory_->moved_.NotifyAll();
}

MirroredMemory::Wish::Wish(MirroredMemory* memory, bool wanted) : memory_(memory), wanted_(wanted) {
  if (!wanted_) return;
  ++memory_->wishes_;
  memory_->host_has_.fetch_add(1, std::memory_order_seq_cst);
}

MirroredMemory::Wish::~Wish() {
  if (!wanted_) return;
  --memory_->wishes_;
  memory_->CountLocked();
  memory_->moved_.NotifyAll();
}

MirroredMemory::Entry* MirroredMemory::Await(const Wish& wish, uint64_t address) {
  while (true) {
    Entry* const entry = FindHost(address);
    if (entry == nullptr) return nullptr;
    if (turn_ || entry->fetching) {
      moved_.Wait(&mu_);
      continue;
    }
    const int works = wish.wanted() ? works_.load(std::memory_order_seq_cst) : 0;
    if (works == 0) return entry;
    mu_.Unlock();
    works_.wait(works);
    mu_.Lock();
  }
}

MirroredMemory::Entry* MirroredMemory::AwaitComplete(const Wish& wish, uint64_t address, int tries,
                                                     bool* again) {
  *again = false;
  Entry* entry = Await(wish, address);
  if (entry == nullptr || !wish.wanted() || WorkComplete()) return entry;
  if (tries >= kMostTries) {
    for (absl::Duration held; held < kMostHold && !WorkComplete(); held += kHoldStep) {
      mu_.Unlock();
      absl::SleepFor(kHoldStep);
      mu_.Lock();
    }
    entry = Await(wish, address);
  }
  *again = entry != nullptr && !WorkComplete();
  return entry;
}

CUresult MirroredMemory::Fetch(Entry* entry, const std::function<CUresult(Mirror*)>& fetch) {
  entry->fetching = true;
  ++fetches_;
  // Work that is asked for meanwhile may write the pages, and takes them back when they are there.
  host_has_.fetch_add(1, std::memory_order_release);
  Mirror* const mirror = entry->mirror.get();
  mu_.Unlock();
  const CUresult fetched = fetch(mirror);
  mu_.Lock();
  entry->fetching = false;
  --fetches_;
  CountLocked();
  moved_.NotifyAll();
  return fetched;
}

void MirroredMemory::CountLocked() {
  if (turn_) return;  // Its end counts.
  int count = static_cast<int>(coming_.size()) + wishes_;
  for (const auto& [page, entry] : entries_) {
    // The host may write edges at any time.
    count += entry.fetching || entry.mirror->host_has_any() || !entry.edges.empty() ? 1 : 0;
  }
  host_has_.store(count, std::memory_order_release);
}

// ---- From one side to the other.

CUresult MirroredMemory::Work::GiveAllAndBegin(uint64_t stream) {
  // Pages become inaccessible. Later than here this thread must not wait for the loader's locks.
  Renew();
  return memory_->GiveAll(stream, this);
}

CUresult MirroredMemory::Work::GiveAndBegin() { return memory_->Give(ranges_, this); }

CUresult MirroredMemory::GiveAll(uint64_t stream, Work* work) {
  const Turn turn(this, /*begins_work=*/work != nullptr);
  std::vector<Mirror*> mirrors;
  std::vector<MirrorEdge*> edges;
  {
    MutexLock lock(&mu_);
    coming_.clear();
    for (auto& [page, entry] : entries_) {
      for (MirrorEdge& edge : entry.edges) edges.push_back(&edge);
      if (!entry.mirror->host_has_any()) continue;
      // Its attachment says that no kernel of this stream accesses it.
      if (entry.range.attached == CU_MEM_ATTACH_HOST) continue;
      if (entry.range.attached == CU_MEM_ATTACH_SINGLE && entry.range.stream != stream) continue;
      mirrors.push_back(entry.mirror.get());
    }
  }
  CUresult result = CUDA_SUCCESS;
  for (Mirror* const mirror : mirrors) {
    const CUresult given = mirror->GiveToDevice(0, mirror->bytes());
    if (result == CUDA_SUCCESS) result = given;
  }
  const CUresult edges_given = GiveEdges(edges, work != nullptr);
  if (result == CUDA_SUCCESS) result = edges_given;
  const CUresult ordered = streams_.Order();
  if (work != nullptr) work->BeginInTurn();
  return result == CUDA_SUCCESS ? ordered : result;
}

CUresult MirroredMemory::Give(absl::Span<const Mirror::Extent> ranges, Work* work) {
  const Turn turn(this, /*begins_work=*/work != nullptr);
  struct Part {
    Mirror* mirror;
    uint64_t begin;
    uint64_t end;
  };
  std::vector<Part> parts;
  std::vector<MirrorEdge*> edges;
  {
    MutexLock lock(&mu_);
    for (auto& [page, entry] : entries_) {
      Mirror* const mirror = entry.mirror.get();
      for (const Mirror::Extent& range : ranges) {
        for (MirrorEdge& edge : entry.edges) {
          const bool accessed =
              range.begin < edge.device() + edge.bytes() && edge.device() < range.end;
          if (accessed) edges.push_back(&edge);
        }
        const uint64_t begin = std::max(range.begin, mirror->device());
        const uint64_t end = std::min(range.end, mirror->device() + mirror->bytes());
        if (begin >= end) continue;
        const uint64_t id = entry.range.id;
        std::erase_if(coming_, [id](const Pages& pages) { return pages.id == id; });
        parts.push_back({mirror, begin - mirror->device(), end - mirror->device()});
      }
    }
  }
  CUresult result = CUDA_SUCCESS;
  for (const Part& part : parts) {
    const CUresult given = part.mirror->GiveToDevice(part.begin, part.end - part.begin);
    if (result == CUDA_SUCCESS) result = given;
  }
  const CUresult edges_given = GiveEdges(edges, work != nullptr);
  if (result == CUDA_SUCCESS) result = edges_given;
  const CUresult ordered = streams_.Order();
  if (work != nullptr) work->BeginInTurn();
  return result == CUDA_SUCCESS ? ordered : result;
}

CUresult MirroredMemory::GiveEdges(absl::Span<MirrorEdge* const> edges, bool work) {
  CUresult result = CUDA_SUCCESS;
  for (MirrorEdge* const edge : edges) {
    const CUresult given = edge->GiveToDevice();
    if (result == CUDA_SUCCESS) result = given;
  }
  if (edges.empty() || !work) return result;
  MutexLock lock(&mu_);
  if (!watches_edges_) {
    try {
      StartLoopThread("wl-edges", [this] { WatchEdges(); }).detach();
      watches_edges_ = true;
    } catch (const std::system_error&) {
      // They come when the application waits.
    }
  }
  edge_works_.fetch_add(1, std::memory_order_relaxed);
  if (!edges_out_.exchange(true, std::memory_order_acq_rel)) any_out_.NotifyOne();
  return result;
}

void MirroredMemory::AddGiven(std::vector<MirrorEdge>* edges, std::vector<MirrorEdge*>* found) {
  for (MirrorEdge& edge : *edges) {
    if (edge.given()) found->push_back(&edge);
  }
}

CUresult MirroredMemory::TakeEdges(const std::vector<MirrorEdge*>& edges) {
  std::vector<std::string> theirs;
  std::vector<MirrorStreams::Part> parts;
  for (const MirrorEdge* const edge : edges) theirs.emplace_back(edge->bytes(), '\0');
  for (size_t i = 0; i < edges.size(); ++i) {
    parts.push_back({theirs[i].data(), edges[i]->device(), edges[i]->bytes()});
  }
  const CUresult pulled = streams_.PullAll(parts);
  if (pulled != CUDA_SUCCESS) return pulled;
  for (size_t i = 0; i < edges.size(); ++i) edges[i]->Take(std::move(theirs[i]));
  return CUDA_SUCCESS;
}

void MirroredMemory::TakeAllEdges() {
  if (t_thread.works != 0 || t_thread.runs_host_calls) return;
  const Turn turn(this);
  std::vector<MirrorEdge*> edges;
  {
    MutexLock lock(&mu_);
    for (auto& [page, entry] : entries_) AddGiven(&entry.edges, &edges);
  }
  // A command that was not sent before the turn has its work now.
  const bool complete = works_.load(std::memory_order_seq_cst) == 0 && WorkComplete();
  const CUresult taken = TakeEdges(edges);
  if (complete || taken != CUDA_SUCCESS) edges_out_.store(false, std::memory_order_release);
}

void MirroredMemory::WatchEdges() {
  while (true) {
    {
      MutexLock lock(&mu_);
      while (!edges_out_.load(std::memory_order_acquire)) any_out_.Wait(&mu_);
    }
    // While the application asks for more it does not look, and would wait for the turn. But it may
    // look at one kernel's words while others run.
    for (int pauses = 0; pauses < kMostEdgePauses; ++pauses) {
      const uint64_t works = edge_works_.load(std::memory_order_relaxed);
      AwaitWork();
      absl::SleepFor(kEdgePause);
      if (works == edge_works_.load(std::memory_order_relaxed)) break;
    }
    if (edges_out_.load(std::memory_order_acquire)) TakeAllEdges();
  }
}

void MirroredMemory::AfterHostCall() {
  if (host_has_.load(std::memory_order_acquire) == 0) return;
  GiveAll(kNoStream, nullptr);
  Renew();
  streams_.AwaitArrival();
}

bool MirroredMemory::WorkComplete() const {
  const uint64_t last = commands_->last_seq();
  return last <= awaited_.load(std::memory_order_acquire) || commands_->Retired(kNoStream, last);
}

void MirroredMemory::AwaitWork() {
  if (WorkComplete()) return;
  const uint64_t before = commands_->last_seq();
  commands_->Call(WaitKind::kRoundTrip, cmd::ContextSync{});
  // The board may have the wait's own command later. A wait that fails finds the session lost.
  uint64_t known = awaited_.load(std::memory_order_relaxed);
  while (known < before + 1 && !awaited_.compare_exchange_weak(known, before + 1)) {
  }
}

// ---- Touches.

void MirroredMemory::Renew() {
  RenewFaultHandler();
  InterposeSystemCalls([](uint64_t address, uint64_t bytes, bool write) {
    return g_memory.load()->Touch(address, bytes, write);
  });
}

bool MirroredMemory::OnFault(uint64_t address, const FaultAccess& access) {
  MirroredMemory* const memory = g_memory.load();
  return memory != nullptr && memory->Resolve(address, access);
}

bool MirroredMemory::Resolve(uint64_t address, const FaultAccess& access) {
  const bool among_works = access.host_call || access.in_work;
  bool waited = access.host_call;  // The order of its stream has waited already.
  for (int tries = 0;; ++tries) {
    {
      MutexLock lock(&mu_);
      Wish wish(this, waited && !among_works);
      bool again;
      Entry* const entry = AwaitComplete(wish, address, tries, &again);
      if (entry == nullptr) break;
      const uint64_t offset = address - entry->mirror->host();
      if (!again && (waited || !entry->mirror->OnDevice(offset))) {
        // If the device's bytes do not come, the session is lost, and the program finds out by
        // itself.
        Fetch(entry, [offset, write = access.write](Mirror* mirror) {
          return mirror->Touch(offset, write);
        });
        return true;
      }
    }
    // Waits in no role, because the work may include a function that touches memory itself.
    AwaitWork();
    waited = true;
  }
  // The thread touches the page again once its variables are there.
  return FindLost(address);
}

uint64_t MirroredMemory::NextPagesLocked(uint64_t address, uint64_t end) const {
  auto it = entries_.upper_bound(address);
  // The pages of the range that `address` is in may begin behind it.
  if (it != entries_.begin()) --it;
  for (; it != entries_.end() && it->first < end; ++it) {
    const Mirror& mirror = *it->second.mirror;
    if (mirror.bytes() > 0 && mirror.host() > address) return std::min(mirror.host(), end);
  }
  return end;
}

bool MirroredMemory::Touch(uint64_t address, uint64_t bytes, bool write) {
  if (bytes == 0) return false;
  if (lost_count_.load() != 0) FindLost(address);
  const bool among_works = t_thread.runs_host_calls || t_thread.works != 0;
  bool found = false;
  bool waited = false;
  int tries = 0;
  for (uint64_t at = address; at < address + bytes;) {
    uint64_t next;
    {
      MutexLock lock(&mu_);
      Wish wish(this, waited && !among_works);
      bool again;
      Entry* const entry = AwaitComplete(wish, at, tries, &again);
      if (entry == nullptr) {
        next = NextPagesLocked(at, address + bytes);
      } else {
        found = true;
        next = at;
        if (waited && !again) {
          next = std::min(address + bytes, entry->mirror->host() + entry->mirror->bytes());
          Fetch(entry, [=](Mirror* mirror) {
            return mirror->Fetch(at - mirror->host(), next - at, write);
          });
        }
      }
    }
    if (next == at) {
      AwaitWork();
      waited = true;
      ++tries;
    }
    at = next;
  }
  return found;
}

}  // namespace warpline::stub
