#include "tests/guard/escapes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace warpline::guard {
namespace {

constexpr char kModule[] = R"(.version 9.0
.target sm_90a
.address_size 64
DECLARATIONS
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u32 n, .param .align ALIGN .b8 tm[128])
{
  .reg .pred %p<9>;
  .reg .b16 %h<9>;
  .reg .b32 %r<40>;
  .reg .b64 %d<40>;
  .reg .f32 %f<20>;
  .reg .f64 %fd<9>;
  WIDE
  .shared .align 128 .b8 sm[1024];
  .local .align 16 .b8 lc[64];
  .shared .align 8 .b64 mb;
  ld.param.u64 %d1, [p0];
  ld.param.u64 %d2, [p1];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, sm;
  mov.u32 %r3, %tid.x;
  cvt.u64.u32 %d3, %r3;
  mov.u32 %r5, 16;
  mov.u32 %r6, 0;
  mov.b16 %h1, 3;
  mov.u32 %r9, mb;
  BODY
  ret;
}
)";

bool ReadTreatment(std::string_view field, Escape* escape) {
  const std::vector<std::string> words = absl::StrSplit(std::string(field), ' ', absl::SkipEmpty());
  if (words.empty()) return false;
  using Treatment = Escape::Treatment;
  if (words[0] == "refused") {
    escape->treatment = Treatment::kRefused;
  } else if (words[0] == "guarded") {
    escape->treatment = Treatment::kGuarded;
  } else if (words[0] == "dropped") {
    escape->treatment = Treatment::kDropped;
  } else if (words[0] == "ends") {
    escape->treatment = Treatment::kEnds;
  } else {
    return false;
  }
  for (size_t i = 1; i < words.size(); ++i) {
    bool* const word = words[i] == "harms"     ? &escape->harms
                       : words[i] == "faults"  ? &escape->faults
                       : words[i] == "soft"    ? &escape->soft
                       : words[i] == "loops"   ? &escape->loops
                       : words[i] == "group"   ? &escape->group
                       : words[i] == "grid"    ? &escape->grid
                       : words[i] == "residue" ? &escape->residue
                                               : nullptr;
    if (word == nullptr) return false;
    *word = true;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::vector<Escape>> ReadEscapes(std::string_view file) {
  std::vector<Escape> escapes;
  int number = 0;
  const std::vector<std::string> lines = absl::StrSplit(std::string(file), '\n');
  for (const std::string& line : lines) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    // A pair of results has a bar too, without blanks beside it.
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits("| ", 2));
    Escape escape;
    escape.line = number;
    if (fields.size() < 2 || !ReadTreatment(fields[0], &escape)) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", line));
    }
    escape.body = std::string(absl::StripSuffix(fields[1], " "));
    // Not every device has registers of 128 bits.
    const bool is_wide = escape.body.find("%q") != std::string::npos;
    // Parameters that want more than 16 have no addresses.
    const bool has_map = escape.body.find("tm") != std::string::npos;
    escape.text =
        absl::StrReplaceAll(kModule, {{"BODY", escape.body},
                                      {"DECLARATIONS", fields.size() > 2 ? fields[2] : ""},
                                      {"ALIGN", has_map ? "64" : "16"},
                                      {"WIDE", is_wide ? ".reg .b128 %q<4>;" : ""}});
    escape.text = absl::StrReplaceAll(escape.text, {{"\\n", "\n"}});
    escapes.push_back(std::move(escape));
  }
  return escapes;
}

}  // namespace warpline::guard
