#include "audit/audit_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/files.h"
#include "common/log/log.h"

namespace warpline::audit {
namespace {

absl::Status Failed(absl::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("the audit's record: cannot ", what, " ", path));
}

// Keeps other servers out of the folder.
absl::StatusOr<UniqueFd> HoldFolder(const std::string& dir) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(dir).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) return Failed("make", dir);
  const UniqueFd folder(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status = {};
  if (!folder.valid() || fstat(folder.get(), &status) != 0) return Failed("open", dir);
  if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the audit's folder ", dir, " must be this user's, and writable by no other"));
  }
  UniqueFd lock(openat(folder.get(), "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) return Failed("open", absl::StrCat(dir, "/lock"));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("another process writes the audit's record in ", dir));
  }
  return lock;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditWriter>> AuditWriter::Open(AuditWriterOptions options) {
  auto lock = HoldFolder(options.dir);
  if (!lock.ok()) return lock.status();
  std::unique_ptr<AuditWriter> writer(new AuditWriter(std::move(options), *std::move(lock)));
  if (absl::Status begun = writer->Begin(); !begun.ok()) return begun;
  return writer;
}

absl::Status AuditWriter::Begin() {
  const auto files = ListFiles(options_.dir);
  if (!files.ok()) return files.status();
  if (files->empty()) return NextFile({.event = Event::kBegan});
  const uint64_t last = files->back();
  auto tail = ReadTail(options_.dir, last);
  if (!tail.ok()) return tail.status();
  if (tail->lines == 0 && !tail->fault.has_value() && files->size() > 1) {
    // The server ended when it had just made the file.
    const auto before = ReadTail(options_.dir, (*files)[files->size() - 2]);
    if (!before.ok()) return before.status();
    tail->head = before->head;
    tail->fault = before->fault;
  }
  return GoOnAfter(last, *tail);
}

absl::Status AuditWriter::GoOnAfter(uint64_t number, const Tail& tail) {
  number_ = number;
  head_ = tail.head;
  written_ = head_;
  if (tail.fault.has_value()) {
    const std::string reason = tail.fault->Text();
    LogError("audit: the record was changed, a new chain begins: ", reason);
    Record broken = {.event = Event::kBroken, .texts = {{"reason", reason}}};
    if (head_.seq != 0) broken.texts.emplace_back("last_hash", head_.hash);
    return NextFile(std::move(broken));
  }
  if (!tail.torn.empty()) {
    LogWarning("audit: ", FileName(number),
               " ends in the beginning of a line: the next file begins");
    return NextFile({.event = Event::kRecovered,
                     .texts = {{"after", FileName(number)}, {"torn_sha256", HashOf(tail.torn)}},
                     .numbers = {{"torn_bytes", tail.torn.size()}}});
  }
  if (absl::Status opened = OpenFile(number, /*there=*/true); !opened.ok()) return opened;
  bytes_ = tail.bytes;
  if (tail.bytes > 0) return absl::OkStatus();
  AddLine({.event = head_.seq == 0 ? Event::kBegan : Event::kContinued});
  return Flush();
}

absl::Status AuditWriter::OpenFile(uint64_t number, bool there) {
  const std::string path = absl::StrCat(options_.dir, "/", FileName(number));
  const int how = there ? 0 : O_CREAT | O_EXCL;
  UniqueFd file(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | how, 0600));
  if (!file.valid()) return Failed("open", path);
  file_ = std::move(file);
  number_ = number;
  bytes_ = 0;
  return absl::OkStatus();
}

// `first` is what the next file begins with.
absl::Status AuditWriter::NextFile(Record first) {
  absl::Status opened = OpenFile(number_ + 1, /*there=*/false);
  if (!opened.ok()) return opened;
  AddLine(std::move(first));
  return Flush();
}

void AuditWriter::AddLine(Record record) {
  if (record.time == absl::InfinitePast()) record.time = options_.clock();
  const bool begins = record.event == Event::kBroken || head_.seq == 0;
  const std::string line = FormatLine(record, head_.seq + 1, begins ? NoHash() : head_.hash);
  head_ = {head_.seq + 1, HashOf(line)};
  absl::StrAppend(&pending_, line, "\n");
  bytes_ += line.size() + 1;
}

absl::Status AuditWriter::Flush() {
  while (!pending_.empty()) {
    const ssize_t size = write(file_.get(), pending_.data(), pending_.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      return absl::UnavailableError(std::string(
          Failed("write", absl::StrCat(options_.dir, "/", FileName(number_))).message()));
    }
    pending_.erase(0, static_cast<size_t>(size));
  }
  written_ = head_;
  return absl::OkStatus();
}

absl::Status AuditWriter::Append(const Record& record) {
  if (absl::Status flushed = Flush(); !flushed.ok()) return flushed;
  if (bytes_ >= options_.file_bytes) {
    if (absl::Status synced = Sync(); !synced.ok()) return synced;
    const absl::Status next =
        NextFile({.event = Event::kContinued, .texts = {{"after", FileName(number_)}}});
    if (!next.ok()) return absl::UnavailableError(std::string(next.message()));
    Prune();
  }
  AddLine(record);
  // What the disk does not take now is completed by the next call.
  Flush().IgnoreError();
  return absl::OkStatus();
}

absl::Status AuditWriter::Sync() {
  if (absl::Status flushed = Flush(); !flushed.ok()) return flushed;
  return fdatasync(file_.get()) == 0
             ? absl::OkStatus()
             : absl::UnavailableError(std::string(Failed("sync", options_.dir).message()));
}

void AuditWriter::Prune() {
  auto files = ListFiles(options_.dir);
  if (!files.ok()) return;
  for (size_t i = 0; i + options_.files < files->size(); ++i) {
    // What it ended in is what the next one began with.
    auto after = audit::OpenFile(options_.dir, (*files)[i + 1]);
    if (!after.ok()) return;
    const auto text = LineReader(*std::move(after)).Next();
    const auto line = ParseLine(text.value_or(""));
    Record pruned = {.event = Event::kPruned, .texts = {{"file", FileName((*files)[i])}}};
    if (line.ok()) {
      pruned.texts.emplace_back("head", line->prev);
      pruned.numbers.emplace_back("through", line->seq - 1);
    }
    AddLine(std::move(pruned));
    // Not before the record says so.
    if (!Flush().ok()) return;
    unlink(absl::StrCat(options_.dir, "/", FileName((*files)[i])).c_str());
  }
}

}  // namespace warpline::audit
