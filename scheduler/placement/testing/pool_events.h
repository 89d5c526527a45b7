// Short ways to write events, for tests.
#ifndef WARPLINE_SCHEDULER_PLACEMENT_TESTING_POOL_EVENTS_H_
#define WARPLINE_SCHEDULER_PLACEMENT_TESTING_POOL_EVENTS_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "scheduler/placement/placement.pb.h"

namespace warpline::placement {

inline constexpr uint64_t kGiB = 1ull << 30;

// A server that is up, with devices of 80 GiB.
inline warpline_placement::Event ServerOf(const std::string& name, int devices) {
  warpline_placement::Event event;
  auto* const server = event.mutable_put_server();
  server->set_name(name);
  server->set_up(true);
  for (int i = 0; i < devices; ++i) {
    auto* const device = server->add_devices();
    device->set_uuid(absl::StrCat("GPU-", name, i));
    device->set_capacity_bytes(80 * kGiB);
  }
  return event;
}

inline warpline_placement::Ask AskOf(const std::string& lease, const std::string& tenant,
                                     uint64_t gib, const std::string& ticket = "",
                                     uint32_t gpus = 1) {
  warpline_placement::Ask ask;
  ask.set_lease(lease);
  ask.set_tenant(tenant);
  ask.mutable_shape()->set_memory_bytes(gib * kGiB);
  ask.set_ticket(ticket);
  ask.set_gpus(gpus);
  return ask;
}

inline warpline_placement::Event ReleaseOf(const std::string& lease) {
  warpline_placement::Event event;
  event.set_release(lease);
  return event;
}

inline warpline_placement::Event MoveOf(const std::string& lease, const std::string& to = "",
                                        const std::string& device = "") {
  warpline_placement::Event event;
  event.mutable_move()->set_lease(lease);
  event.mutable_move()->set_to(to);
  event.mutable_move()->set_device(device);
  return event;
}

inline warpline_placement::Event CommitMoveOf(const std::string& lease) {
  warpline_placement::Event event;
  event.set_commit_move(lease);
  return event;
}

inline warpline_placement::Event EndMoveOf(const std::string& lease) {
  warpline_placement::Event event;
  event.mutable_end_move()->set_lease(lease);
  event.mutable_end_move()->set_why("the servers failed");
  return event;
}

inline warpline_placement::Event WithdrawOf(const std::string& tenant, const std::string& ticket) {
  warpline_placement::Event event;
  event.mutable_withdraw()->set_tenant(tenant);
  event.mutable_withdraw()->set_ticket(ticket);
  return event;
}

inline warpline_placement::Event TimePasses() {
  warpline_placement::Event event;
  event.set_advance(true);
  return event;
}

inline warpline_placement::Event TenantOf(const std::string& name, const std::string& parent,
                                          uint64_t gib, uint64_t reserved_gib = 0,
                                          uint32_t weight = 1) {
  warpline_placement::Event event;
  auto* const tenant = event.mutable_put_tenant();
  tenant->set_name(name);
  tenant->set_parent(parent);
  tenant->set_memory_bytes(gib * kGiB);
  tenant->set_reserved_bytes(reserved_gib * kGiB);
  tenant->set_weight(weight);
  return event;
}

inline warpline_placement::Event CordonOf(const std::string& server, bool cordoned,
                                          int64_t drained_ns, const std::string& reason = "") {
  warpline_placement::Event event;
  auto* const cordon = event.mutable_cordon();
  cordon->set_server(server);
  cordon->set_cordoned(cordoned);
  cordon->set_drained_ns(drained_ns);
  cordon->set_reason(reason);
  return event;
}

}  // namespace warpline::placement

#endif  // WARPLINE_SCHEDULER_PLACEMENT_TESTING_POOL_EVENTS_H_
