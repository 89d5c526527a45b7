// Linked without PIE, so that `environ` and `stdout` of libc are copied into the program: libc then
// uses the copies, and a library that finds libc's own has stale ones.
#include <stdlib.h>
#include <string.h>

#include "workload.h"

extern char** environ;

int main(void) {
  // Sets the environment as a launcher does that names the server itself: through a new array, by
  // the copy.
  static char* variables[64];
  static char variable[256];
  int count = 1;
  const char* endpoint = getenv("LATER_ENDPOINT");
  if (endpoint == NULL) return WorkloadFailed("LATER_ENDPOINT", 0);
  snprintf(variable, sizeof(variable), "WARPLINE_ENDPOINT=%s", endpoint);
  for (char** from = environ; *from != NULL && count < 62; ++from) variables[count++] = *from;
  variables[0] = variable;
  environ = variables;
  if (RunWorkload(3) != 0) return 1;
  fprintf(stdout, "host: ok\n");
  return 0;
}
