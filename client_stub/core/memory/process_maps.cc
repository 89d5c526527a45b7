#include "client_stub/core/memory/process_maps.h"

#include <sys/mman.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

namespace warpline::stub {

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
