// A program that has closed descriptors among 0, 1 and 2, prints to them all the same, and replaces
// them while it uses CUDA. Arguments: the file that gets the result, and what to do.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/hosts/programs/workload.h"

// Where the client library keeps its descriptors when a process may have 1,024.
enum { kTheirs = 512, kLowest = 3 };

static const char* g_result;

static int Say(const char* what, int value) {
  const int fd = open(g_result, O_WRONLY | O_CREAT | O_APPEND, 0600);
  dprintf(fd, "%s %d\n", what, value);
  close(fd);
  return 1;
}

static int IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

// Looks whether descriptors are where they may be. `mine` are open among 0 to 2, as a set of bits,
// and everything from 3 on belongs to others.
static int Check(int mine) {
  for (int fd = 0; fd < kLowest; ++fd) {
    if (IsOpen(fd) != ((mine >> fd) & 1)) return Say("a standard descriptor is open or not:", fd);
  }
  DIR* const folder = opendir("/proc/self/fd");
  int theirs = 0;
  for (const struct dirent* entry; (entry = readdir(folder)) != NULL;) {
    const int fd = atoi(entry->d_name);
    if (fd >= kTheirs) ++theirs;
    if (fd >= kLowest && fd < kTheirs && fd != dirfd(folder)) return Say("low descriptor:", fd);
  }
  closedir(folder);
  return theirs > 0 ? 0 : Say("no session's descriptors:", theirs);
}

// What is printed to a closed descriptor goes nowhere.
static int PrintTo(int fd, int is_open) {
  const ssize_t written = write(fd, "12345678", 8);
  if (is_open ? written != 8 : (written >= 0 || errno != EBADF)) return Say("a print:", fd);
  return 0;
}

static int Work(struct Workload* w) {
  for (int i = 0; i < 3; ++i) {
    if (RunOpenWorkload(w, 3) != 0) return Say("the workload failed", i);
  }
  return 0;
}

// Opens the file as `fd`, whatever was there.
static void Replace(int fd, const char* path) {
  const int opened = open(path, O_RDWR | O_CREAT, 0600);
  if (opened == fd) return;
  dup2(opened, fd);
  close(opened);
}

// Each of the descriptors in `closed` is closed from the start.
static int Closed(int closed) {
  struct Workload w;
  const int mine = 7 & ~closed;
  if (OpenWorkload(&w) || Work(&w)) return 1;
  for (int fd = 0; fd < kLowest; ++fd) {
    if (((closed >> fd) & 1) && PrintTo(fd, 0)) return 1;
  }
  // Library functions that open files for a moment, and those of another kind, find the same.
  return Check(mine) || Work(&w) || Check(mine);
}

// They are replaced while a session is there, and closed again.
static int Replaced(const char* path) {
  struct Workload w;
  if (OpenWorkload(&w) || Work(&w)) return 1;
  for (int round = 0; round < 3; ++round) {
    for (int fd = 0; fd < kLowest; ++fd) Replace(fd, path);
    if (Check(7) || PrintTo(1, 1) || PrintTo(2, 1) || Work(&w)) return 1;
    for (int fd = 0; fd < kLowest; ++fd) close(fd);
    if (Check(0) || PrintTo(1, 0) || PrintTo(2, 0) || Work(&w)) return 1;
  }
  struct stat file;
  // The rounds begin at its start, with two descriptors of their own.
  if (stat(path, &file) != 0 || file.st_size != 8)
    return Say("bytes of others:", (int)file.st_size);
  return 0;
}

// Numbers below the library's are the program's to take, as those of a socket that it was given.
static int Taken(const char* path) {
  struct Workload w;
  if (OpenWorkload(&w) || Work(&w)) return 1;
  for (int fd = kLowest; fd < kTheirs; ++fd) Replace(fd, path);
  if (Work(&w)) return 1;
  struct stat file;
  if (stat(path, &file) != 0 || file.st_size != 0)
    return Say("bytes of others:", (int)file.st_size);
  return 0;
}

int main(int count, char** arguments) {
  if (count < 4) return 2;
  g_result = arguments[1];
  const char* const what = arguments[2];
  int failed = 2;
  if (strcmp(what, "closed") == 0) {
    const int closed = atoi(arguments[3]);
    for (int fd = 0; fd < kLowest; ++fd) {
      if ((closed >> fd) & 1) close(fd);
    }
    failed = Closed(closed);
  } else if (strcmp(what, "replaced") == 0) {
    failed = Replaced(arguments[3]);
  } else if (strcmp(what, "taken") == 0) {
    failed = Taken(arguments[3]);
  }
  if (!failed) Say("ok", 0);
  return failed;
}
