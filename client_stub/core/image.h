// The image behind a pointer that the application hands to cuModuleLoadData or cuLibraryLoadData.
#ifndef WARPLINE_CLIENT_STUB_CORE_IMAGE_H_
#define WARPLINE_CLIENT_STUB_CORE_IMAGE_H_

#include <string_view>

#include "client_stub/core/cuda_api.h"

namespace warpline::stub {

// Finds the bytes to send for `image`, which is a fatbin wrapper, a fatbin container, an ELF image
// or PTX text that ends in NUL: those of the container behind a wrapper, else of the image itself.
// They stay the caller's. The interface of CUDA tells no length, so `image` is taken at its word.
// CUDA_ERROR_INVALID_IMAGE for what is none of these; CUDA_ERROR_INVALID_VALUE for nullptr.
CUresult FindImage(const void* image, std::string_view* bytes);

// Reads a whole file. CUDA_ERROR_FILE_NOT_FOUND when it cannot be read.
CUresult ReadImageFile(const char* path, std::string* bytes);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_IMAGE_H_
