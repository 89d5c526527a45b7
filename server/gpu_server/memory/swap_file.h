// The memory of one suspended session in a file without a name. The file's content is encrypted
// with a key that only this object has, so it ends with the process: nothing can read it
// afterwards.
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_SWAP_FILE_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_SWAP_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/crypto/piece_cipher.h"
#include "common/unique_fd.h"
#include "server/gpu_server/memory/swap_space.h"

namespace warpline::server {

// Not thread-safe: one thread at a time uses it, and its calls block on the disk. The object owns
// the file, whose space the system has back once the object is gone. Calls come in this order:
// Create(), Write() once, Read() as often as needed.
//
// The file holds pieces of SwapSpace::kGranule bytes, each encrypted by PieceCipher. Their tags
// stay in memory, so a file that was changed, shortened or put in another order is noticed.
//
// Every error of the file names the directory, and the system's reason where it gave one.
class SwapFile {
 public:
  // Creates the file in `directory`, which only this process's user can open, and draws its key.
  // Takes no space yet. NOT_FOUND without the directory, INVALID_ARGUMENT when it is none,
  // PERMISSION_DENIED when files cannot be created in it, RESOURCE_EXHAUSTED without space or
  // descriptors, UNAVAILABLE otherwise. Each of these errors says what to do.
  static absl::StatusOr<std::unique_ptr<SwapFile>> Create(const std::string& directory);

  ~SwapFile();
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;

  // Writes the content of `place`, a place of `space`, and waits until the disk has it. `place` is
  // only read, and nothing else may change its content meanwhile. `stopped` is asked between
  // pieces.
  //
  // RESOURCE_EXHAUSTED when the file system is full or allows no file that large; this is noticed
  // before anything is written, where the file system can reserve space. UNAVAILABLE for other
  // errors of the file, INTERNAL for errors of `space` or of OpenSSL, CANCELLED when `stopped`
  // returned true. After any of these the file is empty and takes no space. FAILED_PRECONDITION for
  // a second call, even after an error: the key has been used.
  absl::Status Write(const SwapSpace& space, const SwapSpace::Place& place,
                     const std::function<bool()>& stopped);

  // Reads all of it back to `place`, a place of `space` with bytes() bytes. `stopped` is asked
  // between pieces. The file keeps its content, so a failed call can be repeated.
  //
  // DATA_LOSS when the file does not hold what was written. UNAVAILABLE for other errors of the
  // file, INTERNAL for errors of `space` or of OpenSSL, CANCELLED when `stopped` returned true.
  // `place` then has the pieces before the failed one, and none that differs from what was written.
  // INVALID_ARGUMENT for a place of another size, FAILED_PRECONDITION when nothing was written.
  absl::Status Read(const SwapSpace& space, const SwapSpace::Place& place,
                    const std::function<bool()>& stopped) const;

  // Returns how many bytes Write() has written; 0 before it succeeded.
  uint64_t bytes() const { return bytes_; }
  // Returns the file, which the object keeps. For tests.
  int fd() const { return file_.get(); }

 private:
  enum class State { kNew, kWritten, kFailed };

  SwapFile(std::string directory, UniqueFd file, std::string key);
  absl::Status Reserve(uint64_t bytes, const std::function<bool()>& stopped);
  absl::Status WritePieces(const SwapSpace& space, const SwapSpace::Place& place,
                           const std::function<bool()>& stopped);
  absl::Status PieceError(size_t piece, const absl::Status& status) const;

  const std::string directory_;
  const UniqueFd file_;
  // Constant until the destructor overwrites it. It is too long for a string to hold it in itself,
  // so that moves have left no copies.
  std::string key_;
  State state_ = State::kNew;
  uint64_t bytes_ = 0;
  std::vector<PieceCipher::Tag> tags_;  // By piece.
};

// Checks at the server's start that `directory` can hold swap files: it creates one, writes a
// little to it and lets go of it. Errors are those of Create() and Write(), and say what to do.
// Thread-safe.
absl::Status CheckSwapDirectory(const std::string& directory);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_SWAP_FILE_H_
