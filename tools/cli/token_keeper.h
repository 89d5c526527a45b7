// Where the processes under `warpline run` find the current token of their lease: at a socket
// (common/lease/lease_key.h), and in a file for those that do not reach the socket, such as
// programs in another network namespace.
#ifndef WARPLINE_TOOLS_CLI_TOKEN_KEEPER_H_
#define WARPLINE_TOOLS_CLI_TOKEN_KEEPER_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/lease/lease_key.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "tools/cli/token_file.h"

namespace warpline::cli {

// Thread-safe. Has a thread of its own, which serves the socket.
class TokenKeeper {
 public:
  // Makes a key for programs that use `endpoint`, listens, and writes the file where there is a
  // folder for it. UNAVAILABLE when it can neither listen nor write.
  static absl::StatusOr<std::unique_ptr<TokenKeeper>> Create(const std::string& endpoint,
                                                             const std::string& token);
  // Goes on where another process of this host has left off: `listener` is its socket, and
  // `key_text` and `path` are what it exported; `path` is empty where it had no file.
  static absl::StatusOr<std::unique_ptr<TokenKeeper>> Adopt(UniqueFd listener,
                                                            const std::string& key_text,
                                                            const std::string& path,
                                                            const std::string& token);
  // Removes the file, unless LeaveFile() was called.
  ~TokenKeeper();
  TokenKeeper(const TokenKeeper&) = delete;
  TokenKeeper& operator=(const TokenKeeper&) = delete;

  // Tells the programs that are started from now on, by this process's environment.
  void Export() const;
  // Gives the next token out from now on. When the file cannot be written, it is removed, so that
  // no program takes an old token from it; UNAVAILABLE says so, once, and how programs get the
  // token from then on, if they do.
  absl::Status Replace(const std::string& token);
  // Leaves the file to the process that goes on.
  void LeaveFile();
  // The socket, for that process; invalid where there is none.
  const UniqueFd& listener() const { return listener_; }

 private:
  TokenKeeper(LeaseKey key, UniqueFd listener, std::unique_ptr<TokenFile> file,
              const std::string& token);
  void Serve();

  const LeaseKey key_;
  const UniqueFd listener_;
  const UniqueFd stop_;
  mutable Mutex mu_;
  std::string token_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<TokenFile> file_ ABSL_GUARDED_BY(mu_);  // Null where there is none.
  std::thread thread_;
};

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_TOKEN_KEEPER_H_
