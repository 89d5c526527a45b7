#include "workload.h"

int namesake_answer(void);

int main(void) {
  if (namesake_answer() != 42) return 1;
  if (RunWorkload(3) != 0) return 1;
  puts("host: ok");
  return 0;
}
