#include "transport/grpc/connect/tls_probe.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/unique_fd.h"

namespace warpline::grpc_internal {
namespace {

// How long a server that took the handshake may think before it refuses the client's certificate.
constexpr absl::Duration kVerdict = absl::Milliseconds(300);

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
struct FreeBio {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
};

bool WaitFor(int fd, short events, absl::Time deadline) {
  for (;;) {
    const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
    if (left <= 0) return false;
    pollfd entry = {.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 1000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

UniqueFd Connect(const SocketAddress& to, absl::Time deadline) {
  UniqueFd fd(socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fd;
  const auto* const address = reinterpret_cast<const sockaddr*>(&to.storage);
  if (connect(fd.get(), address, to.size) == 0) return fd;
  int error = errno;
  socklen_t size = sizeof(error);
  if (error != EINPROGRESS || !WaitFor(fd.get(), POLLOUT, deadline) ||
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    return UniqueFd();
  }
  return fd;
}

// Repeats `step` while it only waits for the socket. Returns OpenSSL's verdict on it.
template <typename Step>
int Drive(SSL* ssl, int fd, absl::Time deadline, Step step) {
  for (;;) {
    ERR_clear_error();
    const int result = step();
    if (result > 0) return SSL_ERROR_NONE;
    const int error = SSL_get_error(ssl, result);
    const bool reads = error == SSL_ERROR_WANT_READ;
    if (!reads && error != SSL_ERROR_WANT_WRITE) return error;
    if (!WaitFor(fd, reads ? POLLIN : POLLOUT, deadline)) return error;
  }
}

// Trusts what `tls` trusts and shows what it shows. What does not parse is left out.
void Configure(SSL_CTX* context, const GrpcTls& tls) {
  const std::unique_ptr<BIO, FreeBio> roots(
      BIO_new_mem_buf(tls.root_certs.data(), static_cast<int>(tls.root_certs.size())));
  while (X509* root = PEM_read_bio_X509(roots.get(), nullptr, nullptr, nullptr)) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), root);
    X509_free(root);
  }
  if (tls.cert_chain.empty()) return;
  const std::unique_ptr<BIO, FreeBio> chain(
      BIO_new_mem_buf(tls.cert_chain.data(), static_cast<int>(tls.cert_chain.size())));
  bool first = true;
  while (X509* own = PEM_read_bio_X509(chain.get(), nullptr, nullptr, nullptr)) {
    if (first) {
      SSL_CTX_use_certificate(context, own);
    } else {
      SSL_CTX_add1_chain_cert(context, own);
    }
    X509_free(own);
    first = false;
  }
  const std::unique_ptr<BIO, FreeBio> key(
      BIO_new_mem_buf(tls.private_key.data(), static_cast<int>(tls.private_key.size())));
  if (EVP_PKEY* own = PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr)) {
    SSL_CTX_use_PrivateKey(context, own);
    EVP_PKEY_free(own);
  }
}

void ExpectName(SSL* ssl, const std::string& name) {
  X509_VERIFY_PARAM* const parameters = SSL_get0_param(ssl);
  unsigned char ip[16];
  if (inet_pton(AF_INET, name.c_str(), ip) == 1 || inet_pton(AF_INET6, name.c_str(), ip) == 1) {
    X509_VERIFY_PARAM_set1_ip_asc(parameters, name.c_str());
  } else if (!name.empty()) {
    X509_VERIFY_PARAM_set1_host(parameters, name.c_str(), 0);
    SSL_set_tlsext_host_name(ssl, name.c_str());
  }
}

absl::Status Unauthenticated(const std::string& text) { return absl::UnauthenticatedError(text); }

// What is wrong with the server's certificate.
absl::Status ExplainServerCertificate(long verdict, const std::string& name) {
  switch (verdict) {
    case X509_V_OK:
      return absl::OkStatus();
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return Unauthenticated("the server's certificate has expired: renew it on the server");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return Unauthenticated(
          "the server's certificate is not valid yet: check both machines' clocks");
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return Unauthenticated(absl::StrCat("the server's certificate is not for \"", name,
                                          "\": correct the endpoint, or set "
                                          "WARPLINE_TLS_SERVER_NAME to the name it is for"));
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return Unauthenticated(
          "the server's certificate is not signed by a certificate in WARPLINE_TLS_CA: set it to "
          "the file of the server's CA");
    default:
      return Unauthenticated(absl::StrCat("the server's certificate is not accepted: ",
                                          X509_verify_cert_error_string(verdict)));
  }
}

// The server closed the connection instead of using it, without a word: gRPC sends no alert when it
// does not accept a client's certificate.
absl::Status ExplainSilentEnd(SSL* ssl, bool asked) {
  if (!asked) return absl::OkStatus();
  const X509* const own = SSL_get_certificate(ssl);
  if (own == nullptr) {
    return Unauthenticated(
        "the server asks for a client certificate: set WARPLINE_TLS_CERT and WARPLINE_TLS_KEY");
  }
  return Unauthenticated(
      "the server does not accept the certificate in WARPLINE_TLS_CERT: set it and "
      "WARPLINE_TLS_KEY to one that the server's --tls_ca signed, which has not expired, for a "
      "client");
}

// What the server said when it ended the handshake, or what it said instead of one.
absl::Status ExplainRefusal(unsigned long error) {
  if (ERR_GET_LIB(error) != ERR_LIB_SSL) return absl::OkStatus();
  switch (ERR_GET_REASON(error)) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_HTTP_REQUEST:
      return Unauthenticated(
          "the server does not use TLS and this client does: start the server with --tls_cert, "
          "--tls_key and --tls_ca, or unset the WARPLINE_TLS_ variables");
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
      return Unauthenticated(
          absl::StrCat("the server refused the certificate in "
                       "WARPLINE_TLS_CERT: ",
                       ERR_reason_error_string(error)));
    default:
      return absl::OkStatus();
  }
}

}  // namespace

absl::Status ExplainTlsFailure(const SocketAddress& to, const GrpcTls* tls, const std::string& name,
                               absl::Time deadline) {
  const UniqueFd fd = Connect(to, deadline);
  if (!fd.valid()) return absl::OkStatus();
  const std::unique_ptr<SSL_CTX, FreeContext> context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return absl::OkStatus();
  if (tls != nullptr) Configure(context.get(), *tls);
  const std::unique_ptr<SSL, FreeSsl> ssl(SSL_new(context.get()));
  if (ssl == nullptr || SSL_set_fd(ssl.get(), fd.get()) != 1) return absl::OkStatus();
  // The verdict on the server's certificate is asked for afterwards.
  SSL_set_verify(ssl.get(), SSL_VERIFY_NONE, nullptr);
  constexpr unsigned char kHttp2[] = "\x02h2";
  SSL_set_alpn_protos(ssl.get(), kHttp2, sizeof(kHttp2) - 1);
  if (tls != nullptr) ExpectName(ssl.get(), name);
  bool asked = false;  // For a certificate of ours.
  const auto note = [](SSL*, void* flag) {
    *static_cast<bool*>(flag) = true;
    return 1;
  };
  SSL_set_cert_cb(ssl.get(), note, &asked);

  int error = Drive(ssl.get(), fd.get(), deadline, [&] { return SSL_connect(ssl.get()); });
  const bool server_has_tls = SSL_get0_peer_certificate(ssl.get()) != nullptr;
  absl::Status found;
  if (tls == nullptr) {
    if (server_has_tls) {
      found = Unauthenticated(
          "the server uses TLS and this client does not: set WARPLINE_TLS_CA, WARPLINE_TLS_CERT "
          "and WARPLINE_TLS_KEY");
    }
  } else {
    if (server_has_tls) found = ExplainServerCertificate(SSL_get_verify_result(ssl.get()), name);
    if (found.ok() && error == SSL_ERROR_NONE) {
      // In TLS 1.3 the server judges after the client is done.
      char byte;
      error = Drive(ssl.get(), fd.get(), std::min(deadline, absl::Now() + kVerdict),
                    [&] { return SSL_peek(ssl.get(), &byte, 1); });
    }
    const bool ended = error == SSL_ERROR_ZERO_RETURN || error == SSL_ERROR_SYSCALL ||
                       ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    if (found.ok() && error == SSL_ERROR_SSL) found = ExplainRefusal(ERR_peek_error());
    if (found.ok() && server_has_tls && ended) found = ExplainSilentEnd(ssl.get(), asked);
  }
  ERR_clear_error();
  return found;
}

}  // namespace warpline::grpc_internal
