#include "server/compiler/frozen_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::compiler {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

}  // namespace

absl::StatusOr<UniqueFd> NewFile(const char* name) {
  UniqueFd file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return absl::ResourceExhaustedError(absl::StrCat("memfd_create, ", errno));
  return file;
}

absl::Status Freeze(int fd) {
  if (fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("a file cannot be sealed, ", errno));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> FrozenFile(const char* name, std::string_view bytes) {
  auto file = NewFile(name);
  if (!file.ok()) return file;
  absl::Status status = WriteAll(file->get(), bytes);
  if (status.ok()) status = Freeze(file->get());
  if (!status.ok()) return status;
  return file;
}

absl::StatusOr<uint64_t> FrozenBytes(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  struct stat info = {};
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_size < 0) {
    return absl::InvalidArgumentError("a descriptor is not of sealed memory");
  }
  return static_cast<uint64_t>(info.st_size);
}

absl::StatusOr<FrozenView> FrozenView::Map(int fd, uint64_t most) {
  const auto bytes = FrozenBytes(fd);
  if (!bytes.ok()) return bytes.status();
  if (*bytes > most) return absl::ResourceExhaustedError("a file is too large");
  if (*bytes == 0) return FrozenView();
  void* const address = mmap(nullptr, *bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return absl::ResourceExhaustedError("a file cannot be mapped");
  return FrozenView({static_cast<const char*>(address), *bytes});
}

FrozenView::FrozenView(FrozenView&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

FrozenView& FrozenView::operator=(FrozenView&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

FrozenView::~FrozenView() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

absl::Status WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return absl::ResourceExhaustedError(absl::StrCat("write, ", errno));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace warpline::compiler
