#include "tools/cli/text.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"

namespace warpline::cli {

std::string Shown(const std::string& text) {
  std::string shown;
  for (const char c : absl::Utf8SafeCHexEscape(text)) {
    // Terminals obey some of U+0080 to U+009F, in UTF-8, as they do ESC [.
    if (!shown.empty() && shown.back() == '\xc2' && static_cast<unsigned char>(c) < 0xa0) {
      shown.back() = '?';
      continue;
    }
    shown.push_back(c);
  }
  return shown;
}

std::string ShownBytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%d B", bytes)
                   : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string ShownAge(double seconds) {
  const auto s = static_cast<int64_t>(std::clamp(seconds, 0.0, 1e12));
  if (s < 60) return absl::StrFormat("%ds", s);
  if (s < 3600) return absl::StrFormat("%dm%02ds", s / 60, s % 60);
  if (s < 86400) return absl::StrFormat("%dh%02dm", s / 3600, s / 60 % 60);
  return absl::StrFormat("%dd%02dh", s / 86400, s / 3600 % 24);
}

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(message, &json, options).ok()) json = "{}";
  return json + "\n";
}

std::string ShownGpus(const warpline_internal::SessionStat& session) {
  if (session.gpu() < 0) return "-";
  std::string gpus = absl::StrCat(session.gpu());
  for (const int gpu : session.more_gpus()) absl::StrAppend(&gpus, ",", gpu);
  return gpus;
}

}  // namespace warpline::cli
