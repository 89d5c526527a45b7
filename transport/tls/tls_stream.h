// TLS 1.3 over a connected TCP socket, between two ends that share a secret and have no
// certificates. They use an external pre-shared key (RFC 8446, 2.2 and 4.2.11) together with an
// ephemeral key exchange. So recorded bytes stay secret when the secret becomes known.
#ifndef WARPLINE_TRANSPORT_TLS_TLS_STREAM_H_
#define WARPLINE_TRANSPORT_TLS_TLS_STREAM_H_

#include <openssl/ssl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/unique_fd.h"

namespace warpline {

// Several records leave at once, in one call of the system. Thread-safe: one thread may write while
// another reads. No call blocks but AwaitHandshake(). After an error the stream is useless.
class TlsStream {
 public:
  enum class Role { kConnects, kAccepts };
  // So much is encrypted before it is sent. The other end decrypts one batch while this one
  // encrypts the next.
  static constexpr size_t kBatch = size_t{64} << 10;

  // A handshake is complete, or waits to read or to write.
  enum class Step { kDone, kReads, kWrites };

  // With one key an end sends no more than this: far less than AES-GCM allows (RFC 8446, 5.5).
  static constexpr uint64_t kBytesOfAKey = uint64_t{64} << 30;

  // Loads what the first stream would load, for a process that may not read files later.
  // UNAVAILABLE when OpenSSL cannot be set up.
  static absl::Status Load();
  // `fd` is connected. `secret` is random, of at least 16 bytes, and for this purpose alone.
  // INVALID_ARGUMENT for a shorter one, RESOURCE_EXHAUSTED when OpenSSL has no memory.
  static absl::StatusOr<std::unique_ptr<TlsStream>> Create(UniqueFd fd, Role role,
                                                           std::string_view secret,
                                                           uint64_t bytes_of_a_key = kBytesOfAKey);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // Goes on with the handshake. UNAUTHENTICATED when the other end does not know the secret,
  // UNAVAILABLE when the connection has ended.
  absl::StatusOr<Step> Shake();
  // Does all of it. UNAVAILABLE, too, when it was not complete until then, or soon after given_up()
  // is true.
  absl::Status AwaitHandshake(absl::Time until, const std::function<bool()>& given_up = nullptr);

  // Returns how many bytes were read: 0 when there are none until poll(2) has POLLIN for fd().
  // UNAVAILABLE when the connection has ended or the other end has broken the protocol.
  absl::StatusOr<size_t> Read(void* to, size_t bytes);
  // Takes some of the bytes, and sends what can be sent now of all that was taken. Returns how many
  // it has taken: 0 when too much has not left, until poll(2) has POLLOUT for fd(). Bytes that were
  // taken leave with later calls. Errors are those of Read().
  absl::StatusOr<size_t> Write(const void* from, size_t bytes);
  // Sends what was taken. Returns false while some of it cannot leave.
  absl::StatusOr<bool> Flush();
  // Returns whether bytes have come that were not read, besides what poll(2) knows of.
  bool HasRead();

  int fd() const { return fd_.get(); }
  // Ends the connection: all calls fail from now on.
  void Shut();

 private:
  struct FreeSsl {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  TlsStream(UniqueFd fd, std::string key, uint64_t bytes_of_a_key);

  // OpenSSL asks these for the key.
  static int UseKey(SSL* ssl, const EVP_MD* digest, const unsigned char** name, size_t* size,
                    SSL_SESSION** session);
  static int FindKey(SSL* ssl, const unsigned char* name, size_t size, SSL_SESSION** session);
  SSL_SESSION* NewSession(SSL* ssl) const;

  // OpenSSL calls these to send and to receive, within a call that holds the lock.
  static int Append(BIO* bio, const char* from, size_t bytes,
                    size_t* taken) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  static int Receive(BIO* bio, char* to, size_t bytes, size_t* read) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  static BIO_METHOD* Method();
  // Does what Flush() does. Returns false also where the connection has ended.
  bool SendOutgoing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // UNAVAILABLE with `what` and the socket's error, if there was one.
  absl::Status Over(absl::string_view what) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const UniqueFd fd_;
  const std::string key_;
  const uint64_t bytes_of_a_key_;
  Mutex mu_;
  std::unique_ptr<SSL, FreeSsl> ssl_ ABSL_GUARDED_BY(mu_);
  uint64_t written_ ABSL_GUARDED_BY(mu_) = 0;  // With the present key.
  // Encrypted bytes that have not left: from sent_ on.
  std::string outgoing_ ABSL_GUARDED_BY(mu_);
  size_t sent_ ABSL_GUARDED_BY(mu_) = 0;
  size_t read_in_vain_ ABSL_GUARDED_BY(mu_) = 0;  // Since data came last.
  bool broken_ ABSL_GUARDED_BY(mu_) = false;      // Nothing can be sent any more.
  int error_ ABSL_GUARDED_BY(mu_) = 0;            // The socket's first error.
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_TLS_TLS_STREAM_H_
