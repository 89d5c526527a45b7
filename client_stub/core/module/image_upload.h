// Sends a module's image to the server: its hash where the server may have it, otherwise its bytes
// in parts, compressed where that pays.
#ifndef WARPLINE_CLIENT_STUB_CORE_MODULE_IMAGE_UPLOAD_H_
#define WARPLINE_CLIENT_STUB_CORE_MODULE_IMAGE_UPLOAD_H_

#include <cstdint>
#include <string_view>

#include "client_stub/session/commands.h"
#include "client_stub/session/session_terms.h"
#include "common/cuda/cuda_result.h"

namespace warpline::stub {

// The result of a call that uses a module whose image was named by its hash and is not on the
// server.
inline constexpr CudaResult kImageMissing = CudaResult::kNotReady;

// Whether to ask the server for such an image before sending it.
bool WorthAsking(const SessionTerms& terms, std::string_view bytes);

// Names `bytes` by their hash, as image `image`. The first answer about the module that is made of
// it tells whether the server has them. Returns the command's number, 0 when the session is lost.
uint64_t AskForImage(Commands* commands, uint64_t image, std::string_view bytes);

// Sends all of `bytes` as image `image`. Returns the last command's number, 0 when the session is
// lost.
uint64_t SendImage(const SessionTerms& terms, Commands* commands, uint64_t image,
                   std::string_view bytes);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MODULE_IMAGE_UPLOAD_H_
