// What keeps a session apart from the others on its device: what client and server agree on.
#ifndef WARPLINE_PROTO_TIER_H_
#define WARPLINE_PROTO_TIER_H_

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
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

// What a program's user asks for. kAuto becomes one of the tiers before the session opens, and is
// never sent.
enum class TierChoice : uint32_t { kIsolated = 0, kGuarded = 1, kAuto = 2 };

inline constexpr std::string_view kTierChoices[] = {"isolated", "guarded", "auto"};

constexpr std::optional<TierChoice> ParseTierChoice(std::string_view name) {
  for (uint32_t choice = 0; choice < std::size(kTierChoices); ++choice) {
    if (name == kTierChoices[choice]) return static_cast<TierChoice>(choice);
  }
  return std::nullopt;
}

constexpr std::string_view TierChoiceName(TierChoice choice) {
  return kTierChoices[static_cast<uint32_t>(choice)];
}

// A set of tiers: one bit for each, 1 << its number. Tokens carry it.
using TierSet = uint64_t;

inline constexpr TierSet kAllTiers = ~TierSet{0};  // Those to come, too.

constexpr TierSet SetOf(Tier tier) { return TierSet{1} << static_cast<uint32_t>(tier); }

inline constexpr TierSet kKnownTiers = (TierSet{1} << std::size(kTiers)) - 1;

// Reads "all", or names of tiers separated by commas; none for anything else.
std::optional<TierSet> ParseTierSet(std::string_view text);
// Writes what ParseTierSet() reads. Tiers that this version does not know are left out.
std::string FormatTierSet(TierSet tiers);

}  // namespace warpline

#endif  // WARPLINE_PROTO_TIER_H_
