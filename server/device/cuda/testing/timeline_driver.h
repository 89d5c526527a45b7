// A driver that executes nothing and knows what comes after what: its streams have operations, its
// events stand for those before their record, and its device addresses are reserved, mapped and
// accessible or not. Every function of the table exists, succeeds unless it is used wrongly, and is
// counted.
//
//   TimelineDriver driver;
//   ...
//   EXPECT_TRUE(driver.ComesAfter(later, earlier));   // Of operations, by their addresses.
//   EXPECT_EQ(driver.Count("cuEventRecord"), 0);
//   EXPECT_EQ(driver.Live(), "");
#ifndef WARPLINE_SERVER_DEVICE_CUDA_TESTING_TIMELINE_DRIVER_H_
#define WARPLINE_SERVER_DEVICE_CUDA_TESTING_TIMELINE_DRIVER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "server/device/cuda/driver_api.h"

namespace warpline::device {

// Thread-safe. One exists at a time.
class TimelineDriver {
 public:
  // An operation is named by the device address of its fill, or by a kernel's handle; each name is
  // used once. The first operations of a stream come after none.
  using Operations = std::set<uint64_t>;

  TimelineDriver();
  ~TimelineDriver();
  TimelineDriver(const TimelineDriver&) = delete;
  TimelineDriver& operator=(const TimelineDriver&) = delete;

  const DriverApi* api() const { return &api_; }
  // Makes the functions of green contexts missing.
  void DropGreenContexts();

  bool ComesAfter(uint64_t later, uint64_t earlier);
  // All operations so far are complete, or this one is; until then none is.
  void Complete();
  void Complete(uint64_t name);

  // How often the function was called, by its plain name, or all of them together.
  int Count(const std::string& name);
  int Calls();
  // The calls number `nth` and later of the function fail from now on; 0 for none.
  void Fail(const std::string& name, int nth);
  // What exists: "event 2, stream 1". Contexts count as often as they are retained.
  std::string Live();
  // What was done to objects that do not exist, and to addresses that do not allow it.
  std::string Misuse();
  // Whether every byte of the range is mapped and accessible.
  bool IsAccessible(uint64_t address, uint64_t bytes);
  // The number of mappings in the range.
  int Mappings(uint64_t address, uint64_t bytes);
  // What kernels need of local memory from now on.
  void HaveLocalBytes(int bytes) { local_bytes_ = bytes; }
  int local_bytes() const { return local_bytes_; }
  // The address is taken by somebody else.
  void Occupy(uint64_t address, uint64_t bytes);

  // --- For the functions of api().
  // Counts a call. Returns false if it is to fail.
  bool Enter(const char* name);
  uint64_t Make(const char* kind);
  CUresult Destroy(const char* kind, uint64_t id);
  // Something is done for which a driver would wait until no kernel runs: misuse when any operation
  // does.
  void Stall(const char* what);
  CUresult Issue(CUstream stream, uint64_t name);
  CUresult Record(CUevent event, CUstream stream);
  CUresult Wait(CUstream stream, CUevent event);
  CUresult QueryStream(CUstream stream);
  CUresult QueryEvent(CUevent event);
  CUresult Synchronize(CUstream stream);
  CUresult Reserve(CUdeviceptr* at, size_t bytes, CUdeviceptr wanted);
  CUresult Free(CUdeviceptr at, size_t bytes);
  CUresult Map(CUdeviceptr at, size_t bytes, uint64_t memory);
  CUresult Unmap(CUdeviceptr at, size_t bytes);
  CUresult SetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access);
  // The mapping in which the address lies.
  bool FindMapping(CUdeviceptr address, CUdeviceptr* start, size_t* bytes);

 private:
  struct Mapping {
    uint64_t bytes = 0;
    bool accessible = false;
  };

  bool Exists(const char* kind, uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CUresult Misused(const std::string& what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AllComplete(const Operations& operations) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  DriverApi api_;
  std::atomic<int> local_bytes_{0};
  Mutex mu_;
  std::map<std::string, int> counts_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int> failures_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::multiset<uint64_t>> live_ ABSL_GUARDED_BY(mu_);
  uint64_t next_ ABSL_GUARDED_BY(mu_) = 1;
  std::string misuse_ ABSL_GUARDED_BY(mu_);
  // What the next operation of a stream comes after, what an event stands for, and what each
  // operation came after.
  std::map<CUstream, Operations> streams_ ABSL_GUARDED_BY(mu_);
  std::map<CUevent, Operations> events_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Operations> before_ ABSL_GUARDED_BY(mu_);
  Operations complete_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, uint64_t> reserved_ ABSL_GUARDED_BY(mu_);  // Address -> bytes
  std::map<uint64_t, uint64_t> occupied_ ABSL_GUARDED_BY(mu_);  // Likewise
  std::map<uint64_t, Mapping> mappings_ ABSL_GUARDED_BY(mu_);   // By address
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_TESTING_TIMELINE_DRIVER_H_
