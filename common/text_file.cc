#include "common/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/unique_fd.h"

namespace warpline {
namespace {

constexpr absl::string_view kUtf8Mark = "\xef\xbb\xbf";
constexpr absl::string_view kUtf16Marks[] = {"\xff\xfe", "\xfe\xff"};

absl::Status Unreadable(const std::string& path, absl::StatusCode code, absl::string_view why) {
  return absl::Status(code, absl::StrCat("cannot read ", path, ": ", why));
}

absl::Status Unreadable(const std::string& path, int error) {
  const auto code = error == ENOENT || error == ENOTDIR ? absl::StatusCode::kNotFound
                    : error == EACCES || error == EPERM ? absl::StatusCode::kPermissionDenied
                                                        : absl::StatusCode::kInvalidArgument;
  return Unreadable(path, code, std::strerror(error));
}

bool IsUtf16(absl::string_view text) {
  return std::any_of(
      std::begin(kUtf16Marks), std::end(kUtf16Marks),
      [text](absl::string_view mark) { return text.substr(0, mark.size()) == mark; });
}

// What a file may be, besides one that anybody owns.
enum class Kind { kFile, kFileOrPipe, kOwnFile };

absl::Status CheckKind(const std::string& path, int file, Kind kind) {
  struct stat about = {};
  if (fstat(file, &about) != 0) return Unreadable(path, errno);
  if (S_ISDIR(about.st_mode)) return Unreadable(path, EISDIR);
  if (kind != Kind::kFileOrPipe && !S_ISREG(about.st_mode)) {
    return Unreadable(path, absl::StatusCode::kInvalidArgument, "it is not a file");
  }
  if (kind == Kind::kOwnFile && about.st_uid != geteuid()) {
    return Unreadable(path, absl::StatusCode::kPermissionDenied, "it is another user's");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadText(const std::string& path, size_t max_bytes, Kind kind) {
  // Opening a pipe would wait for the process that writes it.
  const int wait = kind == Kind::kFileOrPipe ? 0 : O_NONBLOCK;
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | wait));
  if (!file.valid()) return Unreadable(path, errno);
  if (auto status = CheckKind(path, file.get(), kind); !status.ok()) return status;
  std::string bytes;
  char block[4096];
  while (true) {
    const ssize_t got = read(file.get(), block, sizeof(block));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unreadable(path, errno);
    if (got == 0) break;
    bytes.append(block, static_cast<size_t>(got));
    if (bytes.size() > max_bytes) {
      return Unreadable(path, absl::StatusCode::kInvalidArgument,
                        absl::StrCat("it has more than ", max_bytes, " bytes"));
    }
  }
  auto text = TextOf(std::move(bytes));
  if (text.ok()) return text;
  return Unreadable(path, text.status().code(), text.status().message());
}

absl::StatusOr<std::string> ReadWord(const std::string& path, Kind kind) {
  const auto text = ReadText(path, kMaxWordBytes, kind);
  if (!text.ok()) return text.status();
  auto word = OnlyWordOf(*text);
  if (word.ok()) return word;
  return Unreadable(path, word.status().code(), word.status().message());
}

}  // namespace

absl::StatusOr<std::string> TextOf(std::string bytes) {
  if (IsUtf16(bytes)) {
    return absl::InvalidArgumentError("it is UTF-16: save it as UTF-8 or plain ASCII");
  }
  if (absl::StartsWith(bytes, kUtf8Mark)) bytes.erase(0, kUtf8Mark.size());
  return bytes;
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t max_bytes) {
  return ReadText(path, max_bytes, Kind::kFile);
}

absl::StatusOr<std::string> ReadWordFile(const std::string& path) {
  return ReadWord(path, Kind::kFileOrPipe);
}

absl::StatusOr<std::string> ReadOwnWordFile(const std::string& path) {
  return ReadWord(path, Kind::kOwnFile);
}

absl::StatusOr<std::string> OnlyWordOf(absl::string_view text) {
  absl::ConsumePrefix(&text, kUtf8Mark);
  const absl::string_view word = absl::StripAsciiWhitespace(text);
  if (word.empty()) return absl::InvalidArgumentError("it is empty");
  if (std::any_of(word.begin(), word.end(), absl::ascii_isspace)) {
    return absl::InvalidArgumentError("it has more than one word");
  }
  if (std::any_of(word.begin(), word.end(), absl::ascii_iscntrl)) {
    return absl::InvalidArgumentError("it has characters that are no text");
  }
  return std::string(word);
}

}  // namespace warpline
