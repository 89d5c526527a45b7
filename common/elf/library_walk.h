// Finds the libraries that the dynamic loader would load with a program, as `ldd` lists them, and
// runs nothing: files are read as data. The loader itself runs code of the program even when it is
// asked to list libraries (auditors), so it must not be asked about a stranger's file.
//
// It goes the way of glibc's loader: rpaths, LD_LIBRARY_PATH, runpath, /etc/ld.so.cache, the
// default folders. It differs where the loader asks what processor there is: of builds for several
// (glibc-hwcaps), the one for any processor is found first. What a program loads while it runs and
// LD_PRELOAD are not known here.
//
//   const LibraryWalk walk = WalkLibraries("/usr/bin/python3", WalkOptionsHere());
//   for (const std::string& path : walk.paths) ...
#ifndef WARPLINE_COMMON_ELF_LIBRARY_WALK_H_
#define WARPLINE_COMMON_ELF_LIBRARY_WALK_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace warpline::elf {

struct WalkOptions {
  std::string library_path;  // As in LD_LIBRARY_PATH
  std::string cache_path = "/etc/ld.so.cache";
  // Distributions differ in what their loader was built with, so both kinds are searched.
  std::vector<std::string> default_folders = {"/lib/x86_64-linux-gnu",
                                              "/usr/lib/x86_64-linux-gnu",
                                              "/lib64",
                                              "/usr/lib64",
                                              "/lib",
                                              "/usr/lib"};

  // Names of libraries that are loaded before the program's, which finds them by these.
  std::set<std::string> present;

  // Bounds, which the programs of an honest user stay far below: libraries, how many libraries lie
  // between the program and one of them, files that are tried, and bytes that are read of all.
  size_t most_libraries = 1024;
  size_t most_depth = 64;
  size_t most_tries = 200'000;
  uint64_t most_bytes = uint64_t{64} << 20;
};

struct LibraryWalk {
  // The libraries that were found, nearest to the program first, each once. They were 64-bit ELF
  // files for x86 in plain files; whoever opens them again has to check that again.
  std::vector<std::string> paths;
  // The names in WalkOptions::present that were needed.
  std::set<std::string> present;
  // The names of those that were not found.
  std::vector<std::string> missing;
  // Why there may be more libraries than these, one sentence each, with the file's path: a file
  // contradicts itself, or a bound ended the search. Empty for all honest files.
  std::vector<std::string> doubts;
};

// Returns what the loader would find in this process's environment.
WalkOptions WalkOptionsHere();

// Walks from `program`, which has no libraries when it is no ELF file for 64-bit x86. Paths that
// are relative start from the working folder, as they do for the loader. Thread-safe.
LibraryWalk WalkLibraries(const std::string& program, const WalkOptions& options);

// Returns the path of the library that the loader would find by this name for a program without an
// rpath; "" when there is none. Thread-safe.
std::string FindLibrary(const std::string& name, const WalkOptions& options);

}  // namespace warpline::elf

#endif  // WARPLINE_COMMON_ELF_LIBRARY_WALK_H_
