// Leaves a file, which WARPLINE_AUDITOR_FILE names, when the dynamic loader runs it.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void LeaveFile(void) {
  const char* const path = getenv("WARPLINE_AUDITOR_FILE");
  if (path != NULL) close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

__attribute__((constructor)) static void Begin(void) { LeaveFile(); }

unsigned la_version(unsigned version);
unsigned la_version(unsigned version) {
  LeaveFile();
  return version;
}
