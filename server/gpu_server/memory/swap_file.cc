#include "server/gpu_server/memory/swap_file.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/crypto/piece_cipher.h"
#include "common/crypto/secret.h"
#include "common/transfer_all.h"

namespace warpline::server {
namespace {

constexpr uint64_t kPieceBytes = SwapSpace::kGranule;
// The system reserves this much at a time, so that a caller that wants to stop waits for little.
constexpr uint64_t kReserveBytes = 1u << 30;

bool MeansFull(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

// Returns what an operator can do about an error of the directory.
absl::string_view AdviceFor(int error) {
  switch (error) {
    case ENOENT:
      return "create the directory or name another one";
    case ENOTDIR:
      return "name a directory";
    case EACCES:
    case EPERM:
      return "let the server's user write to the directory or name another one";
    case EROFS:
      return "mount the file system for writing or name another directory";
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "make room in the file system or name a directory of another one";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files";
    default:
      return "check the file system or name a directory of another one";
  }
}

absl::StatusCode CodeFor(int error) {
  switch (error) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case ENOTDIR:
      return absl::StatusCode::kInvalidArgument;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::StatusCode::kResourceExhausted;
    default:
      return MeansFull(error) ? absl::StatusCode::kResourceExhausted
                              : absl::StatusCode::kUnavailable;
  }
}

absl::Status DirectoryError(const std::string& directory, absl::string_view what, int error) {
  return absl::Status(CodeFor(error),
                      absl::StrCat("cannot ", what, " a swap file in \"", directory,
                                   "\": ", std::strerror(error), "; ", AdviceFor(error)));
}

absl::Status FileError(const std::string& directory, absl::string_view what, int error) {
  const std::string text = absl::StrCat("cannot ", what, " the swap file in \"", directory,
                                        "\": ", std::strerror(error));
  return MeansFull(error) ? absl::ResourceExhaustedError(text) : absl::UnavailableError(text);
}

absl::Status Stopped(const std::string& directory) {
  return absl::CancelledError(
      absl::StrCat("the work on the swap file in \"", directory, "\" was stopped"));
}

// Opens a file that has no name and can get none.
absl::StatusOr<UniqueFd> OpenWithoutName(const std::string& directory) {
  UniqueFd file(open(directory.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (file.valid()) return file;
  // EISDIR is the answer of kernels that do not know O_TMPFILE.
  if (errno != EOPNOTSUPP && errno != EISDIR) return DirectoryError(directory, "create", errno);
  std::string path = absl::StrCat(directory, "/warpline-swap-XXXXXX");
  file.Reset(mkostemp(path.data(), O_CLOEXEC));
  if (!file.valid()) return DirectoryError(directory, "create", errno);
  if (unlink(path.c_str()) != 0) return DirectoryError(directory, "unlink", errno);
  return file;
}

Transfer ReadAt(int fd, unsigned char* data, uint64_t bytes, uint64_t offset) {
  return TransferAll(bytes, [=](uint64_t done, uint64_t left) {
    return pread(fd, data + done, left, static_cast<off_t>(offset + done));
  });
}

// Returns 0 or the error that kept it from writing all.
int WriteAt(int fd, const unsigned char* data, uint64_t bytes, uint64_t offset) {
  const Transfer written = TransferAll(bytes, [=](uint64_t done, uint64_t left) {
    return pwrite(fd, data + done, left, static_cast<off_t>(offset + done));
  });
  return written.bytes < bytes && written.error == 0 ? EIO : written.error;
}

int Flush(int fd) {
  while (fdatasync(fd) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// A granule of a place.
struct Granule {
  int fd = -1;
  uint64_t offset = 0;
};

std::vector<Granule> GranulesOf(const SwapSpace& space, const SwapSpace::Place& place) {
  std::vector<Granule> granules;
  for (const SwapSpace::Extent& extent : place.extents()) {
    for (uint64_t at = 0; at < extent.bytes; at += kPieceBytes) {
      granules.push_back({space.block_fd(extent.block), extent.offset + at});
    }
  }
  return granules;
}

absl::Status ReadGranule(const Granule& from, unsigned char* data) {
  const Transfer read = ReadAt(from.fd, data, kPieceBytes, from.offset);
  if (read.bytes == kPieceBytes) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("cannot read host memory of moved device memory: ",
                   read.error == 0 ? "it is too short" : std::strerror(read.error)));
}

absl::Status WriteGranule(const Granule& to, const unsigned char* data) {
  const int error = WriteAt(to.fd, data, kPieceBytes, to.offset);
  if (error == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("cannot write host memory of moved device memory: ", std::strerror(error)));
}

// Memory for one piece, which is overwritten before it is given back.
class PieceBuffer {
 public:
  PieceBuffer() : data_(std::make_unique_for_overwrite<unsigned char[]>(kPieceBytes)) {}
  ~PieceBuffer() { OPENSSL_cleanse(data_.get(), kPieceBytes); }
  PieceBuffer(const PieceBuffer&) = delete;
  PieceBuffer& operator=(const PieceBuffer&) = delete;

  unsigned char* get() { return data_.get(); }

 private:
  const std::unique_ptr<unsigned char[]> data_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SwapFile>> SwapFile::Create(const std::string& directory) {
  auto file = OpenWithoutName(directory);
  if (!file.ok()) return file.status();
  return std::unique_ptr<SwapFile>(
      new SwapFile(directory, *std::move(file), RandomBytes(PieceCipher::kKeyBytes)));
}

SwapFile::SwapFile(std::string directory, UniqueFd file, std::string key)
    : directory_(std::move(directory)), file_(std::move(file)), key_(std::move(key)) {}

SwapFile::~SwapFile() { OPENSSL_cleanse(key_.data(), key_.size()); }

absl::Status SwapFile::Write(const SwapSpace& space, const SwapSpace::Place& place,
                             const std::function<bool()>& stopped) {
  if (state_ != State::kNew) {
    return absl::FailedPreconditionError(
        absl::StrCat("the swap file in \"", directory_, "\" is written once"));
  }
  const absl::Status status = WritePieces(space, place, stopped);
  state_ = status.ok() ? State::kWritten : State::kFailed;
  if (status.ok()) {
    bytes_ = tags_.size() * kPieceBytes;
  } else {
    tags_.clear();
    // Where this fails, the space comes back with the end of the object.
    (void)!ftruncate(file_.get(), 0);
  }
  return status;
}

// Uses fallocate() and not posix_fallocate(), which writes to every block where the file system
// cannot reserve space.
absl::Status SwapFile::Reserve(uint64_t bytes, const std::function<bool()>& stopped) {
  for (uint64_t at = 0; at < bytes;) {
    if (stopped()) return Stopped(directory_);
    const uint64_t part = std::min(bytes - at, kReserveBytes);
    if (fallocate(file_.get(), 0, static_cast<off_t>(at), static_cast<off_t>(part)) == 0) {
      at += part;
    } else if (errno == EOPNOTSUPP) {
      return absl::OkStatus();
    } else if (errno != EINTR) {
      return FileError(directory_, absl::StrCat("reserve ", bytes, " bytes for"), errno);
    }
  }
  return absl::OkStatus();
}

absl::Status SwapFile::WritePieces(const SwapSpace& space, const SwapSpace::Place& place,
                                   const std::function<bool()>& stopped) {
  const std::vector<Granule> granules = GranulesOf(space, place);
  if (auto status = Reserve(granules.size() * kPieceBytes, stopped); !status.ok()) return status;
  tags_.resize(granules.size());
  PieceCipher cipher(key_, granules.size(), PieceCipher::Direction::kEncrypt);
  PieceBuffer buffer;
  for (size_t i = 0; i < granules.size(); ++i) {
    if (stopped()) return Stopped(directory_);
    if (auto status = ReadGranule(granules[i], buffer.get()); !status.ok()) return status;
    if (auto status = cipher.Encrypt(i, buffer.get(), kPieceBytes, &tags_[i]); !status.ok()) {
      return PieceError(i, status);
    }
    const uint64_t offset = i * kPieceBytes;
    const int error = WriteAt(file_.get(), buffer.get(), kPieceBytes, offset);
    if (error != 0) return FileError(directory_, "write to", error);
    // The disk begins with it now, so that little is left to wait for at the end. Its errors come
    // from Flush().
    sync_file_range(file_.get(), static_cast<off_t>(offset), kPieceBytes, SYNC_FILE_RANGE_WRITE);
  }
  // An error of the disk has to be known while `place` still holds the content.
  const int error = Flush(file_.get());
  return error == 0 ? absl::OkStatus() : FileError(directory_, "write to", error);
}

absl::Status SwapFile::PieceError(size_t piece, const absl::Status& status) const {
  return absl::Status(status.code(),
                      absl::StrCat("piece ", piece, " of ", tags_.size(), " of the swap file in \"",
                                   directory_, "\": ", std::string(status.message())));
}

absl::Status SwapFile::Read(const SwapSpace& space, const SwapSpace::Place& place,
                            const std::function<bool()>& stopped) const {
  if (state_ != State::kWritten) {
    return absl::FailedPreconditionError(
        absl::StrCat("nothing was written to the swap file in \"", directory_, "\""));
  }
  const std::vector<Granule> granules = GranulesOf(space, place);
  if (granules.size() != tags_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the swap file in \"", directory_, "\" has ",
                                                   bytes_, " bytes, and its place ",
                                                   granules.size() * kPieceBytes));
  }
  PieceCipher cipher(key_, granules.size(), PieceCipher::Direction::kDecrypt);
  PieceBuffer buffer;
  for (size_t i = 0; i < granules.size(); ++i) {
    if (stopped()) return Stopped(directory_);
    const Transfer read = ReadAt(file_.get(), buffer.get(), kPieceBytes, i * kPieceBytes);
    if (read.error != 0) return FileError(directory_, "read", read.error);
    const absl::Status status = read.bytes < kPieceBytes
                                    ? absl::DataLossError("the file is too short")
                                    : cipher.Decrypt(i, buffer.get(), kPieceBytes, tags_[i]);
    if (!status.ok()) return PieceError(i, status);
    if (auto written = WriteGranule(granules[i], buffer.get()); !written.ok()) return written;
  }
  return absl::OkStatus();
}

absl::Status CheckSwapDirectory(const std::string& directory) {
  const auto file = OpenWithoutName(directory);
  if (!file.ok()) return file.status();
  constexpr std::array<unsigned char, 4096> kZeros = {};
  int error = WriteAt(file->get(), kZeros.data(), kZeros.size(), 0);
  if (error == 0) error = Flush(file->get());
  return error == 0 ? absl::OkStatus() : DirectoryError(directory, "write", error);
}

}  // namespace warpline::server
