#include "scheduler/placement.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::scheduler {
namespace {

constexpr uint64_t kDefaultShare = 4;
// A lease is a multiple of this, so that no quota ends in a piece too small to use.
constexpr uint64_t kUnit = 2ull << 20;

uint64_t FreeBytes(const DeviceState& device) {
  return device.capacity_bytes - std::min(device.capacity_bytes, device.leased_bytes);
}

uint64_t WantOf(const DeviceState& device, const PlacementRequest& request) {
  const uint64_t want =
      request.memory_bytes != 0 ? request.memory_bytes : device.capacity_bytes / kDefaultShare;
  return want - want % kUnit;
}

// A smaller rank is better.
using Rank = std::pair<uint64_t, int>;

Rank RankOf(const DeviceState& device, PlacementPolicy policy) {
  const uint64_t free = FreeBytes(device);
  return {policy == PlacementPolicy::kPack ? free : ~free, device.leases};
}

// The devices that a server can offer: all those that were asked for, and those of them that have
// enough memory.
struct Offer {
  std::vector<size_t> wanted;
  std::vector<size_t> fitting;
};

// Makes one offer for each server that has the devices asked for.
std::vector<Offer> OffersFor(const std::vector<DeviceState>& devices,
                             const PlacementRequest& request) {
  std::map<std::string, Offer> by_server;
  for (size_t i = 0; i < devices.size(); ++i) {
    const bool any = request.named.empty();
    if (!any && std::find(request.named.begin(), request.named.end(), devices[i].uuid) ==
                    request.named.end()) {
      continue;
    }
    Offer& offer = by_server[devices[i].server];
    offer.wanted.push_back(i);
    const uint64_t want = WantOf(devices[i], request);
    if (want != 0 && want <= FreeBytes(devices[i])) offer.fitting.push_back(i);
  }
  std::vector<Offer> offers;
  for (auto& [server, offer] : by_server) {
    if (offer.wanted.size() >= std::max<size_t>(request.named.size(), 1)) {
      offers.push_back(std::move(offer));
    }
  }
  return offers;
}

absl::Status NoRoom(const std::vector<DeviceState>& devices, const std::vector<Offer>& offers,
                    const PlacementRequest& request, size_t count) {
  uint64_t most_free = 0;
  size_t most_fitting = 0;
  for (const Offer& offer : offers) {
    for (const size_t i : offer.wanted) most_free = std::max(most_free, FreeBytes(devices[i]));
    most_fitting = std::max(most_fitting, offer.fitting.size());
  }
  const std::string wanted = request.memory_bytes == 0
                                 ? "a quarter of a device"
                                 : absl::StrCat(request.memory_bytes >> 20, " MiB");
  if (count > 1) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no capacity: ", wanted, " on each of ", count,
                     " devices of one server wanted, the server with the most has ", most_fitting,
                     " with as much free"));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("no capacity: ", wanted, " wanted, the device with the most free memory has ",
                   most_free >> 20, " MiB"));
}

}  // namespace

absl::StatusOr<Placement> Place(const std::vector<DeviceState>& devices,
                                const PlacementRequest& request, PlacementPolicy policy) {
  if (devices.empty()) return absl::UnavailableError("no server with a device is up");
  const std::vector<Offer> offers = OffersFor(devices, request);
  if (offers.empty()) {
    return absl::NotFoundError(request.named.size() > 1
                                   ? "no server that is up has all of the devices"
                                   : "no server that is up has the device");
  }
  const size_t count = request.named.empty() ? request.count : request.named.size();
  const auto better = [&](size_t a, size_t b) {
    return std::pair(RankOf(devices[a], policy), a) < std::pair(RankOf(devices[b], policy), b);
  };
  std::vector<size_t> best;
  for (const Offer& offer : offers) {
    if (offer.fitting.size() < count) continue;
    std::vector<size_t> chosen = offer.fitting;
    std::sort(chosen.begin(), chosen.end(), better);
    chosen.resize(count);
    if (best.empty() || better(chosen.back(), best.back())) best = std::move(chosen);
  }
  if (best.empty()) return NoRoom(devices, offers, request, count);
  // Sorts by the order that was named, or else by the server's order.
  std::sort(best.begin(), best.end(), [&](size_t a, size_t b) {
    const auto place = [&](size_t i) {
      return std::find(request.named.begin(), request.named.end(), devices[i].uuid);
    };
    return std::pair(place(a), a) < std::pair(place(b), b);
  });
  Placement placement;
  placement.memory_bytes = WantOf(devices[best.front()], request);
  for (const size_t i : best) {
    placement.memory_bytes = std::min(placement.memory_bytes, WantOf(devices[i], request));
  }
  placement.devices = std::move(best);
  return placement;
}

}  // namespace warpline::scheduler
