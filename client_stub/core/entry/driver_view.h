// The private tables' view of this driver.
#ifndef WARPLINE_CLIENT_STUB_CORE_ENTRY_DRIVER_VIEW_H_
#define WARPLINE_CLIENT_STUB_CORE_ENTRY_DRIVER_VIEW_H_

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/private_tables/export_tables.h"

namespace warpline::stub {

// Never returns nullptr; the view lives as long as the process.
DriverView* TheDriverView();

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_ENTRY_DRIVER_VIEW_H_
