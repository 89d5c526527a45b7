#include "tools/cli/explained_file.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/crypto/content_hash.h"
#include "common/fatbin/container_scan.h"
#include "common/fatbin/fatbin.h"
#include "common/tier/device_code.h"
#include "common/tier/device_code_sections.h"
#include "guard/guard.h"
#include "ptx/ast.h"
#include "ptx/parser.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

constexpr uint64_t kMostFirstLine = 256;
// A reason quotes a statement, which may be as long as the text.
constexpr size_t kMostReason = 400;

// Names by which a kernel's forms for several architectures are one.
using Reasons = std::map<std::string, std::string>;

void Note(const std::string& kernel, const std::string& reason, Reasons* reasons) {
  const auto [at, is_new] = reasons->emplace(kernel, reason.substr(0, kMostReason));
  if (!is_new && reason.empty()) at->second.clear();
}

void ExplainText(const std::string& text, bool hardened, Reasons* reasons) {
  const auto guarded = guard::Guard(text, {.arena_bits = 36, .hardened = hardened});
  if (guarded.ok()) {
    for (const std::string& kernel : guarded->kernels) Note(kernel, "", reasons);
    for (const guard::Refusal& refusal : guarded->refusals) {
      Note(refusal.kernel,
           refusal.function == refusal.kernel
               ? refusal.reason
               : absl::StrCat("it calls ", refusal.function, ": ", refusal.reason),
           reasons);
    }
    return;
  }
  const std::string why(guarded.status().message());
  const auto module = ptx::Parse(text);
  if (!module.ok()) return Note("(a module)", why, reasons);
  for (const auto& item : module->items) {
    const auto* const function = std::get_if<ptx::Function>(&item);
    if (function != nullptr && function->is_entry) Note(function->name, why, reasons);
  }
}

// The interpreter that a script names in its first line, with its arguments.
std::optional<std::string> InterpreterOf(std::string_view beginning) {
  if (!beginning.starts_with("#!")) return std::nullopt;
  beginning.remove_prefix(2);
  const std::string line(beginning.substr(0, beginning.find('\n')));
  return std::string(absl::StripAsciiWhitespace(line));
}

absl::StatusOr<std::vector<elf::FileRange>> RangesOf(const elf::ReadAt& read, uint64_t size,
                                                     uint64_t most_bytes) {
  if (size <= most_bytes) return std::vector<elf::FileRange>{{0, size}};
  const auto sections = tier::DeviceCodeSections(read, size);
  if (!sections.has_value()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "it has ", ShownBytes(size), " and does not list its sections: ", ShownBytes(most_bytes),
        " are the most that is looked into"));
  }
  return *sections;
}

// What one file has, while its containers come one by one.
class Findings {
 public:
  Findings(bool hardened, uint64_t text_bytes, uint64_t* left_text_bytes)
      : hardened_(hardened), text_bytes_(text_bytes), left_text_bytes_(left_text_bytes) {}

  void AddContainer(std::string_view container) {
    const auto entries = fatbin::ParseImage(container);
    if (!entries.ok()) return;
    if (tier::CodeOfContainer(container, &left_looked_into_).machine_code_alone) ++machine_code_;
    for (const fatbin::ImageEntry& entry : *entries) {
      if (entry.kind == fatbin::ImageKind::kPtx) AddPtx(entry);
    }
  }

  // Takes a whole file that has no containers. Returns whether it is PTX.
  bool AddFile(const std::string& text) {
    if (text.find(".version") == std::string::npos || !Pay(text.size())) return false;
    ExplainText(text, hardened_, &reasons_);
    return true;
  }

  void MoveTo(ExplainedFile* file) {
    for (auto& [name, reason] : reasons_) file->kernels.push_back({name, std::move(reason)});
    file->machine_code = machine_code_;
    if (left_out_ > 0) {
      file->doubts.push_back(absl::StrCat(left_out_, " modules have more PTX than is looked into"));
    }
  }

 private:
  void AddPtx(const fatbin::ImageEntry& entry) {
    const bool compressed = entry.compression != fatbin::Compression::kNone;
    // What an entry claims is paid for even if it holds less.
    if (!Pay(compressed ? entry.uncompressed_bytes : entry.payload.size())) {
      ++left_out_;
      return;
    }
    const absl::StatusOr<std::string> text = fatbin::EntryPayload(entry);
    if (!text.ok()) return;
    ContentHash hash;
    if (HashContent(*text, &hash) && !seen_.insert(hash).second) return;
    ExplainText(*text, hardened_, &reasons_);
  }

  bool Pay(uint64_t bytes) {
    if (bytes > text_bytes_ || bytes > *left_text_bytes_) return false;
    *left_text_bytes_ -= bytes;
    return true;
  }

  const bool hardened_;
  const uint64_t text_bytes_;
  uint64_t* const left_text_bytes_;
  uint64_t left_looked_into_ = tier::kMostLookedInto;
  uint64_t machine_code_ = 0;
  uint64_t left_out_ = 0;
  std::set<ContentHash> seen_;
  Reasons reasons_;
};

}  // namespace

FileExplainer::FileExplainer(bool hardened, const Bounds& bounds)
    : hardened_(hardened),
      bounds_(bounds),
      left_bytes_(bounds.all_files_bytes),
      left_text_bytes_(bounds.all_texts_bytes) {}

absl::StatusOr<ExplainedFile> FileExplainer::Explain(const elf::ReadAt& read, uint64_t size) {
  const auto ranges = RangesOf(read, size, bounds_.file_bytes);
  if (!ranges.ok()) return ranges.status();
  ExplainedFile file;
  Findings findings(hardened_, bounds_.text_bytes, &left_text_bytes_);
  fatbin::ContainerCount containers;
  uint64_t left_of_file = bounds_.file_bytes;
  for (const elf::FileRange& range : *ranges) {
    if (range.bytes > left_bytes_) {
      return absl::ResourceExhaustedError(absl::StrCat("it comes after other files, and ",
                                                       ShownBytes(bounds_.all_files_bytes),
                                                       " are the most that is looked into"));
    }
    if (range.bytes > left_of_file) {
      file.doubts.push_back("it has more device code than is looked into");
      break;
    }
    left_bytes_ -= range.bytes;
    left_of_file -= range.bytes;
    const auto count = fatbin::ScanContainers(
        read, range.offset, range.offset + range.bytes,
        [&findings](std::string_view container) { findings.AddContainer(container); });
    containers.read += count.read;
    containers.too_large += count.too_large;
  }
  if (containers.too_large > 0) {
    file.doubts.push_back(
        absl::StrCat(containers.too_large, " fatbin containers are too large to be looked into"));
  }
  const std::string beginning = read(0, kMostFirstLine);
  auto interpreter = InterpreterOf(beginning);
  if (elf::IsElf(beginning)) {
    file.kind = ExplainedFile::Kind::kElf;
  } else if (interpreter.has_value() && containers.read == 0) {
    file.kind = ExplainedFile::Kind::kScript;
    file.interpreter = *std::move(interpreter);
  } else if (containers.read > 0 ||
             (size <= bounds_.text_bytes && findings.AddFile(read(0, size)))) {
    file.kind = ExplainedFile::Kind::kDeviceCode;
  }
  findings.MoveTo(&file);
  return file;
}

}  // namespace warpline::cli
