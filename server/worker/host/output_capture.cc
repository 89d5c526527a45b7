#include "server/worker/host/output_capture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "common/sealed_memory.h"

// In sanitizer builds it sets where their findings go.
extern "C" void __attribute__((weak)) __sanitizer_set_report_fd(void* descriptor);

namespace warpline::worker {
namespace {

// Twice what may be pending. A writer starts again at the front once half of the file was passed
// on. It must not do so earlier, because a writer that does not know of this lock may be writing
// meanwhile.
constexpr off_t kFileBytes = 2 * OutputCapture::kMaxPending;
constexpr size_t kPieceBytes = 64u << 10;
constexpr off_t kPageBytes = 4096;

absl::Status Errno(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputCapture>> OutputCapture::Install() {
  auto capture = absl::WrapUnique(new OutputCapture);
  capture->streams_[0] = {STDOUT_FILENO, stdout, UniqueFd()};
  capture->streams_[1] = {STDERR_FILENO, stderr, UniqueFd()};
  const int log = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 16);
  if (log < 0) return Errno("descriptor of the log");
  SetLogDescriptor(log);
  if (__sanitizer_set_report_fd != nullptr) {
    __sanitizer_set_report_fd(reinterpret_cast<void*>(static_cast<intptr_t>(log)));
  }
  for (Stream& stream : capture->streams_) {
    const absl::Status status = Replace(&stream);
    if (!status.ok()) return status;
  }
  return capture;
}

absl::Status OutputCapture::Replace(Stream* stream) {
  absl::StatusOr<UniqueFd> file = NewSealedMemory("warpline-output", kFileBytes);
  if (!file.ok()) return file.status();
  stream->file = *std::move(file);
  if (dup2(stream->file.get(), stream->descriptor) < 0) {
    return Errno("descriptor of what kernels print");
  }
  return absl::OkStatus();
}

CudaResult OutputCapture::Collect(bool, const Emit& emit) {
  for (Stream& stream : streams_) Drain(&stream, emit);
  return CudaResult::kSuccess;
}

void OutputCapture::Drain(Stream* stream, const std::function<void(int, std::string_view)>& emit) {
  // Holds back threads that print with stdio.
  flockfile(stream->stdio);
  if (fflush_unlocked(stream->stdio) != 0) clearerr_unlocked(stream->stdio);
  const int file = stream->file.get();
  const off_t end = std::min(lseek(file, 0, SEEK_CUR), kFileBytes);
  std::vector<char> piece(stream->read < end ? kPieceBytes : 0);
  while (stream->read < end) {
    const size_t want = std::min<off_t>(kPieceBytes, end - stream->read);
    const ssize_t got = pread(file, piece.data(), want, stream->read);
    if (got <= 0) break;
    emit(stream->descriptor, std::string_view(piece.data(), static_cast<size_t>(got)));
    stream->read += got;
  }
  if (const off_t pages = stream->read / kPageBytes * kPageBytes; pages > 0) {
    fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, pages);
  }
  if (stream->read >= kMaxPending && lseek(file, 0, SEEK_SET) == 0) stream->read = 0;
  funlockfile(stream->stdio);
}

}  // namespace warpline::worker
