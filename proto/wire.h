// How commands and replies lie in the payloads of kCommands and kReplies frames.
//
// A command is a CommandHeader, the struct of proto/commands.h, and a tail; `size` counts all
// three, and the next command starts at the next multiple of 8. Its number is the header's
// first_seq plus its place. A reply is a ReplyHeader, a body, and a tail; the body of
// ReplyId::kReply is a ReplyBody followed by the command's reply struct. All integers are
// little-endian, as on x86-64.
//
//   std::string payload;
//   std::memcpy(AppendCommand(command, data.size(), &payload), data.data(), data.size());
//   ...
//   CommandReader reader(payload);
//   while (!reader.Done()) {
//     const absl::StatusOr<CommandView> view = reader.Next();
//     if (!view.ok()) return view.status();
//   }
#ifndef WARPLINE_PROTO_WIRE_H_
#define WARPLINE_PROTO_WIRE_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/commands.h"

namespace warpline {

struct CommandHeader {
  uint16_t id;
  uint16_t reserved;  // 0
  uint32_t size;
};
static_assert(sizeof(CommandHeader) == 8);

struct ReplyHeader {
  uint16_t id;
  uint16_t reserved;  // 0
  uint32_t size;
  uint64_t seq;
};
static_assert(sizeof(ReplyHeader) == 16);

// The start of the body of ReplyId::kReply. The command's own reply fields follow when `result` is
// 0, and are absent otherwise.
struct ReplyBody {
  int32_t result;  // CUresult
  uint32_t reserved;
};
static_assert(sizeof(ReplyBody) == 8);

inline constexpr size_t AlignWire(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

// The number of bytes that AppendCommand() will add.
template <typename Command>
constexpr size_t CommandBytes(size_t tail_bytes) {
  return AlignWire(sizeof(CommandHeader) + CommandTraits<Command>::kBodyBytes + tail_bytes);
}

// Appends one command. The caller fills the `tail_bytes` of the tail through the returned pointer,
// which is valid until `out` changes again.
template <typename Command>
char* AppendCommand(const Command& command, size_t tail_bytes, std::string* out) {
  constexpr size_t kFixed = sizeof(CommandHeader) + CommandTraits<Command>::kBodyBytes;
  const size_t start = out->size();
  out->resize(start + CommandBytes<Command>(tail_bytes));
  const CommandHeader header = {static_cast<uint16_t>(CommandTraits<Command>::kId), 0,
                                static_cast<uint32_t>(kFixed + tail_bytes)};
  char* at = out->data() + start;
  std::memcpy(at, &header, sizeof(header));
  if constexpr (CommandTraits<Command>::kBodyBytes > 0) {
    std::memcpy(at + sizeof(header), &command, CommandTraits<Command>::kBodyBytes);
  }
  return at + kFixed;
}

// One command as read from untrusted bytes. The views point into the payload.
struct CommandView {
  CommandId id;
  std::string_view body;  // Fields and tail: at least FindCommand(id).body_bytes.
};

// Reads the commands of one payload, checking every length and id. Thread-compatible.
class CommandReader {
 public:
  explicit CommandReader(std::string_view commands) : rest_(commands) {}

  bool Done() const { return rest_.empty(); }
  // INVALID_ARGUMENT for bytes that are not a known, complete command. REQUIRES: !Done().
  absl::StatusOr<CommandView> Next();

 private:
  std::string_view rest_;
};

// Appends the reply to round trip `seq`. `fields` are the bytes of the command's reply struct.
void AppendReply(uint64_t seq, int32_t result, std::string_view fields, std::string_view tail,
                 std::string* out);

template <typename Notice>
void AppendNotice(ReplyId id, uint64_t seq, const Notice& notice, std::string_view tail,
                  std::string* out) {
  const size_t size = sizeof(ReplyHeader) + sizeof(Notice) + tail.size();
  const size_t start = out->size();
  out->resize(start + AlignWire(size));
  const ReplyHeader header = {static_cast<uint16_t>(id), 0, static_cast<uint32_t>(size), seq};
  char* at = out->data() + start;
  std::memcpy(at, &header, sizeof(header));
  std::memcpy(at + sizeof(header), &notice, sizeof(Notice));
  if (!tail.empty()) std::memcpy(at + sizeof(header) + sizeof(Notice), tail.data(), tail.size());
}

struct ReplyView {
  ReplyId id;
  uint64_t seq;
  std::string_view body;
};

// Reads the replies of one payload, checking lengths and ids. Thread-compatible.
class ReplyReader {
 public:
  explicit ReplyReader(std::string_view replies) : rest_(replies) {}

  bool Done() const { return rest_.empty(); }
  absl::StatusOr<ReplyView> Next();

 private:
  std::string_view rest_;
};

// Takes a fixed struct off the front of `body`; returns false when there are too few bytes.
template <typename T>
bool TakeStruct(std::string_view* body, T* out) {
  if (body->size() < sizeof(T)) return false;
  std::memcpy(out, body->data(), sizeof(T));
  body->remove_prefix(sizeof(T));
  return true;
}

}  // namespace warpline

#endif  // WARPLINE_PROTO_WIRE_H_
