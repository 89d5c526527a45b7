#!/bin/bash
# The table of calls, the core's functions and the shim's exports name the same things.
set -euo pipefail
core=client_stub/libwarpline_core.so
listed=$(sed -n 's/^WARPLINE_ENTRY(\(.*\))$/\1/p' proto/calls.inc | LC_ALL=C sort)
# A dot marks what the optimizer split off a function.
defined=$(nm "$core" | awk '$2 ~ /^[tT]$/ && $3 ~ /^cu[A-Z][^.]*$/ { print $3 }' | LC_ALL=C sort)
exported=$(sed -n 's/^WARPLINE_SYMBOL([0-9]*, \(.*\))$/\1/p' client_stub/shim/symbols.inc | LC_ALL=C sort)
[[ -n $listed && -n $exported ]]

undefined_or_unlisted=$(LC_ALL=C comm -3 <(echo "$listed") <(echo "$defined"))
if [[ -n $undefined_or_unlisted ]]; then
  echo "in proto/client_calls.toml (left) or in the core (right) only:"
  echo "$undefined_or_unlisted"
  exit 1
fi
not_exported=$(LC_ALL=C comm -23 <(echo "$listed") <(echo "$exported"))
if [[ -n $not_exported ]]; then
  echo "not exported by libcuda.so.1: $not_exported"
  exit 1
fi
# The linker also shows std::string's own functions, which are the same everywhere.
own='warpline_core_attach|warpline_memory_readback|warpline_stream_wait|warpline_event_wait|warpline_stream_cancel|warpline_library_find|warpline_library_call|warpline_library_ask|malloc|free|calloc|realloc|memalign|aligned_alloc|posix_memalign|valloc'
own+='|pvalloc|malloc_usable_size|arc4random'
own+='|__open64_2|__open_2|__openat64_2|__openat_2|accept|accept4|dup|epoll_create'
own+='|epoll_create1|eventfd|fcntl|fcntl64|fopen|fopen64|getaddrinfo|getifaddrs|if_indextoname'
own+='|if_nametoindex|inotify_init1|memfd_create|mkostemp|mkostemp64|mkstemp|mkstemp64|open'
own+='|open64|openat|openat64|opendir|pipe|pipe2|recvmsg|shm_open|socket|socketpair'
own+='|timerfd_create'
others=$(nm -D --defined-only "$core" | awk '$2 ~ /[A-Z]/ { print $2, $3 }' |
  grep -vE "^T ($own)\$|^W _ZNK?St7__cxx1112basic_stringI" || true)
if [[ -n $others ]]; then
  echo "exported by the core besides what core.map names: $others"
  exit 1
fi
