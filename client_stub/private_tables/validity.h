// The answer that the CUDA runtime expects from its driver before it trusts it (INTEGRITY_CHECK).
//
// The runtime computes the same over what it knows about its process and what the driver's own
// calls told it, and fails every call with cudaErrorSoftwareValidityNotEstablished when the two
// differ. Stateless and thread-safe. See README.md in this folder for where the construction is
// published.
#ifndef WARPLINE_CLIENT_STUB_PRIVATE_TABLES_VALIDITY_H_
#define WARPLINE_CLIENT_STUB_PRIVATE_TABLES_VALIDITY_H_

#include <cstdint>
#include <vector>

#include "client_stub/private_tables/md2.h"
#include "cuda.h"

namespace warpline {

// A device as cuDeviceGetUuid and cuDeviceGetAttribute report it.
struct ValidityDevice {
  CUuuid uuid;
  int32_t pci_domain;
  int32_t pci_bus;
  int32_t pci_device;
};

struct ValidityQuestion {
  uint32_t version;         // Asked by the runtime: its own version + 0, 1 or 2.
  uint64_t unix_seconds;    // Asked by the runtime.
  uint32_t driver_version;  // The answer of cuDriverGetVersion.
  uint32_t process;         // getpid().
  uint32_t thread;          // The low half of pthread_self() of the asking thread.
  const void* cudart_interface_table;
  const void* integrity_check_table;
  const void* integrity_check_function;
  std::vector<ValidityDevice> devices;  // All, in order.
};

Md2Digest ValidityAnswer(const ValidityQuestion& question);

}  // namespace warpline

#endif  // WARPLINE_CLIENT_STUB_PRIVATE_TABLES_VALIDITY_H_
