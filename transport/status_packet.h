// A status as bytes of at most kMaxStatusPacket, for transports that send an end's last word so.
#ifndef WARPLINE_TRANSPORT_STATUS_PACKET_H_
#define WARPLINE_TRANSPORT_STATUS_PACKET_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "proto/refusal.h"

namespace warpline {

inline constexpr size_t kMaxStatusMessage = 1024;
inline constexpr size_t kMaxStatusPacket = 8 + kMaxStatusMessage + kMaxRefusalBytes;

// Of the status's payloads it has the refusal (proto/refusal.h). A longer message is cut.
std::string EncodeStatus(const absl::Status& status);

// The reverse. The bytes may be anything: false for what is no status.
bool DecodeStatus(std::string_view packet, absl::Status* status);

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_STATUS_PACKET_H_
