#include "common/undumpable.h"

#include <sys/prctl.h>

namespace warpline {

bool MakeUndumpable() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
#endif
}

}  // namespace warpline
