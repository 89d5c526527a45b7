// One end of a bulk connection over plain TCP: the bulk frames of proto/frames.h, whose bytes go
// straight between the socket and the memory where they belong.
//
// The one who connects sends a BulkSocketHello. From then on a frame is a BulkFrameHeader and its
// payload, both ways. Nothing is encrypted, and who reads on the way learns the secret: for
// networks that are trusted.
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

  // `fd` is connected, and blocks.
  BulkSocket(UniqueFd fd, Unreachable unreachable);

  // Connects to "10.0.0.1:14701" or "[fd00::1]:14701". INVALID_ARGUMENT for what is no such
  // address, UNAVAILABLE when nobody has answered until then, or soon after given_up() is true.
  static absl::StatusOr<std::unique_ptr<BulkSocket>> Connect(
      const std::string& endpoint, absl::Time until, Unreachable unreachable,
      const std::function<bool()>& given_up = nullptr);

  absl::Status SendHello(std::string_view secret, uint32_t slot);
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
  absl::Status SendSome(std::string_view* head, std::string_view* bytes,
                        const std::function<bool()>& receive);
  // Moves through memory that is there.
  absl::Status SendTouching(std::string_view* bytes, const std::function<bool()>& receive);

  const UniqueFd fd_;
  const Unreachable unreachable_;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_BULK_BULK_SOCKET_H_
