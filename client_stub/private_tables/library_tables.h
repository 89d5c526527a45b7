// The tables that cuBLAS, cuBLASLt and cuFFT ask for beside those of the runtime library that each
// of them embeds. README.md says what each is for and how that is known.
#ifndef WARPLINE_CLIENT_STUB_PRIVATE_TABLES_LIBRARY_TABLES_H_
#define WARPLINE_CLIENT_STUB_PRIVATE_TABLES_LIBRARY_TABLES_H_

#include "cuda.h"

namespace warpline {

// Returns the slots of table `id`, static memory; nullptr when it is none of these tables.
// Thread-safe.
void* const* LibraryTable(const CUuuid& id);

}  // namespace warpline

#endif  // WARPLINE_CLIENT_STUB_PRIVATE_TABLES_LIBRARY_TABLES_H_
