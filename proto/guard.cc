#include "proto/guard.h"

#include <cstring>

namespace warpline {

std::string GuardModeChoices() {
  std::string choices;
  for (const std::string_view mode : kGuardModes) {
    if (!choices.empty()) choices += ", ";
    choices += mode;
  }
  return choices;
}

std::string CheckedTable(absl::Span<const CheckedRange> ranges) {
  CheckedRangesHeader header;
  header.count = ranges.size() > kMostCheckedRanges ? kAllAddresses : ranges.size();
  if (header.count == kAllAddresses) ranges = {};
  std::string table(sizeof(header) + ranges.size() * sizeof(CheckedRange), '\0');
  std::memcpy(table.data(), &header, sizeof(header));
  if (!ranges.empty()) {
    std::memcpy(table.data() + sizeof(header), ranges.data(), ranges.size() * sizeof(CheckedRange));
  }
  return table;
}

}  // namespace warpline
