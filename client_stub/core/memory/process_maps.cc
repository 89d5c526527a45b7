#include "client_stub/core/memory/process_maps.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
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

// Gives the addresses that the first thread's stack may grow into. Mappings within it may be
// parts of it: only its top has a name in the kernel's list.
bool FirstStack(uint64_t* begin, uint64_t* end) {
  std::vector<ProcessMapping> mappings;
  if (!MappingsAt(0, ~uint64_t{0}, &mappings)) return false;
  const auto top = std::find_if(mappings.begin(), mappings.end(),
                                [](const ProcessMapping& mapping) { return mapping.is_stack; });
  if (top == mappings.end()) return false;
  rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) != 0) return false;
  *end = top->end;
  *begin = top->end - std::clamp<uint64_t>(limit.rlim_cur, kLeastGap, kMostStack);
  return true;
}

// Gives the calling thread's stack. A coroutine's ends at an unknown place above this frame.
bool OwnStack(uint64_t* begin, uint64_t* end) {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return false;
  void* lowest = nullptr;
  size_t bytes = 0;
  const bool told = pthread_attr_getstack(&attributes, &lowest, &bytes) == 0;
  pthread_attr_destroy(&attributes);
  if (!told) return false;
  *begin = reinterpret_cast<uint64_t>(lowest);
  *end = *begin + bytes;
  const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  if (here - *begin < bytes) return true;
  *begin = here;
  *end = here + kForeignStack;
  return true;
}

}  // namespace

bool MayBeStack(uint64_t begin, uint64_t end) {
  uint64_t from, to;
  return MayBeFirstStack(begin, end) || !OwnStack(&from, &to) || (begin < to && from < end);
}

bool MayBeFirstStack(uint64_t begin, uint64_t end) {
  uint64_t from, to;
  return !FirstStack(&from, &to) || (begin < to && from < end);
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
    mapping.is_stack = line.find("[stack") != std::string::npos;
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
