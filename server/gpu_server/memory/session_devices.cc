#include "server/gpu_server/memory/session_devices.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/steady_time.h"
#include "proto/devices.h"

namespace warpline::server {
namespace {

// What a policy may have one request wait, all together.
constexpr absl::Duration kMostPolicyWait = absl::Seconds(2);

}  // namespace

class SessionDevices::Device : public ChunkSource {
 public:
  Device(SessionDevices* all, const SessionDevicePlace& place, const SessionMemoryOptions& options)
      : device(place.memory),
        quota(place.quota),
        memory(std::make_shared<SessionMemory>(
            options, place.quota, MemoryLinks{all->links_.worker, all->links_.client, this})),
        all_(all),
        session_(options.session),
        payer_(options.payer),
        tenant_(options.tenant) {}

  // ChunkSource.
  void Take(uint64_t min_bytes, uint64_t want_bytes, uint64_t largest_bytes, Taken taken) override
      RUNS_ON(control_loop) {
    ++all_->takes_under_way_;
    device->Take(
        min_bytes, want_bytes,
        [all = all_, taken = std::move(taken)](absl::StatusOr<std::vector<Chunk>> chunks) {
          auto shared = std::make_shared<absl::StatusOr<std::vector<Chunk>>>(std::move(chunks));
          all->links_.control->Post([all, taken, shared] {
            control_loop.AssertOnLoop();
            --all->takes_under_way_;
            taken(std::move(*shared));
            all->taken_();
          });
        },
        largest_bytes);
  }
  void Claim(uint64_t bytes, std::function<void(bool)> claimed) override RUNS_ON(control_loop) {
    device->Claim(bytes, OnControl(std::move(claimed)));
  }
  void Unclaim(uint64_t bytes) override RUNS_ON(control_loop) { device->Unclaim(bytes); }
  void Return(std::vector<Chunk> chunks, std::vector<Reservation> bill) override
      RUNS_ON(control_loop) {
    std::vector<Chunk> unshared = TakeUnshared(std::move(chunks), &bill);
    device->Return(std::move(unshared), std::move(bill));
  }
  void ReturnUnused(std::vector<Chunk> chunks) override RUNS_ON(control_loop) {
    device->ReturnUnused(std::move(chunks));
  }
  void ReturnUnmapped(std::vector<Chunk> chunks, std::function<void(uint64_t)> judged) override
      RUNS_ON(control_loop) {
    device->Return(std::move(chunks), {}, OnControl(std::move(judged)));
  }
  void MoveOut(std::shared_ptr<std::vector<Chunk>> chunks, std::shared_ptr<AwayMemory> away,
               Moved moved) override RUNS_ON(control_loop) {
    Pager* const pager = device->pager();
    if (pager == nullptr) return moved(NoSwapSpace());
    pager->MoveOut(std::move(chunks), std::move(away), OnControl(std::move(moved)));
  }
  void MoveIn(std::shared_ptr<std::vector<Chunk>> chunks, std::shared_ptr<const AwayMemory> away,
              Moved moved) override RUNS_ON(control_loop) {
    Pager* const pager = device->pager();
    if (pager == nullptr) return moved(NoSwapSpace());
    pager->MoveIn(std::move(chunks), std::move(away), OnControl(std::move(moved)));
  }
  void Store(std::shared_ptr<AwayMemory> away, Moved moved) override RUNS_ON(control_loop) {
    SwapFiles* const files = device->swap_files();
    if (files == nullptr) return moved(absl::FailedPreconditionError("the server has no files"));
    files->Store(std::move(away), OnControl(std::move(moved)));
  }
  void Fetch(std::shared_ptr<AwayMemory> away, Moved moved) override RUNS_ON(control_loop) {
    device->swap_files()->Fetch(std::move(away), OnControl(std::move(moved)));
  }
  uint64_t MostGrowth(bool stays) override RUNS_ON(control_loop) {
    return all_->links_.reclaimer->MostGrowth(session_, *device, stays);
  }
  uint64_t LeftOfLimit() override RUNS_ON(control_loop) {
    return all_->links_.reclaimer->LeftOfLimit(session_, *device);
  }
  bool MayStay(uint64_t bytes) override RUNS_ON(control_loop) {
    return all_->links_.reclaimer->MayStay(session_, bytes, *device);
  }
  void StopWaiting() override RUNS_ON(control_loop) {
    all_->links_.reclaimer->StopWaiting(session_);
  }
  MemoryRelief Relieve(const MemoryShortage& shortage, Again tell) override RUNS_ON(control_loop) {
    using Kind = MemoryRelief::Kind;
    const std::function<void()> again = [tell] { tell(absl::OkStatus()); };
    const KeptMemory wanted = {device, payer_, tenant_,
                               shortage.of_quota ? &quota->scarcer() : nullptr};
    const ShortageVerdict verdict = all_->links_.reclaimer->OnShortage(wanted, shortage);
    if (verdict.kind == ShortageVerdict::Kind::kFail) return {Kind::kRefused, {}};
    const absl::Duration wait = std::min(verdict.wait, kMostPolicyWait - shortage.waited);
    if (verdict.kind == ShortageVerdict::Kind::kWait && wait > absl::ZeroDuration()) {
      all_->links_.control->RunAfter(wait, again);
      return {Kind::kWaiting, wait};
    }
    const auto settled = [device = device, control = all_->links_.control, again] {
      device->AfterReturns([control, again] { control->Post(again); });
    };
    MemoryReclaimer& reclaimer = *all_->links_.reclaimer;
    if (!shortage.of_quota && !shortage.nothing_moves &&
        reclaimer.AwaitRoom(session_, *device, shortage.wanted_bytes, std::move(tell))) {
      return {Kind::kMoving, {}};
    }
    const absl::Time deadline = shortage.since + kMostReturnWait;
    const bool may_wait = SteadyNow() < deadline;
    if (may_wait && device->settling()) {
      settled();
      return {Kind::kReturning, {}};
    }
    if (may_wait && reclaimer.AwaitReturn(wanted, deadline, again)) return {Kind::kReturning, {}};
    if (!shortage.reclaimed && reclaimer.Reclaim(wanted, settled)) return {Kind::kReclaiming, {}};
    // The device lacks what the books say that it has: contexts have more than was left to them.
    if (may_wait && !shortage.of_quota && BooksHaveRoom(shortage.wanted_bytes) &&
        reclaimer.EndWaitingWorkers(*device) && reclaimer.AwaitReturn(wanted, deadline, again)) {
      return {Kind::kReturning, {}};
    }
    return {};
  }

  DeviceMemory* const device;
  const std::shared_ptr<Quota> quota;
  const std::shared_ptr<SessionMemory> memory;

 private:
  static absl::Status NoSwapSpace() {
    return absl::FailedPreconditionError("the server has no host memory for it (--swap_host)");
  }
  // The session lives until `answered` was called, on the control loop.
  template <typename Answer>
  std::function<void(Answer)> OnControl(std::function<void(Answer)> answered)
      RUNS_ON(control_loop) {
    ++all_->takes_under_way_;
    return [all = all_, answered = std::move(answered)](Answer answer) {
      all->links_.control->Post([all, answered, answer = std::move(answer)] {
        control_loop.AssertOnLoop();
        --all->takes_under_way_;
        answered(answer);
        all->taken_();
      });
    };
  }
  bool BooksHaveRoom(uint64_t bytes) const {
    const DeviceMemory::Stats stats = device->stats();
    const uint64_t taken = stats.pool.used_bytes() + stats.pool.leaving_bytes;
    return taken <= stats.capacity_bytes && bytes <= stats.capacity_bytes - taken;
  }

  SessionDevices* const all_;
  const uint64_t session_;
  const std::string payer_;
  const std::string tenant_;
};

SessionDevices::SessionDevices(const SessionDevicesLinks& links, std::function<void()> taken)
    : links_(links), taken_(std::move(taken)) {}
SessionDevices::~SessionDevices() = default;

void SessionDevices::Open(const std::vector<SessionDevicePlace>& places,
                          const SessionMemoryOptions& options) {
  arena_ = options.arena;
  const auto count = static_cast<uint32_t>(places.size());
  SessionMemoryOptions own = options;
  own.arena.bytes = DeviceArenaBytes(arena_.bytes, count);
  own.max_chunks = options.max_chunks / count;
  for (const SessionDevicePlace& place : places) {
    own.device_uuid = place.memory->info().uuid();
    devices_.push_back(std::make_unique<Device>(this, place, own));
    ++own.device;
    own.arena.base += own.arena.bytes;
  }
}

const DeviceMemory& SessionDevices::device(size_t number) const {
  return *devices_[number]->device;
}

const Quota& SessionDevices::quota(size_t number) const { return *devices_[number]->quota; }

uint64_t SessionDevices::LeftOfLimit(size_t number) const {
  return devices_[number]->LeftOfLimit();
}

const SessionMemory& SessionDevices::memory(size_t number) const {
  return *devices_[number]->memory;
}

SessionDevices::Device& SessionDevices::OfAddress(uint64_t va) const {
  const uint64_t number =
      DeviceOfAddress(va, arena_.base, arena_.bytes, static_cast<uint32_t>(devices_.size()));
  return *devices_[number < devices_.size() ? number : 0];
}

SessionDevices::Device& SessionDevices::OfHandle(uint64_t handle) const {
  const size_t number = DeviceOfHandle(handle);
  return *devices_[number < devices_.size() ? number : 0];
}

SessionDevices::Device& SessionDevices::Of(uint64_t handle, uint64_t va) const {
  return handle != 0 ? OfHandle(handle) : OfAddress(va);
}

void SessionDevices::TakeOwn(uint64_t bytes, const std::function<void(absl::Status)>& taken) {
  devices_.front()->memory->TakeOwn(bytes, taken);
}

void SessionDevices::Request(const warpline_internal::MemoryRequest& request) {
  // To share is to name what there is already.
  Device& device = request.has_share() ? Of(request.share().handle(), request.share().va())
                                       : Of(request.handle(), request.va());
  device.memory->Request(request);
}

void SessionDevices::Return(const warpline_internal::MemoryReturn& request) {
  Of(request.handle(), request.va()).memory->Return(request);
}

absl::Status SessionDevices::OnMemoryDone(const warpline_internal::MemoryDone& done) {
  return OfHandle(done.id()).memory->OnMemoryDone(done);
}

CudaResult SessionDevices::Charge(const warpline_internal::ChargeMemory& charge) {
  if (charge.device() >= devices_.size()) return CudaResult::kInvalidValue;
  return devices_[charge.device()]->memory->Charge(charge.bytes());
}

bool SessionDevices::Recharge(uint64_t bytes) { return devices_.front()->memory->Recharge(bytes); }

bool SessionDevices::Uncharge(const warpline_internal::UnchargeMemory& uncharge) {
  return uncharge.device() < devices_.size() &&
         devices_[uncharge.device()]->memory->Uncharge(uncharge.bytes());
}

bool SessionDevices::Backs(uint64_t va, uint64_t bytes) const {
  return OfAddress(va).memory->Backs(va, bytes);
}

void SessionDevices::Suspend() {
  for (const auto& device : devices_) device->memory->Suspend();
}

void SessionDevices::Abandon() {
  for (const auto& device : devices_) device->memory->Abandon();
}

void SessionDevices::MapAgain(bool go_on, std::function<void(CudaResult)> done) {
  Suspend();
  MapAgainFrom(0, go_on, std::move(done));
}

void SessionDevices::MapAgainFrom(size_t number, bool go_on, std::function<void(CudaResult)> done) {
  devices_[number]->memory->MapAgain(
      go_on, [this, number, go_on, done = std::move(done)](CudaResult result) {
        control_loop.AssertOnLoop();
        const bool last = number + 1 == devices_.size();
        if (last || result != CudaResult::kSuccess) return done(result);
        MapAgainFrom(number + 1, go_on, done);
      });
}

void SessionDevices::PageOut(std::function<void(absl::Status)> done) {
  PageFrom(0, &SessionMemory::PageOut, std::move(done));
}

void SessionDevices::PageIn(std::function<void(absl::Status)> done) {
  PageFrom(0, &SessionMemory::PageIn, std::move(done));
}

void SessionDevices::BringBack(std::function<void(absl::Status)> done) {
  PageFrom(0, &SessionMemory::BringBack, std::move(done));
}

void SessionDevices::ShowAway(std::function<void(absl::StatusOr<SessionMemory::AwayShown>)> shown) {
  devices_.front()->memory->ShowAway(std::move(shown));
}

absl::Status SessionDevices::AdoptAway(const SessionMemory::AwayShown& from) {
  return devices_.front()->memory->AdoptAway(from);
}

void SessionDevices::Store(const std::function<void(absl::Status)>& stored) {
  for (const auto& device : devices_) device->memory->Store(stored);
}

void SessionDevices::PageFrom(size_t number, Page page, std::function<void(absl::Status)> done) {
  ((*devices_[number]->memory).*
   page)([this, number, page, done = std::move(done)](const absl::Status& status) {
    control_loop.AssertOnLoop();
    const bool last = number + 1 == devices_.size();
    if (last || !status.ok()) return done(status);
    PageFrom(number + 1, page, done);
  });
}

bool SessionDevices::Any(bool (SessionMemory::*is)() const) const {
  return std::any_of(devices_.begin(), devices_.end(), [&](const auto& device) {
    control_loop.AssertOnLoop();
    return ((*device->memory).*is)();
  });
}

bool SessionDevices::waits_for_worker() const { return Any(&SessionMemory::waits_for_worker); }
bool SessionDevices::has_requests() const { return Any(&SessionMemory::has_requests); }
bool SessionDevices::waits_for_room() const { return Any(&SessionMemory::waits_for_room); }
bool SessionDevices::away() const { return Any(&SessionMemory::away); }

void SessionDevices::Seal() {
  for (const auto& device : devices_) device->memory->Seal();
}

void SessionDevices::End() {
  for (const auto& device : devices_) device->memory->End();
}

uint64_t SessionDevices::Sum(const DeviceMemory& device,
                             uint64_t (SessionMemory::*bytes)() const) const {
  uint64_t sum = 0;
  for (const auto& own : devices_) {
    if (own->device == &device) sum += ((*own->memory).*bytes)();
  }
  return sum;
}

bool SessionDevices::Has(const DeviceMemory* device, const Quota* quota) const {
  return std::any_of(devices_.begin(), devices_.end(), [&](const auto& own) {
    return (device == nullptr || own->device == device) &&
           (quota == nullptr || own->quota->IsOf(*quota));
  });
}

uint64_t SessionDevices::KeptBytes(const DeviceMemory* device, const Quota* quota) const {
  uint64_t bytes = 0;
  for (const auto& own : devices_) {
    if (own->device != device || (quota != nullptr && !own->quota->IsOf(*quota))) continue;
    bytes += own->memory->kept_bytes();
  }
  return bytes;
}

}  // namespace warpline::server
