#include "transport/tls/tls_stream.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "transport/tcp/connect.h"

namespace warpline {
namespace {

constexpr char kSecret[] = "sixteen bytes or more";
constexpr char kOther[] = "sixteen bytes or mORE";

absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

std::pair<UniqueFd, UniqueFd> Sockets() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

struct Ends {
  std::unique_ptr<TlsStream> connects, accepts;
  absl::Status connected, accepted;
};

Ends Shake(const char* of_client, const char* of_server,
           uint64_t bytes_of_a_key = TlsStream::kBytesOfAKey) {
  auto [client, server] = Sockets();
  Ends ends;
  ends.connects =
      *TlsStream::Create(std::move(client), TlsStream::Role::kConnects, of_client, bytes_of_a_key);
  ends.accepts =
      *TlsStream::Create(std::move(server), TlsStream::Role::kAccepts, of_server, bytes_of_a_key);
  std::thread thread([&] { ends.accepted = ends.accepts->AwaitHandshake(Soon()); });
  ends.connected = ends.connects->AwaitHandshake(Soon());
  if (!ends.connected.ok()) ends.connects->Shut();
  thread.join();
  return ends;
}

void Send(TlsStream* stream, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto put = stream->Write(bytes.data(), bytes.size());
    ASSERT_TRUE(put.ok()) << put.status();
    bytes.remove_prefix(*put);
    if (*put == 0) (void)PollSocket(stream->fd(), POLLOUT, -1);
  }
  for (absl::StatusOr<bool> left = false; left.ok() && !*left; left = stream->Flush()) {
    (void)PollSocket(stream->fd(), POLLOUT, -1);
  }
}

std::string Receive(TlsStream* stream, size_t bytes) {
  std::string received(bytes, '\0');
  for (size_t done = 0; done < bytes;) {
    const auto got = stream->Read(received.data() + done, bytes - done);
    EXPECT_TRUE(got.ok()) << got.status();
    if (!got.ok()) return "";
    done += *got;
    if (*got == 0) (void)PollSocket(stream->fd(), POLLIN, -1);
  }
  return received;
}

std::string Bytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
  return bytes;
}

TEST(TlsStreamTest, MovesBytesBothWaysAtOnce) {
  const Ends ends = Shake(kSecret, kSecret);
  ASSERT_TRUE(ends.connected.ok() && ends.accepted.ok()) << ends.connected << ends.accepted;
  const std::string bytes = Bytes(5'000'011);
  std::thread there([&] { Send(ends.connects.get(), bytes); });
  std::thread back([&] { Send(ends.accepts.get(), bytes); });
  std::string at_client;
  std::thread client([&] { at_client = Receive(ends.connects.get(), bytes.size()); });
  EXPECT_EQ(Receive(ends.accepts.get(), bytes.size()), bytes);
  client.join();
  EXPECT_EQ(at_client, bytes);
  there.join();
  back.join();
}

TEST(TlsStreamTest, KeysAreRenewed) {
  const Ends ends = Shake(kSecret, kSecret, /*bytes_of_a_key=*/100'000);
  const std::string bytes = Bytes(3'000'000);
  std::thread there([&] { Send(ends.connects.get(), bytes); });
  EXPECT_EQ(Receive(ends.accepts.get(), bytes.size()), bytes);
  there.join();
}

TEST(TlsStreamTest, OnlyTheSecretOpensIt) {
  const Ends ends = Shake(kOther, kSecret);
  EXPECT_FALSE(ends.connected.ok());
  EXPECT_FALSE(ends.accepted.ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      TlsStream::Create(UniqueFd(), TlsStream::Role::kConnects, "short").status()));
}

// Returns what becomes of an end that meets OpenSSL's own, as a stranger has it.
absl::Status Meet(TlsStream::Role role, SSL_CTX* context) {
  auto [ours, theirs] = Sockets();
  auto stream = *TlsStream::Create(std::move(ours), role, kSecret);
  std::thread thread([&, fd = theirs.get()] {
    SSL* const ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
    (void)(role == TlsStream::Role::kConnects ? SSL_accept(ssl) : SSL_connect(ssl));
    SSL_free(ssl);
    (void)shutdown(fd, SHUT_RDWR);
  });
  const absl::Status status = stream->AwaitHandshake(Soon());
  stream->Shut();
  thread.join();
  return status;
}

TEST(TlsStreamTest, AStrangerWithoutTheKeyIsRefused) {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  EXPECT_FALSE(Meet(TlsStream::Role::kAccepts, context).ok());
  SSL_CTX_free(context);
}

// A self-signed certificate for a new key.
void UseCertificate(SSL_CTX* context) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_sign(certificate, key, EVP_sha256());
  EXPECT_EQ(SSL_CTX_use_certificate(context, certificate), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey(context, key), 1);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

TEST(TlsStreamTest, ACertificateDoesNotStandForTheKey) {
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  UseCertificate(context);
  EXPECT_FALSE(Meet(TlsStream::Role::kConnects, context).ok());
  SSL_CTX_free(context);
}

// The key that follows from kSecret.
int UseKnownKey(SSL* ssl, const EVP_MD*, const unsigned char** name, size_t* size,
                SSL_SESSION** session) {
  constexpr char kPurpose[] = "warpline relay, TLS 1.3, pre-shared key";
  constexpr unsigned char kCipher[] = {0x13, 0x01};
  unsigned char key[32];
  unsigned bytes = 0;
  HMAC(EVP_sha256(), kSecret, sizeof(kSecret) - 1, reinterpret_cast<const unsigned char*>(kPurpose),
       sizeof(kPurpose) - 1, key, &bytes);
  *session = SSL_SESSION_new();
  SSL_SESSION_set1_master_key(*session, key, sizeof(key));
  SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, kCipher));
  SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
  *name = reinterpret_cast<const unsigned char*>("warpline");
  *size = 8;
  return 1;
}

// Returns what becomes of an end whose client renews its keys without end. With `requests` it asks
// for the other end's as well, and reads none of the answers.
absl::Status RenewWithoutEnd(int requests) {
  auto [ours, theirs] = Sockets();
  auto stream = *TlsStream::Create(std::move(ours), TlsStream::Role::kAccepts, kSecret);
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL* const ssl = SSL_new(context);
  SSL_set_fd(ssl, theirs.get());
  SSL_set_psk_use_session_callback(ssl, &UseKnownKey);
  std::thread thread([&] { EXPECT_EQ(SSL_connect(ssl), 1); });
  EXPECT_EQ(stream->AwaitHandshake(Soon()), absl::OkStatus());
  thread.join();
  absl::StatusOr<size_t> got = size_t{0};
  char byte = 0;
  for (int i = 0; i < 1'000'000 && got.ok(); ++i) {
    EXPECT_EQ(SSL_key_update(ssl, requests), 1);
    EXPECT_EQ(SSL_do_handshake(ssl), 1);  // Sends it.
    got = stream->Read(&byte, 1);
  }
  SSL_free(ssl);
  SSL_CTX_free(context);
  return got.status();
}

TEST(TlsStreamTest, AnEndThatDoesNothingButRenewKeysIsGivenUp) {
  EXPECT_TRUE(absl::IsUnavailable(RenewWithoutEnd(SSL_KEY_UPDATE_REQUESTED)));
  EXPECT_TRUE(absl::IsUnavailable(RenewWithoutEnd(SSL_KEY_UPDATE_NOT_REQUESTED)));
}

TEST(TlsStreamTest, BytesThatAreNoTlsEndIt) {
  for (const bool accepts : {false, true}) {
    auto [ours, theirs] = Sockets();
    auto stream = *TlsStream::Create(
        std::move(ours), accepts ? TlsStream::Role::kAccepts : TlsStream::Role::kConnects, kSecret);
    const std::string bytes = Bytes(4096);
    ASSERT_EQ(send(theirs.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 4096);
    EXPECT_FALSE(stream->AwaitHandshake(Soon()).ok());
  }
}

TEST(TlsStreamTest, AnEndIsNoticed) {
  Ends ends = Shake(kSecret, kSecret);
  ends.accepts = nullptr;
  char byte = 0;
  while (true) {
    const auto got = ends.connects->Read(&byte, 1);
    if (!got.ok()) break;
    ASSERT_EQ(*got, 0u);
    (void)PollSocket(ends.connects->fd(), POLLIN, -1);
  }
  // Without a signal.
  absl::StatusOr<size_t> put = size_t{0};
  const std::string bytes = Bytes(1 << 20);
  while (put.ok()) put = ends.connects->Write(bytes.data(), bytes.size());
  EXPECT_TRUE(absl::IsUnavailable(put.status()));
}

TEST(TlsStreamTest, AHandshakeThatNobodyAnswersIsGivenUp) {
  auto [ours, theirs] = Sockets();
  auto stream = *TlsStream::Create(std::move(ours), TlsStream::Role::kConnects, kSecret);
  EXPECT_TRUE(absl::IsUnavailable(stream->AwaitHandshake(Soon(), [] { return true; })));
}

}  // namespace
}  // namespace warpline
