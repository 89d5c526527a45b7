#include "client_stub/session/bulk/slot_memory.h"

#include "absl/strings/str_cat.h"
#include "client_stub/session/bulk_memory.h"
#include "common/cuda/cuda_result.h"
#include "proto/session.pb.h"

namespace warpline::stub {

std::string MemoryRequest(uint64_t va) {
  warpline_internal::HostMemoryRequest request;
  request.set_va(va);
  request.set_bytes(BulkMemory::kSlotBytes);
  return request.SerializeAsString();
}

absl::Status MemoryAnswered(const std::string& payload) {
  warpline_internal::HostMemoryAnswer answer;
  if (!answer.ParseFromString(payload)) {
    return absl::InvalidArgumentError("malformed answer about host memory");
  }
  if (answer.error() == 0) return absl::OkStatus();
  const auto error = static_cast<CudaResult>(answer.error());
  const std::string why = absl::StrCat(CudaResultName(error), " ", answer.message());
  // Others pass, such as that the worker is being replaced.
  const bool final = error == CudaResult::kOutOfMemory || error == CudaResult::kNotPermitted;
  return final ? absl::ResourceExhaustedError(why) : absl::UnavailableError(why);
}

}  // namespace warpline::stub
