#include "tools/cli/text.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace warpline::cli {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0 for a byte that begins no character of UTF-8.
};

// Reads the first character of a text that is not empty.
Character TakeCharacter(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {byte(0), 1};
  const size_t bytes = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  // The least code that needs so many bytes.
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < bytes) return {};
  uint32_t code = byte(0) & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast[bytes] || code > 0x10ffff || surrogate) return {};
  return {code, bytes};
}

// Returns true for what a terminal obeys or hides: control characters, and of the characters that
// Unicode calls "format" those of direction, width and language, and the ends of lines and
// paragraphs.
bool IsObeyed(uint32_t code) {
  struct Range {
    uint32_t first;
    uint32_t last;
  };
  constexpr Range kObeyed[] = {{0, 0x1f},        {0x7f, 0x9f},      {0xad, 0xad},
                               {0x61c, 0x61c},   {0x180e, 0x180e},  {0x200b, 0x200f},
                               {0x2028, 0x202e}, {0x2060, 0x206f},  {0xfeff, 0xfeff},
                               {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
  return std::any_of(std::begin(kObeyed), std::end(kObeyed), [code](const Range& range) {
    return code >= range.first && code <= range.last;
  });
}

// Returns JSON with escapes for what a terminal would obey. Protobuf escapes most of it itself.
std::string EscapedJson(absl::string_view json) {
  std::string escaped;
  while (!json.empty()) {
    const Character next = TakeCharacter(json);
    const size_t bytes = std::max<size_t>(next.bytes, 1);
    if (!IsObeyed(next.code) || next.bytes == 0) {
      escaped.append(json.data(), bytes);
    } else if (next.code < 0x10000) {
      absl::StrAppendFormat(&escaped, "\\u%04x", next.code);
    } else {
      absl::StrAppendFormat(&escaped, "\\u%04x\\u%04x", 0xd7c0 + (next.code >> 10),
                            0xdc00 + (next.code & 0x3ff));
    }
    json.remove_prefix(bytes);
  }
  return escaped;
}

}  // namespace

std::string Shown(absl::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const Character next = TakeCharacter(text);
    if (next.bytes == 0) {
      absl::StrAppendFormat(&shown, "\\x%02x", static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    if (!IsObeyed(next.code)) {
      shown.append(text.data(), next.bytes);
    } else if (next.code == '\n') {
      shown += "\\n";
    } else if (next.code == '\t') {
      shown += "\\t";
    } else if (next.code < 0x100) {
      absl::StrAppendFormat(&shown, "\\x%02x", next.code);
    } else {
      absl::StrAppendFormat(&shown, "\\u%04x", next.code);
    }
    text.remove_prefix(next.bytes);
  }
  return shown;
}

std::string ShownLines(absl::string_view text) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) lines.push_back(Shown(line));
  return absl::StrJoin(lines, "\n");
}

void MakeShown(google::protobuf::Message* message) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const FieldDescriptor* const field : fields) {
    const bool text = field->type() == FieldDescriptor::TYPE_STRING;
    const bool inner = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!field->is_repeated()) {
      if (text) reflection.SetString(message, field, Shown(reflection.GetString(*message, field)));
      if (inner) MakeShown(reflection.MutableMessage(message, field));
      continue;
    }
    for (int i = 0; (text || inner) && i < reflection.FieldSize(*message, field); ++i) {
      if (inner) {
        MakeShown(reflection.MutableRepeatedMessage(message, field, i));
      } else {
        reflection.SetRepeatedString(message, field, i,
                                     Shown(reflection.GetRepeatedString(*message, field, i)));
      }
    }
  }
}

int Complain(absl::string_view program, absl::string_view text, int code) {
  std::fprintf(stderr, "%s: %s\n", std::string(program).c_str(), ShownLines(text).c_str());
  return code;
}

void SayLine(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
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
  return EscapedJson(json) + "\n";
}

std::string ShownGpus(const warpline_internal::SessionStat& session) {
  if (session.gpu() < 0) return "-";
  std::string gpus = absl::StrCat(session.gpu());
  for (const int gpu : session.more_gpus()) absl::StrAppend(&gpus, ",", gpu);
  return gpus;
}

}  // namespace warpline::cli
