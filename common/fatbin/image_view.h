// Finds the extent of an image that a program passed to libcuda by its address alone.
//
// The memory is the program's own and is trusted as far as CUDA trusts it: sizes in headers are
// believed. Used on the client only. Thread-safe.
#ifndef WARPLINE_COMMON_FATBIN_IMAGE_VIEW_H_
#define WARPLINE_COMMON_FATBIN_IMAGE_VIEW_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace warpline::fatbin {

// Takes `image` as cuModuleLoadData and cuLibraryLoadData do: a wrapper (__fatBinC_Wrapper_t), a
// fatbin container, a cubin, or PTX text that ends in NUL. The view covers the container, cubin or
// text (without its NUL). INVALID_ARGUMENT for null and for anything else.
absl::StatusOr<std::string_view> ViewImage(const void* image);

// Whether `image`, which ViewImage() took, is a wrapper.
bool IsWrapper(const void* image);

// The containers from before device linking that a wrapper of version 2 holds. Empty for any other
// image.
std::vector<std::string_view> PrelinkedImages(const void* image);

}  // namespace warpline::fatbin

#endif  // WARPLINE_COMMON_FATBIN_IMAGE_VIEW_H_
