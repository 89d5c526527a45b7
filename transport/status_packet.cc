#include "transport/status_packet.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace warpline {
namespace {

struct Head {
  uint32_t code;
  uint32_t message_bytes;  // The refusal follows the message.
};

}  // namespace

std::string EncodeStatus(const absl::Status& status) {
  const absl::string_view message = status.message().substr(0, kMaxStatusMessage);
  const Head head = {static_cast<uint32_t>(status.raw_code()),
                     static_cast<uint32_t>(message.size())};
  std::string packet(reinterpret_cast<const char*>(&head), sizeof(head));
  packet.append(message.data(), message.size());
  const auto refusal = status.GetPayload(kRefusalPayload);
  if (refusal.has_value() && refusal->size() <= kMaxRefusalBytes) packet += std::string(*refusal);
  return packet;
}

bool DecodeStatus(std::string_view packet, absl::Status* status) {
  Head head;
  if (packet.size() < sizeof(head)) return false;
  std::memcpy(&head, packet.data(), sizeof(head));
  packet.remove_prefix(sizeof(head));
  if (head.message_bytes > packet.size() || head.message_bytes > kMaxStatusMessage) return false;
  const std::string_view refusal = packet.substr(head.message_bytes);
  if (refusal.size() > kMaxRefusalBytes) return false;
  *status = absl::Status(static_cast<absl::StatusCode>(head.code),
                         absl::string_view(packet.data(), head.message_bytes));
  if (!status->ok() && !refusal.empty()) {
    status->SetPayload(kRefusalPayload, absl::Cord({refusal.data(), refusal.size()}));
  }
  return true;
}

}  // namespace warpline
