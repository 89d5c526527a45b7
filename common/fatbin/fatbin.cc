#include "common/fatbin/fatbin.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/elf/elf_header.h"
#include "common/fatbin/format.h"

namespace warpline::fatbin {
namespace {

constexpr size_t kMaxEntries = 65536;

absl::StatusOr<std::vector<ImageEntry>> ParseContainer(std::string_view bytes) {
  if (bytes.size() < kContainerHeaderBytes) {
    return absl::InvalidArgumentError("fatbin header cut short");
  }
  const auto header_bytes = LoadAt<uint16_t>(bytes.data(), 6);
  const auto entries_bytes = LoadAt<uint64_t>(bytes.data(), 8);
  if (header_bytes < kContainerHeaderBytes || header_bytes > bytes.size() ||
      entries_bytes > bytes.size() - header_bytes) {
    return absl::InvalidArgumentError("fatbin larger than its bytes");
  }
  std::string_view rest = bytes.substr(header_bytes, entries_bytes);
  std::vector<ImageEntry> entries;
  while (rest.size() >= kEntryHeaderBytes) {
    const auto kind = LoadAt<uint16_t>(rest.data(), 0);
    const auto entry_header = LoadAt<uint32_t>(rest.data(), 4);
    const auto payload_bytes = LoadAt<uint64_t>(rest.data(), 8);
    const auto compressed_bytes = LoadAt<uint32_t>(rest.data(), 16);
    if (entry_header < kEntryHeaderBytes || entry_header > kMaxEntryHeaderBytes ||
        entry_header > rest.size() || payload_bytes > rest.size() - entry_header) {
      return absl::InvalidArgumentError(
          absl::StrCat("fatbin entry ", entries.size(), " larger than the container"));
    }
    if (entries.size() >= kMaxEntries) return absl::InvalidArgumentError("too many entries");
    ImageEntry entry;
    entry.kind = kind == kKindPtx   ? ImageKind::kPtx
                 : kind == kKindElf ? ImageKind::kElf
                                    : ImageKind::kOther;
    entry.sm = LoadAt<uint32_t>(rest.data(), 28);
    entry.flags = LoadAt<uint64_t>(rest.data(), 40);
    entry.uncompressed_bytes = LoadAt<uint64_t>(rest.data(), 56);
    entry.payload = rest.substr(entry_header, payload_bytes);
    if ((entry.flags & (kFlagLz4 | kFlagZstd)) != 0) {
      entry.compression = (entry.flags & kFlagZstd) != 0 ? Compression::kZstd : Compression::kLz4;
      if (compressed_bytes > payload_bytes) {
        return absl::InvalidArgumentError("compressed entry larger than its payload");
      }
      entry.payload = entry.payload.substr(0, compressed_bytes);
    }
    entries.push_back(entry);
    rest.remove_prefix(entry_header + payload_bytes);
  }
  return entries;
}

// The architecture of a cubin: e_flags holds it, at a place that depends on the ABI version.
uint32_t CubinArchitecture(const Elf64_Ehdr& header) {
  return header.e_ident[EI_ABIVERSION] >= 8 ? header.e_flags >> 8 & 0xff : header.e_flags & 0xff;
}

absl::StatusOr<std::string> DecompressZstd(std::string_view in, size_t out_bytes) {
  std::string out(out_bytes, '\0');
  const size_t written = ZSTD_decompress(out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(written) != 0 || written != out_bytes) {
    return absl::InvalidArgumentError("damaged zstd entry");
  }
  return out;
}

absl::StatusOr<std::string> DecompressLz4(std::string_view in, size_t out_bytes) {
  std::string out(out_bytes, '\0');
  const int written = LZ4_decompress_safe(in.data(), out.data(), static_cast<int>(in.size()),
                                          static_cast<int>(out.size()));
  if (written < 0 || static_cast<size_t>(written) != out_bytes) {
    return absl::InvalidArgumentError("damaged LZ4 entry");
  }
  return out;
}

// PTX starts with a directive or a comment.
bool LooksLikePtx(std::string_view bytes) {
  const size_t start = bytes.find_first_not_of(" \t\r\n\f\v");
  return start != std::string_view::npos && (bytes[start] == '.' || bytes[start] == '/');
}

}  // namespace

absl::StatusOr<std::vector<ImageEntry>> ParseImage(std::string_view bytes) {
  if (bytes.size() >= sizeof(uint32_t) && LoadAt<uint32_t>(bytes.data(), 0) == kContainerMagic) {
    return ParseContainer(bytes);
  }
  ImageEntry entry;
  entry.payload = bytes;
  if (elf::IsElf(bytes)) {
    const auto header = elf::ReadHeader(elf::InMemory(bytes));
    if (!header.has_value()) return absl::InvalidArgumentError("cubin cut short");
    entry.kind = ImageKind::kElf;
    entry.sm = CubinArchitecture(*header);
    return std::vector<ImageEntry>{entry};
  }
  if (LooksLikePtx(bytes)) {
    entry.kind = ImageKind::kPtx;
    return std::vector<ImageEntry>{entry};
  }
  return absl::InvalidArgumentError("neither a fatbin, nor a cubin, nor PTX");
}

absl::StatusOr<std::string> EntryPayload(const ImageEntry& entry, size_t max_bytes) {
  const bool compressed = entry.compression != Compression::kNone;
  const uint64_t bytes = compressed ? entry.uncompressed_bytes : entry.payload.size();
  if (bytes > max_bytes || bytes > kMaxPayloadBytes ||
      (compressed && entry.payload.size() > kMaxPayloadBytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("image entry of ", bytes, " bytes"));
  }
  absl::StatusOr<std::string> payload =
      entry.compression == Compression::kZstd  ? DecompressZstd(entry.payload, bytes)
      : entry.compression == Compression::kLz4 ? DecompressLz4(entry.payload, bytes)
                                               : std::string(entry.payload);
  if (payload.ok() && entry.kind == ImageKind::kPtx) {
    const size_t end = payload->find('\0');
    if (end != std::string::npos) payload->resize(end);
  }
  return payload;
}

std::vector<std::string_view> FindContainers(std::string_view file) {
  std::vector<std::string_view> containers;
  size_t at = file.find(ContainerMagic());
  while (at != std::string_view::npos) {
    const std::string_view rest = file.substr(at);
    const uint64_t bytes = ContainerBytes(rest, rest.size());
    if (bytes != 0) containers.push_back(rest.substr(0, bytes));
    at = file.find(ContainerMagic(), at + std::max<uint64_t>(bytes, ContainerMagic().size()));
  }
  return containers;
}

namespace {

// Names a few of the architectures that the PTX is for.
std::string WhyNoPtx(const std::vector<ImageEntry>& entries, uint32_t device) {
  constexpr size_t kMostNamed = 8;
  std::set<std::string> targets;
  for (const ImageEntry& entry : entries) {
    if (entry.kind != ImageKind::kPtx || targets.size() > kMostNamed) continue;
    const bool specific = (entry.flags & kFlagArchSpecific) != 0;
    const bool family = (entry.flags & kFlagFamily) != 0;
    targets.insert(absl::StrCat("sm_", entry.sm, specific ? "a" : family ? "f" : ""));
  }
  if (targets.empty()) return "it has machine code alone, and no PTX";
  const bool more = targets.size() > kMostNamed;
  if (more) targets.erase(std::prev(targets.end()));
  return absl::StrCat("it has PTX for other devices alone (", absl::StrJoin(targets, ", "),
                      more ? " and more" : "", "), and this one is sm_", device);
}

absl::StatusOr<std::string> NewestPtx(const std::vector<ImageEntry>& entries, uint32_t device) {
  const ImageEntry* best = nullptr;
  const auto rank = [](const ImageEntry& entry) {
    return std::pair(entry.sm, entry.flags & (kFlagArchSpecific | kFlagFamily));
  };
  for (const ImageEntry& entry : entries) {
    if (entry.kind != ImageKind::kPtx || entry.sm > device) continue;
    if ((entry.flags & kFlagArchSpecific) != 0 && entry.sm != device) continue;
    if ((entry.flags & kFlagFamily) != 0 && entry.sm / 10 != device / 10) continue;
    if (best == nullptr || rank(entry) > rank(*best)) best = &entry;
  }
  if (best == nullptr) return absl::NotFoundError(WhyNoPtx(entries, device));
  return EntryPayload(*best);
}

}  // namespace

absl::StatusOr<std::string> PtxOf(std::string_view image, int sm) {
  const absl::StatusOr<std::vector<ImageEntry>> entries = ParseImage(image);
  if (!entries.ok()) return entries.status();
  return NewestPtx(*entries, static_cast<uint32_t>(sm));
}

absl::StatusOr<std::string> PtxToCompile(std::string_view image, int sm) {
  const absl::StatusOr<std::vector<ImageEntry>> entries = ParseImage(image);
  if (!entries.ok()) return entries.status();
  const auto device = static_cast<uint32_t>(sm);
  for (const ImageEntry& entry : *entries) {
    if (entry.kind == ImageKind::kElf && entry.sm <= device && entry.sm / 10 == device / 10) {
      return absl::NotFoundError("the image has machine code for this device");
    }
  }
  return NewestPtx(*entries, device);
}

bool MayPrint(std::string_view bytes, uint64_t max_bytes) {
  const absl::StatusOr<std::vector<ImageEntry>> entries = ParseImage(bytes);
  if (!entries.ok()) return false;
  const auto prints = [](std::string_view code) {
    return code.find("vprintf") != std::string_view::npos ||
           code.find("__assertfail") != std::string_view::npos;
  };
  uint64_t left = max_bytes;
  for (const ImageEntry& entry : *entries) {
    if (entry.kind == ImageKind::kOther) continue;
    if (entry.compression == Compression::kNone) {
      if (prints(entry.payload)) return true;
      continue;
    }
    // What an entry claims is paid for even if it holds less.
    if (entry.uncompressed_bytes > left) return true;
    left -= entry.uncompressed_bytes;
    const absl::StatusOr<std::string> payload = EntryPayload(entry);
    if (payload.ok() ? prints(*payload) : absl::IsResourceExhausted(payload.status())) return true;
  }
  return false;
}

}  // namespace warpline::fatbin
