#include "client_stub/core/module/image.h"

#include <fstream>
#include <string>

#include "common/fatbin/image_view.h"

namespace warpline::stub {

CUresult FindImage(const void* image, std::string_view* bytes) {
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto found = fatbin::ViewImage(image);
  if (!found.ok()) return CUDA_ERROR_INVALID_IMAGE;
  *bytes = *found;
  return CUDA_SUCCESS;
}

CUresult ReadImageFile(const char* path, std::string* bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  bytes->clear();
  char block[64 << 10];
  // A stream's iterators throw when the reading fails, as that of a folder does; read() says so.
  do {
    file.read(block, sizeof(block));
    bytes->append(block, static_cast<size_t>(file.gcount()));
  } while (file);
  return file.bad() ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_SUCCESS;
}

}  // namespace warpline::stub
