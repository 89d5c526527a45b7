// Keeps other processes of the same user out of this one.
#ifndef WARPLINE_COMMON_UNDUMPABLE_H_
#define WARPLINE_COMMON_UNDUMPABLE_H_

namespace warpline {

// From now on only root reads or writes this process's memory, descriptors and environment by /proc
// or ptrace(2), and it leaves no core dump. Every program of Warpline that holds others' data or
// keys calls it first, before there are any. It lasts until execve(2), or a change of identity.
// Returns false in a build with a sanitizer, whose search for leaks it would stop.
bool MakeUndumpable();

}  // namespace warpline

#endif  // WARPLINE_COMMON_UNDUMPABLE_H_
