#include "client_stub/core/memory/process_maps.h"

#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

namespace warpline::stub {
namespace {

// The kernel keeps at least this much below the first thread's stack free of mappings that ask for
// no address of their own.
constexpr uint64_t kLeastGap = uint64_t{128} << 20;
constexpr uint64_t kMostStack = uint64_t{1} << 30;
// A stack that the C library does not know, such as a coroutine's, may go on so far above this
// frame.
constexpr uint64_t kForeignStack = 256 << 10;

struct Span {
  uint64_t begin = 0;
  uint64_t end = 0;

  bool Overlaps(uint64_t from, uint64_t to) const { return from < end && begin < to; }
};

// Returns where the first thread's stack is and may grow to. The program's name is the last that
// the kernel writes there. The list of mappings does not tell: only a piece has a name, and it
// loses the name when a part of it is mapped anew.
Span FirstStack() {
  const uint64_t name = getauxval(AT_EXECFN);
  rlimit limit;
  if (name == 0 || getrlimit(RLIMIT_STACK, &limit) != 0) return {};
  const uint64_t end = name + std::strlen(reinterpret_cast<const char*>(name)) + 1;
  return {end - std::clamp<uint64_t>(limit.rlim_cur, kLeastGap, kMostStack), end};
}

// Returns the stack that the C library gave to the calling thread.
Span OwnStack() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  void* lowest = nullptr;
  size_t bytes = 0;
  const bool told = pthread_attr_getstack(&attributes, &lowest, &bytes) == 0;
  pthread_attr_destroy(&attributes);
  const auto begin = reinterpret_cast<uint64_t>(lowest);
  return told ? Span{begin, begin + bytes} : Span{};
}

// Returns the stack on which the calling thread has signals delivered.
Span SignalStack() {
  stack_t stack;
  if (sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) != 0) return {};
  const auto begin = reinterpret_cast<uint64_t>(stack.ss_sp);
  return {begin, begin + stack.ss_size};
}

}  // namespace

bool MayBeStack(uint64_t begin, uint64_t end) {
  if (MayBeFirstStack(begin, end) || SignalStack().Overlaps(begin, end)) return true;
  // The C library would read the list of mappings for the first thread.
  if (RunsOnFirstStack()) return false;
  const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  const Span own = OwnStack();
  if (own.Overlaps(begin, end)) return true;
  const Span foreign = {here, here + kForeignStack};
  return !own.Overlaps(here, here + 1) && foreign.Overlaps(begin, end);
}

bool MayBeFirstStack(uint64_t begin, uint64_t end) { return FirstStack().Overlaps(begin, end); }

bool RunsOnFirstStack() {
  const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  return MayBeFirstStack(here, here + 1);
}

bool MappingsAt(uint64_t begin, uint64_t end, std::vector<ProcessMapping>* found) {
  found->clear();
  std::ifstream maps("/proc/self/maps");
  bool any = false;
  std::string line;
  while (std::getline(maps, line)) {
    ProcessMapping mapping;
    char rights[5];
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64,
                    &mapping.begin, &mapping.end, rights, &mapping.offset, &mapping.inode) != 5) {
      return false;
    }
    any = true;
    if (mapping.begin >= end) break;
    if (mapping.end <= begin) continue;
    mapping.readable = rights[0] == 'r';
    mapping.writable = rights[1] == 'w';
    mapping.executable = rights[2] == 'x';
    mapping.is_private = rights[3] == 'p';
    found->push_back(mapping);
  }
  return any;
}

bool IsMapped(uint64_t begin, uint64_t bytes) {
  constexpr uint64_t kPage = 4096;
  const uint64_t start = begin / kPage * kPage;
  if (bytes > ~uint64_t{0} - begin) return false;
  // It writes nothing, and fails where nothing is mapped.
  return msync(reinterpret_cast<void*>(start), begin + bytes - start, MS_ASYNC) == 0;
}

bool IsPlainMemory(const std::vector<ProcessMapping>& mappings, uint64_t begin, uint64_t end) {
  uint64_t next = begin;
  for (const ProcessMapping& mapping : mappings) {
    if (next >= end) break;
    if (mapping.end <= next) continue;
    if (mapping.begin > next || mapping.inode != 0 || !mapping.readable || !mapping.writable ||
        mapping.executable || !mapping.is_private) {
      return false;
    }
    next = mapping.end;
  }
  return next >= end;
}

}  // namespace warpline::stub
