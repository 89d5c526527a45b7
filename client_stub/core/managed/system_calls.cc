#include "client_stub/core/managed/system_calls.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <iterator>
#include <string>

#include "client_stub/core/managed/fault_handler.h"
#include "common/mutex.h"

namespace warpline::stub {
namespace {

constinit std::atomic<BufferPreparer> g_prepare{nullptr};
constinit std::atomic<uint64_t> g_low{0};
constinit std::atomic<uint64_t> g_high{0};

// Another thread's launch may take a page away again before the call has reached it.
constexpr int kTries = 8;

struct Buffer {
  const void* address;
  size_t bytes;
};

// `write`: the call writes to the buffer.
bool Ready(const void* buffer, size_t bytes, bool write) {
  const auto address = reinterpret_cast<uint64_t>(buffer);
  if (address >= g_high.load(std::memory_order_relaxed) ||
      address + bytes <= g_low.load(std::memory_order_relaxed)) {
    return false;
  }
  const int saved = errno;
  const bool found = g_prepare.load()(address, bytes, write);
  errno = saved;
  return found;
}

bool Ready(const struct iovec* parts, int count, bool write) {
  bool found = false;
  for (int i = 0; parts != nullptr && i < count; ++i) {
    found |= Ready(parts[i].iov_base, parts[i].iov_len, write);
  }
  return found;
}

// Makes the call with its buffer ready, and again when the buffer was taken away meanwhile.
template <typename Prepare, typename Call>
ssize_t Retry(Prepare prepare, Call call) {
  for (int i = 1;; ++i) {
    const bool ours = prepare();
    const ssize_t result = call();
    if (!ours || result >= 0 || errno != EFAULT || i == kTries) return result;
  }
}

template <typename Call>
ssize_t On(const void* buffer, size_t bytes, bool write, Call call) {
  return Retry([=] { return Ready(buffer, bytes, write); }, call);
}

template <typename Call>
ssize_t On(const struct iovec* parts, int count, bool write, Call call) {
  return Retry([=] { return Ready(parts, count, write); }, call);
}

// The real functions, found in the order in which the application finds them.
#define REAL(name) (reinterpret_cast<decltype(&Wrapped_##name)>(g_real_##name))

#define WRAP_BUFFER(name, to_buffer, parameters, buffer, bytes, arguments)            \
  void* g_real_##name = nullptr;                                                      \
  ssize_t Wrapped_##name parameters {                                                 \
    const auto real = reinterpret_cast<decltype(&Wrapped_##name)>(g_real_##name);     \
    return On(buffer, bytes, to_buffer, [&]() -> ssize_t { return real arguments; }); \
  }

// clang-format off
WRAP_BUFFER(read, true, (int fd, void* b, size_t n), b, n, (fd, b, n))
WRAP_BUFFER(__read_chk, true, (int fd, void* b, size_t n, size_t m), b, n, (fd, b, n, m))
WRAP_BUFFER(pread, true, (int fd, void* b, size_t n, off_t o), b, n, (fd, b, n, o))
WRAP_BUFFER(pread64, true, (int fd, void* b, size_t n, off_t o), b, n, (fd, b, n, o))
WRAP_BUFFER(__pread_chk, true, (int fd, void* b, size_t n, off_t o, size_t m), b, n, (fd, b, n, o, m))
WRAP_BUFFER(__pread64_chk, true, (int fd, void* b, size_t n, off_t o, size_t m), b, n, (fd, b, n, o, m))
WRAP_BUFFER(readv, true, (int fd, const struct iovec* v, int n), v, n, (fd, v, n))
WRAP_BUFFER(preadv, true, (int fd, const struct iovec* v, int n, off_t o), v, n, (fd, v, n, o))
WRAP_BUFFER(preadv64, true, (int fd, const struct iovec* v, int n, off_t o), v, n, (fd, v, n, o))
WRAP_BUFFER(write, false, (int fd, const void* b, size_t n), b, n, (fd, b, n))
WRAP_BUFFER(pwrite, false, (int fd, const void* b, size_t n, off_t o), b, n, (fd, b, n, o))
WRAP_BUFFER(pwrite64, false, (int fd, const void* b, size_t n, off_t o), b, n, (fd, b, n, o))
WRAP_BUFFER(writev, false, (int fd, const struct iovec* v, int n), v, n, (fd, v, n))
WRAP_BUFFER(pwritev, false, (int fd, const struct iovec* v, int n, off_t o), v, n, (fd, v, n, o))
WRAP_BUFFER(pwritev64, false, (int fd, const struct iovec* v, int n, off_t o), v, n, (fd, v, n, o))
WRAP_BUFFER(recv, true, (int fd, void* b, size_t n, int f), b, n, (fd, b, n, f))
WRAP_BUFFER(__recv_chk, true, (int fd, void* b, size_t n, size_t m, int f), b, n, (fd, b, n, m, f))
WRAP_BUFFER(recvfrom, true, (int fd, void* b, size_t n, int f, sockaddr* a, socklen_t* l), b, n, (fd, b, n, f, a, l))
WRAP_BUFFER(__recvfrom_chk, true, (int fd, void* b, size_t n, size_t m, int f, sockaddr* a, socklen_t* l), b, n, (fd, b, n, m, f, a, l))
WRAP_BUFFER(recvmsg, true, (int fd, msghdr* h, int f), h->msg_iov, static_cast<int>(h->msg_iovlen), (fd, h, f))
WRAP_BUFFER(send, false, (int fd, const void* b, size_t n, int f), b, n, (fd, b, n, f))
WRAP_BUFFER(sendto, false, (int fd, const void* b, size_t n, int f, const sockaddr* a, socklen_t l), b, n, (fd, b, n, f, a, l))
WRAP_BUFFER(sendmsg, false, (int fd, const msghdr* h, int f), h->msg_iov, static_cast<int>(h->msg_iovlen), (fd, h, f))
WRAP_BUFFER(getrandom, true, (void* b, size_t n, unsigned f), b, n, (b, n, f))
// clang-format on

// The C library's own calls move large items to and from the buffer without a copy. After a call
// has failed, nothing tells how much of a file was read; so these are not tried again.
// NOLINTBEGIN(bugprone-macro-parentheses): of parameters that are in parentheses already.
#define WRAP_STREAM(name, to_buffer, parameters, bytes, arguments) \
  void* g_real_##name = nullptr;                                   \
  size_t Wrapped_##name parameters {                               \
    Ready(b, (bytes), to_buffer);                                  \
    return REAL(name) arguments;                                   \
  }
// NOLINTEND(bugprone-macro-parentheses)

WRAP_STREAM(fread, true, (void* b, size_t s, size_t n, FILE* f), s* n, (b, s, n, f))
WRAP_STREAM(fread_unlocked, true, (void* b, size_t s, size_t n, FILE* f), s* n, (b, s, n, f))
WRAP_STREAM(__fread_chk, true, (void* b, size_t m, size_t s, size_t n, FILE* f), s* n,
            (b, m, s, n, f))
WRAP_STREAM(fwrite, false, (const void* b, size_t s, size_t n, FILE* f), s* n, (b, s, n, f))
WRAP_STREAM(fwrite_unlocked, false, (const void* b, size_t s, size_t n, FILE* f), s* n,
            (b, s, n, f))

// A program that sets an action for SIGSEGV sets the one that comes after ours (fault_handler.h).

void* g_real_sigaction = nullptr;
int Wrapped_sigaction(int number, const struct sigaction* action, struct sigaction* former) {
  if (number == SIGSEGV) return SetProgramAction(action, former);
  return REAL(sigaction)(number, action, former);
}

// The forms of signal(), which differ in their flags.
sighandler_t SetHandler(sighandler_t handler, int flags) {
  struct sigaction action = {};
  struct sigaction former;
  action.sa_handler = handler;
  action.sa_flags = flags;
  if ((flags & SA_NODEFER) == 0) sigaddset(&action.sa_mask, SIGSEGV);
  return SetProgramAction(&action, &former) == 0 ? former.sa_handler : SIG_ERR;
}

#define WRAP_SIGNAL(name, flags)                                                    \
  void* g_real_##name = nullptr;                                                    \
  sighandler_t Wrapped_##name(int number, sighandler_t handler) {                   \
    if (number == SIGSEGV && handler != SIG_ERR) return SetHandler(handler, flags); \
    return REAL(name)(number, handler);                                             \
  }

WRAP_SIGNAL(signal, SA_RESTART)
WRAP_SIGNAL(bsd_signal, SA_RESTART)
WRAP_SIGNAL(ssignal, SA_RESTART)
WRAP_SIGNAL(sysv_signal, SA_RESETHAND | SA_NODEFER)
WRAP_SIGNAL(__sysv_signal, SA_RESETHAND | SA_NODEFER)

struct Wrapper {
  const char* name;
  void* wrapped;
  void** real;
};

#define WRAPPER(name) \
  { #name, reinterpret_cast < void*>(&Wrapped_##name), &g_real_##name }
const Wrapper kWrappers[] = {
    WRAPPER(read),           WRAPPER(__read_chk),      WRAPPER(pread),
    WRAPPER(pread64),        WRAPPER(__pread_chk),     WRAPPER(__pread64_chk),
    WRAPPER(readv),          WRAPPER(preadv),          WRAPPER(preadv64),
    WRAPPER(write),          WRAPPER(pwrite),          WRAPPER(pwrite64),
    WRAPPER(writev),         WRAPPER(pwritev),         WRAPPER(pwritev64),
    WRAPPER(recv),           WRAPPER(__recv_chk),      WRAPPER(recvfrom),
    WRAPPER(__recvfrom_chk), WRAPPER(recvmsg),         WRAPPER(send),
    WRAPPER(sendto),         WRAPPER(sendmsg),         WRAPPER(getrandom),
    WRAPPER(fread),          WRAPPER(fread_unlocked),  WRAPPER(__fread_chk),
    WRAPPER(fwrite),         WRAPPER(fwrite_unlocked), WRAPPER(sigaction),
    WRAPPER(signal),         WRAPPER(bsd_signal),      WRAPPER(ssignal),
    WRAPPER(sysv_signal),    WRAPPER(__sysv_signal),
};

const Wrapper* Find(const char* name) {
  for (const Wrapper& wrapper : kWrappers) {
    if (*wrapper.real != nullptr && strcmp(wrapper.name, name) == 0) return &wrapper;
  }
  return nullptr;
}

// The imports of a loaded object, from its dynamic section.
struct Imports {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const ElfW(Rela) * tables[2] = {};
  size_t bytes[2] = {};
};

Imports ReadDynamic(const dl_phdr_info& object, const ElfW(Dyn) * dynamic) {
  Imports imports;
  // glibc has made these addresses absolute, except in what the kernel maps.
  const auto at = [&](ElfW(Addr) value) {
    return value < object.dlpi_addr ? object.dlpi_addr + value : value;
  };
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const ElfW(Addr) value = dynamic->d_un.d_ptr;
    switch (dynamic->d_tag) {
      case DT_SYMTAB:
        imports.symbols = reinterpret_cast<const ElfW(Sym)*>(at(value));
        break;
      case DT_STRTAB:
        imports.strings = reinterpret_cast<const char*>(at(value));
        break;
      case DT_JMPREL:
        imports.tables[0] = reinterpret_cast<const ElfW(Rela)*>(at(value));
        break;
      case DT_PLTRELSZ:
        imports.bytes[0] = value;
        break;
      case DT_RELA:
        imports.tables[1] = reinterpret_cast<const ElfW(Rela)*>(at(value));
        break;
      case DT_RELASZ:
        imports.bytes[1] = value;
        break;
      default:
        break;
    }
  }
  return imports;
}

// Import tables of most libraries are read-only by now, and become so again here.
void Redirect(void** slot, void* to, bool read_only) {
  if (*slot == to) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  void* const begin = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(slot) & ~(page - 1));
  if (read_only && mprotect(begin, page, PROT_READ | PROT_WRITE) != 0) return;
  __atomic_store_n(slot, to, __ATOMIC_RELEASE);
  if (read_only) mprotect(begin, page, PROT_READ);
}

int RedirectObject(dl_phdr_info* object, size_t, void* own) {
  const ElfW(Dyn)* dynamic = nullptr;
  ElfW(Addr) relro_begin = 0, relro_end = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    const ElfW(Addr) address = object->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(address);
    if (header.p_type == PT_GNU_RELRO) {
      // The loader protects whole pages, the last one only if it is full.
      const auto page = static_cast<ElfW(Addr)>(sysconf(_SC_PAGESIZE));
      relro_begin = address & ~(page - 1);
      relro_end = (address + header.p_memsz) & ~(page - 1);
    }
    const bool is_own = header.p_type == PT_LOAD && reinterpret_cast<ElfW(Addr)>(own) >= address &&
                        reinterpret_cast<ElfW(Addr)>(own) < address + header.p_memsz;
    if (is_own) return 0;
  }
  if (dynamic == nullptr || strstr(object->dlpi_name, "linux-vdso") != nullptr) return 0;
  const Imports imports = ReadDynamic(*object, dynamic);
  if (imports.symbols == nullptr || imports.strings == nullptr) return 0;
  for (int t = 0; t < 2; ++t) {
    for (size_t i = 0; imports.tables[t] != nullptr && i < imports.bytes[t] / sizeof(ElfW(Rela));
         ++i) {
      const ElfW(Rela)& import = imports.tables[t][i];
      const auto type = ELF64_R_TYPE(import.r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      const ElfW(Sym)& symbol = imports.symbols[ELF64_R_SYM(import.r_info)];
      if (symbol.st_shndx != SHN_UNDEF) continue;  // The object defines the function itself.
      const Wrapper* wrapper = Find(imports.strings + symbol.st_name);
      if (wrapper == nullptr) continue;
      const ElfW(Addr) slot = object->dlpi_addr + import.r_offset;
      Redirect(reinterpret_cast<void**>(slot), wrapper->wrapped,
               slot >= relro_begin && slot < relro_end);
    }
  }
  return 0;
}

int ReadLoads(dl_phdr_info* object, size_t, void* loads) {
  *static_cast<unsigned long long*>(loads) = object->dlpi_adds;  // NOLINT: glibc's type
  return 1;
}

Mutex& Lock() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}

}  // namespace

void InterposeSystemCalls(BufferPreparer prepare) {
  static std::atomic<unsigned long long> done{0};  // NOLINT: glibc's type
  unsigned long long loads = 0;                    // NOLINT
  dl_iterate_phdr(ReadLoads, &loads);
  if (loads == done.load(std::memory_order_acquire)) return;
  // The loader's own lock is taken for these, so ours is not held. Every thread finds the same.
  void* real[std::size(kWrappers)] = {};
  if (done.load(std::memory_order_acquire) == 0) {
    void* const program = dlopen(nullptr, RTLD_LAZY);
    for (size_t i = 0; i < std::size(kWrappers); ++i) real[i] = dlsym(program, kWrappers[i].name);
  }
  MutexLock lock(&Lock());
  if (loads <= done.load(std::memory_order_relaxed)) return;
  if (done.load(std::memory_order_relaxed) == 0) {
    g_prepare.store(prepare);
    for (size_t i = 0; i < std::size(kWrappers); ++i) *kWrappers[i].real = real[i];
  }
  dl_iterate_phdr(RedirectObject, reinterpret_cast<void*>(&InterposeSystemCalls));
  done.store(loads, std::memory_order_release);
}

void SetBufferSpan(uint64_t low, uint64_t high) {
  g_low.store(low);
  g_high.store(high);
}

}  // namespace warpline::stub
