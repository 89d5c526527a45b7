// One end of a bulk connection over TCP: the bulk frames of proto/frames.h, whose bytes go straight
// between the socket and the memory where they belong.
//
// With TLS the end that connects shows the secret by its key, and then sends a TlsHello. In plain
// text, for networks that are trusted, it sends a BulkSocketHello; an eavesdropper learns the
// secret. From then on a frame is a BulkFrameHeader and its payload, both ways.
#ifndef WARPLINE_TRANSPORT_BULK_BULK_SOCKET_H_
#define WARPLINE_TRANSPORT_BULK_BULK_SOCKET_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"
#include "transport/tls/tls_stream.h"

namespace warpline {

inline constexpr size_t kBulkSecretBytes = 16;

struct BulkSocketHello {
  char secret[kBulkSecretBytes];
  uint32_t slot;
  uint32_t zero;
};
static_assert(sizeof(BulkSocketHello) == 24);

struct BulkFrameHeader {
  uint32_t kind;
  uint32_t bytes;  // Of the payload.
};
static_assert(sizeof(BulkFrameHeader) == 8);

// One thread at a time sends, and one receives; Shut() is thread-safe. An operation that fails,
// with UNAVAILABLE, leaves the connection useless.
class BulkSocket {
 public:
  // What is to be done with memory that the kernel does not reach for the process.
  enum class Unreachable {
    kRefuse,  // The operation fails.
    // It is touched, so that the process's own handler of faults may provide it.
    kTouch,
  };

  // In plain text; `fd` is connected, and blocks.
  BulkSocket(UniqueFd fd, Unreachable unreachable);
  // `stream` has completed its handshake.
  BulkSocket(std::unique_ptr<TlsStream> stream, Unreachable unreachable);

  // Connects the bulk connection of this slot to one of the places of
  // "10.0.0.1:14701,[fd00::1]:14701" (transport/tcp/connect.h), or with TLS to those of
  // "tls://10.0.0.1:14701", and says hello. INVALID_ARGUMENT for what is no such address or secret,
  // UNAVAILABLE when nobody has answered until then, or soon after given_up() is true,
  // UNAUTHENTICATED for an end that does not know the secret.
  static absl::StatusOr<std::unique_ptr<BulkSocket>> Connect(
      const std::string& endpoint, std::string_view secret, uint32_t slot, absl::Time until,
      Unreachable unreachable, const std::function<bool()>& given_up = nullptr);

  // Sends a frame whose payload is `head` and `bytes`, and returns when both have been read. While
  // the other end takes no more, and has sent something that was not received, `receive` is called,
  // on this thread, if there is one; it returns whether it has received anything.
  absl::Status Send(uint32_t kind, std::string_view head, std::string_view bytes,
                    const std::function<bool()>& receive = nullptr);
  // Waits for all of it.
  absl::Status Receive(void* to, size_t bytes);
  // Waits until there is something to receive, or the connection has ended. False at `until`.
  bool AwaitReadable(absl::Time until);

  // Has all that waits fail, and what comes after.
  void Shut();

 private:
  // In plain text.
  absl::Status SendHello(std::string_view secret, uint32_t slot);
  absl::Status SendSome(std::string_view* head, std::string_view* bytes,
                        const std::function<bool()>& receive);
  // Sends some with TLS. The head goes into one record with the first bytes.
  absl::Status SendEncrypted(std::string_view* head, std::string_view* bytes,
                             const std::function<bool()>& receive);
  absl::Status ReceiveDecrypted(void* to, size_t bytes);
  // Waits until more can be sent, or something was received meanwhile.
  void AwaitRoom(const std::function<bool()>& receive);
  // Moves through memory that is there.
  absl::Status SendTouching(std::string_view* bytes, const std::function<bool()>& receive);

  int fd() const { return stream_ != nullptr ? stream_->fd() : fd_.get(); }

  const UniqueFd fd_;
  const std::unique_ptr<TlsStream> stream_;  // Null in plain text.
  const Unreachable unreachable_;
  // Bytes on their way to and from the stream; the sender's and the receiver's.
  std::unique_ptr<char[]> out_;
  std::unique_ptr<char[]> in_;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_BULK_BULK_SOCKET_H_
