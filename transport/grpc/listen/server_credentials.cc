#include "transport/grpc/listen/server_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "transport/grpc/tls/tls_check.h"

namespace warpline::grpc_internal {
namespace {

// Of the names of a certificate in a log line.
constexpr size_t kMaxNames = 160;

// gRPC asks for the certificates before each handshake, which its C++ interface does not offer.
class ReloadingCredentials : public grpc::ServerCredentials {
 public:
  explicit ReloadingCredentials(std::shared_ptr<TlsSource> source)
      : fetch_(new Fetch{.source = std::move(source), .given = nullptr}),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, &FetchConfig,
                fetch_.get()))) {}
  ~ReloadingCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  struct Fetch {
    std::shared_ptr<TlsSource> source;
    std::shared_ptr<const GrpcTls> given;
  };

  // gRPC calls it under a lock of the listener.
  static grpc_ssl_certificate_config_reload_status FetchConfig(
      void* data, grpc_ssl_server_certificate_config** config) {
    auto* const fetch = static_cast<Fetch*>(data);
    auto current = fetch->source->Current();
    if (!current.ok()) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
    if (*current == fetch->given) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    fetch->given = *std::move(current);
    const grpc_ssl_pem_key_cert_pair own = {fetch->given->private_key.c_str(),
                                            fetch->given->cert_chain.c_str()};
    *config = grpc_ssl_server_certificate_config_create(fetch->given->root_certs.c_str(), &own, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  const std::unique_ptr<Fetch> fetch_;
  grpc_server_credentials* const credentials_;
};

// Nothing of a peer in plain text.
std::vector<grpc::string_ref> Property(const grpc::ServerContextBase& context, const char* name) {
  const auto auth = context.auth_context();
  if (auth == nullptr || !auth->IsPeerAuthenticated()) return {};
  return auth->FindPropertyValues(name);
}

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(std::shared_ptr<TlsSource> tls) {
  if (tls == nullptr) return grpc::InsecureServerCredentials();
  return std::make_shared<ReloadingCredentials>(std::move(tls));
}

std::string PeerName(const grpc::ServerContextBase& context) {
  const auto auth = context.auth_context();
  std::string names;
  const auto add = [&](const char* key, const char* property) {
    for (const grpc::string_ref& value : auth->FindPropertyValues(property)) {
      absl::StrAppend(&names, " ", key, "=");
      for (const char c : value) {
        // One word each: the log's lines are words.
        names.push_back(absl::ascii_isgraph(static_cast<unsigned char>(c)) && c != '"' ? c : '_');
      }
    }
  };
  if (auth != nullptr && auth->IsPeerAuthenticated()) {
    add("cn", GRPC_X509_CN_PROPERTY_NAME);
    add("san", GRPC_X509_SAN_PROPERTY_NAME);
  }
  names.resize(std::min(names.size(), kMaxNames));
  for (const grpc::string_ref& pem : Property(context, GRPC_X509_PEM_CERT_PROPERTY_NAME)) {
    absl::StrAppend(&names, " cert=", CertificateDigest(std::string(pem.data(), pem.size())));
  }
  std::string peer = context.peer();
  // The name that a client gives to its end of a unix socket is nobody's address.
  if (absl::StartsWith(peer, "unix-abstract:")) peer = "unix:";
  return absl::StrCat(peer, names);
}

absl::Status CheckPeer(const grpc::ServerContextBase& context, TlsSource* tls) {
  if (tls == nullptr) return absl::OkStatus();
  const auto auth = context.auth_context();
  if (auth == nullptr || !auth->IsPeerAuthenticated()) return absl::OkStatus();  // In plain text.
  // OpenSSL's chain of a client does not have the client's own certificate.
  std::string chain;
  for (const char* const name :
       {GRPC_X509_PEM_CERT_PROPERTY_NAME, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME}) {
    for (const grpc::string_ref& pem : Property(context, name)) {
      absl::StrAppend(&chain, absl::string_view(pem.data(), pem.size()), "\n");
    }
  }
  return tls->CheckPeer(chain);
}

}  // namespace warpline::grpc_internal
