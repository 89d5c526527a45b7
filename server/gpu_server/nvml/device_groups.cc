#include "server/gpu_server/nvml/device_groups.h"

#include <algorithm>
#include <functional>
#include <map>

namespace warpline::nvml {
namespace {

using Pair = std::map<std::string, uint64_t>;

// NVML_P2P_STATUS_OK of NVML_P2P_CAPS_INDEX_NVLINK.
bool HaveNvlink(const Pair& pair) {
  const auto found = pair.find("p2p_2");
  return found != pair.end() && found->second == 0;
}

// NVML_TOPOLOGY_NODE or closer.
bool ShareNode(const Pair& pair) {
  constexpr uint64_t kNode = 40;
  const auto found = pair.find("topology");
  return found != pair.end() && found->second <= kNode;
}

bool KnowsTopology(const Pair& pair) { return pair.count("topology") != 0; }

std::vector<uint32_t> Group(const Sample& sample, const std::vector<std::string>& ids,
                            const std::function<bool(const Pair&)>& close,
                            const std::function<bool(const Pair&)>& known) {
  std::vector<uint32_t> groups(ids.size(), 0);
  for (uint32_t i = 0; i < ids.size(); ++i) {
    for (uint32_t j = 0; j < ids.size(); ++j) {
      const auto pair = sample.pairs.find({ids[i], ids[j]});
      if (i == j || pair == sample.pairs.end()) continue;
      if (known(pair->second) && groups[i] == 0) groups[i] = i + 1;
      if (!close(pair->second)) continue;
      if (groups[i] == 0) groups[i] = i + 1;
      if (groups[j] == 0) groups[j] = j + 1;
      const uint32_t one = std::min(groups[i], groups[j]);
      const uint32_t other = std::max(groups[i], groups[j]);
      std::replace(groups.begin(), groups.end(), other, one);
    }
  }
  return groups;
}

}  // namespace

DeviceGroups GroupsOf(const Sample& sample, const std::vector<std::string>& pci_bus_ids) {
  return {Group(sample, pci_bus_ids, &HaveNvlink, [](const Pair&) { return false; }),
          Group(sample, pci_bus_ids, &ShareNode, &KnowsTopology)};
}

}  // namespace warpline::nvml
