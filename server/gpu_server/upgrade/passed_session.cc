#include "server/gpu_server/upgrade/passed_session.h"

#include <fcntl.h>
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
  SavedSession manifest;
  if (got.bytes < bytes.size() || !manifest.ParseFromString(bytes)) {
    return absl::InvalidArgumentError("not a manifest");
  }
  if (const absl::Status checked = CheckManifest(manifest); !checked.ok()) return checked;
  return manifest;
}

absl::StatusOr<UniqueFd> Duplicate(const UniqueFd& fd) {
  UniqueFd duplicate(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!duplicate.valid()) return absl::ResourceExhaustedError("no descriptor is left");
  return duplicate;
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

absl::StatusOr<SessionCut> TakePassedSession(const std::vector<UniqueFd>& fds, SwapSpace* space) {
  if (fds.size() < 2) return absl::InvalidArgumentError("a session without a journal");
  auto manifest = ManifestIn(fds[0].get());
  if (!manifest.ok()) return manifest.status();
  SessionCut cut;
  cut.manifest = *std::move(manifest);
  const size_t variables = cut.manifest.has_variables() ? 1 : 0;
  if (fds.size() != 2 + variables + static_cast<size_t>(cut.manifest.staging_size())) {
    return absl::InvalidArgumentError("another number of descriptors than the session has");
  }
  for (size_t i = 1; i < fds.size(); ++i) {
    auto fd = Duplicate(fds[i]);
    if (!fd.ok()) return fd.status();
    if (i == 1) {
      cut.journal = *std::move(fd);
    } else if (i == 2 && variables != 0) {
      const auto size = SealedBytes(fd->get());
      if (!size.ok()) return size.status();
      if (*size != kVariableFileBytes) return absl::InvalidArgumentError("no module variables");
      cut.variables = *std::move(fd);
    } else {
      const int number = static_cast<int>(i - 2 - variables);
      const auto size = SealedBytes(fd->get());
      if (!size.ok()) return size.status();
      if (*size != cut.manifest.staging(number).bytes()) {
        return absl::InvalidArgumentError("staging memory of another size");
      }
      cut.staging.push_back(*std::move(fd));
    }
  }
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
