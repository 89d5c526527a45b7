#include "common/tier/file_survey.h"

#include <sys/stat.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/plain_file.h"
#include "common/steady_time.h"
#include "common/tier/device_code_sections.h"

namespace warpline::tier {
namespace {

// What these bring for a device that is not as new as they are is machine code for it, and what PTX
// they have is for others. The names end where a version may begin.
constexpr std::string_view kMachineCodeLibraries[] = {
    "libcublas",   "libcublasLt",   "libcudnn",      "libcufft",      "libcufftw",
    "libcusolver", "libcusolverMg", "libcusparse",   "libcusparseLt", "libcutensor",
    "libnccl",     "libnvjpeg",     "libtorch_cuda", "libnvinfer",
};
// Families of libraries: what follows may be any word.
constexpr std::string_view kMachineCodeFamilies[] = {"libcudnn_", "libnpp", "libnvinfer_",
                                                     "libtorch_cuda_"};

// A file that was written in this time may be written again without another time.
constexpr absl::Duration kUnsettled = absl::Seconds(2);

std::string IdentityOf(const struct stat& is) {
  return absl::StrCat(is.st_dev, "-", is.st_ino, "-", is.st_size, "-", is.st_mtim.tv_sec, ".",
                      is.st_mtim.tv_nsec, "-", is.st_ctim.tv_sec, ".", is.st_ctim.tv_nsec);
}

void Add(DeviceCode more, DeviceCode* to) {
  if (to->obstacle.empty()) to->obstacle = std::move(more.obstacle);
  to->targets.merge(more.targets);
}

}  // namespace

std::string_view FileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool IsMachineCodeLibrary(std::string_view file_name) {
  for (const std::string_view family : kMachineCodeFamilies) {
    if (file_name.starts_with(family)) return true;
  }
  // Wheels put a hash after the name: libcudart-d0da41ae.so.11.0.
  const std::string_view name = file_name.substr(0, file_name.find_first_of(".-"));
  return std::find(std::begin(kMachineCodeLibraries), std::end(kMachineCodeLibraries), name) !=
         std::end(kMachineCodeLibraries);
}

FileSurvey::FileSurvey(Options options)
    : options_(std::move(options)),
      cache_({.folder = options_.cache_folder,
              .name = "device-code-1",
              .most_lines = 4096,
              .most_bytes = size_t{1} << 20}),
      began_(options_.clock ? options_.clock() : SteadyNow()),
      known_(cache_.Read()) {}

bool FileSurvey::OutOfBounds() const {
  const absl::Time now = options_.clock ? options_.clock() : SteadyNow();
  return read_bytes_ >= options_.most_bytes || now - began_ > options_.most_time;
}

DeviceCode FileSurvey::Read(const PlainFile& file) {
  const uint64_t size = file.size();
  const auto read = [this, &file](uint64_t offset, uint64_t bytes) {
    std::string text = file.Read(offset, bytes);
    read_bytes_ += text.size();
    return text;
  };
  if (size <= options_.small_file_bytes) return FindDeviceCode(read(0, size));
  const std::vector<elf::FileRange> ranges =
      DeviceCodeSections(read, size).value_or(std::vector<elf::FileRange>{{0, size}});
  uint64_t left = options_.most_file_bytes;
  DeviceCode found;
  for (const elf::FileRange& range : ranges) {
    const uint64_t bytes = std::min(range.bytes, left);
    left -= bytes;
    Add(FindDeviceCode(read(range.offset, bytes)), &found);
    if (found.obstacle.empty() && bytes < range.bytes) {
      found.obstacle = "it has more device code than is looked into";
    }
    if (!found.obstacle.empty()) break;
  }
  return found;
}

DeviceCode FileSurvey::Look(const std::string& path) {
  DeviceCode code;
  if (IsMachineCodeLibrary(FileName(path))) {
    code.obstacle = "it is a library of machine code";
    return code;
  }
  const auto file = PlainFile::Open(path);
  if (!file.ok()) return code;
  const struct stat& is = file->about();
  const std::string identity = IdentityOf(is);
  if (const auto known = known_.find(identity); known != known_.end()) {
    if (auto parsed = ParseDeviceCode(known->second)) return *std::move(parsed);
  }
  if (OutOfBounds()) {
    code.obstacle = "there is more to look into before it than is done at a start";
    return code;
  }
  code = Read(*file);
  const absl::Time now = options_.wall_clock ? options_.wall_clock() : absl::Now();
  const absl::Time changed =
      std::max(absl::TimeFromTimespec(is.st_mtim), absl::TimeFromTimespec(is.st_ctim));
  if (now - changed > kUnsettled) found_[identity] = FormatDeviceCode(code);
  return code;
}

void FileSurvey::Save() {
  if (options_.cache_folder.empty() || found_.empty()) return;
  cache_.Put(found_);
  found_.clear();
}

}  // namespace warpline::tier
