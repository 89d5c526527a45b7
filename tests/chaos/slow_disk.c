/* A library for LD_PRELOAD, with which a program's disk is as slow as a test wants. Each pread()
 * and pwrite() of a file in the folder DISK_FOLDER waits for a byte from the named pipe DISK_READS
 * or DISK_WRITES, which the test writes. It does not wait while there is no such pipe. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int IsInFolder(int fd) {
  const char* const folder = getenv("DISK_FOLDER");
  char link[32];
  char path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof(path));
  const size_t wanted = folder == NULL ? 0 : strlen(folder);
  return wanted > 0 && length > (ssize_t)wanted && memcmp(path, folder, wanted) == 0;
}

static void AwaitByte(const char* pipe) {
  const int fd = open(getenv(pipe), O_RDONLY | O_CLOEXEC);
  char byte;
  while (fd >= 0 && read(fd, &byte, 1) < 0 && errno == EINTR) {
  }
  if (fd >= 0) close(fd);
}

static ssize_t Read(const char* name, int fd, void* to, size_t bytes, off_t offset) {
  ssize_t (*const next)(int, void*, size_t, off_t) = dlsym(RTLD_NEXT, name);
  if (IsInFolder(fd)) AwaitByte("DISK_READS");
  return next(fd, to, bytes, offset);
}

static ssize_t Write(const char* name, int fd, const void* from, size_t bytes, off_t offset) {
  ssize_t (*const next)(int, const void*, size_t, off_t) = dlsym(RTLD_NEXT, name);
  if (IsInFolder(fd)) AwaitByte("DISK_WRITES");
  return next(fd, from, bytes, offset);
}

ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  return Read("pread", fd, to, bytes, offset);
}
ssize_t pread64(int fd, void* to, size_t bytes, off_t offset) {
  return Read("pread64", fd, to, bytes, offset);
}
ssize_t pwrite(int fd, const void* from, size_t bytes, off_t offset) {
  return Write("pwrite", fd, from, bytes, offset);
}
ssize_t pwrite64(int fd, const void* from, size_t bytes, off_t offset) {
  return Write("pwrite64", fd, from, bytes, offset);
}
