// Finds the image behind a pointer or path that the application hands to cuModuleLoadData,
// cuLibraryLoadData and the like.
#ifndef WARPLINE_CLIENT_STUB_CORE_MODULE_IMAGE_H_
#define WARPLINE_CLIENT_STUB_CORE_MODULE_IMAGE_H_

#include <string>
#include <string_view>

#include "client_stub/core/base/cuda_api.h"

namespace warpline::stub {

// Finds the bytes to send for `image` (common/fatbin/image_view.h). They stay the caller's.
// CUDA_ERROR_INVALID_IMAGE for a pointer to anything else; CUDA_ERROR_INVALID_VALUE for nullptr.
CUresult FindImage(const void* image, std::string_view* bytes);

// Reads a whole file, whatever it contains. CUDA_ERROR_FILE_NOT_FOUND when it cannot be read.
CUresult ReadImageFile(const char* path, std::string* bytes);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MODULE_IMAGE_H_
