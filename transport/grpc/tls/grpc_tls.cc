#include "transport/grpc/tls/grpc_tls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log/log.h"
#include "common/unique_fd.h"
#include "transport/grpc/tls/tls_check.h"

namespace warpline {
namespace {

// A bundle of every public root is a quarter of this.
constexpr size_t kMaxFile = 1 << 20;

absl::Status CannotRead(const std::string& path, const std::string& why) {
  return absl::UnauthenticatedError(absl::StrCat("cannot read ", path, " for TLS: ", why));
}

absl::Status ReadFile(const std::string& path, std::string* text) {
  if (path.empty()) return absl::OkStatus();
  // Not blocking, in case it is a pipe.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about;
  if (!fd.valid() || fstat(fd.get(), &about) != 0) return CannotRead(path, std::strerror(errno));
  if (!S_ISREG(about.st_mode)) return CannotRead(path, "it is not a file");
  char block[16 << 10];
  for (;;) {
    const ssize_t got = read(fd.get(), block, sizeof(block));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CannotRead(path, std::strerror(errno));
    if (got == 0) return absl::OkStatus();
    text->append(block, static_cast<size_t>(got));
    if (text->size() > kMaxFile) return CannotRead(path, "it is larger than 1 MiB");
  }
}

}  // namespace

TlsSource::TlsSource(Side side, TlsFiles files, absl::Duration recheck)
    : side_(side), files_(std::move(files)), recheck_(recheck) {}

TlsSource::Stamps TlsSource::ReadStamps() const {
  Stamps stamps = {};
  const std::string* const paths[] = {&files_.ca, &files_.cert, &files_.key};
  for (size_t i = 0; i < stamps.size(); ++i) {
    struct stat about;
    if (paths[i]->empty() || stat(paths[i]->c_str(), &about) != 0) continue;
    stamps[i] = {static_cast<int64_t>(about.st_ino), about.st_size, about.st_mtim.tv_sec,
                 about.st_mtim.tv_nsec};
  }
  return stamps;
}

absl::Status TlsSource::CheckNames() const {
  const bool server = side_ == Side::kServer;
  const char* const ca = server ? "--tls_ca" : kTlsCaVariable;
  const char* const cert = server ? "--tls_cert" : kTlsCertVariable;
  const char* const key = server ? "--tls_key" : kTlsKeyVariable;
  const char* missing = nullptr;
  if (files_.ca.empty()) missing = ca;
  if (files_.cert.empty() && (server || !files_.key.empty())) missing = cert;
  if (files_.key.empty() && (server || !files_.cert.empty())) missing = key;
  if (missing == nullptr) return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat("TLS is only half configured: ", missing, " is missing (",
                   server ? "a server needs all of --tls_ca, --tls_cert and --tls_key"
                          : "a client needs WARPLINE_TLS_CA, and WARPLINE_TLS_CERT together with "
                            "WARPLINE_TLS_KEY",
                   ")"));
}

absl::StatusOr<std::shared_ptr<const GrpcTls>> TlsSource::Read() const {
  absl::Status status = CheckNames();
  auto tls = std::make_shared<GrpcTls>();
  tls->server_name = files_.server_name;
  if (status.ok()) status = ReadFile(files_.ca, &tls->root_certs);
  if (status.ok()) status = ReadFile(files_.cert, &tls->cert_chain);
  if (status.ok()) status = ReadFile(files_.key, &tls->private_key);
  if (status.ok()) status = grpc_internal::CheckTls(*tls, files_, absl::Now());
  if (!status.ok()) return status;
  return tls;
}

absl::StatusOr<std::shared_ptr<const GrpcTls>> TlsSource::Current() {
  MutexLock lock(&mu_);
  const absl::Time now = absl::Now();
  if (good_ != nullptr && now < next_check_) return good_;
  next_check_ = now + recheck_;
  // Before the texts: a file that changes meanwhile is then looked at once more.
  const Stamps stamps = ReadStamps();
  if (good_ != nullptr && stamps == stamps_) return good_;
  absl::StatusOr<std::shared_ptr<const GrpcTls>> read = Read();
  const bool reloaded = good_ != nullptr;
  stamps_ = stamps;
  if (!read.ok()) {
    if (!reloaded) return read.status();
    LogWarning("TLS goes on with what it has: ", read.status().message());
    return good_;
  }
  good_ = *std::move(read);
  const auto own = grpc_internal::ReadCertificate(good_->cert_chain);
  if (own.ok() && (reloaded || side_ == Side::kServer)) {
    LogInfo(
        "TLS certificate ", reloaded ? "reloaded" : "loaded", " subject=\"", own->subject,
        "\" expires=", absl::FormatTime(absl::RFC3339_sec, own->not_after, absl::UTCTimeZone()));
  }
  return good_;
}

std::shared_ptr<TlsSource> ClientTls(const std::string& endpoint) {
  TlsFiles files = TlsFilesFromEnvironment();
  if (!WantsTls(files, endpoint)) return nullptr;
  return std::make_shared<TlsSource>(TlsSource::Side::kClient, std::move(files));
}

}  // namespace warpline
