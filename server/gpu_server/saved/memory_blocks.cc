#include "server/gpu_server/saved/memory_blocks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/crypto/content_hash.h"
#include "common/mapped_memory.h"
#include "common/mutex.h"
#include "common/parallel_for.h"
#include "common/transfer_all.h"
#include "common/unique_fd.h"
#include "server/gpu_server/saved/file_errors.h"

namespace warpline::server {
namespace {

using warpline_internal::SavedFile;
using warpline_internal::SavedSession;

constexpr uint64_t kBlock = SwapSpace::kGranule;
constexpr size_t kHashBytes = std::tuple_size_v<ContentHash>;
constexpr char kPrefix[] = "memory-";
// A folder has fewer, since one with much that is not needed is written anew.
constexpr int kMostFiles = 4096;
// So many threads keep any disk busy.
constexpr unsigned kMostThreads = 8;

int Threads() {
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads));
}

// A block in host memory.
struct HostBlock {
  int fd;
  uint64_t offset;
};

std::vector<HostBlock> BlocksOf(const AwayMemory& away, const SwapSpace& space) {
  std::vector<HostBlock> blocks;
  for (const SwapSpace::Extent& extent : away.place.extents()) {
    for (uint64_t done = 0; done < extent.bytes; done += kBlock) {
      blocks.push_back({space.block_fd(extent.block), extent.offset + done});
    }
  }
  return blocks;
}

// Where a block is on the disk.
struct Where {
  uint32_t file = 0;  // The index in the manifest.
  uint64_t at = 0;
};

// Returns the number in a file's name; 0 for a name that is none.
uint64_t NumberOf(absl::string_view name) {
  uint64_t number = 0;
  if (!absl::StartsWith(name, kPrefix)) return 0;
  const absl::string_view digits = name.substr(std::strlen(kPrefix));
  return absl::SimpleAtoi(digits, &number) && digits == absl::StrCat(number) ? number : 0;
}

// Checks what a manifest says of so many blocks.
absl::Status CheckIndex(const std::string& folder, const SavedSession& manifest, uint64_t blocks) {
  const auto malformed = [&folder](const char* what) {
    return MalformedFile(absl::StrCat(folder, "/manifest"), what);
  };
  if (manifest.block_sha256().size() != blocks * kHashBytes ||
      static_cast<uint64_t>(manifest.block_file_size()) != blocks ||
      static_cast<uint64_t>(manifest.block_at_size()) != blocks) {
    return malformed("it tells of other memory than the session has");
  }
  if (manifest.memory_file_size() > kMostFiles) return malformed("too many files with memory");
  for (const SavedFile& file : manifest.memory_file()) {
    if (NumberOf(file.name()) == 0) return malformed("a file with memory of another name");
    if (file.bytes() % kBlock != 0) return malformed("a file with half a part of memory");
  }
  for (int i = 0; i < manifest.block_file_size(); ++i) {
    if (manifest.block_file(i) >= static_cast<uint32_t>(manifest.memory_file_size()) ||
        manifest.block_at(i) >=
            manifest.memory_file(static_cast<int>(manifest.block_file(i))).bytes() / kBlock) {
      return malformed("memory outside of its files");
    }
  }
  return absl::OkStatus();
}

// The blocks of a folder that is being written.
class Writer {
 public:
  Writer(std::string folder, uint64_t blocks) : folder_(std::move(folder)), where_(blocks) {
    hashes_.resize(blocks * kHashBytes);
  }

  // Knows the blocks of a former folder, and links its files.
  void Use(const FormerBlocks& former) {
    const SavedSession& manifest = former.manifest;
    const auto blocks = static_cast<uint64_t>(manifest.block_file_size());
    if (!CheckIndex(former.folder, manifest, blocks).ok()) return;
    for (const SavedFile& file : manifest.memory_file()) {
      number_ = std::max(number_, NumberOf(file.name()));
      // A file that was changed since, or is of another file system, is of no use.
      const std::string path = absl::StrCat(former.folder, "/", file.name());
      const bool linked = OpenSavedFile(path, file.bytes()).ok() &&
                          link(path.c_str(), absl::StrCat(folder_, "/", file.name()).c_str()) == 0;
      files_.push_back({file, linked});
    }
    for (uint64_t i = 0; i < blocks; ++i) {
      const Where where = {manifest.block_file(static_cast<int>(i)),
                           manifest.block_at(static_cast<int>(i))};
      if (!files_[where.file].linked) continue;
      MutexLock lock(&mu_);
      known_.emplace(manifest.block_sha256().substr(i * kHashBytes, kHashBytes), where);
    }
  }

  absl::Status Begin() {
    file_ = static_cast<uint32_t>(files_.size());
    path_ = absl::StrCat(folder_, "/", kPrefix, number_ + 1);
    fd_ = UniqueFd(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    return fd_.valid() ? absl::OkStatus() : FileError(path_, errno);
  }

  // Several threads at once.
  absl::Status Add(uint64_t index, const HostBlock& from) {
    const auto mapped = MappedMemory::Map(from.fd, kBlock, from.offset);
    if (!mapped.ok()) return mapped.status();
    ContentHash hash;
    if (!HashContent({mapped->data(), kBlock}, &hash)) {
      return absl::InternalError("OpenSSL cannot hash");
    }
    std::string key(hash.begin(), hash.end());
    key.copy(hashes_.data() + index * kHashBytes, kHashBytes);
    uint64_t at;
    {
      MutexLock lock(&mu_);
      const auto [found, is_new] = known_.try_emplace(std::move(key), Where{file_, next_});
      where_[index] = found->second;
      if (!is_new) return absl::OkStatus();
      at = next_++;
    }
    const Transfer put = TransferAll(kBlock, [&](uint64_t done, uint64_t left) {
      return pwrite(fd_.get(), mapped->data() + done, left, static_cast<off_t>(at * kBlock + done));
    });
    if (put.bytes == kBlock) return absl::OkStatus();
    return FileError(path_, put.error == 0 ? EIO : put.error);
  }

  // Returns true where files hold more that is not needed than that is.
  bool IsWasteful() const {
    uint64_t bytes = 0;
    for (const uint32_t file : UsedFiles()) bytes += BytesOf(file);
    std::set<std::pair<uint32_t, uint64_t>> needed;
    for (const Where& where : where_) needed.emplace(where.file, where.at);
    return bytes / kBlock > 2 * needed.size() ||
           UsedFiles().size() > static_cast<size_t>(kMostFiles);
  }

  // Returns the bytes that were written once the disk has them.
  absl::StatusOr<uint64_t> Finish(SavedSession* manifest) {
    if (fsync(fd_.get()) != 0) return FileError(path_, errno);
    std::map<uint32_t, uint32_t> numbers;
    for (const uint32_t file : UsedFiles()) {
      numbers.emplace(file, static_cast<uint32_t>(numbers.size()));
      SavedFile* const to = manifest->add_memory_file();
      to->set_name(NameOf(file));
      to->set_bytes(BytesOf(file));
    }
    for (uint32_t file = 0; file <= file_; ++file) {
      if (!numbers.contains(file)) unlink(absl::StrCat(folder_, "/", NameOf(file)).c_str());
    }
    for (const Where& where : where_) {
      manifest->add_block_file(numbers.at(where.file));
      manifest->add_block_at(where.at);
    }
    manifest->set_block_sha256(std::move(hashes_));
    return BytesOf(file_);
  }

  // Removes what was written and linked.
  void Undo() {
    for (uint32_t file = 0; file <= file_; ++file) {
      unlink(absl::StrCat(folder_, "/", NameOf(file)).c_str());
    }
  }

 private:
  struct File {
    SavedFile file;
    bool linked;
  };

  std::set<uint32_t> UsedFiles() const {
    std::set<uint32_t> used;
    for (const Where& where : where_) used.insert(where.file);
    return used;
  }
  std::string NameOf(uint32_t file) const {
    return file == file_ ? absl::StrCat(kPrefix, number_ + 1) : files_[file].file.name();
  }
  uint64_t BytesOf(uint32_t file) const {
    if (file != file_) return files_[file].file.bytes();
    MutexLock lock(&mu_);
    return next_ * kBlock;
  }

  const std::string folder_;
  std::vector<File> files_;  // Those of the former folder.
  uint64_t number_ = 0;      // The greatest of their names.
  uint32_t file_ = 0;        // The index of the one that is written.
  std::string path_;
  UniqueFd fd_;
  // Each thread writes those of its blocks.
  std::string hashes_;
  std::vector<Where> where_;
  mutable Mutex mu_;
  std::map<std::string, Where> known_ ABSL_GUARDED_BY(mu_);
  uint64_t next_ ABSL_GUARDED_BY(mu_) = 0;
};

absl::StatusOr<uint64_t> Write(Writer* writer, const std::vector<HostBlock>& blocks,
                               SavedSession* manifest, std::atomic<uint64_t>* done,
                               bool* wasteful) {
  if (const absl::Status begun = writer->Begin(); !begun.ok()) return begun;
  const absl::Status added = ParallelFor(Threads(), blocks.size(), [&](uint64_t i) {
    const absl::Status one = writer->Add(i, blocks[i]);
    if (done != nullptr) *done += kBlock;
    return one;
  });
  if (!added.ok()) return added;
  *wasteful = writer->IsWasteful();
  if (*wasteful) return uint64_t{0};
  return writer->Finish(manifest);
}

}  // namespace

absl::StatusOr<uint64_t> WriteBlocks(const std::string& folder, const FormerBlocks* former,
                                     const AwayMemory& away, const SwapSpace& space,
                                     SavedSession* manifest, std::atomic<uint64_t>* done) {
  const std::vector<HostBlock> blocks = BlocksOf(away, space);
  bool wasteful = false;
  Writer writer(folder, blocks.size());
  if (former != nullptr) writer.Use(*former);
  auto written = Write(&writer, blocks, manifest, done, &wasteful);
  if (!wasteful) return written;
  writer.Undo();
  if (done != nullptr) *done -= blocks.size() * kBlock;
  Writer anew(folder, blocks.size());
  return Write(&anew, blocks, manifest, done, &wasteful);
}

absl::Status ReadBlocks(const std::string& folder, const SavedSession& manifest,
                        const AwayMemory& away, const SwapSpace& space,
                        std::atomic<uint64_t>* done) {
  const std::vector<HostBlock> blocks = BlocksOf(away, space);
  if (auto status = CheckIndex(folder, manifest, blocks.size()); !status.ok()) return status;
  std::vector<std::string> paths;
  std::vector<UniqueFd> files;
  for (const SavedFile& file : manifest.memory_file()) {
    paths.push_back(absl::StrCat(folder, "/", file.name()));
    auto opened = OpenSavedFile(paths.back(), file.bytes());
    if (!opened.ok()) return opened.status();
    files.push_back(*std::move(opened));
  }
  return ParallelFor(Threads(), blocks.size(), [&](uint64_t i) -> absl::Status {
    const size_t file = manifest.block_file(static_cast<int>(i));
    const uint64_t at = manifest.block_at(static_cast<int>(i)) * kBlock;
    const auto mapped = MappedMemory::Map(blocks[i].fd, kBlock, blocks[i].offset);
    if (!mapped.ok()) return mapped.status();
    const Transfer got = TransferAll(kBlock, [&](uint64_t done, uint64_t left) {
      return pread(files[file].get(), mapped->data() + done, left, static_cast<off_t>(at + done));
    });
    if (got.error != 0) return FileError(paths[file], got.error);
    ContentHash hash;
    if (got.bytes == kBlock && !HashContent({mapped->data(), kBlock}, &hash)) {
      return absl::InternalError("OpenSSL cannot hash");
    }
    const absl::string_view known =
        absl::string_view(manifest.block_sha256()).substr(i * kHashBytes, kHashBytes);
    const bool same = got.bytes == kBlock &&
                      std::equal(hash.begin(), hash.end(), known.begin(),
                                 [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); });
    if (done != nullptr) *done += kBlock;
    return same ? absl::OkStatus() : ChangedFile(paths[file]);
  });
}

}  // namespace warpline::server
