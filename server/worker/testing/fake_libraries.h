// The libraries of a FakeContext.
#ifndef WARPLINE_SERVER_WORKER_TESTING_FAKE_LIBRARIES_H_
#define WARPLINE_SERVER_WORKER_TESTING_FAKE_LIBRARIES_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_result.h"
#include "proto/adapters/cublas_slots.h"
#include "server/device/facets/libraries.h"
#include "server/worker/testing/fake_shared.h"

namespace warpline::worker {

// Thread-safe. A call's line in the log has its function, and the bytes of each operand with "w"
// behind those that are written.
class FakeLibraries : public virtual device::Libraries {
 public:
  explicit FakeLibraries(FakeShared* shared) : log_(shared->log) {}

  CudaResult LibraryVersion(uint32_t* version) override {
    *version = 130100;
    return CudaResult::kSuccess;
  }
  // One operation a microsecond.
  uint64_t LibraryMicroseconds(const device::LibraryCost& cost) override { return cost.work; }
  CudaResult CallLibrary(const device::LibraryRequest& request, device::StreamId stream,
                         uint32_t* launches) override {
    *launches = 1;
    std::string what = absl::StrCat(request.function);
    for (const auto& operand : request.operands) {
      absl::StrAppend(&what, " ", operand.bytes, operand.writes ? "w" : "");
    }
    for (const auto& addresses : request.addresses) {
      absl::StrAppend(&what, " ", addresses.count, "*", addresses.bytes,
                      addresses.writes ? "w" : "", "@", addresses.align);
    }
    return log_.Add("library", stream, what);
  }
  // Finds as many as are requested. The first one needs 100 bytes, the next one 200, and so on.
  CudaResult LibraryAlgorithms(uint32_t, absl::Span<const uint64_t> values,
                               std::vector<LtAlgorithm>* algorithms) override {
    algorithms->clear();
    for (uint64_t i = 1; i <= values[kLtMatmulRequested]; ++i) {
      algorithms->push_back({100 * i, static_cast<float>(i), {7, static_cast<uint32_t>(i)}});
    }
    return CudaResult::kSuccess;
  }
  // There are two, with the numbers 7 and 8.
  CudaResult LibraryKinds(absl::Span<const uint64_t>, std::vector<LtKind>* kinds) override {
    kinds->assign(2, LtKind{});
    (*kinds)[0].id = 7;
    (*kinds)[1].id = 8;
    return CudaResult::kSuccess;
  }
  CudaResult LibraryFault() override { return fault_.load(); }

  void FailLibraryCalls(CudaResult fault) { fault_ = fault; }

 private:
  FakeLog& log_;
  std::atomic<CudaResult> fault_{CudaResult::kSuccess};
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_TESTING_FAKE_LIBRARIES_H_
