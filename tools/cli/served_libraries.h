// Finds for `warpline explain` which functions of NVIDIA's libraries a program uses that the server
// executes for guarded sessions (docs/libraries.md), and which it does not.
//
//   ServedLibraries served(folder);
//   options.present = served.names();            // The walk does not look into NVIDIA's own.
//   served.AddUser(path);                        // The program and each of its libraries.
//   for (const std::string& line : served.Lines(walk.present)) ...
#ifndef WARPLINE_TOOLS_CLI_SERVED_LIBRARIES_H_
#define WARPLINE_TOOLS_CLI_SERVED_LIBRARIES_H_

#include <map>
#include <set>
#include <string>
#include <vector>

namespace warpline::cli {

// Thread-compatible.
class ServedLibraries {
 public:
  // `folder` has Warpline's libraries for guarded sessions. Without the folder, none is served.
  explicit ServedLibraries(const std::string& folder);

  // The names by which programs find the libraries that are there.
  const std::set<std::string>& names() const { return names_; }

  // Notes which functions the file takes from other files. A file that cannot be read takes none.
  void AddUser(const std::string& path);

  // Says of the functions how many the server executes, and names the others. Empty without a
  // library that is `needed`.
  std::vector<std::string> Lines(const std::set<std::string>& needed) const;
  // Returns true if all functions of the `needed` libraries that are used are executed.
  bool IsComplete(const std::set<std::string>& needed) const;

 private:
  struct Library {
    std::set<std::string> executes;
    std::set<std::string> known;  // Exported, and refused when they are called.
    std::set<std::string> executed;
    std::set<std::string> refused;
  };

  std::set<std::string> names_;
  std::map<std::string, Library> libraries_;
};

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_SERVED_LIBRARIES_H_
