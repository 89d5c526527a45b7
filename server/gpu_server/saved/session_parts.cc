#include "server/gpu_server/saved/session_parts.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/sealed_memory.h"
#include "common/transfer_all.h"
#include "common/version.h"
#include "server/hostlink/handover/journal_file.h"
#include "server/hostlink/handover/variable_file.h"

namespace warpline::server {
namespace {

using warpline_internal::SavedSession;

constexpr char kMemory[] = "memory";
constexpr char kJournal[] = "journal";
constexpr char kVariables[] = "variables";

// More is no session's.
constexpr int kMostStaging = 16;
constexpr uint64_t kMostStagingBytes = 64u << 20;
constexpr uint64_t kMostMemoryBytes = uint64_t{1} << 50;
constexpr size_t kPieceBytes = 1u << 20;
constexpr size_t kSecretBytes = 16;

// In front of the bytes of one extent.
struct ExtentHead {
  uint64_t offset;
  uint64_t bytes;
};

std::string StagingName(int number) { return absl::StrCat("staging-", number); }

absl::Status Malformed(const std::string& part, const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("the session's ", part, ": ", what));
}

// Adds `bytes` of a file, from `offset` on.
absl::Status AddFrom(int from, uint64_t offset, uint64_t bytes, PartSink* to) {
  while (bytes > 0) {
    std::string piece(std::min<uint64_t>(bytes, kPieceBytes), '\0');
    const Transfer got = TransferAll(piece.size(), [&](uint64_t done, uint64_t left) {
      return pread(from, piece.data() + done, left, static_cast<off_t>(offset + done));
    });
    if (got.bytes < piece.size()) {
      return absl::InternalError("the session's memory cannot be read");
    }
    offset += piece.size();
    bytes -= piece.size();
    if (const absl::Status added = to->Add(std::move(piece)); !added.ok()) return added;
  }
  return absl::OkStatus();
}

// Copies the next `bytes` of the source to a file, at `offset`.
absl::Status ReadTo(PartSource* from, int to, uint64_t offset, uint64_t bytes) {
  std::string piece;
  while (bytes > 0) {
    piece.resize(std::min<uint64_t>(bytes, kPieceBytes));
    const absl::Status read = from->Next(piece.data(), piece.size());
    if (!read.ok()) return read;
    const Transfer put = TransferAll(piece.size(), [&](uint64_t done, uint64_t left) {
      return pwrite(to, piece.data() + done, left, static_cast<off_t>(offset + done));
    });
    if (put.bytes < piece.size()) {
      return absl::ResourceExhaustedError("no memory for the session's bytes");
    }
    offset += piece.size();
    bytes -= piece.size();
  }
  return absl::OkStatus();
}

absl::Status AddHead(ExtentHead head, PartSink* to) {
  return to->Add(std::string(reinterpret_cast<const char*>(&head), sizeof(head)));
}

// Adds what a sparse file holds.
absl::Status AddExtents(const std::string& part, int from, PartSink* to) {
  if (const absl::Status begun = to->Begin(part); !begun.ok()) return begun;
  off_t end = 0;
  while (true) {
    const off_t begin = lseek(from, end, SEEK_DATA);
    if (begin < 0 && errno == ENXIO) break;
    if (begin < 0 || (end = lseek(from, begin, SEEK_HOLE)) < 0) {
      return absl::InternalError(absl::StrCat("the session's ", part, ": ", std::strerror(errno)));
    }
    const ExtentHead head = {static_cast<uint64_t>(begin), static_cast<uint64_t>(end - begin)};
    absl::Status added = AddHead(head, to);
    if (added.ok()) added = AddFrom(from, head.offset, head.bytes, to);
    if (!added.ok()) return added;
  }
  const absl::Status last = AddHead({static_cast<uint64_t>(end), 0}, to);
  return last.ok() ? to->End() : last;
}

// Fills memory of `most` zeros with what AddExtents() gave.
absl::Status ReadExtents(const std::string& part, PartSource* from, int to, uint64_t most) {
  if (const absl::Status begun = from->Begin(part); !begun.ok()) return begun;
  uint64_t end = 0;
  while (true) {
    ExtentHead head;
    absl::Status read = from->Next(reinterpret_cast<char*>(&head), sizeof(head));
    if (!read.ok()) return read;
    if (head.bytes == 0) return from->End();
    if (head.offset < end || head.offset > most || head.bytes > most - head.offset) {
      return Malformed(part, "an extent outside of it");
    }
    read = ReadTo(from, to, head.offset, head.bytes);
    if (!read.ok()) return read;
    end = head.offset + head.bytes;
  }
}

std::string BitsOf(const std::vector<bool>& used) {
  std::string bits((used.size() + 7) / 8, '\0');
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i]) bits[i / 8] = static_cast<char>(bits[i / 8] | (1 << (i % 8)));
  }
  return bits;
}

}  // namespace

absl::StatusOr<std::shared_ptr<AwayMemory>> TakeMemory(const SavedSession& manifest,
                                                       const SwapSpace* space,
                                                       const PlaceTaker& take) {
  uint64_t bytes = 0;
  for (const auto& range : manifest.range()) {
    if (range.bytes() == 0 || range.bytes() % SwapSpace::kGranule != 0 ||
        range.bytes() > kMostMemoryBytes - bytes) {
      return Malformed(kMemory, "a range of no size that there is");
    }
    bytes += range.bytes();
  }
  const uint64_t granules = bytes / SwapSpace::kGranule;
  if (manifest.used().size() != (granules + 7) / 8) {
    return Malformed(kMemory, "it is of other ranges");
  }
  auto away = std::make_shared<AwayMemory>();
  for (uint64_t i = 0; i < granules; ++i) {
    away->used.push_back((manifest.used()[i / 8] >> (i % 8) & 1) != 0);
  }
  if (granules == 0) return std::shared_ptr<AwayMemory>();
  if (space == nullptr) {
    return absl::FailedPreconditionError(
        "the server has no host memory for sessions of other servers (--swap_host)");
  }
  auto place = take(away->held_bytes());
  if (absl::IsResourceExhausted(place.status())) {
    return absl::ResourceExhaustedError(
        absl::StrCat(away->held_bytes(), " bytes of the session do not fit into --swap_host: ",
                     std::string(place.status().message())));
  }
  if (!place.ok()) return place.status();
  uint64_t taken = 0;
  for (const SwapSpace::Extent& extent : place->extents()) taken += extent.bytes;
  if (taken != away->held_bytes()) return Malformed(kMemory, "it is of another size");
  away->place = *std::move(place);
  return away;
}

namespace {

// Holds parts in this process's memory.
class KeptParts : public PartSink, public PartSource {
 public:
  // Both PartSink's and PartSource's.
  absl::Status Begin(const std::string& part) override {
    part_ = &parts_[part];
    read_ = 0;
    return absl::OkStatus();
  }
  absl::Status Add(std::string bytes) override {
    part_->append(bytes);
    return absl::OkStatus();
  }
  absl::Status Next(char* to, size_t bytes) override {
    if (bytes > part_->size() - read_) return absl::InternalError("a part ends too early");
    part_->copy(to, bytes, read_);
    read_ += bytes;
    return absl::OkStatus();
  }
  absl::Status End() override { return absl::OkStatus(); }

 private:
  std::map<std::string, std::string> parts_;
  std::string* part_ = nullptr;
  size_t read_ = 0;
};

absl::Status ReadMemory(PartSource* from, SwapSpace* space, SessionCut* cut) {
  auto away =
      TakeMemory(cut->manifest, space, [space](uint64_t bytes) { return space->Take(bytes); });
  if (!away.ok()) return away.status();
  absl::Status read = from->Begin(kMemory);
  if (*away != nullptr) {
    for (const SwapSpace::Extent& extent : (*away)->place.extents()) {
      if (!read.ok()) break;
      read = ReadTo(from, space->block_fd(extent.block), extent.offset, extent.bytes);
    }
  }
  if (read.ok()) read = from->End();
  if (read.ok()) cut->away = *std::move(away);
  return read;
}

absl::Status ReadStaging(PartSource* from, SessionCut* cut) {
  const SavedSession& manifest = cut->manifest;
  if (manifest.staging_size() > kMostStaging) {
    return Malformed("staging memory", "more than a session has");
  }
  for (int i = 0; i < manifest.staging_size(); ++i) {
    const uint64_t bytes = manifest.staging(i).bytes();
    if (bytes > kMostStagingBytes) return Malformed(StagingName(i), "more than a session has");
    auto memory = NewSealedMemory("warpline-host", bytes);
    if (!memory.ok()) return memory.status();
    const absl::Status read = ReadExtents(StagingName(i), from, memory->get(), bytes);
    if (!read.ok()) return read;
    cut->staging.push_back(*std::move(memory));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SavedSession> ParseManifest(const std::string& bytes) {
  SavedSession manifest;
  if (!manifest.ParseFromString(bytes)) return absl::InvalidArgumentError("not a manifest");
  if (manifest.format() != kSavedSessionFormat) {
    return absl::FailedPreconditionError(absl::StrCat("the session is in format ",
                                                      manifest.format(), ", and this server reads ",
                                                      kSavedSessionFormat));
  }
  if (manifest.secret().size() != kSecretBytes) {
    return absl::InvalidArgumentError("a session without a secret");
  }
  return manifest;
}

uint64_t HeldBytes(const std::vector<SessionCut>& cuts) {
  uint64_t bytes = 0;
  for (const SessionCut& cut : cuts) {
    if (cut.away != nullptr) bytes += cut.away->held_bytes();
  }
  return bytes;
}

std::vector<uint64_t> NumbersOf(const std::vector<SessionCut>& cuts) {
  std::vector<uint64_t> numbers;
  for (const SessionCut& cut : cuts) numbers.push_back(cut.manifest.session());
  return numbers;
}

void DescribeParts(SessionCut* cut) {
  cut->manifest.set_format(kSavedSessionFormat);
  cut->manifest.set_server_version(kVersion);
  cut->manifest.set_has_variables(cut->variables.valid());
  if (cut->away != nullptr) cut->manifest.set_used(BitsOf(cut->away->used));
}

absl::Status AddState(const SessionCut& cut, PartSink* to) {
  absl::Status added = AddExtents(kJournal, cut.journal.get(), to);
  if (added.ok() && cut.variables.valid()) {
    added = AddExtents(kVariables, cut.variables.get(), to);
  }
  for (size_t i = 0; i < cut.staging.size() && added.ok(); ++i) {
    added = AddExtents(StagingName(static_cast<int>(i)), cut.staging[i].get(), to);
  }
  return added;
}

absl::Status AddParts(const SessionCut& cut, const SwapSpace* space, PartSink* to) {
  absl::Status added = AddState(cut, to);
  if (added.ok()) added = to->Begin(kMemory);
  if (cut.away != nullptr) {
    for (const SwapSpace::Extent& extent : cut.away->place.extents()) {
      if (!added.ok()) break;
      added = AddFrom(space->block_fd(extent.block), extent.offset, extent.bytes, to);
    }
  }
  return added.ok() ? to->End() : added;
}

absl::Status ReadState(PartSource* from, SessionCut* cut) {
  auto journal = JournalFile::CreateMemory();
  if (!journal.ok()) return journal.status();
  cut->journal = *std::move(journal);
  absl::Status read = ReadExtents(kJournal, from, cut->journal.get(), kJournalBytes);
  if (!read.ok()) return read;
  cut->variables = UniqueFd();
  if (cut->manifest.has_variables()) {
    auto variables = CreateVariableFile();
    if (!variables.ok()) return variables.status();
    cut->variables = *std::move(variables);
    read = ReadExtents(kVariables, from, cut->variables.get(), kVariableFileBytes);
    if (!read.ok()) return read;
  }
  cut->staging.clear();
  return ReadStaging(from, cut);
}

absl::Status CopyState(SessionCut* cut) {
  DescribeParts(cut);
  KeptParts parts;
  const absl::Status added = AddState(*cut, &parts);
  return added.ok() ? ReadState(&parts, cut) : added;
}

absl::StatusOr<SessionCut> ReadParts(SavedSession manifest, SwapSpace* space, PartSource* from) {
  SessionCut cut;
  cut.manifest = std::move(manifest);
  absl::Status read = ReadState(from, &cut);
  if (read.ok()) read = ReadMemory(from, space, &cut);
  if (!read.ok()) return read;
  return cut;
}

}  // namespace warpline::server
