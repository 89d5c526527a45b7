// A small file of a user's own in which programs keep what they learnt for the next run: one line
// for a key. Whoever loses it loses no more than that.
//
// Several processes may use a file at once. It is replaced as a whole, so that a reader finds the
// state before or after; writers take turns, and one whose turn does not come within a moment
// writes nothing. What is in the file is believed by nobody: lines that are none are passed over,
// and a file that is too large, somebody else's or no plain file is as good as none.
//
//   const KeyedLines lines({.folder = CacheFolder(), .name = "tier-record"});
//   lines.Put({{key, "kernel k is refused"}});
//   const auto known = lines.Read();
#ifndef WARPLINE_COMMON_TIER_KEYED_LINES_H_
#define WARPLINE_COMMON_TIER_KEYED_LINES_H_

#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace warpline::tier {

// Thread-safe.
class KeyedLines {
 public:
  struct Options {
    std::string folder;  // Made if it is missing; empty for nowhere.
    std::string name;
    // When there are more lines or bytes, the ones that were written longest ago go.
    size_t most_lines = 1024;
    size_t most_bytes = size_t{256} << 10;
  };
  static constexpr size_t kMostLine = 1024;

  explicit KeyedLines(Options options) : options_(std::move(options)) {}

  // All that can be read, which may be nothing.
  std::map<std::string, std::string> Read() const;

  // Keeps these lines besides the others, in place of those with the same keys. Keys are letters,
  // digits, '-', '_', '.' and ':'; values have no control characters; others are left out. Returns
  // false if the file is not written.
  bool Put(const std::map<std::string, std::string>& lines) const;

 private:
  const Options options_;
};

// `warpline` in the user's folder for caches ($XDG_CACHE_HOME, or ~/.cache); empty where there is
// none, and for a program with more rights than its user.
std::string CacheFolder();

}  // namespace warpline::tier

#endif  // WARPLINE_COMMON_TIER_KEYED_LINES_H_
