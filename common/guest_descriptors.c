/* Keeps the descriptors of a guest library out of the numbers that its host uses.
 *
 * Programs print to descriptors 1 and 2 and read 0 whether these are open or not. Where one is
 * closed, the next socket that a library opens has that number, and the program's prints go into
 * it. Programs also close or replace low numbers when they like. So the functions here, which stand
 * in for those of the C library in everything that is loaded with the guest, move what they open to
 * WARPLINE_DESCRIPTORS_FROM and above. Where a process may not have so many, they leave it at its
 * number, but never below 3.
 *
 * They are found before the C library's because the guest is loaded with RTLD_DEEPBIND. Sanitizers
 * refuse that, and have functions of their own.
 *
 * What the C library opens and closes within one call cannot be moved. Those of its functions that
 * talk to others meanwhile run on a thread with a table of descriptors of its own when the host has
 * closed one of the low numbers. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

/* The headers' checking versions are inline functions of the same names. */
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#ifndef WARPLINE_DESCRIPTORS_FROM
#error "defined where this is compiled"
#endif

#define EXPORT __attribute__((visibility("default")))

/* The lowest number that is not a standard one, and CLOSE_RANGE_UNSHARE of <linux/close_range.h>.
 */
enum { kLeast = 3, kUnshare = 2 };

static int DuplicateFrom(int fd, long least) {
  return (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, least);
}

/* A guest's own copy of this tells its others (transport/ucx/ucx_library.cc). */
extern EXPORT int warpline_descriptors_from;
int warpline_descriptors_from = WARPLINE_DESCRIPTORS_FROM;

/* Returns `fd`, which this library has just opened, under the number that it shall have. */
static int Keep(int fd) {
  if (fd < 0 || fd >= warpline_descriptors_from) return fd;
  const int saved = errno;
  int kept = DuplicateFrom(fd, warpline_descriptors_from);
  if (kept < 0 && fd >= kLeast) {
    errno = saved;
    return fd;
  }
  if (kept < 0) kept = DuplicateFrom(fd, kLeast);
  const int error = kept < 0 ? errno : saved;
  syscall(SYS_close, fd);
  errno = error;
  return kept;
}

static int KeepBoth(int result, int ends[2]) {
  if (result != 0) return result;
  ends[0] = Keep(ends[0]);
  ends[1] = Keep(ends[1]);
  if (ends[0] >= 0 && ends[1] >= 0) return 0;
  const int error = errno;
  if (ends[0] >= 0) close(ends[0]);
  if (ends[1] >= 0) close(ends[1]);
  errno = error;
  return -1;
}

/* ---- Sockets. */

EXPORT int socket(int domain, int type, int protocol) {
  return Keep((int)syscall(SYS_socket, domain, type, protocol));
}

EXPORT int socketpair(int domain, int type, int protocol, int ends[2]) {
  return KeepBoth((int)syscall(SYS_socketpair, domain, type, protocol, ends), ends);
}

EXPORT int accept(int fd, struct sockaddr* address, socklen_t* size) {
  return Keep((int)syscall(SYS_accept, fd, address, size));
}

EXPORT int accept4(int fd, struct sockaddr* address, socklen_t* size, int flags) {
  return Keep((int)syscall(SYS_accept4, fd, address, size, flags));
}

EXPORT ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
  const ssize_t got = syscall(SYS_recvmsg, fd, message, flags);
  if (got < 0 || message->msg_controllen == 0) return got;
  for (struct cmsghdr* part = CMSG_FIRSTHDR(message); part != NULL;
       part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len; at += sizeof(int)) {
      int passed;
      memcpy(&passed, CMSG_DATA(part) + at, sizeof(passed));
      passed = Keep(passed);
      memcpy(CMSG_DATA(part) + at, &passed, sizeof(passed));
    }
  }
  return got;
}

/* ---- Files. */

static int OpenAt(int folder, const char* path, int flags, va_list* arguments) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {
    mode = va_arg(*arguments, mode_t);
  }
  return Keep((int)syscall(SYS_openat, folder, path, flags, mode));
}

#define OPEN(name)                                            \
  EXPORT int name(const char* path, int flags, ...) {         \
    va_list arguments;                                        \
    va_start(arguments, flags);                               \
    const int fd = OpenAt(AT_FDCWD, path, flags, &arguments); \
    va_end(arguments);                                        \
    return fd;                                                \
  }
#define OPENAT(name)                                              \
  EXPORT int name(int folder, const char* path, int flags, ...) { \
    va_list arguments;                                            \
    va_start(arguments, flags);                                   \
    const int fd = OpenAt(folder, path, flags, &arguments);       \
    va_end(arguments);                                            \
    return fd;                                                    \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

/* What the checking versions in the headers call, without O_CREAT. */
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int folder, const char* path, int flags);
int __openat64_2(int folder, const char* path, int flags);
EXPORT int __open_2(const char* path, int flags) { return open(path, flags); }
EXPORT int __open64_2(const char* path, int flags) { return open(path, flags); }
EXPORT int __openat_2(int folder, const char* path, int flags) {
  return openat(folder, path, flags);
}
EXPORT int __openat64_2(int folder, const char* path, int flags) {
  return openat(folder, path, flags);
}

static FILE* OpenStream(const char* path, const char* mode) {
  const int updates = strchr(mode, '+') != NULL;
  int flags = O_CLOEXEC | (updates ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY);
  if (*mode == 'w') flags |= O_CREAT | O_TRUNC;
  if (*mode == 'a') flags |= O_CREAT | O_APPEND;
  if (strchr(mode, 'x') != NULL) flags |= O_EXCL;
  const int fd = open(path, flags, 0666);
  if (fd < 0) return NULL;
  FILE* const stream = fdopen(fd, mode);
  if (stream == NULL) close(fd);
  return stream;
}
EXPORT FILE* fopen(const char* path, const char* mode) { return OpenStream(path, mode); }
EXPORT FILE* fopen64(const char* path, const char* mode) { return OpenStream(path, mode); }

EXPORT DIR* opendir(const char* path) {
  const int fd = open(path, O_RDONLY | O_NONBLOCK | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return NULL;
  DIR* const folder = fdopendir(fd);
  if (folder == NULL) close(fd);
  return folder;
}

/* ---- What else has descriptors. */

EXPORT int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const long argument = va_arg(arguments, long);
  va_end(arguments);
  const long result = syscall(SYS_fcntl, fd, command, argument);
  return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? Keep((int)result) : (int)result;
}
EXPORT int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const long argument = va_arg(arguments, long);
  va_end(arguments);
  return fcntl(fd, command, argument);
}

EXPORT int dup(int fd) { return Keep((int)syscall(SYS_dup, fd)); }
EXPORT int eventfd(unsigned value, int flags) {
  return Keep((int)syscall(SYS_eventfd2, value, flags));
}
EXPORT int epoll_create(int size) { return Keep((int)syscall(SYS_epoll_create, size)); }
EXPORT int epoll_create1(int flags) { return Keep((int)syscall(SYS_epoll_create1, flags)); }
EXPORT int pipe(int ends[2]) { return KeepBoth((int)syscall(SYS_pipe2, ends, 0), ends); }
EXPORT int pipe2(int ends[2], int flags) {
  return KeepBoth((int)syscall(SYS_pipe2, ends, flags), ends);
}
EXPORT int memfd_create(const char* name, unsigned flags) {
  return Keep((int)syscall(SYS_memfd_create, name, flags));
}
EXPORT int timerfd_create(int clock, int flags) {
  return Keep((int)syscall(SYS_timerfd_create, clock, flags));
}
EXPORT int inotify_init1(int flags) { return Keep((int)syscall(SYS_inotify_init1, flags)); }

/* ---- The C library's own. */

static void* Real(const char* name) {
  void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  void* const function = libc == NULL ? NULL : dlsym(libc, name);
  if (function == NULL) abort(); /* Every process has them. */
  return function;
}

#define REAL(name) ((__typeof__(&name))Real(#name))

EXPORT int mkostemp(char* path, int flags) { return Keep(REAL(mkostemp)(path, flags)); }
EXPORT int mkostemp64(char* path, int flags) { return Keep(REAL(mkostemp)(path, flags)); }
EXPORT int mkstemp(char* path) { return Keep(REAL(mkstemp)(path)); }
EXPORT int mkstemp64(char* path) { return Keep(REAL(mkstemp)(path)); }
EXPORT int shm_open(const char* name, int flags, mode_t mode) {
  return Keep(REAL(shm_open)(name, flags, mode));
}

/* A call that opens descriptors of which its caller sees nothing. */
struct call {
  void (*run)(struct call*);
  int error;
};

static int IsClosed(int fd) { return syscall(SYS_fcntl, fd, F_GETFD) < 0; }

static void* RunApart(void* argument) {
  struct call* const call = argument;
  const int apart =
      syscall(SYS_close_range, kLeast, ~0u, kUnshare) == 0 || unshare(CLONE_FILES) == 0;
  for (int fd = 0; apart && fd < kLeast; ++fd) {
    if (IsClosed(fd)) syscall(SYS_openat, AT_FDCWD, "/", O_PATH | O_CLOEXEC);
  }
  call->run(call);
  call->error = errno;
  return NULL;
}

static void Run(struct call* call) {
  if (IsClosed(0) || IsClosed(1) || IsClosed(2)) {
    sigset_t all, former;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    const int started = pthread_create(&thread, NULL, RunApart, call) == 0;
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    if (started) {
      pthread_join(thread, NULL);
      errno = call->error;
      return;
    }
  }
  call->run(call);
}

struct address_call {
  struct call call;
  const char *node, *service;
  const struct addrinfo* hints;
  struct addrinfo** found;
  int result;
};
static void RunAddress(struct call* call) {
  struct address_call* const c = (struct address_call*)call;
  c->result = REAL(getaddrinfo)(c->node, c->service, c->hints, c->found);
}
EXPORT int getaddrinfo(const char* node, const char* service, const struct addrinfo* hints,
                       struct addrinfo** found) {
  struct address_call c = {{RunAddress, 0}, node, service, hints, found, 0};
  Run(&c.call);
  return c.result;
}

struct interfaces_call {
  struct call call;
  struct ifaddrs** found;
  int result;
};
static void RunInterfaces(struct call* call) {
  struct interfaces_call* const c = (struct interfaces_call*)call;
  c->result = REAL(getifaddrs)(c->found);
}
EXPORT int getifaddrs(struct ifaddrs** found) {
  struct interfaces_call c = {{RunInterfaces, 0}, found, 0};
  Run(&c.call);
  return c.result;
}

struct index_call {
  struct call call;
  const char* name;
  unsigned result;
};
static void RunIndex(struct call* call) {
  struct index_call* const c = (struct index_call*)call;
  c->result = REAL(if_nametoindex)(c->name);
}
EXPORT unsigned if_nametoindex(const char* name) {
  struct index_call c = {{RunIndex, 0}, name, 0};
  Run(&c.call);
  return c.result;
}

struct name_call {
  struct call call;
  unsigned index;
  char* name;
  char* result;
};
static void RunName(struct call* call) {
  struct name_call* const c = (struct name_call*)call;
  c->result = REAL(if_indextoname)(c->index, c->name);
}
EXPORT char* if_indextoname(unsigned index, char name[IF_NAMESIZE]) {
  struct name_call c = {{RunName, 0}, index, name, NULL};
  Run(&c.call);
  return c.result;
}

#endif
