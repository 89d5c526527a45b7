// cuGetExportTable(): the tables of functions that the CUDA runtime library asks of its driver
// beside the documented API. README.md says what each is for and how that is known.
//
// The tables answer in the process, without the server, except through DriverView. Thread-safe.
//
// With --define=warpline_private_tables=off every table is refused: programs with a static
// libcudart then fail at their first call; those that use only the driver API work.
#ifndef WARPLINE_CLIENT_STUB_PRIVATE_TABLES_EXPORT_TABLES_H_
#define WARPLINE_CLIENT_STUB_PRIVATE_TABLES_EXPORT_TABLES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cuda.h"

namespace warpline {

// The parts of the driver that the tables need. Implementations are thread-safe and answer as the
// public call of the same meaning would, because the runtime compares the two (a device's UUID and
// PCI location, the driver's version). CurrentContext() is on the path of every runtime call.
class DriverView {
 public:
  virtual ~DriverView() = default;

  virtual int DriverVersion() = 0;  // 13000
  virtual int DeviceCount() = 0;
  virtual CUresult DeviceAttribute(int* value, CUdevice_attribute attribute, CUdevice device) = 0;
  virtual CUresult DeviceUuid(CUuuid* uuid, CUdevice device) = 0;

  // Gives the handle that retaining the device's primary context will give, without retaining it.
  virtual CUresult PrimaryContext(CUdevice device, CUcontext* context) = 0;

  // Works like cuCtxGetCurrent: CUDA_SUCCESS and nullptr where the thread has no context.
  virtual CUresult CurrentContext(CUcontext* context) = 0;

  // Works like cuCtxGetId for a context that is not nullptr.
  virtual CUresult ContextId(CUcontext context, uint64_t* id) = 0;
  // Works like cuStreamGetId with `context` current; `per_thread` selects its _ptsz variant. The id
  // is never 0. Without a context, a default stream is CUDA_ERROR_INVALID_HANDLE; any other stream
  // is known by its handle.
  virtual CUresult StreamId(CUcontext context, CUstream stream, bool per_thread, uint64_t* id) = 0;
  // Works like cuModuleEnumerateFunctions and gives all functions.
  virtual CUresult Functions(CUmodule module, std::vector<CUfunction>* functions) = 0;
};

// Stores the table `id` in *table: static memory, never freed. Every call must pass the same
// `view`, which must outlive the process's last call into any table. For a table that this driver
// does not have it gives CUDA_ERROR_INVALID_VALUE and nullptr, and logs a line the first time.
CUresult GetExportTable(DriverView* view, const CUuuid* id, const void** table);

// Drops the values that libraries attached to `context` and runs their destructors, on this thread.
// Call this when a context is destroyed or a primary context is reset, while its handle is still
// the one that the context calls take.
void ForgetContext(CUcontext context);

// Returns the PTX behind machine code that a compiler made in this process (compiled_ptx.h), or in
// another one that left it where the compile cache keeps results; nullptr where it is not known.
std::shared_ptr<const std::string> PtxBehind(std::string_view code);

}  // namespace warpline

#endif  // WARPLINE_CLIENT_STUB_PRIVATE_TABLES_EXPORT_TABLES_H_
