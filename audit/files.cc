#include "audit/files.h"

#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "audit/record.h"

namespace warpline::audit {
namespace {

constexpr absl::string_view kPrefix = "audit-";
constexpr absl::string_view kSuffix = ".jsonl";

}  // namespace

std::string FileName(uint64_t number) {
  return absl::StrFormat("%s%08d%s", kPrefix, number, kSuffix);
}

absl::StatusOr<std::vector<uint64_t>> ListFiles(const std::string& dir) {
  std::error_code error;
  std::vector<uint64_t> numbers;
  auto entry = std::filesystem::directory_iterator(dir, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!absl::StartsWith(name, kPrefix) || !absl::EndsWith(name, kSuffix)) continue;
    uint64_t number = 0;
    const std::string digits =
        name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
    if (absl::SimpleAtoi(digits, &number) && FileName(number) == name) numbers.push_back(number);
  }
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot list the audit's folder ", dir));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

absl::StatusOr<UniqueFd> OpenFile(const std::string& dir, uint64_t number) {
  const std::string path = absl::StrCat(dir, "/", FileName(number));
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  return file;
}

std::optional<std::string> LineReader::Next() {
  size_t searched = start_;
  while (true) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(start_, end - start_);
      bytes_ += end + 1 - start_;
      start_ = end + 1;
      return line;
    }
    buffer_.erase(0, std::exchange(start_, 0));
    if (buffer_.size() > kMaxLine) {
      bytes_ += buffer_.size();
      return std::exchange(buffer_, std::string());
    }
    searched = buffer_.size();
    char part[16384];
    const ssize_t size = read(file_.get(), part, sizeof(part));
    if (size <= 0) return std::nullopt;
    buffer_.append(part, static_cast<size_t>(size));
  }
}

}  // namespace warpline::audit
