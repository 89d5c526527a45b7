#include "common/tier/device_code.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/fatbin/fatbin.h"

namespace warpline::tier {
namespace {

constexpr size_t kMostText = 400;
constexpr char kMachineCode[] = "it has machine code without PTX";

// What a device has to be to take PTX.
struct Target {
  uint32_t sm = 0;
  enum class Of { kNewer, kFamily, kThis } of = Of::kNewer;

  bool Suits(uint32_t device) const {
    switch (of) {
      case Of::kNewer:
        return device >= sm;
      case Of::kFamily:
        return device >= sm && device / 10 == sm / 10;
      case Of::kThis:
        return device == sm;
    }
    return false;
  }
};

std::string FormatTarget(const fatbin::ImageEntry& entry) {
  const char* const suffix = (entry.flags & fatbin::kFlagArchSpecific) != 0 ? "a"
                             : (entry.flags & fatbin::kFlagFamily) != 0     ? "f"
                                                                            : "";
  return absl::StrCat(entry.sm, suffix);
}

std::optional<Target> ParseTarget(std::string_view text) {
  Target target;
  if (text.ends_with('a')) target.of = Target::Of::kThis;
  if (text.ends_with('f')) target.of = Target::Of::kFamily;
  if (target.of != Target::Of::kNewer) text.remove_suffix(1);
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  if (!is_number || !absl::SimpleAtoi(std::string(text), &target.sm)) return std::nullopt;
  return target;
}

std::optional<std::vector<Target>> ParseTargets(std::string_view text) {
  std::vector<Target> targets;
  const std::vector<std::string> words = absl::StrSplit(std::string(text), ',');
  for (const std::string& word : words) {
    const auto target = ParseTarget(word);
    if (!target.has_value()) return std::nullopt;
    targets.push_back(*target);
  }
  return targets;
}

// Programs have modules without functions, too.
bool HasFunctions(const fatbin::ImageEntry& entry, uint64_t* left_bytes) {
  if (entry.compression == fatbin::Compression::kNone) {
    return entry.payload.find(".text.") != std::string_view::npos;
  }
  // What an entry claims is paid for even if it holds less.
  if (entry.uncompressed_bytes > *left_bytes) return true;
  *left_bytes -= entry.uncompressed_bytes;
  const auto code = fatbin::EntryPayload(entry);
  return !code.ok() || code->find(".text.") != std::string::npos;
}

}  // namespace

ContainerCode CodeOfContainer(std::string_view container, uint64_t* left_bytes) {
  ContainerCode code;
  const auto entries = fatbin::ParseImage(container);
  if (!entries.ok()) return code;
  std::set<std::string> targets;
  for (const fatbin::ImageEntry& entry : *entries) {
    if (entry.kind == fatbin::ImageKind::kPtx) targets.insert(FormatTarget(entry));
  }
  code.targets = absl::StrJoin(targets, ",");
  if (!targets.empty()) return code;
  for (const fatbin::ImageEntry& entry : *entries) {
    if (code.machine_code_alone) break;
    code.machine_code_alone =
        entry.kind == fatbin::ImageKind::kElf && HasFunctions(entry, left_bytes);
  }
  return code;
}

DeviceCode FindDeviceCode(std::string_view bytes) {
  DeviceCode found;
  uint64_t left_bytes = kMostLookedInto;
  for (const std::string_view container : fatbin::FindContainers(bytes)) {
    ContainerCode code = CodeOfContainer(container, &left_bytes);
    if (code.machine_code_alone) {
      found.obstacle = kMachineCode;
      return found;
    }
    if (!code.targets.empty()) found.targets.insert(std::move(code.targets));
    if (found.targets.size() > kMostTargets) {
      found.obstacle = "its modules are for too many different devices";
      return found;
    }
  }
  return found;
}

std::string ObstacleOn(const DeviceCode& code, int sm) {
  if (!code.obstacle.empty()) return code.obstacle;
  for (const std::string& text : code.targets) {
    const auto targets = ParseTargets(text);
    if (!targets.has_value()) continue;
    bool suits = false;
    for (const Target& target : *targets) suits |= target.Suits(static_cast<uint32_t>(sm));
    if (!suits) {
      return absl::StrCat("it has PTX for compute capability ", text, " alone, and the device has ",
                          sm);
    }
  }
  return "";
}

std::string FormatDeviceCode(const DeviceCode& code) {
  return absl::StrCat(absl::StrJoin(code.targets, ";"), "|",
                      absl::CEscape(code.obstacle.substr(0, kMostText)));
}

std::optional<DeviceCode> ParseDeviceCode(std::string_view text) {
  const size_t bar = text.find('|');
  if (bar == std::string_view::npos) return std::nullopt;
  DeviceCode code;
  const std::vector<std::string> all =
      absl::StrSplit(std::string(text.substr(0, bar)), ';', absl::SkipEmpty());
  for (const std::string& targets : all) {
    if (!ParseTargets(targets).has_value()) return std::nullopt;
    code.targets.emplace(targets);
  }
  if (code.targets.size() > kMostTargets + 1) return std::nullopt;
  if (!absl::CUnescape(std::string(text.substr(bar + 1)), &code.obstacle)) return std::nullopt;
  return code;
}

}  // namespace warpline::tier
