#include "transport/grpc/tls/grpc_tls.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log/log.h"
#include "common/text_file.h"
#include "transport/grpc/tls/tls_check.h"

namespace warpline {
namespace {

// A bundle of every public root is a quarter of this.
constexpr size_t kMaxFile = 1 << 20;
// Of revocation lists.
constexpr size_t kMaxList = 16 << 20;
constexpr size_t kMaxLists = 256;

absl::Status CannotRead(const std::string& path, const std::string& why) {
  return absl::UnauthenticatedError(absl::StrCat("cannot read ", path, " for TLS: ", why));
}

absl::Status ReadFile(const std::string& path, std::string* text, size_t limit = kMaxFile) {
  if (path.empty()) return absl::OkStatus();
  auto read = ReadTextFile(path, limit);
  if (!read.ok()) {
    return absl::UnauthenticatedError(absl::StrCat(read.status().message(), " (for TLS)"));
  }
  *text = *std::move(read);
  return absl::OkStatus();
}

// The path itself where it is no folder; else the files in it, in order. None for an empty path.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& path) {
  std::vector<std::string> files;
  if (path.empty()) return files;
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::vector<std::string>{path};
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored)) files.push_back(entry->path().string());
    if (files.size() > kMaxLists) return CannotRead(path, "it holds too many files");
  }
  if (error) return CannotRead(path, error.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TlsSource::TlsSource(Side side, TlsFiles files, absl::Duration recheck)
    : side_(side), files_(std::move(files)), recheck_(recheck) {}

TlsSource::Stamps TlsSource::ReadStamps() const {
  Stamps stamps;
  std::vector<std::string> paths = {files_.ca, files_.cert, files_.key, files_.crl};
  // A file of a folder may change without the folder.
  if (auto lists = FilesOf(files_.crl); lists.ok()) {
    paths.insert(paths.end(), lists->begin(), lists->end());
  }
  for (const std::string& path : paths) {
    Stamp& stamp = stamps.emplace_back();
    struct stat about;
    if (path.empty() || stat(path.c_str(), &about) != 0) continue;
    stamp = {static_cast<int64_t>(about.st_ino), about.st_size, about.st_mtim.tv_sec,
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
  const auto lists = FilesOf(files_.crl);
  if (status.ok()) status = lists.status();
  for (size_t i = 0; status.ok() && i < lists->size(); ++i) {
    std::string list;
    status = ReadFile((*lists)[i], &list, kMaxList);
    if (!status.ok()) break;
    status = grpc_internal::ReadRevocations(list, tls->root_certs, (*lists)[i], absl::Now(),
                                            &tls->revoked);
  }
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

absl::Status TlsSource::CheckPeer(std::string_view chain) {
  const auto current = Current();
  if (!current.ok()) return current.status();
  const absl::Status named = grpc_internal::CheckNamed(std::string(chain), files_.clients);
  if (!named.ok() || (*current)->revoked.empty()) return named;
  return grpc_internal::CheckNotRevoked(std::string(chain), (*current)->revoked);
}

std::shared_ptr<TlsSource> ClientTls(const std::string& endpoint) {
  TlsFiles files = TlsFilesFromEnvironment();
  if (!WantsTls(files, endpoint)) return nullptr;
  return std::make_shared<TlsSource>(TlsSource::Side::kClient, std::move(files));
}

}  // namespace warpline
