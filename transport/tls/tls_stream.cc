#include "transport/tls/tls_stream.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "common/crypto/openssl.h"
#include "transport/tcp/connect.h"

namespace warpline {
namespace {

constexpr size_t kLeastSecretBytes = 16;
constexpr size_t kKeyBytes = 32;
constexpr char kPurpose[] = "warpline relay, TLS 1.3, pre-shared key";
constexpr std::string_view kKeyName = "warpline";
// So much is read from the socket at once.
constexpr size_t kReadBuffer = size_t{128} << 10;
// So much may come without a byte of data: OpenSSL reads on within one call.
constexpr size_t kMostInVain = size_t{1} << 20;
// An end that makes this one answer more, and reads nothing, is given up. A batch and its records
// fit.
constexpr size_t kMostOutgoing = 2 * TlsStream::kBatch;
// A worker that is being replaced may take nothing for a while.
constexpr int kMostSilence = 30;
// TLS_AES_128_GCM_SHA256, which every implementation has.
constexpr char kCipher[] = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kCipherId[] = {0x13, 0x01};
constexpr absl::string_view kCannotSend = "the encrypted connection cannot send";
// So often a handshake that waits looks whether it is still wanted.
constexpr int kLookMs = 50;

// --- A socket as OpenSSL's BIO. It takes all that is written, for several records to leave at
// once.

TlsStream* StreamOf(BIO* bio) { return static_cast<TlsStream*>(BIO_get_data(bio)); }

// The call that had bytes encrypted sends them.
long ControlSocket(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

SSL_CTX* NewContext(bool accepts) {
  UseOpenSsl();
  SSL_CTX* const context = SSL_CTX_new(accepts ? TLS_server_method() : TLS_client_method());
  if (context == nullptr) return nullptr;
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(context, kCipher);
  SSL_CTX_set1_groups_list(context, "X25519");
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_max_early_data(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadBuffer);
  // There are no authorities: an end that accepts with a certificate instead of the key is refused.
  if (!accepts) SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  return context;
}

// They live as long as the process.
SSL_CTX* Context(TlsStream::Role role) {
  static SSL_CTX* const connects = NewContext(false);
  static SSL_CTX* const accepts = NewContext(true);
  return role == TlsStream::Role::kAccepts ? accepts : connects;
}

std::string KeyOf(std::string_view secret) {
  std::string key(kKeyBytes, '\0');
  unsigned size = 0;
  UseOpenSsl();
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(kPurpose), sizeof(kPurpose) - 1,
       reinterpret_cast<unsigned char*>(key.data()), &size);
  return size == key.size() ? key : "";
}

TlsStream* StreamOf(SSL* ssl) { return static_cast<TlsStream*>(SSL_get_app_data(ssl)); }

}  // namespace

int TlsStream::Append(BIO* bio, const char* from, size_t bytes, size_t* taken) {
  std::string& outgoing = StreamOf(bio)->outgoing_;
  *taken = 0;
  if (outgoing.size() + bytes > kMostOutgoing) return 0;
  outgoing.append(from, bytes);
  *taken = bytes;
  return 1;
}

int TlsStream::Receive(BIO* bio, char* to, size_t bytes, size_t* read) {
  TlsStream* const stream = StreamOf(bio);
  BIO_clear_retry_flags(bio);
  *read = 0;
  if (stream->read_in_vain_ > kMostInVain) return 0;
  ssize_t got;
  do {
    got = recv(stream->fd(), to, bytes, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) {
    BIO_set_retry_read(bio);
  } else if (got < 0 && stream->error_ == 0) {
    stream->error_ = errno;
  }
  if (got <= 0) return 0;
  *read = static_cast<size_t>(got);
  stream->read_in_vain_ += *read;
  return 1;
}

BIO_METHOD* TlsStream::Method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* const made =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "warpline socket");
    BIO_meth_set_write_ex(made, &Append);
    BIO_meth_set_read_ex(made, &Receive);
    BIO_meth_set_ctrl(made, &ControlSocket);
    return made;
  }();
  return method;
}

TlsStream::TlsStream(UniqueFd fd, std::string key, uint64_t bytes_of_a_key)
    : fd_(std::move(fd)), key_(std::move(key)), bytes_of_a_key_(bytes_of_a_key) {}

TlsStream::~TlsStream() = default;

absl::Status TlsStream::Load() {
  const bool loaded = Context(Role::kConnects) != nullptr && Context(Role::kAccepts) != nullptr;
  return loaded ? absl::OkStatus() : absl::UnavailableError("OpenSSL cannot be set up");
}

absl::StatusOr<std::unique_ptr<TlsStream>> TlsStream::Create(UniqueFd fd, Role role,
                                                             std::string_view secret,
                                                             uint64_t bytes_of_a_key) {
  if (secret.size() < kLeastSecretBytes) {
    return absl::InvalidArgumentError("an encrypted connection needs a secret of 16 bytes");
  }
  ExpectSignsOfLife(fd.get(), kMostSilence);
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(fd), KeyOf(secret), bytes_of_a_key));
  SSL_CTX* const context = Context(role);
  std::unique_ptr<SSL, FreeSsl> ssl(context == nullptr ? nullptr : SSL_new(context));
  BIO* const bio = ssl == nullptr || stream->key_.empty() ? nullptr : BIO_new(Method());
  if (bio == nullptr) return absl::ResourceExhaustedError("OpenSSL cannot make a connection");
  BIO_set_data(bio, stream.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl.get(), bio, bio);
  SSL_set_app_data(ssl.get(), stream.get());
  if (role == Role::kAccepts) {
    SSL_set_psk_find_session_callback(ssl.get(), &FindKey);
    SSL_set_accept_state(ssl.get());
  } else {
    SSL_set_psk_use_session_callback(ssl.get(), &UseKey);
    SSL_set_connect_state(ssl.get());
  }
  MutexLock lock(&stream->mu_);
  stream->ssl_ = std::move(ssl);
  return stream;
}

SSL_SESSION* TlsStream::NewSession(SSL* ssl) const {
  SSL_SESSION* const session = SSL_SESSION_new();
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kCipherId);
  if (session == nullptr || cipher == nullptr ||
      SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key_.data()),
                                  key_.size()) != 1 ||
      SSL_SESSION_set_cipher(session, cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

int TlsStream::UseKey(SSL* ssl, const EVP_MD*, const unsigned char** name, size_t* size,
                      SSL_SESSION** session) {
  *session = StreamOf(ssl)->NewSession(ssl);
  *name = reinterpret_cast<const unsigned char*>(kKeyName.data());
  *size = kKeyName.size();
  return *session != nullptr ? 1 : 0;
}

int TlsStream::FindKey(SSL* ssl, const unsigned char* name, size_t size, SSL_SESSION** session) {
  *session = nullptr;
  if (std::string_view(reinterpret_cast<const char*>(name), size) != kKeyName) return 1;
  *session = StreamOf(ssl)->NewSession(ssl);
  return *session != nullptr ? 1 : 0;
}

bool TlsStream::SendOutgoing() {
  while (sent_ < outgoing_.size() && !broken_) {
    const ssize_t sent =
        send(fd(), outgoing_.data() + sent_, outgoing_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      sent_ += static_cast<size_t>(sent);
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      broken_ = true;
      if (error_ == 0) error_ = errno;
    }
  }
  outgoing_.clear();
  sent_ = 0;
  return !broken_;
}

absl::Status TlsStream::Over(absl::string_view what) const {
  if (error_ == 0) return absl::UnavailableError(what);
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error_)));
}

absl::StatusOr<TlsStream::Step> TlsStream::Shake() {
  MutexLock lock(&mu_);
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  const int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_.get(), result);
  // Also what tells the other end why it fails.
  const bool left = SendOutgoing();
  switch (error) {
    case SSL_ERROR_NONE:
      // An end that goes on without the key does not know it.
      if (SSL_session_reused(ssl_.get()) == 1) return left ? Step::kDone : Step::kWrites;
      return absl::UnauthenticatedError("the other end does not know the secret");
    case SSL_ERROR_WANT_READ:
      return left ? Step::kReads : Step::kWrites;
    case SSL_ERROR_SSL:
      return absl::UnauthenticatedError("the other end does not know the secret");
    default:
      return Over("the connection has ended");
  }
}

absl::Status TlsStream::AwaitHandshake(absl::Time until, const std::function<bool()>& given_up) {
  while (true) {
    const auto step = Shake();
    if (!step.ok()) return step.status();
    if (*step == Step::kDone) return absl::OkStatus();
    const short wanted = *step == Step::kReads ? POLLIN : POLLOUT;
    while (PollSocket(fd(), wanted, std::min(PollMilliseconds(until), kLookMs)) == 0) {
      if (absl::Now() >= until || (given_up != nullptr && given_up())) {
        return absl::UnavailableError("the other end does not answer");
      }
    }
  }
}

absl::StatusOr<size_t> TlsStream::Read(void* to, size_t bytes) {
  MutexLock lock(&mu_);
  ERR_clear_error();
  size_t got = 0;
  const int result = SSL_read_ex(ssl_.get(), to, bytes, &got);
  // The other end may have asked for new keys, which is answered.
  if (!outgoing_.empty()) (void)SendOutgoing();
  if (result == 1) {
    read_in_vain_ = 0;
    return got;
  }
  if (SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ) return size_t{0};
  return Over("the encrypted connection has ended");
}

absl::StatusOr<size_t> TlsStream::Write(const void* from, size_t bytes) {
  MutexLock lock(&mu_);
  if (!SendOutgoing()) {
    return broken_ ? absl::StatusOr<size_t>(Over(kCannotSend)) : absl::StatusOr<size_t>(0);
  }
  ERR_clear_error();
  if (written_ >= bytes_of_a_key_) {
    // The write that follows tells the other end.
    if (SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return Over(kCannotSend);
    written_ = 0;
  }
  size_t put = 0;
  if (SSL_write_ex(ssl_.get(), from, std::min(bytes, kBatch), &put) != 1) return Over(kCannotSend);
  written_ += put;
  if (!SendOutgoing() && broken_) return Over(kCannotSend);
  return put;
}

absl::StatusOr<bool> TlsStream::Flush() {
  MutexLock lock(&mu_);
  const bool left = SendOutgoing();
  if (broken_) return Over(kCannotSend);
  return left;
}

bool TlsStream::HasRead() {
  MutexLock lock(&mu_);
  return SSL_has_pending(ssl_.get()) == 1;
}

void TlsStream::Shut() { (void)shutdown(fd(), SHUT_RDWR); }

}  // namespace warpline
