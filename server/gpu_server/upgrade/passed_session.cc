#include "server/gpu_server/upgrade/passed_session.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/sealed_memory.h"
#include "common/transfer_all.h"
#include "server/hostlink/handover/variable_file.h"

namespace warpline::server {

using warpline_internal::SavedSession;

namespace {

absl::StatusOr<UniqueFd> MemoryWith(const std::string& bytes) {
  auto memory = NewSealedMemory("warpline-manifest", bytes.size());
  if (!memory.ok()) return memory.status();
  const Transfer put = TransferAll(bytes.size(), [&](uint64_t done, uint64_t left) {
    return pwrite(memory->get(), bytes.data() + done, left, static_cast<off_t>(done));
  });
  if (put.bytes == bytes.size()) return memory;
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for a session's manifest: ", std::strerror(put.error)));
}

absl::StatusOr<SavedSession> ManifestIn(int fd) {
  const auto size = SealedBytes(fd);
  if (!size.ok()) return size.status();
  if (*size > kMostManifestBytes) return absl::InvalidArgumentError("a manifest that is too large");
  std::string bytes(*size, '\0');
  const Transfer got = TransferAll(bytes.size(), [&](uint64_t done, uint64_t left) {
    return pread(fd, bytes.data() + done, left, static_cast<off_t>(done));
  });
  if (got.bytes < bytes.size()) return absl::InvalidArgumentError("not a manifest");
  return ParseManifest(bytes);
}

// INVALID_ARGUMENT for memory of another size, or with one that can change.
absl::Status CheckSize(const UniqueFd& memory, uint64_t bytes) {
  const auto size = SealedBytes(memory.get());
  if (!size.ok() || *size == bytes) return size.status();
  return absl::InvalidArgumentError("memory of a session of another size");
}

}  // namespace

absl::StatusOr<PassedSession> PassSession(SessionCut* cut) {
  DescribeParts(cut);
  SavedSession& manifest = cut->manifest;
  manifest.clear_extent();
  if (cut->away != nullptr) {
    for (const SwapSpace::Extent& extent : cut->away->place.extents()) {
      auto* const to = manifest.add_extent();
      to->set_block(static_cast<uint32_t>(extent.block));
      to->set_offset(extent.offset);
      to->set_bytes(extent.bytes);
    }
  }
  auto memory = MemoryWith(manifest.SerializeAsString());
  if (!memory.ok()) return memory.status();
  PassedSession passed;
  passed.fds = {memory->get(), cut->journal.get()};
  passed.owned.push_back(*std::move(memory));
  if (cut->variables.valid()) passed.fds.push_back(cut->variables.get());
  for (const UniqueFd& staging : cut->staging) passed.fds.push_back(staging.get());
  return passed;
}

absl::StatusOr<SessionCut> TakePassedSession(std::vector<UniqueFd> fds, SwapSpace* space) {
  if (fds.size() < 2) return absl::InvalidArgumentError("a session without a journal");
  auto manifest = ManifestIn(fds[0].get());
  if (!manifest.ok()) return manifest.status();
  SessionCut cut;
  cut.manifest = *std::move(manifest);
  const size_t variables = cut.manifest.has_variables() ? 1 : 0;
  if (fds.size() != 2 + variables + static_cast<size_t>(cut.manifest.staging_size())) {
    return absl::InvalidArgumentError("another number of descriptors than the session has");
  }
  auto next = fds.begin() + 1;
  cut.journal = std::move(*next++);
  absl::Status checked;
  if (cut.manifest.has_variables()) {
    cut.variables = std::move(*next++);
    checked = CheckSize(cut.variables, kVariableFileBytes);
  }
  for (const auto& staging : cut.manifest.staging()) {
    if (!checked.ok()) break;
    cut.staging.push_back(std::move(*next++));
    checked = CheckSize(cut.staging.back(), staging.bytes());
  }
  if (!checked.ok()) return checked;
  std::vector<SwapSpace::Extent> extents;
  for (const auto& extent : cut.manifest.extent()) {
    extents.push_back({extent.block(), extent.offset(), extent.bytes()});
  }
  auto away = TakeMemory(cut.manifest, space, [&](uint64_t) { return space->TakeAt(extents); });
  if (!away.ok()) return away.status();
  cut.away = *std::move(away);
  return cut;
}

}  // namespace warpline::server
