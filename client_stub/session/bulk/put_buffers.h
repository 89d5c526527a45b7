// Memory for what is put on a bulk connection, which is used again and again: fresh memory would
// have to be made by the kernel, page by page.
#ifndef WARPLINE_CLIENT_STUB_SESSION_BULK_PUT_BUFFERS_H_
#define WARPLINE_CLIENT_STUB_SESSION_BULK_PUT_BUFFERS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe; owned by a shared_ptr, and lives until the last of what it gave out is back. It
// keeps as many as were ever out at a time.
class PutBuffers : public std::enable_shared_from_this<PutBuffers> {
 public:
  // A string of any content, which comes back with its memory when nobody has it any more, on
  // whichever thread that is.
  std::shared_ptr<std::string> Take() {
    std::unique_ptr<std::string> buffer;
    {
      MutexLock lock(&mu_);
      if (!free_.empty()) {
        buffer = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (buffer == nullptr) buffer = std::make_unique<std::string>();
    return {buffer.release(), [self = shared_from_this()](std::string* used) {
              MutexLock lock(&self->mu_);
              self->free_.emplace_back(used);
            }};
  }

 private:
  Mutex mu_;
  std::vector<std::unique_ptr<std::string>> free_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_BULK_PUT_BUFFERS_H_
