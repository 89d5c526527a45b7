#include "tools/cli/program.h"

#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/crypto/content_hash.h"
#include "common/fatbin/container_scan.h"
#include "common/fatbin/fatbin.h"
#include "common/plain_file.h"
#include "common/vetted/program_folder.h"
#include "tools/cli/table.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

constexpr char kDefaultDir[] = "/etc/warpline/programs";

// Collects images, each once.
class Images {
 public:
  void Add(std::string_view bytes, const char* what) {
    VettedImage image;
    if (!HashContent(bytes, &image.hash)) return;
    image.bytes = bytes.size();
    image.what = what;
    Add(std::move(image));
  }
  void Add(VettedImage image) {
    if (known_.insert(image.hash).second) images_.push_back(std::move(image));
  }
  // Adds the PTX texts of an image, which the client sends where machine code does not run.
  void AddTexts(std::string_view image) {
    const auto entries = fatbin::ParseImage(image);
    if (!entries.ok()) return;
    for (const fatbin::ImageEntry& entry : *entries) {
      if (entry.kind != fatbin::ImageKind::kPtx) continue;
      const auto text = fatbin::EntryPayload(entry);
      if (text.ok()) Add(*text, "ptx");
    }
  }
  std::vector<VettedImage> Take() { return std::move(images_); }
  bool empty() const { return images_.empty(); }

 private:
  std::set<ContentHash> known_;
  std::vector<VettedImage> images_;
};

// Returns the images of device code of a program, library, fatbin, cubin or PTX text, as the client
// library sends them: each container, and each PTX text that it sends in a container's place. The
// file is read as data, and may be hostile. INVALID_ARGUMENT for a file without device code, and
// the errors of PlainFile::Open().
absl::StatusOr<std::vector<VettedImage>> ImagesOf(const std::string& path) {
  const auto file = PlainFile::Open(path);
  if (!file.ok()) return file.status();
  Images images;
  const auto count = fatbin::ScanContainers(
      [&file](uint64_t offset, uint64_t bytes) { return file->Read(offset, bytes); }, 0,
      file->size(),
      [&images](std::string_view container) {
        images.Add(container, "fatbin");
        images.AddTexts(container);
      });
  if (count.too_large > 0) {
    return absl::InvalidArgumentError(absl::StrCat(path,
                                                   " has a fatbin container that is larger than ",
                                                   ShownBytes(fatbin::kMostContainerBytes)));
  }
  if (images.empty() && file->size() <= fatbin::kMostContainerBytes) {
    const std::string bytes = file->Read(0, file->size());
    const auto entries = fatbin::ParseImage(bytes);
    if (entries.ok() && entries->size() == 1) {
      if (entries->front().kind == fatbin::ImageKind::kElf) images.Add(bytes, "cubin");
      images.AddTexts(bytes);
    }
  }
  if (images.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     " has no device code: expected a program, a library, a fatbin, a cubin "
                     "or PTX"));
  }
  return images.Take();
}

absl::StatusOr<std::string> Add(const std::string& dir, const std::vector<std::string>& words) {
  Images all;
  for (size_t i = 1; i < words.size(); ++i) {
    auto of_file = ImagesOf(words[i]);
    if (!of_file.ok()) return of_file.status();
    for (VettedImage& image : *of_file) all.Add(std::move(image));
  }
  const std::vector<VettedImage> images = all.Take();
  // Otherwise servers would read none of the folder's.
  std::vector<std::string> unreadable;
  const auto folder = ReadVettedFolder(dir, &unreadable);
  if (!folder.ok() && !absl::IsNotFound(folder.status())) return folder.status();
  size_t count = images.size();
  if (folder.ok()) {
    for (const auto& [name, others] : *folder) count += name == words[0] ? 0 : others.size();
  }
  if (count > kMostVettedImages) {
    return absl::ResourceExhaustedError(absl::StrCat("there would be ", count, " images in ", dir,
                                                     ", and at most ", kMostVettedImages,
                                                     " can be vetted"));
  }
  const absl::Status written = WriteProgram(
      dir, words[0], words.size() == 2 ? words[1] : absl::StrCat(words[1], " ..."), images);
  if (!written.ok()) return written;
  return absl::StrCat("program ", words[0], ": ", images.size(), " images vetted in ", dir, "\n");
}

absl::StatusOr<std::string> List(const std::string& dir, bool json) {
  std::vector<std::string> unreadable;
  const auto folder = ReadVettedFolder(dir, &unreadable);
  if (!folder.ok()) return folder.status();
  for (const std::string& why : unreadable) {
    Complain("warpline", absl::StrCat("left out: ", Shown(why)), 0);
  }
  Table table({{"PROGRAM"}, {"IMAGES", true}, {"BYTES", true}});
  std::string rows;
  for (const auto& [name, images] : *folder) {
    uint64_t bytes = 0;
    std::string hashes;
    for (const VettedImage& image : images) {
      bytes += image.bytes;
      absl::StrAppend(&hashes, hashes.empty() ? "" : ", ", "\"", HashText(image.hash), "\"");
    }
    table.Add({name, absl::StrCat(images.size()), ShownBytes(bytes)});
    absl::StrAppend(&rows, rows.empty() ? "" : ",", "\n  {\"name\": \"", name, "\", \"sha256\": [",
                    hashes, "]}");
  }
  if (json) return absl::StrCat("{\"programs\": [", rows, "]}\n");
  return table.Text();
}

}  // namespace

absl::StatusOr<std::string> Program(const CommandLine& line) {
  const std::string dir = line.Has("dir") ? line.Text("dir") : kDefaultDir;
  if (line.action == "add") return Add(dir, line.rest);
  if (line.action == "list") return List(dir, line.Has("json"));
  const absl::Status removed = RemoveProgram(dir, line.rest[0]);
  if (!removed.ok()) return removed;
  return absl::StrCat("program ", line.rest[0], ": removed\n");
}

}  // namespace warpline::cli
