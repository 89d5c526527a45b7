// A private file that holds the current token of a lease, for the processes under `warpline run`.
#ifndef WARPLINE_TOOLS_CLI_TOKEN_FILE_H_
#define WARPLINE_TOOLS_CLI_TOKEN_FILE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warpline::cli {

// The file and its folder are removed when this is destroyed. Thread-compatible.
class TokenFile {
 public:
  // Makes the file in a new folder that only this user can enter, in XDG_RUNTIME_DIR, TMPDIR or
  // /tmp.
  static absl::StatusOr<std::unique_ptr<TokenFile>> Create(const std::string& token);
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const std::string& path() const { return path_; }
  // Replaces the token in one step, so that no reader sees half of it.
  absl::Status Replace(const std::string& token);

 private:
  explicit TokenFile(std::string folder) : folder_(std::move(folder)), path_(folder_ + "/token") {}

  const std::string folder_;
  const std::string path_;
};

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_TOKEN_FILE_H_
