// A folder under /tmp that goes away with its object. For unix sockets, whose paths may not be as
// long as $TEST_TMPDIR.
#ifndef WARPLINE_TRANSPORT_TESTING_TEMP_FOLDER_H_
#define WARPLINE_TRANSPORT_TESTING_TEMP_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace warpline::testing {

class TempFolder {
 public:
  TempFolder() {
    char path[] = "/tmp/warpline_test_XXXXXX";
    if (mkdtemp(path) != nullptr) path_ = path;
  }
  ~TempFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace warpline::testing

#endif  // WARPLINE_TRANSPORT_TESTING_TEMP_FOLDER_H_
