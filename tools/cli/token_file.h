// A private file that holds the current token of a lease, for the processes under `warpline run`.
#ifndef WARPLINE_TOOLS_CLI_TOKEN_FILE_H_
#define WARPLINE_TOOLS_CLI_TOKEN_FILE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace warpline::cli {

// The file and its folder are removed when this is destroyed. It holds on to the folder that it
// made: when that is gone, and another user has made one of its name, nothing is written there.
// Thread-compatible.
class TokenFile {
 public:
  // Makes the file in a new folder that only this user can enter, in XDG_RUNTIME_DIR, TMPDIR or
  // /tmp: the first of them in which the token can be written. UNAVAILABLE where it is none.
  static absl::StatusOr<std::unique_ptr<TokenFile>> Create(const std::string& token);
  // Takes over the file at `path`, which another process has made so and left. Where its folder is
  // gone, Replace() says so.
  static std::unique_ptr<TokenFile> Adopt(const std::string& path);
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  std::string path() const;
  // Replaces the token in one step, so that no reader sees half of it.
  absl::Status Replace(const std::string& token);
  // Leaves the file where it is when this is destroyed.
  void Leave() { left_ = true; }

 private:
  TokenFile(std::string folder, UniqueFd opened)
      : folder_(std::move(folder)), opened_(std::move(opened)) {}

  const std::string folder_;
  const UniqueFd opened_;  // Invalid where the folder was gone.
  bool left_ = false;
};

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_TOKEN_FILE_H_
