#include "common/tier/keyed_lines.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/unique_fd.h"

namespace warpline::tier {
namespace {

using Line = std::pair<std::string, std::string>;

constexpr int kTries = 50;
constexpr absl::Duration kPause = absl::Milliseconds(4);

bool IsKey(std::string_view key) {
  for (const char c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && std::string_view("-_.:").find(c) == std::string_view::npos) return false;
  }
  return !key.empty();
}

bool IsValue(std::string_view value) {
  for (const char c : value) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return !value.empty();
}

bool IsLine(std::string_view key, std::string_view value) {
  return IsKey(key) && IsValue(value) && key.size() + value.size() + 2 <= KeyedLines::kMostLine;
}

// Makes the folder, and those above it.
bool MakeFolder(const std::string& folder) {
  if (folder.empty() || folder[0] != '/') return false;
  for (size_t slash = folder.find('/', 1); slash != std::string::npos;
       slash = folder.find('/', slash + 1)) {
    mkdir(folder.substr(0, slash).c_str(), 0700);
  }
  return mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
}

// One of the user's: in another's, its owner would choose what is read and written.
UniqueFd OpenFolder(const std::string& folder) {
  if (folder.empty()) return UniqueFd();
  UniqueFd opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat is;
  if (!opened.valid() || fstat(opened.get(), &is) != 0 || is.st_uid != geteuid()) {
    return UniqueFd();
  }
  return opened;
}

// A plain file of the user's. `flags` may not wait for whatever has that name.
UniqueFd OpenOwn(int folder, const std::string& name, int flags) {
  UniqueFd file(
      openat(folder, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600));
  struct stat is;
  if (!file.valid() || fstat(file.get(), &is) != 0) return UniqueFd();
  if (!S_ISREG(is.st_mode) || is.st_uid != geteuid()) return UniqueFd();
  return file;
}

std::string ReadAll(int file, size_t most_bytes) {
  std::string text;
  char buffer[4096];
  while (text.size() <= most_bytes) {
    const ssize_t got = read(file, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? "" : text;
    text.append(buffer, static_cast<size_t>(got));
  }
  return "";
}

bool WriteAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(file, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    text.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

// In the order in which they were written.
std::vector<Line> ReadLines(int folder, const std::string& name, size_t most_bytes) {
  std::vector<Line> lines;
  const UniqueFd file = OpenOwn(folder, name, O_RDONLY);
  if (!file.valid()) return lines;
  const std::string text = ReadAll(file.get(), most_bytes);
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, blank), value = line.substr(blank + 1);
    if (IsLine(key, value)) lines.emplace_back(key, value);
  }
  return lines;
}

// Holds the writers' lock until it is destroyed. The child of a fork that got a copy of the
// descriptor does not hold it on.
class WriterLock {
 public:
  WriterLock(int folder, const std::string& name) : file_(OpenOwn(folder, name, O_RDWR | O_CREAT)) {
    for (int i = 0; i < kTries && file_.valid() && !held_; ++i) {
      if (i > 0) absl::SleepFor(kPause);
      held_ = flock(file_.get(), LOCK_EX | LOCK_NB) == 0;
    }
  }
  ~WriterLock() {
    if (held_) flock(file_.get(), LOCK_UN);
  }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;
  bool held() const { return held_; }

 private:
  const UniqueFd file_;
  bool held_ = false;
};

std::string TextOf(const std::vector<Line>& lines, size_t most_lines, size_t most_bytes) {
  size_t first = lines.size(), bytes = 0;
  while (first > 0 && lines.size() - first < most_lines) {
    const auto& [key, value] = lines[first - 1];
    bytes += key.size() + value.size() + 2;
    if (bytes > most_bytes) break;
    --first;
  }
  std::string text;
  for (; first < lines.size(); ++first) {
    absl::StrAppend(&text, lines[first].first, " ", lines[first].second, "\n");
  }
  return text;
}

}  // namespace

std::map<std::string, std::string> KeyedLines::Read() const {
  std::map<std::string, std::string> found;
  const UniqueFd folder = OpenFolder(options_.folder);
  if (!folder.valid()) return found;
  for (Line& line : ReadLines(folder.get(), options_.name, options_.most_bytes)) {
    found[std::move(line.first)] = std::move(line.second);
  }
  return found;
}

bool KeyedLines::Put(const std::map<std::string, std::string>& lines) const {
  if (!MakeFolder(options_.folder)) return false;
  const UniqueFd folder = OpenFolder(options_.folder);
  if (!folder.valid()) return false;
  const WriterLock lock(folder.get(), options_.name + ".lock");
  if (!lock.held()) return false;
  std::vector<Line> all = ReadLines(folder.get(), options_.name, options_.most_bytes);
  std::erase_if(all, [&lines](const Line& line) { return lines.count(line.first) != 0; });
  for (const auto& [key, value] : lines) {
    if (IsLine(key, value)) all.emplace_back(key, value);
  }
  // One writer at a time has the name, so that none who is killed leaves ever more files.
  const std::string next = options_.name + ".new";
  unlinkat(folder.get(), next.c_str(), 0);
  const UniqueFd file = OpenOwn(folder.get(), next, O_WRONLY | O_CREAT | O_EXCL);
  if (!file.valid()) return false;
  const bool written =
      WriteAll(file.get(), TextOf(all, options_.most_lines, options_.most_bytes)) &&
      renameat(folder.get(), next.c_str(), folder.get(), options_.name.c_str()) == 0;
  if (!written) unlinkat(folder.get(), next.c_str(), 0);
  return written;
}

std::string CacheFolder() {
  const char* const cache = secure_getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return absl::StrCat(cache, "/warpline");
  const char* const home = secure_getenv("HOME");
  if (home == nullptr || home[0] != '/') return "";
  return absl::StrCat(home, "/.cache/warpline");
}

}  // namespace warpline::tier
