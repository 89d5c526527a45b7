#include "common/vetted/program_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/text_file.h"
#include "common/unique_fd.h"

namespace warpline {
namespace {

constexpr size_t kMostNameBytes = 64;
constexpr size_t kMostFileBytes = 256 << 10;
constexpr char kSuffix[] = ".program";

std::string PathOf(const std::string& dir, absl::string_view name) {
  return absl::StrCat(dir, "/", name, kSuffix);
}

absl::Status CheckFolder(const std::string& dir) {
  struct stat info;
  if (stat(dir.c_str(), &info) != 0) return absl::ErrnoToStatus(errno, dir);
  if (!S_ISDIR(info.st_mode)) return absl::NotFoundError(absl::StrCat(dir, " is no folder"));
  const bool own = info.st_uid == 0 || info.st_uid == geteuid();
  if (!own || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        dir, " says what tenants may run: only root or the server's user may write to it"));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsProgramName(absl::string_view name) {
  return !name.empty() && name.size() <= kMostNameBytes && name[0] != '.' &&
         absl::c_all_of(name, [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
         });
}

absl::StatusOr<std::vector<VettedImage>> ParseProgram(absl::string_view text) {
  std::vector<VettedImage> images;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    VettedImage image;
    if (words.size() != 3 || !ParseHash(std::string(words[0]), &image.hash) ||
        !absl::SimpleAtoi(words[1], &image.bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, " is no SHA-256, number of bytes and kind"));
    }
    image.what = std::string(words[2]);
    images.push_back(std::move(image));
  }
  return images;
}

absl::StatusOr<VettedFolder> ReadVettedFolder(const std::string& dir,
                                              std::vector<std::string>* unreadable) {
  if (const absl::Status usable = CheckFolder(dir); !usable.ok()) return usable;
  VettedFolder folder;
  size_t count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string file = entry->path().filename();
    absl::string_view name = file;
    if (!absl::ConsumeSuffix(&name, kSuffix) || !IsProgramName(name)) continue;
    const auto text = ReadTextFile(entry->path(), kMostFileBytes);
    auto images = text.ok() ? ParseProgram(*text) : text.status();
    if (!images.ok()) {
      unreadable->push_back(absl::StrCat(file, ": ", images.status().message()));
      continue;
    }
    count += images->size();
    folder.emplace(name, *std::move(images));
  }
  if (error) return absl::ErrnoToStatus(error.value(), dir);
  if (count > kMostVettedImages) {
    return absl::ResourceExhaustedError(absl::StrCat(dir, " lists ", count, " images, and at most ",
                                                     kMostVettedImages, " can be vetted"));
  }
  return folder;
}

absl::Status WriteProgram(const std::string& dir, const std::string& name, const std::string& from,
                          const std::vector<VettedImage>& images) {
  if (!IsProgramName(name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", name, "\" is no name: letters, digits, dots, hyphens and underscores, at most ",
        kMostNameBytes));
  }
  std::string text = absl::StrCat("# Written by `warpline program add ", name, " ", from, "`\n");
  for (const VettedImage& image : images) {
    absl::StrAppend(&text, HashText(image.hash), " ", image.bytes, " ", image.what, "\n");
  }
  if (mkdir(dir.c_str(), 0755) != 0 && errno != EEXIST) return absl::ErrnoToStatus(errno, dir);
  // A name that no reader takes for a program's.
  const std::string partial = absl::StrCat(dir, "/.", name, ".partial");
  UniqueFd fd(open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, partial);
  const bool written =
      write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      fsync(fd.get()) == 0 && rename(partial.c_str(), PathOf(dir, name).c_str()) == 0;
  if (written) return absl::OkStatus();
  const absl::Status failed = absl::ErrnoToStatus(errno, PathOf(dir, name));
  unlink(partial.c_str());
  return failed;
}

absl::Status RemoveProgram(const std::string& dir, const std::string& name) {
  if (!IsProgramName(name)) return absl::NotFoundError(absl::StrCat("no program ", name));
  if (unlink(PathOf(dir, name).c_str()) == 0) return absl::OkStatus();
  if (errno == ENOENT) return absl::NotFoundError(absl::StrCat("no program ", name, " in ", dir));
  return absl::ErrnoToStatus(errno, PathOf(dir, name));
}

}  // namespace warpline
