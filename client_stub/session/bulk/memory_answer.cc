#include "client_stub/session/bulk/memory_answer.h"

#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_result.h"
#include "proto/session.pb.h"

namespace warpline::stub {

absl::Status MemoryAnswered(const std::string& payload) {
  warpline_internal::HostMemoryAnswer answer;
  if (!answer.ParseFromString(payload)) {
    return absl::InvalidArgumentError("malformed answer about host memory");
  }
  if (answer.error() == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(CudaResultName(static_cast<CudaResult>(answer.error())), " ", answer.message()));
}

}  // namespace warpline::stub
