#include "proto/wire.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace warpline {

absl::StatusOr<CommandView> CommandReader::Next() {
  CommandHeader header;
  if (rest_.size() < sizeof(header)) return absl::InvalidArgumentError("half a command header");
  std::memcpy(&header, rest_.data(), sizeof(header));
  if (header.id == 0 || header.id > kCommandCount || header.reserved != 0) {
    return absl::InvalidArgumentError(absl::StrCat("unknown command ", header.id));
  }
  const CommandInfo& info = FindCommand(static_cast<CommandId>(header.id));
  const size_t fixed = sizeof(header) + info.body_bytes;
  if (header.size < fixed || header.size > rest_.size() ||
      (!info.has_tail && header.size != fixed)) {
    return absl::InvalidArgumentError(
        absl::StrCat("command ", info.name, " of ", header.size, " bytes"));
  }
  CommandView view = {info.id, rest_.substr(sizeof(header), header.size - sizeof(header))};
  rest_.remove_prefix(std::min(rest_.size(), AlignWire(header.size)));
  return view;
}

void AppendReply(uint64_t seq, int32_t result, std::string_view fields, std::string_view tail,
                 std::string* out) {
  const size_t size = sizeof(ReplyHeader) + sizeof(ReplyBody) + fields.size() + tail.size();
  const size_t start = out->size();
  const ReplyHeader header = {static_cast<uint16_t>(ReplyId::kReply), 0,
                              static_cast<uint32_t>(size), seq};
  const ReplyBody body = {result, 0};
  out->append(reinterpret_cast<const char*>(&header), sizeof(header));
  out->append(reinterpret_cast<const char*>(&body), sizeof(body));
  out->append(fields);
  out->append(tail);
  out->resize(start + AlignWire(size));
}

absl::StatusOr<ReplyView> ReplyReader::Next() {
  ReplyHeader header;
  if (rest_.size() < sizeof(header)) return absl::InvalidArgumentError("half a reply header");
  std::memcpy(&header, rest_.data(), sizeof(header));
  if (header.id < static_cast<uint16_t>(ReplyId::kReply) ||
      header.id > static_cast<uint16_t>(kLastReplyId)) {
    return absl::InvalidArgumentError(absl::StrCat("unknown reply ", header.id));
  }
  if (header.size < sizeof(header) || header.size > rest_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("reply of ", header.size, " bytes"));
  }
  ReplyView view = {static_cast<ReplyId>(header.id), header.seq,
                    rest_.substr(sizeof(header), header.size - sizeof(header))};
  rest_.remove_prefix(std::min(rest_.size(), AlignWire(header.size)));
  return view;
}

}  // namespace warpline
