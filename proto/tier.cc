#include "proto/tier.h"

namespace warpline {

std::optional<TierSet> ParseTierSet(std::string_view text) {
  if (text == "all") return kAllTiers;
  TierSet tiers = 0;
  for (bool last = false; !last;) {
    const size_t comma = text.find(',');
    const std::optional<Tier> tier = ParseTier(text.substr(0, comma));
    if (!tier.has_value()) return std::nullopt;
    tiers |= SetOf(*tier);
    last = comma == std::string_view::npos;
    if (!last) text.remove_prefix(comma + 1);
  }
  return tiers;
}

std::string FormatTierSet(TierSet tiers) {
  if (tiers == kAllTiers) return "all";
  std::string text;
  for (uint32_t tier = 0; tier < std::size(kTiers); ++tier) {
    if ((tiers & SetOf(static_cast<Tier>(tier))) == 0) continue;
    text.append(text.empty() ? "" : ",").append(kTiers[tier]);
  }
  return text.empty() ? "none" : text;
}

}  // namespace warpline
