#include "server/journal_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace warpline {

absl::StatusOr<std::unique_ptr<JournalFile>> JournalFile::Create() {
  UniqueFd fd(memfd_create("warpline-journal", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return absl::ResourceExhaustedError("no descriptor for a journal");
  // A size that nobody can change: no access to it ever faults.
  if (ftruncate(fd.get(), static_cast<off_t>(kJournalBytes)) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::ResourceExhaustedError("no memory for a journal");
  }
  void* const head = mmap(nullptr, kJournalHeadBytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (head == MAP_FAILED) return absl::ResourceExhaustedError("a journal cannot be mapped");
  return std::unique_ptr<JournalFile>(
      new JournalFile(std::move(fd), static_cast<JournalHead*>(head)));
}

JournalFile::~JournalFile() { munmap(head_, kJournalHeadBytes); }

}  // namespace warpline
