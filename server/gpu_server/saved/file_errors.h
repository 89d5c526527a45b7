// Files of saved sessions, and errors about them.
#ifndef WARPLINE_SERVER_GPU_SERVER_SAVED_FILE_ERRORS_H_
#define WARPLINE_SERVER_GPU_SERVER_SAVED_FILE_ERRORS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace warpline::server {

// Returns errno's text behind the path. RESOURCE_EXHAUSTED for a full disk, NOT_FOUND,
// PERMISSION_DENIED, otherwise UNAVAILABLE.
absl::Status FileError(const std::string& path, int error);
// DATA_LOSS: the file has other bytes than were written.
absl::Status ChangedFile(const std::string& path);
// INVALID_ARGUMENT, for a file as no server writes one.
absl::Status MalformedFile(const std::string& path, const char* what);

// Opens a file that should have so many bytes, to be read. FileError()'s errors; MalformedFile()
// for anything but a regular file, and ChangedFile() for another size.
absl::StatusOr<UniqueFd> OpenSavedFile(const std::string& path, uint64_t bytes);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SAVED_FILE_ERRORS_H_
