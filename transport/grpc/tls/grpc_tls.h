// What TLS needs on either end, and where it comes from. Without it a listener or a connection is
// plain text.
#ifndef WARPLINE_TRANSPORT_GRPC_TLS_GRPC_TLS_H_
#define WARPLINE_TRANSPORT_GRPC_TLS_GRPC_TLS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/serving/tls_files.h"

namespace warpline {

// PEM texts. `cert_chain` and `private_key` identify this end and go together; `root_certs` signs
// the peers that this end accepts.
struct GrpcTls {
  std::string root_certs;
  std::string cert_chain;
  std::string private_key;
  // On a client: the name that the server's certificate must carry, when not the host's.
  std::string server_name;
  // On a server: the certificates that were taken back, as ReadRevocations() gives them.
  std::set<std::string> revoked;
};

// The texts of some files, read again when these change. Files are not replaced all at one moment,
// so a state in which they do not fit each other is passed over: the last good texts stay in use,
// and one log line says why. Thread-safe; Current() reads files, so it may block on a slow disk.
class TlsSource {
 public:
  enum class Side { kClient, kServer };

  // Nothing is read yet. `recheck` is how long the files may differ from what Current() returns.
  TlsSource(Side side, TlsFiles files, absl::Duration recheck = absl::Milliseconds(500));

  // UNAUTHENTICATED, with a sentence that names what to correct, while there never was a good
  // state; afterwards never an error. The same pointer as long as nothing changed.
  absl::StatusOr<std::shared_ptr<const GrpcTls>> Current();

  // Whether a peer with this chain (PEM, its own certificate first) may go on: UNAUTHENTICATED when
  // a certificate of it is on a revocation list, or its own carries none of TlsFiles::clients.
  absl::Status CheckPeer(std::string_view chain);

 private:
  // What tells one state of a file from another.
  using Stamp = std::array<int64_t, 4>;
  using Stamps = std::vector<Stamp>;

  Stamps ReadStamps() const;
  absl::Status CheckNames() const;
  absl::StatusOr<std::shared_ptr<const GrpcTls>> Read() const;

  const Side side_;
  const TlsFiles files_;
  const absl::Duration recheck_;
  Mutex mu_;
  Stamps stamps_ ABSL_GUARDED_BY(mu_);
  absl::Time next_check_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  std::shared_ptr<const GrpcTls> good_ ABSL_GUARDED_BY(mu_);
};

// For a connection to `endpoint` with the files that the environment names
// (common/serving/tls_files.h); null for plain text.
std::shared_ptr<TlsSource> ClientTls(const std::string& endpoint);

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_GRPC_TLS_GRPC_TLS_H_
