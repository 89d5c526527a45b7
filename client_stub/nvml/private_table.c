/* nvidia-smi asks for a private table of functions before anything else, and gives up without one.
 * It does well with functions that say that they are not supported, and then uses public ones. */
#include <stddef.h>
#include <string.h>

#include "client_stub/nvml/facts.h"

enum { kEntries = 512 };

static int NotSupported(void) { return kNvmlNotSupported; }

int nvmlInternalGetExportTable(const void** table, const unsigned char* id) {
  static const unsigned char kKnown[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
                                           0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};
  /* The first element is the table's size in bytes. Each thread that comes writes the same. */
  static void* entries[kEntries];
  if (table == NULL || id == NULL) return kNvmlInvalidArgument;
  *table = NULL;
  if (memcmp(id, kKnown, sizeof(kKnown)) != 0) return kNvmlNotFound;
  for (int i = 1; i < kEntries; ++i) {
    __atomic_store_n(&entries[i], (void*)NotSupported, __ATOMIC_RELAXED);
  }
  __atomic_store_n(&entries[0], (void*)sizeof(entries), __ATOMIC_RELEASE);
  *table = (const void*)entries;
  return kNvmlSuccess;
}
