#include "server/worker/code/guarded_output.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/cuda/print_format.h"
#include "proto/guard.h"

namespace warpline::worker {
namespace {

using guard::Record;
using guard::RecordKind;
using guard::RecordsHeader;

constexpr uint64_t kPage = 4096;
// In one copy from the device.
constexpr uint32_t kRecordsAtOnce = 200;

std::string Place(const Record& record) {
  const auto& b = record.block;
  const auto& t = record.thread;
  return absl::StrCat("block: [", b[0], ",", b[1], ",", b[2], "], thread: [", t[0], ",", t[1], ",",
                      t[2], "]");
}

}  // namespace

// The device says where there is memory: a page that it cannot read ends the string.
bool RecordReader::ReadString(uint64_t address, std::string* text) {
  text->clear();
  while (text->size() < kMostText) {
    const uint64_t at = address + text->size();
    if (page_.empty() || at - page_at_ >= page_.size()) {
      page_at_ = at / kPage * kPage;
      page_.resize(kPage);
      if (copies_.Read(page_at_, page_.data(), kPage) != CudaResult::kSuccess) {
        page_.clear();
        return !text->empty();
      }
    }
    const std::string_view rest = std::string_view(page_).substr(at - page_at_);
    const size_t end = rest.find('\0');
    text->append(rest.substr(0, std::min(end, kMostText - text->size())));
    if (end != std::string_view::npos) break;
  }
  return true;
}

void RecordReader::Print(const Record& record, std::string* text) {
  std::string format;
  if (!ReadString(record.text, &format)) return;
  const auto argument = [&](uint64_t offset, uint32_t bytes, uint64_t* value) {
    if (bytes > sizeof(record.arguments) || offset > sizeof(record.arguments) - bytes) return false;
    *value = 0;
    std::memcpy(value, reinterpret_cast<const char*>(record.arguments) + offset, bytes);
    return true;
  };
  const auto string = [&](uint64_t address, std::string* out) { return ReadString(address, out); };
  int arguments = 0;
  // What cannot be read ends the text.
  (void)FormatPrint(format, {argument, string}, text, &arguments);
}

CudaResult RecordReader::Show(const Record& record, const OutputSource::Emit& emit, size_t* shown) {
  std::string text;
  switch (static_cast<RecordKind>(record.kind)) {
    case RecordKind::kPrint:
      if (*shown < kMostOutput) Print(record, &text);
      *shown += text.size();
      if (!text.empty()) emit(1, text);
      return CudaResult::kSuccess;
    case RecordKind::kAssert: {
      std::string message, file, function;
      (void)ReadString(record.text, &message);
      (void)ReadString(record.file, &file);
      (void)ReadString(record.function, &function);
      text = absl::StrCat(file, ":", record.line, ": ", function, ": ", Place(record),
                          " Assertion `", message, "` failed.\n");
      if (*shown < kMostOutput) emit(2, text);
      *shown += text.size();
      return CudaResult::kAssert;
    }
    case RecordKind::kTrap:
      text = absl::StrCat("warpline: guard: a kernel trapped at line ", record.line,
                          " of its PTX, ", Place(record), "\n");
      if (*shown < kMostOutput) emit(2, text);
      *shown += text.size();
      return CudaResult::kLaunchFailed;
    case RecordKind::kTooDeep:
      text =
          absl::StrCat("warpline: guard: a function called itself more than ", record.text,
                       " levels deep at line ", record.line, " of its PTX, ", Place(record), "\n");
      if (*shown < kMostOutput) emit(2, text);
      *shown += text.size();
      return CudaResult::kHardwareStackError;
    case RecordKind::kOutOfBounds:
    case RecordKind::kMisaligned:
    case RecordKind::kOutOfShared:
      // Of thousands of threads with the same mistake one is shown.
      if (++found_[record.line] == 1 && *shown < kMostOutput) {
        text = Describe(record);
        *shown += text.size();
        emit(2, text);
      }
      return static_cast<RecordKind>(record.kind) == RecordKind::kMisaligned
                 ? CudaResult::kMisalignedAddress
                 : CudaResult::kIllegalAddress;
    case RecordKind::kNone:
      break;
  }
  return CudaResult::kSuccess;
}

CudaResult RecordReader::ShowParted(const RecordsHeader& header, const OutputSource::Emit& emit) {
  if (header.parted_line == 0) return CudaResult::kSuccess;
  if (!std::exchange(parted_shown_, true)) {
    emit(2, absl::StrCat("warpline: guard: a kernel came to line ", header.parted_line,
                         " of its PTX, a barrier or a matrix instruction, with a part of a warp, "
                         "whose threads ended\n"));
  }
  return CudaResult::kLaunchFailed;
}

std::string RecordReader::Describe(const Record& record) {
  guard::CheckSite site;
  const bool known = code_->FindSite(record.line, &site);
  const char* const access = !known ? "access" : site.writes ? "write" : "read";
  const auto kind = static_cast<RecordKind>(record.kind);
  std::string text = absl::StrCat(
      "warpline: check: ", kind == RecordKind::kMisaligned ? "misaligned " : "out-of-bounds ",
      access, " of ", record.file, " bytes at ",
      kind == RecordKind::kOutOfShared ? "shared memory's " : "", "0x", absl::Hex(record.text));
  if (kind == RecordKind::kOutOfBounds) absl::StrAppend(&text, Beside(record.text));
  if (known) {
    absl::StrAppend(&text, " in ", absl::CEscape(site.function));
    if (!site.source.empty()) absl::StrAppend(&text, " at ", absl::CEscape(site.source));
    absl::StrAppend(&text, " (line ", site.line, " of its PTX: ", absl::CEscape(site.statement),
                    ")");
  }
  absl::StrAppend(&text, ", ", Place(record), "\n");
  return text;
}

void RecordReader::AppendRanges(uint64_t table, std::vector<CheckedRange>* ranges) {
  CheckedRangesHeader header;
  if (copies_.Read(table, &header, sizeof(header)) != CudaResult::kSuccess || header.count == 0 ||
      header.count > kMostCheckedRanges) {
    return;
  }
  std::vector<CheckedRange> found(header.count);
  if (copies_.Read(table + sizeof(header), found.data(), found.size() * sizeof(CheckedRange)) ==
      CudaResult::kSuccess) {
    ranges->insert(ranges->end(), found.begin(), found.end());
  }
}

std::string RecordReader::Beside(uint64_t address) {
  std::vector<CheckedRange> ranges;
  for (uint64_t i = 0; code_->ranges() != 0 && i < kCheckedTables; ++i) {
    AppendRanges(code_->ranges() + i * kCheckedTableBytes, &ranges);
  }
  // The table is the tenant's word, too: it may not be in order.
  const CheckedRange* below = nullptr;
  const CheckedRange* above = nullptr;
  for (const CheckedRange& range : ranges) {
    if (range.begin <= address && (below == nullptr || range.begin > below->begin)) below = &range;
    if (range.begin > address && (above == nullptr || range.begin < above->begin)) above = &range;
  }
  const auto of = [](const CheckedRange& range) {
    return absl::StrCat(range.end - range.begin, " bytes at 0x", absl::Hex(range.begin));
  };
  if (below != nullptr && address < below->end) {
    return absl::StrCat(", which begins in and leaves ", of(*below), ",");
  }
  // What lies further away has nothing to do with it.
  constexpr uint64_t kNear = uint64_t{16} << 20;
  const uint64_t behind = below == nullptr ? UINT64_MAX : address - below->end;
  const uint64_t before = above == nullptr ? UINT64_MAX : above->begin - address;
  if (std::min(behind, before) > kNear) return ", which is nobody's,";
  if (behind <= before) {
    return absl::StrCat(", ", behind, " bytes behind ", of(*below), ",");
  }
  return absl::StrCat(", ", before, " bytes before ", of(*above), ",");
}

CudaResult RecordReader::Collect(bool at_rest, const OutputSource::Emit& emit) {
  const uint64_t ring = code_->records();
  if (ring == 0) return CudaResult::kSuccess;
  RecordsHeader header;
  if (copies_.Read(ring, &header, sizeof(header)) != CudaResult::kSuccess) {
    return CudaResult::kSuccess;
  }
  const uint32_t taken = std::min(header.taken, GuardedModules::kRecords);
  page_.clear();  // The tenant may have written there.
  size_t shown = 0;
  CudaResult first = ShowParted(header, emit);
  bool complete = true;
  while (read_ < taken && complete) {
    const uint32_t count = std::min(taken - read_, kRecordsAtOnce);
    records_.resize(count);
    if (copies_.Read(ring + sizeof(header) + uint64_t{read_} * sizeof(Record), records_.data(),
                     count * sizeof(Record)) != CudaResult::kSuccess) {
      return first;
    }
    for (const Record& record : records_) {
      // One that is being written; the next look shows it and what comes behind it.
      complete = record.kind != 0 || at_rest;
      if (!complete) break;
      ++read_;
      const CudaResult ended = Show(record, emit, &shown);
      if (first == CudaResult::kSuccess) first = ended;
    }
  }
  for (const auto& [number, threads] : found_) {
    guard::CheckSite site;
    if (threads == 1 || !code_->FindSite(number, &site)) continue;
    emit(2, absl::StrCat("warpline: check: ... and ", threads - 1, " more threads at line ",
                         site.line, " of ", absl::CEscape(site.function), "\n"));
  }
  found_.clear();
  if (at_rest && (header.taken != 0 || header.parted_line != 0)) {
    const RecordsHeader empty = {.room = GuardedModules::kRecords};
    // The records first, so that none is taken for one of the next kernel's.
    if (copies_.Zero(ring + sizeof(header), uint64_t{taken} * sizeof(Record)) ==
            CudaResult::kSuccess &&
        copies_.Write(ring, {reinterpret_cast<const char*>(&empty), sizeof(empty)}) ==
            CudaResult::kSuccess) {
      read_ = 0;
      parted_shown_ = false;
    }
  }
  return first;
}

GuardedOutput::GuardedOutput(OutputSource* driver, GuardNotes* notes,
                             std::vector<GuardedModules*> devices)
    : driver_(driver), notes_(notes) {
  for (GuardedModules* const code : devices) {
    readers_.push_back(std::make_unique<RecordReader>(code));
  }
}

CudaResult GuardedOutput::Collect(bool at_rest, const Emit& emit) {
  CudaResult first = driver_ != nullptr ? driver_->Collect(at_rest, emit) : CudaResult::kSuccess;
  for (const auto& reader : readers_) {
    const CudaResult result = reader->Collect(at_rest, emit);
    if (first == CudaResult::kSuccess) first = result;
  }
  return first;
}

void GuardedOutput::CollectNotes(const Emit& emit) {
  for (const std::string& line : notes_->Take()) {
    emit(2, absl::StrCat("warpline: guard: ", line, "\n"));
  }
}

}  // namespace warpline::worker
