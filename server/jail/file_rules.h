// The layer "files": Landlock (https://docs.kernel.org/userspace-api/landlock.html), as far as the
// kernel has it.
#ifndef WARPLINE_SERVER_JAIL_FILE_RULES_H_
#define WARPLINE_SERVER_JAIL_FILE_RULES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/jail/profiles.h"

namespace warpline::jail {

// A file or folder that only some processes of a profile have.
struct GivenPath {
  std::string path;
  FileAccess access;
};

// Where a process may listen (TCP), if anywhere. Port 0 stands for those of the system's choice.
struct ListenPorts {
  bool any = false;
  uint32_t first = 0;
  uint32_t last = 0;
};

// From now on the calling thread, and the threads and processes that it starts, open only what
// `files` and `given` name, and /proc/self. Nothing can be created or executed but where these say
// so, nothing connected to by TCP, nothing bound but what `listens` says, and only this process's
// own threads, and what it starts, can be signalled and traced. The other threads are not
// restricted, so it must be called while there are none. UNIMPLEMENTED without Landlock.
// no_new_privs must be set.
absl::Status RestrictFiles(absl::Span<const FileRule> files, const std::vector<GivenPath>& given,
                           const ListenPorts& listens);

// The same without any file, device or port, and without /proc/self.
absl::Status RefuseFiles();

// The version of the kernel's Landlock; 0 for none.
int LandlockVersion();

}  // namespace warpline::jail

#endif  // WARPLINE_SERVER_JAIL_FILE_RULES_H_
