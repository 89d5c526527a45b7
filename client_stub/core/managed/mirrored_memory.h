// Memory that the application's host code and its kernels both use, at one address wherever that is
// possible: managed memory, managed variables, and host memory whose device address was asked for.
//
// Device memory mirrors it (mirror.h). It is coherent where CUDA promises that for devices without
// concurrent access. Work that is asked for after a write of the host sees the write. The host sees
// what work wrote once the work is complete. A touch while work is under way waits for it.
//
// Memory that the application registers need not fill its pages. The parts at its ends are copied
// before work and after it (mirror_edge.h): they are coherent once the application has waited for
// the work, or a little after its end.
//
// A page must not be given to both sides, and bytes are on their way for as long as a round trip
// takes. So that no lock is held meanwhile, whoever moves bytes or ends ranges has one of two
// roles, which are kept under the lock and waited for:
//
// - A *turn* (class Turn) excludes everything else that moves bytes or ends ranges. Bytes that the
//   host wrote go to the device in a turn, and the barrier that orders work after them.
// - A *fetch* brings the device's bytes of one range to the host. Ranges are fetched at the same
//   time, but none during a turn.
//
// A thread that only asks what an address is waits for neither, and takes the lock alone. Work that
// is asked for meanwhile waits for both: they count as pages of the host (host_has_).
//
// A thread finds no pages of the host, and a moment later its command is in the session's order. A
// fetch that began in between would not wait for that command, and the host would keep bytes of
// before it. So the thread has a *work* (class Work) from the one to the
// other, and a thread that wants to fetch waits for works before it does. No work begins while one
// waits. A thread takes no turn while it has a work.
#ifndef WARPLINE_CLIENT_STUB_CORE_MANAGED_MIRRORED_MEMORY_H_
#define WARPLINE_CLIENT_STUB_CORE_MANAGED_MIRRORED_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/managed/fault_handler.h"
#include "client_stub/core/managed/mirror.h"
#include "client_stub/core/managed/mirror_edge.h"
#include "client_stub/core/managed/mirror_streams.h"
#include "client_stub/core/managed/range_advice.h"
#include "client_stub/core/memory/address_ranges.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/runtime/thread_state.h"
#include "client_stub/session/session.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe. One exists in each process.
class MirroredMemory {
 public:
  enum class Kind { kManaged, kVariables, kMapped, kRegistered };
  // The largest variable whose bytes outlast LoseVariablesOf(): a reset at a program's end copies
  // them.
  static constexpr uint64_t kMostKeptBytes = uint64_t{64} << 20;
  struct Range {
    uint64_t host = 0;
    uint64_t device = 0;
    uint64_t bytes = 0;  // As the application asked.
    Kind kind = Kind::kManaged;
    unsigned int attached = CU_MEM_ATTACH_GLOBAL;
    uint64_t stream = 0;  // The wire's number, for CU_MEM_ATTACH_SINGLE.
    uint64_t id = 0;
    // The address of the device's allocation; 0 for what was not allocated here.
    uint64_t allocation = 0;
    const Context* context = nullptr;  // The owner of managed memory.
    bool managed() const { return kind == Kind::kManaged || kind == Kind::kVariables; }
  };

  // All are borrowed and live as long as the process. `stream` is the wire's number of the first
  // device's stream that carries the bytes both ways (mirror_streams.h).
  MirroredMemory(Session* session, DeviceMemory* memory, uint64_t stream);

  // Allocates memory of a device in the arena, zeroed for the host: kManaged, which is freed with
  // `context`, or kMapped.
  CUresult Allocate(Kind kind, uint32_t device, const Context* context, uint64_t bytes,
                    unsigned int attached, uint64_t* address);
  // Makes the application's memory at [host, host + bytes), its own or page-locked, available at
  // `*device` too, in memory of the device `on`. CUDA_ERROR_NOT_SUPPORTED for memory that other
  // processes or files share. No copy may be on its way there. From then on AfterWait() follows
  // each of the application's waits.
  CUresult Register(uint32_t on, uint64_t host, uint64_t bytes, uint64_t* device);
  // Makes host memory at [host, host + bytes) kMapped, which starts with a page that no other range
  // has a part of. Device memory is there at the same addresses already, and stays the caller's. No
  // copy may be on its way there.
  CUresult Follow(uint64_t host, uint64_t bytes);
  // Makes a managed variable, or a block of variables, available at `*host` too: at the same
  // address where nothing else is there. A variable that has been added already gives the same
  // address again. Variables that share a page become one range.
  // After LoseVariablesOf() they go to `wanted` instead, where the host had them before, if they
  // can. They have the bytes of before, unless these are more than kMostKeptBytes.
  CUresult AddVariables(const Module* module, uint64_t device, uint64_t bytes, uint64_t wanted,
                        uint64_t* host);

  // Returns true while the application must be told of completed work by AfterWait(), because it
  // may read parts of pages without a fault.
  bool has_edges() const;

  // Returns false until the first range exists.
  bool any() const { return any_.load(std::memory_order_relaxed); }

  // Called once, before the first range: `look` is shown all bytes that go to the device from here
  // on, during a turn.
  void SetLook(MirrorStreams::Look look) { streams_.SetLook(std::move(look)); }

  // Returns true while some range has two addresses.
  bool any_apart() const { return apart_.load(std::memory_order_relaxed) != 0; }

  // Finds the range that holds a host or device address; returns false when there is none.
  bool Find(uint64_t address, Range* range) const;
  bool IsManaged(uint64_t address) const;
  // Whether a range has pages in [begin, end) of the host.
  bool HasPages(uint64_t begin, uint64_t end) const;
  // Translates an address of host memory that has another address on the device; returns any other
  // address as it is. Has lost variables found again.
  uint64_t ToDevice(uint64_t address) {
    if (lost_count_.load(std::memory_order_relaxed) != 0) FindLost(address);
    return apart_.load(std::memory_order_relaxed) == 0 ? address : Translate(address);
  }

  // Ends the range that starts at `host`. For kMapped and kRegistered it first waits for work under
  // way; the bytes of kRegistered stay valid. CUDA_ERROR_INVALID_VALUE when there is no such range
  // of this kind.
  CUresult Free(Kind kind, uint64_t host);
  void FreeAllOf(const Context* context);
  void ForgetVariablesOf(const Module* module);
  // Ends the variables of a module that is about to be unloaded and to be loaded again. The host's
  // addresses stay theirs, and those at `managed` keep their bytes, as with NVIDIA's driver. The
  // first use of one calls `load`, which adds them again.
  void LoseVariablesOf(const Module* module, const std::vector<Mirror::Extent>& managed,
                       std::function<void()> load);

  // A thread has a work while it sends a command with which the device may write mirrored memory.
  //
  //   MirroredMemory::Work work(mirrored);
  //   WARPLINE_TRY(work.ForKernels(stream->wire));
  //   ...  // Sends the command.
  //
  // Memory that the device may access is given to it, and the host's touches wait for the end of
  // the work and for the command. No other function of MirroredMemory that changes a range may be
  // called meanwhile by this thread.
  class Work {
   public:
    explicit Work(MirroredMemory* memory) : memory_(memory) {}
    ~Work() { End(); }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

    // The command may access any memory at all: a launch on the wire's `stream`.
    CUresult ForKernels(uint64_t stream) {
      if (memory_->lost_count_.load(std::memory_order_relaxed) != 0) memory_->FindAllLost();
      return Begin() ? CUDA_SUCCESS : GiveAllAndBegin(stream);
    }
    // The command accesses [device, device + bytes). May be called for several ranges.
    CUresult ForAccess(uint64_t device, uint64_t bytes) {
      if (!memory_->any()) return CUDA_SUCCESS;
      ranges_.push_back({device, device + bytes});
      return Begin() ? CUDA_SUCCESS : GiveAndBegin();
    }
    // Called by the destructor at the latest.
    void End() {
      if (!std::exchange(begun_, false)) return;
      memory_->EndWork();
    }

   private:
    friend class MirroredMemory;
    // Called in a turn, after which the host has no pages that the command may access.
    void BeginInTurn() {
      if (!std::exchange(begun_, true)) memory_->BeginWork();
    }
    // Returns false when the host has pages, and no work has begun.
    bool Begin() {
      if (!memory_->any()) return true;
      if (!std::exchange(begun_, true)) memory_->BeginWork();
      // In one order with what a fetch does: it is counted, and then looks for works.
      if (memory_->host_has_.load(std::memory_order_seq_cst) == 0) return true;
      End();
      return false;
    }
    CUresult GiveAllAndBegin(uint64_t stream);
    CUresult GiveAndBegin();

    MirroredMemory* const memory_;
    bool begun_ = false;
    absl::InlinedVector<Mirror::Extent, 2> ranges_;
  };
  // Gives the device [device, device + bytes) for a command that only reads it.
  CUresult BeforeAccess(uint64_t device, uint64_t bytes) {
    if (host_has_.load(std::memory_order_acquire) == 0) return CUDA_SUCCESS;
    return Give({{device, device + bytes}}, nullptr);
  }
  // Called when the application has waited for work, or has found it complete: brings what the
  // device wrote to parts of pages.
  void AfterWait() {
    if (edges_out_.load(std::memory_order_acquire)) TakeAllEdges();
  }
  // Called after a function that a stream called, on its thread. When it returns, the function's
  // writes are on the device.
  void AfterHostCall();

  // Implements cuStreamAttachMemAsync. CUDA_ERROR_INVALID_VALUE for memory that is not managed.
  CUresult Attach(uint64_t address, uint64_t bytes, unsigned int flags, uint64_t stream);

  // ---- Advice, prefetching and discarding (mirrored_advice.cc) apply to the pages that hold
  // [address, address + bytes). CUDA_ERROR_INVALID_VALUE unless all of it lies in one range of
  // managed memory.

  CUresult CheckManaged(uint64_t address, uint64_t bytes) const;
  CUresult Advise(uint64_t address, uint64_t bytes, const std::function<void(Advice*)>& change);
  // Gives the advice that holds for all of the pages.
  CUresult AdviceOf(uint64_t address, uint64_t bytes, Advice* advice) const;
  // To the device: work that is asked for from now on finds the bytes there. To the host: the bytes
  // come once the work asked for so far is complete, unless the device is given more work before
  // that.
  CUresult Prefetch(uint64_t address, uint64_t bytes, const CUmemLocation& to);
  // Drops the bytes of the whole pages in the range; with `to_host` the host goes on with the bytes
  // that it has.
  CUresult Discard(uint64_t address, uint64_t bytes, bool to_host);

  // Makes [address, address + bytes) ready for a system call. Returns false when no part of it is
  // mirrored.
  bool Touch(uint64_t address, uint64_t bytes, bool write);

 private:
  struct Variable {
    const Module* module;
    Mirror::Extent extent;  // On the device.
  };
  // Addresses of the host that were a module's variables, and will be again.
  struct Lost {
    const Module* module = nullptr;
    uint64_t bytes = 0;
    std::function<void()> load;
    bool loading = false;
  };
  struct Entry {
    Range range;
    std::vector<Variable> variables;  // For kVariables.
    // Which side has which page belongs to the turn, without mu_, or to the range's fetch; when
    // there is neither, to whoever holds mu_. Where the mirror is never changes.
    std::unique_ptr<Mirror> mirror;
    std::vector<MirrorEdge> edges;  // For kRegistered. They belong to the turn.
    RangeAdvice advice;
    bool fetching = false;
  };
  using Entries = std::map<uint64_t, Entry>;
  // Pages of a managed range, as offsets into its mirror.
  struct Pages {
    uint64_t range = 0;  // The address of the range's first page.
    uint64_t id = 0;     // The range's id.
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t seq = 0;  // For a prefetch: the latest command before it.
  };

  // Waits until there is no other turn and no fetch, and excludes them while it lives. Entries that
  // were found during a turn stay until it ends. Created and destroyed without mu_. A turn in which
  // a work begins also waits until no thread wants to fetch.
  class Turn {
   public:
    explicit Turn(MirroredMemory* memory, bool begins_work = false);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    MirroredMemory* const memory_;
  };

  // Says that a thread wants to fetch, so that no work begins. Created and destroyed under mu_.
  class Wish {
   public:
    // `wanted` is false for a thread that works may wait for, and that therefore waits for none.
    Wish(MirroredMemory* memory, bool wanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory->mu_);
    ~Wish();
    Wish(const Wish&) = delete;
    Wish& operator=(const Wish&) = delete;
    bool wanted() const { return wanted_; }

   private:
    MirroredMemory* const memory_;
    const bool wanted_;
  };

  // Returns the range with the host's page `address` once `wish` may fetch it, or null if there is
  // none. Gives mu_ back while it waits.
  Entry* Await(const Wish& wish, uint64_t address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Does the same, and sets `*again` if a wanted fetch must not begin yet, because commands have
  // been sent since the thread waited for work. The thread then gives up the wish, waits for work,
  // and asks again, for the `tries`-th time: what it waits for may itself wait for a thread that is
  // about to launch (a host function, a value that the host writes), which a wish holds up. From
  // kMostTries on it holds the wish for kMostHold first, so that threads that launch all the time
  // do not keep it from the page.
  Entry* AwaitComplete(const Wish& wish, uint64_t address, int tries, bool* again)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Has `fetch` bring bytes of a range that may be fetched, without mu_.
  CUresult Fetch(Entry* entry, const std::function<CUresult(Mirror*)>& fetch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Gives `edges` to the device, in a turn. With `work` the device may write them from then on.
  CUresult GiveEdges(absl::Span<MirrorEdge* const> edges, bool work);
  // Adds the edges that the device has had to `found`.
  static void AddGiven(std::vector<MirrorEdge>* edges, std::vector<MirrorEdge*>* found);
  // Takes `edges` from the device, in a turn. The device has had them.
  CUresult TakeEdges(const std::vector<MirrorEdge*>& edges);
  // Takes all edges, in a turn of its own. Does nothing on a thread that may take none.
  void TakeAllEdges();
  // Takes them again and again once work is complete, for an application that asks nobody.
  void WatchEdges();

  static std::vector<Mirror::Extent> Extents(const std::vector<Variable>& variables);
  // Installs the signal handler and the C library's hooks again; called whenever pages become
  // inaccessible, without mu_ and in no turn: it takes the locks of the dynamic loader.
  static void Renew();
  static bool OnFault(uint64_t address, const FaultAccess& access);
  bool Resolve(uint64_t address, const FaultAccess& access);
  void BeginWork() {
    ++t_thread.works;
    works_.fetch_add(1, std::memory_order_seq_cst);
  }
  void EndWork() {
    --t_thread.works;
    const bool last = works_.fetch_sub(1, std::memory_order_seq_cst) == 1;
    if (last && host_has_.load(std::memory_order_seq_cst) != 0) works_.notify_all();
  }
  // Gives the device all that work of `stream` may access. Begins `work`, which may be nullptr,
  // before a fetch can begin. Returns CUDA_SUCCESS if all was given.
  CUresult GiveAll(uint64_t stream, Work* work);
  CUresult Give(absl::Span<const Mirror::Extent> ranges, Work* work);
  uint64_t Translate(uint64_t address) const;
  bool WorkComplete() const;
  // Returns once everything that was asked for is complete. Reports no earlier error.
  void AwaitWork();

  // Starts what handles faults. Returns false when the system has no thread for that.
  bool Start();
  void AddLocked(const Range& range, uint64_t first_page, uint64_t pages_bytes, Mirror::State state,
                 std::vector<Variable> variables = {}) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the ranges of kVariables that have pages in [begin, end) of the device.
  std::vector<Entries::iterator> VariablesAt(uint64_t begin, uint64_t end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CUresult PlaceVariable(const Variable& added, uint64_t wanted, uint64_t* host);
  // Makes the range of a managed variable that shares no page with another. Called in a turn.
  CUresult AddVariableRange(const Variable& added, uint64_t wanted, uint64_t* host);
  // Maps pages for variables where nothing else is, or where variables were before.
  bool MapVariables(uint64_t at, uint64_t bytes);
  // Both called in a turn. The former notes the bytes of variables that are going to be lost,
  // unless they have more than kMostKeptBytes. The latter puts those of [before, before + bytes)
  // into variables that were added again at `host`.
  void KeepValues(const std::vector<Mirror::Extent>& variables);
  void RestoreValues(uint64_t before, uint64_t host, uint64_t bytes);
  // Removes the module's variables. With `managed` their addresses stay its own and are added to
  // `kept`, and the values of these variables are kept.
  void EndVariables(const Module* module, const std::vector<Mirror::Extent>* managed,
                    std::vector<Mirror::Extent>* kept);
  // Has the module loaded whose lost variables hold `address`, and returns when they are there or
  // cannot be had; returns false when there are none. FindAllLost() does so for all. Called without
  // mu_ and in no role.
  bool FindLost(uint64_t address);
  std::map<uint64_t, Lost>::iterator LostAt(uint64_t address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FindAllLost();
  // Called in a turn.
  CUresult GrowVariables(const std::vector<Entries::iterator>& parts, const Variable& added);
  void SetSpanLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndLocked(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the first page of a mirror behind `address`, which no mirror has; `end` if there is
  // none before that.
  uint64_t NextPagesLocked(uint64_t address, uint64_t end) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Entry* FindHost(uint64_t address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  const Entry* FindAny(uint64_t address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CountLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  bool FindPages(uint64_t address, uint64_t bytes, Pages* pages) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CUresult StartPrefetch(uint64_t address, uint64_t bytes, const CUmemLocation& to);
  void BringLater(const Pages& pages) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunPrefetches();
  // Fetches part of the first prefetch in coming_.
  void BringSome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Commands* const commands_;
  SessionStatus* const status_;
  DeviceMemory* const memory_;
  MirrorStreams streams_;

  // Guards what ranges there are and who moves bytes. It is not held while commands are sent,
  // answers awaited or the dynamic loader's locks taken.
  mutable Mutex mu_;
  bool turn_ ABSL_GUARDED_BY(mu_) = false;  // There is a turn, or one waits for the fetches.
  int fetches_ ABSL_GUARDED_BY(mu_) = 0;    // The number of ranges that are being fetched.
  int wishes_ ABSL_GUARDED_BY(mu_) = 0;     // The number of threads that want to fetch.
  CondVar moved_;                           // A turn or a fetch has ended.
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  // Keyed by the first page on the host; kRegistered by the address, which may lie before it.
  Entries entries_ ABSL_GUARDED_BY(mu_);
  // What prefetches to the host have not begun to fetch. They count as pages of the host, so that
  // every launch looks here and ends them: its kernels may write the pages that they would fetch.
  std::deque<Pages> coming_ ABSL_GUARDED_BY(mu_);
  CondVar any_coming_;
  bool prefetches_ ABSL_GUARDED_BY(mu_) = false;  // The thread of the prefetches runs.
  std::atomic<bool> any_{false};
  // The number of ranges with a page of the host or a fetch, plus prefetches, wishes and turns. It
  // is written under mu_.
  std::atomic<int> host_has_{0};
  std::atomic<int> works_{0};  // The number of works.
  // Work was asked for that may write edges, and they have not been taken since it was complete.
  std::atomic<bool> edges_out_{false};
  std::atomic<uint64_t> edge_works_{0};  // The number of works that were given edges.
  CondVar any_out_;
  bool watches_edges_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<uint64_t> awaited_{
      0};  // AwaitWork() knows that all commands up to here are complete.
  // Pages, by address, and the addresses of all of them.
  std::map<uint64_t, Lost> lost_ ABSL_GUARDED_BY(mu_);
  AddressRanges lost_pages_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, std::string> kept_ ABSL_GUARDED_BY(mu_);  // Values of lost variables.
  std::atomic<int> lost_count_{0};
  std::atomic<int> apart_{0};  // The number of ranges with two addresses.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MANAGED_MIRRORED_MEMORY_H_
