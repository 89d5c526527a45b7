// A library that blocks addresses: it holds a page at each address that OBSTACLES names, as
// "0x300000000000,0x200000000000". LD_PRELOAD loads it before a worker's program.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((constructor)) static void LieInTheWay(void) {
  const char* next = getenv("OBSTACLES");
  while (next != NULL && *next != '\0') {
    char* end;
    const unsigned long long address = strtoull(next, &end, 16);
    if (end == next) _exit(70);
    const long at = syscall(SYS_mmap, address, 4096, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != (long)address) _exit(71);
    next = *end == ',' ? end + 1 : end;
  }
}
