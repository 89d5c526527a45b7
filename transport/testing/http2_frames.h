// Frames of HTTP/2 (RFC 9113), for tests that send what no client library would.
#ifndef WARPLINE_TRANSPORT_TESTING_HTTP2_FRAMES_H_
#define WARPLINE_TRANSPORT_TESTING_HTTP2_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace warpline::testing {

inline constexpr char kHttp2Preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

inline std::string Http2Frame(uint8_t type, uint8_t flags, uint32_t stream,
                              absl::string_view payload = "") {
  const auto byte = [](size_t value) { return std::string(1, static_cast<char>(value & 0xff)); };
  const size_t size = payload.size();
  return absl::StrCat(byte(size >> 16), byte(size >> 8), byte(size), byte(type), byte(flags),
                      byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream),
                      payload);
}

// Returns the header block of a call of the method at `path`, of at most 127 bytes, with HPACK's
// static table (RFC 7541, appendix A).
inline std::string Http2CallHeaders(absl::string_view path) {
  const auto text = [](absl::string_view value) {
    return absl::StrCat(std::string(1, static_cast<char>(value.size())), value);
  };
  return absl::StrCat("\x83\x86\x04", text(path), "\x01", text("host"), "\x0f\x10",
                      text("application/grpc"), std::string(1, '\0'), text("te"), text("trailers"));
}

}  // namespace warpline::testing

#endif  // WARPLINE_TRANSPORT_TESTING_HTTP2_FRAMES_H_
