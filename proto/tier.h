// What keeps a session apart from the others on its device: what client and server agree on.
#ifndef WARPLINE_PROTO_TIER_H_
#define WARPLINE_PROTO_TIER_H_

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace warpline {

// As numbered in Hello.tier.
enum class Tier : uint32_t {
  kIsolated = 0,  // A process and a context of its own: the device's MMU.
  kGuarded = 1,   // Hardened kernels (guard/) in a context that many sessions share.
};

inline constexpr std::string_view kTiers[] = {"isolated", "guarded"};

constexpr std::optional<Tier> ParseTier(std::string_view name) {
  for (uint32_t tier = 0; tier < std::size(kTiers); ++tier) {
    if (name == kTiers[tier]) return static_cast<Tier>(tier);
  }
  return std::nullopt;
}

constexpr std::string_view TierName(Tier tier) { return kTiers[static_cast<uint32_t>(tier)]; }

}  // namespace warpline

#endif  // WARPLINE_PROTO_TIER_H_
