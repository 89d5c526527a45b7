#include "common/elf/dynamic_section.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"

namespace warpline::elf {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kStringBlock = 256;

absl::Status Damaged(const char* what) { return absl::InvalidArgumentError(what); }

// Reads the file by the addresses at which the loader maps it. The loader goes by addresses alone,
// whatever offsets a header claims beside them.
class MappedFile {
 public:
  MappedFile(std::vector<Elf64_Phdr> segments, const ReadAt& read)
      : segments_(std::move(segments)), read_(read) {}

  // The segment of a type; null without one.
  const Elf64_Phdr* Find(uint32_t type) const {
    const auto at = std::find_if(segments_.begin(), segments_.end(),
                                 [type](const Elf64_Phdr& one) { return one.p_type == type; });
    return at == segments_.end() ? nullptr : &*at;
  }

  // Returns at most `bytes` bytes; fewer where the segment ends.
  std::string Read(uint64_t address, uint64_t bytes) const {
    // A later segment is mapped over an earlier one, and each begins with its page.
    for (auto at = segments_.rbegin(); at != segments_.rend(); ++at) {
      if (at->p_type != PT_LOAD) continue;
      const uint64_t before = at->p_vaddr % kPage;
      if (at->p_offset < before || at->p_filesz > UINT64_MAX - before) continue;
      const uint64_t from = at->p_vaddr - before, mapped = at->p_filesz + before;
      if (address < from || address - from >= mapped) continue;
      const uint64_t into = address - from;
      const uint64_t offset = at->p_offset - before;
      if (into > UINT64_MAX - offset) continue;
      return read_(offset + into, std::min(bytes, mapped - into));
    }
    return "";
  }

  // Returns the text up to a NUL; nothing where that does not come within `most` bytes.
  std::optional<std::string> String(uint64_t address, size_t most) const {
    std::string text;
    while (text.size() <= most) {
      const std::string block = Read(address + text.size(), kStringBlock);
      const size_t end = block.find('\0');
      text.append(block, 0, end);
      if (end != std::string::npos) break;
      if (block.empty()) return std::nullopt;
    }
    if (text.size() > most) return std::nullopt;
    return text;
  }

 private:
  const std::vector<Elf64_Phdr> segments_;
  const ReadAt& read_;
};

using Entries = std::vector<Elf64_Dyn>;

absl::StatusOr<Entries> ReadEntries(const MappedFile& file, uint64_t address) {
  const std::string table = file.Read(address, kMostDynamicEntries * sizeof(Elf64_Dyn));
  Entries entries;
  for (size_t at = 0; at + sizeof(Elf64_Dyn) <= table.size(); at += sizeof(Elf64_Dyn)) {
    const auto entry = LoadAt<Elf64_Dyn>(table, at);
    if (entry.d_tag == DT_NULL) return entries;
    entries.push_back(entry);
  }
  return Damaged("its dynamic section has no end within the file or is too long");
}

// The value of the last entry with the tag, as the loader takes it; nothing without one.
std::optional<uint64_t> ValueOf(const Entries& entries, int64_t tag) {
  std::optional<uint64_t> value;
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == tag) value = entry.d_un.d_val;
  }
  return value;
}

bool NamesALibrary(int64_t tag) {
  return tag == DT_NEEDED || tag == DT_FILTER || tag == DT_AUXILIARY;
}

}  // namespace

absl::StatusOr<DynamicSection> ReadDynamicSection(const ReadAt& read) {
  const auto header = ReadHeader(read);
  if (!header.has_value() || !IsForX86_64(*header)) {
    return Damaged("it is no ELF file for 64-bit x86");
  }
  const MappedFile file(ReadSegments(*header, read), read);
  DynamicSection section;
  const Elf64_Phdr* const dynamic = file.Find(PT_DYNAMIC);
  if (dynamic == nullptr) return section;
  const auto entries = ReadEntries(file, dynamic->p_vaddr);
  if (!entries.ok()) return entries.status();
  const std::optional<uint64_t> strings = ValueOf(*entries, DT_STRTAB);
  const auto text = [&](uint64_t at, size_t most) {
    return strings.has_value() ? file.String(*strings + at, most) : std::nullopt;
  };
  for (const Elf64_Dyn& entry : *entries) {
    if (!NamesALibrary(entry.d_tag)) continue;
    auto name = text(entry.d_un.d_val, kMostNameBytes);
    if (!name.has_value()) return Damaged("the name of a library that it needs cannot be read");
    if (section.libraries.size() >= kMostNeeded) return Damaged("it needs too many libraries");
    section.libraries.push_back(*std::move(name));
  }
  std::string auditors, auditors_of_libraries;
  const std::pair<int64_t, std::string*> single[] = {{DT_SONAME, &section.soname},
                                                     {DT_RPATH, &section.rpath},
                                                     {DT_RUNPATH, &section.runpath},
                                                     {DT_AUDIT, &auditors},
                                                     {DT_DEPAUDIT, &auditors_of_libraries}};
  for (const auto& [tag, to] : single) {
    const std::optional<uint64_t> at = ValueOf(*entries, tag);
    if (!at.has_value()) continue;
    const auto value = text(*at, kMostListBytes);
    if (!value.has_value()) return Damaged("where its libraries lie cannot be read");
    *to = *value;
  }
  for (const std::string& list : {auditors, auditors_of_libraries}) {
    const std::vector<std::string> names = absl::StrSplit(list, ':', absl::SkipEmpty());
    section.libraries.insert(section.libraries.end(), names.begin(), names.end());
  }
  if (section.libraries.size() > kMostNeeded) return Damaged("it needs too many libraries");
  section.has_runpath = ValueOf(*entries, DT_RUNPATH).has_value();
  if (section.has_runpath) section.rpath.clear();
  section.no_default_folders = (ValueOf(*entries, DT_FLAGS_1).value_or(0) & DF_1_NODEFLIB) != 0;
  return section;
}

}  // namespace warpline::elf
