// Errors about files of saved sessions.
#ifndef WARPLINE_SERVER_GPU_SERVER_SAVED_FILE_ERRORS_H_
#define WARPLINE_SERVER_GPU_SERVER_SAVED_FILE_ERRORS_H_

#include <string>

#include "absl/status/status.h"

namespace warpline::server {

// Returns errno's text behind the path. RESOURCE_EXHAUSTED for a full disk, NOT_FOUND,
// PERMISSION_DENIED, otherwise UNAVAILABLE.
absl::Status FileError(const std::string& path, int error);
// DATA_LOSS: the file has other bytes than were written.
absl::Status ChangedFile(const std::string& path);
// INVALID_ARGUMENT, for a file as no server writes one.
absl::Status MalformedFile(const std::string& path, const char* what);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SAVED_FILE_ERRORS_H_
