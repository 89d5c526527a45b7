// The version of this tree, as --version prints it and servers tell clients for their logs.
#ifndef WARPLINE_COMMON_VERSION_H_
#define WARPLINE_COMMON_VERSION_H_

namespace warpline {

inline constexpr char kVersion[] = "0.1.0";

// The CUDA whose driver API clients offer, as cuDriverGetVersion reports it.
inline constexpr int kCudaVersion = 13000;

}  // namespace warpline

#endif  // WARPLINE_COMMON_VERSION_H_
