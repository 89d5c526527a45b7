#include "server/jail/device_files.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace warpline::jail {
namespace {

std::vector<std::string> Entries(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), &closedir);
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir.get())) names.emplace_back(entry->d_name);
  return names;
}

// An address without what the domain's leading zeros differ in: the driver's library writes eight
// digits, its files four.
std::string Canonical(absl::string_view pci_bus_id) {
  while (absl::ConsumePrefix(&pci_bus_id, "0")) {
  }
  return absl::AsciiStrToLower(pci_bus_id);
}

// The number behind `key` in what the driver says in a file; -1 when there is none.
int NumberIn(const std::string& path, absl::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    absl::string_view rest = line;
    int number = 0;
    if (absl::ConsumePrefix(&rest, key) && absl::SimpleAtoi(rest, &number)) return number;
  }
  return -1;
}

}  // namespace

std::vector<std::string> AllDeviceFiles(const std::string& root) {
  std::vector<std::string> files;
  for (const std::string& name : Entries(absl::StrCat(root, "/dev"))) {
    absl::string_view number = name;
    int minor = 0;
    if (absl::ConsumePrefix(&number, "nvidia") && absl::SimpleAtoi(number, &minor)) {
      files.push_back(absl::StrCat(root, "/dev/", name));
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> DeviceFilesOf(const std::vector<std::string>& pci_bus_ids,
                                       const std::string& root) {
  const std::string folder = absl::StrCat(root, "/proc/driver/nvidia/gpus");
  const std::vector<std::string> gpus = Entries(folder);
  std::vector<std::string> files;
  for (const std::string& id : pci_bus_ids) {
    if (id.empty()) continue;
    const auto gpu = std::find_if(gpus.begin(), gpus.end(), [&id](const std::string& name) {
      return Canonical(name) == Canonical(id);
    });
    const int minor = gpu == gpus.end() ? -1
                                        : NumberIn(absl::StrCat(folder, "/", *gpu, "/information"),
                                                   "Device Minor:");
    if (minor < 0) return AllDeviceFiles(root);
    files.push_back(absl::StrCat(root, "/dev/nvidia", minor));
  }
  return files;
}

absl::StatusOr<std::vector<std::string>> InstanceFilesOf(uint32_t minor, uint32_t gpu_instance,
                                                         uint32_t compute_instance,
                                                         const std::string& root) {
  std::vector<std::string> files = {absl::StrCat(root, "/dev/nvidia", minor)};
  const std::string gpu =
      absl::StrCat(root, "/proc/driver/nvidia/capabilities/gpu", minor, "/mig/gi", gpu_instance);
  for (const std::string& access :
       {absl::StrCat(gpu, "/access"), absl::StrCat(gpu, "/ci", compute_instance, "/access")}) {
    const int number = NumberIn(access, "DeviceFileMinor:");
    if (number < 0) return absl::NotFoundError(absl::StrCat(access, " names no file"));
    files.push_back(absl::StrCat(root, "/dev/nvidia-caps/nvidia-cap", number));
  }
  return files;
}

std::vector<gid_t> GroupsOf(const std::vector<std::string>& files) {
  std::vector<gid_t> groups;
  for (const std::string& file : files) {
    struct stat info;
    if (stat(file.c_str(), &info) != 0) continue;
    constexpr mode_t kAll = S_IROTH | S_IWOTH, kGroup = S_IRGRP | S_IWGRP;
    const bool needs = (info.st_mode & kAll) != kAll && (info.st_mode & kGroup) == kGroup;
    if (needs && std::find(groups.begin(), groups.end(), info.st_gid) == groups.end()) {
      groups.push_back(info.st_gid);
    }
  }
  return groups;
}

}  // namespace warpline::jail
