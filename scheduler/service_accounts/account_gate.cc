#include "scheduler/service_accounts/account_gate.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/log/log.h"
#include "common/text.h"
#include "common/text_file.h"
#include "common/unique_fd.h"

namespace warpline::scheduler {
namespace {

absl::StatusOr<std::string> ReadAll(int fd) {
  std::string text(kMaxClusterKeysBytes + 1, '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = read(fd, text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::UnavailableError(std::strerror(errno));
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  text.resize(have);
  return text;
}

void LogKeys(const std::string& path, const ClusterKeys& keys) {
  LogInfo("takes ServiceAccount tokens keys=", keys.keys.size(), " file=", path,
          " ids=", absl::StrJoin(keys.keys, ",", [](std::string* out, const ClusterKey& key) {
            absl::StrAppend(out, Quoted(key.id()));
          }));
  for (const std::string& why : keys.left_out) {
    LogWarning("does not take a key of the cluster file=", path, " reason=", Quoted(why));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<AccountGate>> AccountGate::Create(AccountGateOptions options) {
  auto gate = std::unique_ptr<AccountGate>(new AccountGate(std::move(options)));
  MutexLock lock(&gate->mu_);
  gate->looked_ = gate->options_.clock();
  const absl::Status status = gate->Look();
  if (absl::IsNotFound(status)) {
    LogWarning("takes no ServiceAccount tokens until there is a file with the cluster's keys: ",
               status.message());
  } else if (!status.ok()) {
    return status;
  }
  return gate;
}

absl::StatusOr<ServiceAccount> AccountGate::Open(const std::string& token) {
  const std::shared_ptr<const ClusterKeys> keys = KeysOfNow();
  return OpenAccountToken(token, *keys, options_.rules, options_.clock());
}

std::shared_ptr<const ClusterKeys> AccountGate::KeysOfNow() {
  MutexLock lock(&mu_);
  const absl::Time now = options_.clock();
  // The clock may have been set back.
  if (now >= looked_ + options_.look_again || now < looked_) {
    looked_ = now;
    if (const absl::Status status = Look(); !status.ok()) {
      LogWarning("goes on with the cluster's keys of before: ", status.message());
    }
  }
  return keys_;
}

absl::Status AccountGate::Look() {
  const UniqueFd file(open(options_.keys_path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found = {};
  const bool there = file.valid() && fstat(file.get(), &found) == 0;
  const int error = errno;
  const Stamp stamp = there ? Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtim.tv_sec,
                                    found.st_mtim.tv_nsec)
                            : Stamp();
  // What is still wrong was said before; at the first look there are no keys, and it is said.
  if (stamp == stamp_ && looked_once_) return absl::OkStatus();
  looked_once_ = true;
  stamp_ = stamp;
  if (!there) {
    return absl::NotFoundError(absl::StrCat(options_.keys_path, ": ", std::strerror(error)));
  }
  auto text =
      S_ISREG(found.st_mode) ? ReadAll(file.get()) : absl::InvalidArgumentError("it is no file");
  if (text.ok()) text = TextOf(*std::move(text));
  auto keys = text.ok() ? ParseClusterKeys(*text) : text.status();
  if (!keys.ok()) {
    return absl::Status(
        keys.status().code(),
        absl::StrCat("the cluster's keys in ", options_.keys_path, ": ", keys.status().message()));
  }
  LogKeys(options_.keys_path, *keys);
  keys_ = std::make_shared<const ClusterKeys>(*std::move(keys));
  return absl::OkStatus();
}

}  // namespace warpline::scheduler
