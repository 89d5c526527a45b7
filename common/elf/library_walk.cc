#include "common/elf/library_walk.h"

#include <sys/stat.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/elf/dynamic_section.h"
#include "common/elf/elf_header.h"
#include "common/elf/loader_cache.h"
#include "common/elf/search_folders.h"
#include "common/plain_file.h"

namespace warpline::elf {
namespace {

// Each reading costs this much in addition to its bytes.
constexpr uint64_t kReadCost = 64;
// Behind these, a folder may have builds for newer processors.
constexpr const char* kNewerProcessors[] = {"", "/glibc-hwcaps/x86-64-v4",
                                            "/glibc-hwcaps/x86-64-v3", "/glibc-hwcaps/x86-64-v2"};

// A library, or the program itself, that the walk has found.
struct Loaded {
  std::string path;
  const Loaded* loader = nullptr;  // The one that needs it
  size_t depth = 0;
  std::string origin;  // What $ORIGIN means in it
  DynamicSection section;
  std::vector<std::string> rpath;
  std::vector<std::string> runpath;
};

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The system tells a program the folder that it really lies in, behind all links.
std::string OriginOfProgram(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  return FolderOf(real == nullptr ? path : real.get());
}

class Walker {
 public:
  explicit Walker(const WalkOptions& options)
      : options_(options),
        left_bytes_(options.most_bytes),
        left_tries_(options.most_tries),
        cache_(CacheAt(options.cache_path)) {}

  LibraryWalk Walk(const std::string& program) {
    auto first = std::make_unique<Loaded>();
    first->path = program;
    first->origin = OriginOfProgram(program);
    SearchFrom(first->origin);
    if (TryToLoad(first.get())) loaded_.push_back(std::move(first));
    // Libraries that are found in this loop are appended, so the loop reaches them last.
    for (size_t i = 0; i < loaded_.size() && !ended_; ++i) LoadLibrariesOf(*loaded_[i]);
    return std::move(found_);
  }

  std::string FindOne(const std::string& name) {
    SearchFrom("");
    return Find(name, Loaded{}) ? found_.paths.front() : "";
  }

 private:
  void SearchFrom(const std::string& origin) {
    library_path_ = FoldersOf(options_.library_path, ":;", origin);
  }

  static LoaderCache CacheAt(const std::string& path) {
    const auto file = PlainFile::Open(path);
    return LoaderCache(file.ok() ? file->Read(0, LoaderCache::kMostBytes) : "");
  }

  void End(const std::string& why) {
    if (!ended_) found_.doubts.push_back(why);
    ended_ = true;
  }

  void LoadLibrariesOf(const Loaded& user) {
    for (const std::string& name : user.section.libraries) {
      if (ended_) return;
      if (name.empty() || !names_.insert(name).second) continue;
      if (options_.present.contains(name)) {
        found_.present.insert(name);
        continue;
      }
      if (found_.paths.size() >= options_.most_libraries) {
        return End(absl::StrCat(user.path, " is among more than ", options_.most_libraries,
                                " libraries: the others are not looked for"));
      }
      if (user.depth >= options_.most_depth) {
        return End(absl::StrCat(user.path, " needs libraries through more than ",
                                options_.most_depth, " others: they are not looked for"));
      }
      if (!Find(name, user) && !ended_) found_.missing.push_back(name);
    }
  }

  // In the loader's order.
  bool Find(const std::string& name, const Loaded& user) {
    if (name.find('/') != std::string::npos) {
      const std::vector<std::string> paths = ExpandTokens(name, user.origin);
      return std::any_of(paths.begin(), paths.end(),
                         [&](const std::string& path) { return Take(path, user); });
    }
    if (!user.section.has_runpath) {
      for (const Loaded* one = &user; one != nullptr; one = one->loader) {
        if (InFolders(one->rpath, name, user)) return true;
      }
    }
    if (InFolders(library_path_, name, user) || InFolders(user.runpath, name, user)) return true;
    for (const std::string& path : cache_.Find(name)) {
      if (user.section.no_default_folders && IsDefault(FolderOf(path))) continue;
      if (Take(path, user)) return true;
    }
    return !user.section.no_default_folders && InFolders(options_.default_folders, name, user);
  }

  bool IsDefault(const std::string& folder) const {
    const auto& all = options_.default_folders;
    return std::find(all.begin(), all.end(), folder) != all.end();
  }

  bool InFolders(const std::vector<std::string>& folders, const std::string& name,
                 const Loaded& user) {
    for (const std::string& folder : folders) {
      for (const char* const newer : kNewerProcessors) {
        if (ended_) return false;
        if (Take(absl::StrCat(folder, newer, "/", name), user)) return true;
      }
    }
    return false;
  }

  // Takes the file as a library that `user` needs. Returns false for what the loader would not
  // take, either.
  bool Take(const std::string& path, const Loaded& user) {
    auto library = std::make_unique<Loaded>();
    library->path = path;
    library->origin = FolderOf(path);
    library->loader = &user;
    library->depth = user.depth + 1;
    if (!TryToLoad(library.get())) return false;
    // Another name for what is there already.
    if (library->path.empty()) return true;
    found_.paths.push_back(path);
    loaded_.push_back(std::move(library));
    return true;
  }

  // Reads the file. Returns false where it is no ELF file for x86-64; takes the path away where it
  // was read before.
  bool TryToLoad(Loaded* file) {
    if (ended_) return false;
    if (left_tries_ == 0) {
      End(absl::StrCat("more than ", options_.most_tries,
                       " files would have to be tried: the search ended at ", file->path));
      return false;
    }
    --left_tries_;
    if (file->path.size() >= PATH_MAX) return false;
    const auto opened = PlainFile::Open(file->path);
    if (!opened.ok()) return false;
    const ReadAt read = [&](uint64_t offset, uint64_t bytes) -> std::string {
      if (left_bytes_ < kReadCost) {
        End(absl::StrCat("more than ", options_.most_bytes,
                         " bytes of files would have to be read: the search ended at ",
                         file->path));
        return "";
      }
      std::string text = opened->Read(offset, std::min(bytes, left_bytes_));
      left_bytes_ -= std::min(left_bytes_, text.size() + kReadCost);
      return text;
    };
    const auto header = ReadHeader(read);
    if (!header.has_value() || !IsForX86_64(*header)) return false;
    if (!identities_.emplace(opened->about().st_dev, opened->about().st_ino).second) {
      file->path.clear();
      return true;
    }
    auto section = ReadDynamicSection(read);
    if (!section.ok()) {
      if (!ended_) {
        found_.doubts.push_back(absl::StrCat("the libraries of ", file->path, " are not known: ",
                                             std::string(section.status().message())));
      }
      return true;
    }
    file->section = *std::move(section);
    file->rpath = FoldersOf(file->section.rpath, ":", file->origin);
    file->runpath = FoldersOf(file->section.runpath, ":", file->origin);
    if (!file->section.soname.empty()) names_.insert(file->section.soname);
    return true;
  }

  const WalkOptions& options_;
  uint64_t left_bytes_;
  size_t left_tries_;
  bool ended_ = false;
  std::vector<std::string> library_path_;
  const LoaderCache cache_;
  std::vector<std::unique_ptr<Loaded>> loaded_;  // Not erased from: `loader` points into it.
  std::set<std::string> names_;                  // What was asked for, and what is there
  std::set<std::pair<dev_t, ino_t>> identities_;
  LibraryWalk found_;
};

}  // namespace

WalkOptions WalkOptionsHere() {
  WalkOptions options;
  const char* const library_path = std::getenv("LD_LIBRARY_PATH");
  if (library_path != nullptr) options.library_path = library_path;
  return options;
}

LibraryWalk WalkLibraries(const std::string& program, const WalkOptions& options) {
  return Walker(options).Walk(program);
}

std::string FindLibrary(const std::string& name, const WalkOptions& options) {
  return Walker(options).FindOne(name);
}

}  // namespace warpline::elf
