// Leases that move to other servers.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/placement/allocator.h"
#include "scheduler/placement/move_room.h"

namespace warpline::placement {
namespace {

Usage UsageOfLease(const Allocation& lease) {
  return {lease.memory_bytes * lease.devices.size(), 1, lease.sessions, lease.milli_gpus};
}

// A lease has all of its memory at the new place, also one whose memory is no multiple of the unit.
Want WantOfLease(const Allocation& lease) {
  const uint64_t units = (lease.memory_bytes + kMemoryUnit - 1) / kMemoryUnit;
  return {.memory_bytes = units * kMemoryUnit,
          .sm_percent = lease.sm_percent,
          .time_milli = lease.time_milli,
          .weight = lease.weight};
}

const DeviceState* FindDevice(const ServerState* server, const std::string& uuid) {
  if (server == nullptr) return nullptr;
  for (const DeviceState& device : server->devices) {
    if (device.spec.uuid == uuid) return &device;
  }
  return nullptr;
}

// Where a lease may go that has a device of `model` at the server `from`.
class Targets {
 public:
  Targets(const warpline_placement::Move& move, std::string from, std::string model)
      : move_(move), from_(std::move(from)), model_(std::move(model)) {}

  bool Has(const ServerState& server, const DeviceState& device) const {
    if (server.name == from_ || device.spec.model != model_) return false;
    if (!move_.to().empty() && server.name != move_.to()) return false;
    return move_.device().empty() || device.spec.uuid == move_.device();
  }

  // Why no room was found for `want`.
  absl::Status WhyNone(const Pool& pool, const Want& want) const {
    bool any = false;
    uint64_t most_free = 0;
    for (const ServerState& server : pool.servers()) {
      if (!server.usable) continue;
      for (const DeviceState& device : server.devices) {
        if (!Has(server, device)) continue;
        any = true;
        if (device.held_for == 0) most_free = std::max(most_free, device.free_bytes());
      }
    }
    if (!any) {
      return absl::FailedPreconditionError(absl::StrCat(
          move_.to().empty()       ? "no other server that takes leases has a device"
          : move_.device().empty() ? absl::StrCat("server ", move_.to(), " has no device")
                                   : absl::StrCat("device ", move_.device(), " is not"),
          " of the same model", model_.empty() ? "" : absl::StrCat(", ", model_)));
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        "no capacity at ",
        move_.to().empty() ? "another server" : absl::StrCat("server ", move_.to()), ": ",
        want.memory_bytes >> 20, " MiB",
        want.sm_percent == 0 ? ""
                             : absl::StrCat(" and ", want.sm_percent, " % of the multiprocessors"),
        want.time_milli == 0 ? ""
                             : absl::StrCat(" and ", want.time_milli, " thousandths of the time"),
        " wanted, the device of the same model with the most free memory has ", most_free >> 20,
        " MiB"));
  }

 private:
  const warpline_placement::Move& move_;
  const std::string from_;
  const std::string model_;
};

}  // namespace

const Allocation* Allocator::RoomOfMove(const std::string& lease) const {
  return moves_.count(lease) == 0 ? nullptr : pool_.Find(MoveRoomOf(lease));
}

void Allocator::BeginMove(const warpline_placement::Move& move, Decision* decision) {
  const Allocation* const lease = pool_.Find(move.lease());
  absl::StatusOr<Site> site = absl::NotFoundError("there is no such lease");
  if (lease != nullptr && lease->id[0] != '#') site = FindMoveSite(*lease, move);
  if (!site.ok()) {
    decision->set_outcome(warpline_placement::REFUSED);
    decision->set_code(static_cast<uint32_t>(site.status().code()));
    decision->set_message(std::string(site.status().message()));
    return;
  }
  site->memory_bytes = lease->memory_bytes;
  const DeviceState& device = pool_.at({site->server, site->devices.front()});
  const uint64_t milli = MilliGpus(device.spec.capacity_bytes, lease->memory_bytes,
                                   lease->sm_percent, lease->time_milli);
  decision->set_outcome(warpline_placement::GRANTED);
  *decision->mutable_place() = PlaceOf(*site);
  TakeMoveRoom(*lease, decision->place(), next_lease_++, now_ns_, milli);
}

absl::StatusOr<Site> Allocator::FindMoveSite(const Allocation& lease,
                                             const warpline_placement::Move& move) const {
  if (moves_.count(lease.id) != 0) {
    return absl::FailedPreconditionError("the lease is on its way to another server already");
  }
  if (lease.devices.size() != 1) {
    return absl::FailedPreconditionError("leases of several devices cannot be moved");
  }
  const DeviceState* const device =
      FindDevice(pool_.FindServer(lease.server), lease.devices.front());
  if (device == nullptr || lease.memory_bytes == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("server ", lease.server, " does not have the device of the lease any more"));
  }
  const Want want = WantOfLease(lease);
  const Targets targets(move, lease.server, device->spec.model);
  auto site = FindSiteWhere(pool_, want, options_.order,
                            [&](const ServerState& server, const DeviceState& other) {
                              return other.held_for == 0 && targets.Has(server, other);
                            });
  if (!site.has_value()) return targets.WhyNone(pool_, want);
  return *std::move(site);
}

void Allocator::TakeMoveRoom(const Allocation& lease, const Place& place, uint64_t number,
                             int64_t since_ns, uint64_t milli_gpus) {
  Allocation room = lease;
  room.id = MoveRoomOf(lease.id);
  room.server = place.server();
  room.devices.assign(place.devices().begin(), place.devices().end());
  room.number = number;
  room.since_ns = since_ns;
  room.milli_gpus = milli_gpus;
  moves_.insert(lease.id);
  pool_.Add(std::move(room));
}

void Allocator::CommitMove(const std::string& lease, Decision* decision) {
  const Allocation* const room = RoomOfMove(lease);
  if (room == nullptr) {
    decision->set_outcome(warpline_placement::REFUSED);
    decision->set_code(static_cast<uint32_t>(absl::StatusCode::kFailedPrecondition));
    decision->set_message("the lease is not on the move");
    return;
  }
  Allocation moved = *pool_.Find(lease);
  quotas_.Discharge(moved.tenant, UsageOfLease(moved));
  moved.server = room->server;
  moved.devices = room->devices;
  moved.milli_gpus = room->milli_gpus;
  pool_.Undo(MoveRoomOf(lease));
  moves_.erase(lease);
  pool_.Remove(lease);
  quotas_.Charge(moved.tenant, UsageOfLease(moved));
  pool_.Add(std::move(moved));
  decision->set_outcome(warpline_placement::GRANTED);
  // A lease that was to end for its device, or for its server, has left both.
  const auto notice = notices_.find(lease);
  if (notice == notices_.end()) return;
  if (notice->second.waiting() == 0 && notice->second.server().empty()) return;
  auto* const cancelled = decision->add_notices();
  *cancelled = std::move(notice->second);
  cancelled->set_cancelled(true);
  cancelled->set_cause(warpline_placement::ANOTHER);
  cancelled->set_reason("it goes on at another server");
  notices_.erase(notice);
}

void Allocator::GiveMoveRoom(const std::string& lease) {
  if (moves_.erase(lease) != 0) pool_.Remove(MoveRoomOf(lease));
}

void Allocator::EndMovesOf(const std::string& server, bool from, const std::string& why,
                           Decision* decision) {
  for (const std::string& lease : std::set<std::string>(moves_)) {
    const bool leaves = from && pool_.Find(lease)->server == server;
    if (!leaves && RoomOfMove(lease)->server != server) continue;
    GiveMoveRoom(lease);
    auto* const ended = decision->add_ended_moves();
    ended->set_lease(lease);
    ended->set_why(why);
  }
}

void Allocator::AddMoves(std::vector<Event>* events) const {
  for (const std::string& lease : moves_) {
    const Allocation& room = *RoomOfMove(lease);
    auto* const moving = events->emplace_back().mutable_moving();
    moving->set_lease(lease);
    moving->mutable_place()->set_server(room.server);
    for (const std::string& uuid : room.devices) moving->mutable_place()->add_devices(uuid);
    moving->mutable_place()->set_memory_bytes(room.memory_bytes);
    moving->set_number(room.number);
    moving->set_milli_gpus(room.milli_gpus);
    moving->set_since_ns(room.since_ns);
  }
}

void Allocator::RestoreMove(const warpline_placement::Moving& moving) {
  const Allocation* const lease = pool_.Find(moving.lease());
  if (lease == nullptr || moves_.count(moving.lease()) != 0) return;
  TakeMoveRoom(*lease, moving.place(), moving.number(), moving.since_ns(), moving.milli_gpus());
}

}  // namespace warpline::placement
