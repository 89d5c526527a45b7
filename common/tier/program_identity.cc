#include "common/tier/program_identity.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/crypto/content_hash.h"
#include "common/plain_file.h"
#include "common/tier/file_survey.h"
#include "common/unique_fd.h"

namespace warpline::tier {
namespace {

constexpr uint64_t kMostHashed = uint64_t{64} << 20;
constexpr uint64_t kBlock = uint64_t{64} << 10;
static_assert(kMostHashed % kBlock == 0);
constexpr size_t kMostWords = 16;
constexpr size_t kMostCommandLine = size_t{256} << 10;
constexpr std::string_view kInterpreters[] = {"python", "pypy", "perl",    "ruby", "node", "julia",
                                              "R",      "lua",  "luajit",  "java", "sh",   "bash",
                                              "dash",   "zsh",  "Rscript", "php",  "tclsh"};

// Adds the size and the beginning of a plain file.
bool AddFile(const std::string& path, ContentHasher* hasher) {
  const auto file = PlainFile::Open(path);
  if (!file.ok()) return false;
  hasher->Add(absl::StrCat("file ", file->about().st_size, ":"));
  for (uint64_t at = 0; at < kMostHashed; at += kBlock) {
    const std::string block = file->Read(at, kBlock);
    hasher->Add(block);
    if (block.size() < kBlock) break;
  }
  return true;
}

void AddWord(std::string_view word, ContentHasher* hasher) {
  hasher->Add(absl::StrCat("word ", word.size(), ":"));
  hasher->Add(word);
}

// Adds what an interpreter is told to run, and the options before it.
void AddScript(const std::vector<std::string>& arguments, ContentHasher* hasher) {
  const size_t end = std::min(arguments.size(), kMostWords);
  for (size_t i = 1; i < end; ++i) {
    const std::string& word = arguments[i];
    // The value of an option, such as "-W ignore", is no file as a rule.
    if (!word.starts_with("-") && AddFile(word, hasher)) return;
    AddWord(word, hasher);
    const bool names_next = word == "-c" || word == "-e" || word == "-m";
    if (names_next && i + 1 < arguments.size()) return AddWord(arguments[i + 1], hasher);
  }
}

std::vector<std::string> OwnArguments() {
  std::vector<std::string> arguments;
  const UniqueFd file(open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return arguments;
  std::string text;
  char buffer[4096];
  while (text.size() < kMostCommandLine) {
    const ssize_t got = read(file.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  // Each ends with a NUL.
  if (text.ends_with('\0')) text.pop_back();
  arguments = absl::StrSplit(text, '\0');
  return arguments;
}

std::string Identify(const std::string& executable, std::string_view name,
                     const std::vector<std::string>& arguments) {
  ContentHasher hasher;
  if (!AddFile(executable, &hasher)) return "";
  if (IsInterpreter(name)) AddScript(arguments, &hasher);
  ContentHash hash;
  return hasher.Finish(&hash) ? HashText(hash) : "";
}

}  // namespace

bool IsInterpreter(std::string_view file_name) {
  // Without the version.
  const std::string_view name = file_name.substr(0, file_name.find_last_not_of("0123456789.") + 1);
  return std::find(std::begin(kInterpreters), std::end(kInterpreters), name) !=
         std::end(kInterpreters);
}

std::string IdentifyProgram(const std::string& executable,
                            const std::vector<std::string>& arguments) {
  return Identify(executable, FileName(executable), arguments);
}

std::string IdentifySelf() {
  char path[PATH_MAX];
  const ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path));
  if (bytes <= 0 || static_cast<size_t>(bytes) >= sizeof(path)) return "";
  // The file may have been replaced by another of its name.
  return Identify("/proc/self/exe", FileName({path, static_cast<size_t>(bytes)}), OwnArguments());
}

}  // namespace warpline::tier
