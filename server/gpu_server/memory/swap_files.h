// Writes memory that is away to files, so that it takes no host memory, and reads it back.
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_SWAP_FILES_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_SWAP_FILES_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "server/gpu_server/memory/away_memory.h"
#include "server/gpu_server/memory/swap_space.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {

// Thread-safe. The destructor waits for what is under way, and forgets the rest.
class SwapFiles {
 public:
  using Moved = std::function<void(absl::Status)>;

  // `directory` was checked by CheckSwapDirectory(). `space` is borrowed.
  SwapFiles(std::string directory, SwapSpace* space);
  SwapFiles(const SwapFiles&) = delete;
  SwapFiles& operator=(const SwapFiles&) = delete;

  // Writes what `*away` holds in host memory to a file, and gives the host memory back. CANCELLED
  // once `away->wanted` is set. After that and any other error, which are those of SwapFile, it is
  // in host memory as before. `moved` is called on a thread of this object. `*away` belongs to this
  // object until then.
  void Store(std::shared_ptr<AwayMemory> away, Moved moved);
  // Takes host memory for what `*away` has in a file, and reads it back. RESOURCE_EXHAUSTED when
  // there is too little of that; other errors are those of SwapFile::Read(). After any of them it
  // is in the file as before. Does not wait for calls of Store().
  void Fetch(std::shared_ptr<AwayMemory> away, Moved moved);

 private:
  absl::Status StoreNow(AwayMemory* away) const;
  absl::Status FetchNow(AwayMemory* away) const;

  const std::string directory_;
  SwapSpace* const space_;
  // Last: they end before what their callbacks use.
  EventLoop stores_{"swap-stores"};
  EventLoop fetches_{"swap-fetches"};
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_SWAP_FILES_H_
