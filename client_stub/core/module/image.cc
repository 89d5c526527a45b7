#include "client_stub/core/module/image.h"

#include <fstream>
#include <iterator>
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
  bytes->assign(std::istreambuf_iterator<char>(file), {});
  return file.bad() ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_SUCCESS;
}

}  // namespace warpline::stub
