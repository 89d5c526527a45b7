// Where a server listens, and `warpline` looks for one, when nothing else is said.
#ifndef WARPLINE_COMMON_ENDPOINT_H_
#define WARPLINE_COMMON_ENDPOINT_H_

namespace warpline {

inline constexpr char kDefaultEndpoint[] = "127.0.0.1:14000";

}  // namespace warpline

#endif  // WARPLINE_COMMON_ENDPOINT_H_
