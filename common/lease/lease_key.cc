#include "common/lease/lease_key.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/crypto/content_hash.h"
#include "common/crypto/openssl.h"
#include "common/crypto/secret.h"
#include "common/text_file.h"
#include "common/unique_fd.h"

namespace warpline {
namespace {

// AES-256-GCM with a nonce of its own for each message: nonce, text, tag.
constexpr size_t kSecretBytes = 32;
constexpr size_t kNonceBytes = 12;
constexpr size_t kTagBytes = 16;
constexpr size_t kMaxSealedBytes = kNonceBytes + kMaxWordBytes + kTagBytes;
constexpr size_t kMarkBytes = 8;

// The connection to the keeper and its whole answer may take this long together.
constexpr absl::Duration kPatience = absl::Seconds(5);

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* Bytes(std::string* text) { return reinterpret_cast<unsigned char*>(text->data()); }

// The standard descriptors may be closed, and what the program prints must not come to the socket.
UniqueFd Connection() {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() > STDERR_FILENO || !fd.valid()) return fd;
  return UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

// Tells one text from others.
std::string MarkOf(absl::string_view text) {
  ContentHash hash = {};
  (void)HashContent(std::string(absl::StripAsciiWhitespace(text)), &hash);
  return std::string(hash.begin(), hash.begin() + kMarkBytes);
}

// Has the next call wait no longer than `left`. Returns false when no time is left.
bool LimitWait(const UniqueFd& fd, int option, absl::Duration left) {
  // A limit of zero would be none.
  if (left < absl::Microseconds(1)) return false;
  const timeval limit = absl::ToTimeval(left);
  return setsockopt(fd.get(), SOL_SOCKET, option, &limit, sizeof(limit)) == 0;
}

// Returns what the keeper sends, or an empty text when there is none or it takes too long.
std::string AskKeeper(const LeaseKey& key, const std::function<absl::Time()>& clock) {
  const absl::Time until = clock() + kPatience;
  const UniqueFd fd = Connection();
  const sockaddr_un address = key.address();
  int connected;
  do {
    if (!LimitWait(fd, SO_SNDTIMEO, until - clock())) return "";
    connected = connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } while (connected != 0 && errno == EINTR);
  if (connected != 0) return "";
  std::string sealed;
  char block[4096];
  while (LimitWait(fd, SO_RCVTIMEO, until - clock())) {
    const ssize_t got = recv(fd.get(), block, sizeof(block), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return "";
    if (got == 0) return sealed;
    sealed.append(block, static_cast<size_t>(got));
    if (sealed.size() > kMaxSealedBytes) return "";
  }
  return "";
}

// Returns what of `place` counts: see NamesLease().
LeaseTokenPlace WhatCounts(LeaseTokenPlace place) {
  const auto key = LeaseKey::Parse(place.key);
  if (!key.ok()) return place;
  const bool own_file = place.file.empty() || key->IsForFile(place.file);
  const bool own_endpoint = key->IsForEndpoint(place.endpoint);
  if (!own_endpoint && own_file) place.file.clear();
  if (!own_endpoint || !own_file) place.key.clear();
  return place;
}

constexpr char kNoKeeper[] =
    "the `warpline run` that held this program's lease has ended, or is out of reach "
    "(WARPLINE_LEASE_KEY)";
constexpr char kWhatToDo[] =
    "`warpline hold` keeps a lease for programs that outlive the command that started them, or "
    "that are started elsewhere";

}  // namespace

LeaseKey LeaseKey::New(absl::string_view endpoint, absl::string_view file) {
  LeaseKey key;
  key.secret_ = RandomBytes(kSecretBytes);
  key.endpoint_mark_ = MarkOf(endpoint);
  key.file_mark_ = MarkOf(file);
  return key;
}

absl::StatusOr<LeaseKey> LeaseKey::Parse(absl::string_view text) {
  if (text.size() != 2 * (kSecretBytes + 2 * kMarkBytes) ||
      !std::all_of(text.begin(), text.end(), absl::ascii_isxdigit)) {
    return absl::InvalidArgumentError("a malformed WARPLINE_LEASE_KEY");
  }
  const std::string bytes = absl::HexStringToBytes(text);
  LeaseKey key;
  key.secret_ = bytes.substr(0, kSecretBytes);
  key.endpoint_mark_ = bytes.substr(kSecretBytes, kMarkBytes);
  key.file_mark_ = bytes.substr(kSecretBytes + kMarkBytes);
  return key;
}

std::string LeaseKey::text() const {
  return absl::BytesToHexString(absl::StrCat(secret_, endpoint_mark_, file_mark_));
}

bool LeaseKey::IsForEndpoint(absl::string_view endpoint) const {
  return MarkOf(endpoint) == endpoint_mark_;
}

bool LeaseKey::IsForFile(absl::string_view file) const { return MarkOf(file) == file_mark_; }

sockaddr_un LeaseKey::address() const {
  ContentHash hash = {};
  // The name fills the address, so that its length is always the same.
  (void)HashContent(absl::StrCat("warpline lease keeper\n", secret_), &hash);
  const std::string name = absl::StrCat("warpline-lease-", HashText(hash));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  // A name that begins with a zero is abstract.
  std::memcpy(address.sun_path + 1, name.data(),
              std::min(name.size(), sizeof(address.sun_path) - 1));
  return address;
}

absl::StatusOr<std::string> LeaseKey::Seal(absl::string_view token) const {
  UseOpenSsl();
  const Context context(EVP_CIPHER_CTX_new());
  const std::string nonce = RandomBytes(kNonceBytes);
  std::string text(token.size(), '\0');
  std::string tag(kTagBytes, '\0');
  int done = 0;
  int more = 0;
  if (context == nullptr ||
      EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, Bytes(secret_), Bytes(nonce)) !=
          1 ||
      EVP_EncryptUpdate(context.get(), Bytes(&text), &done, Bytes(token),
                        static_cast<int>(token.size())) != 1 ||
      EVP_EncryptFinal_ex(context.get(), Bytes(&text) + done, &more) != 1 ||
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag.data()) != 1) {
    return absl::InternalError("OpenSSL cannot encrypt a token");
  }
  return absl::StrCat(nonce, text, tag);
}

absl::StatusOr<std::string> LeaseKey::Open(absl::string_view sealed) const {
  const absl::Status wrong = absl::UnauthenticatedError("not sealed with this key");
  if (sealed.size() < kNonceBytes + kTagBytes || sealed.size() > kMaxSealedBytes) return wrong;
  const absl::string_view nonce = sealed.substr(0, kNonceBytes);
  std::string tag(sealed.substr(sealed.size() - kTagBytes));
  const absl::string_view body =
      sealed.substr(kNonceBytes, sealed.size() - kNonceBytes - kTagBytes);
  UseOpenSsl();
  const Context context(EVP_CIPHER_CTX_new());
  std::string text(body.size(), '\0');
  int done = 0;
  int more = 0;
  if (context == nullptr ||
      EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, Bytes(secret_), Bytes(nonce)) !=
          1 ||
      EVP_DecryptUpdate(context.get(), Bytes(&text), &done, Bytes(body),
                        static_cast<int>(body.size())) != 1 ||
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag.data()) != 1 ||
      EVP_DecryptFinal_ex(context.get(), Bytes(&text) + done, &more) != 1) {
    return wrong;
  }
  return text;
}

bool NamesLease(const LeaseTokenPlace& place) {
  const LeaseTokenPlace counts = WhatCounts(place);
  return !counts.key.empty() || !counts.file.empty();
}

absl::StatusOr<std::string> ReadLeaseToken(const LeaseTokenPlace& place,
                                           const std::function<absl::Time()>& clock) {
  const LeaseTokenPlace counts = WhatCounts(place);
  if (counts.key.empty() && counts.file.empty()) return "";
  std::vector<std::string> problems;
  if (!counts.key.empty()) {
    const auto key = LeaseKey::Parse(counts.key);
    if (key.ok()) {
      auto token = key->Open(AskKeeper(*key, clock));
      if (token.ok()) return token;
    }
    problems.emplace_back(key.ok() ? kNoKeeper : key.status().message());
  }
  if (!counts.file.empty()) {
    // When the folder of `warpline run` is gone, another user may have made one of its name.
    auto token = counts.key.empty() ? ReadWordFile(counts.file) : ReadOwnWordFile(counts.file);
    if (token.ok()) return token;
    problems.push_back(absl::StrCat(token.status().message(), " (WARPLINE_TOKEN_FILE)"));
  }
  return absl::NotFoundError(absl::StrCat(absl::StrJoin(problems, ", and "), ". ", kWhatToDo));
}

}  // namespace warpline
