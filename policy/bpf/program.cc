#include "policy/bpf/program.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "policy/bpf/object.h"
#include "policy/bpf/verify.h"

namespace warpline::policy::bpf {
namespace {

absl::Status CheckMaps(const Object& object, uint64_t most_bytes) {
  uint64_t bytes = 0;
  for (const MapShape& shape : object.maps) {
    if (const absl::Status checked = CheckShape(shape); !checked.ok()) return checked;
    bytes += MapBytes(shape);
  }
  if (bytes <= most_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the maps take ", bytes, " bytes, and ", most_bytes, " are allowed"));
}

// The place of the hook in the table; their number where there is none.
size_t FindHook(std::string_view name, absl::Span<const Hook> hooks) {
  size_t hook = 0;
  while (hook < hooks.size() && hooks[hook].name != name) ++hook;
  return hook;
}

absl::Status VerifyAll(const Object& object, const HostInterface& host) {
  for (const Object::Program& program : object.programs) {
    const size_t hook = FindHook(program.section, host.hooks);
    if (hook == host.hooks.size()) {
      return absl::InvalidArgumentError(absl::StrCat("there is no hook ", program.section));
    }
    const absl::Status verified = Verify(program.code, host.hooks[hook], object.maps, host.helpers);
    if (!verified.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(program.section, ": ", verified.message()));
    }
  }
  return absl::OkStatus();
}

std::shared_ptr<Map> TakeOver(const MapShape& shape, const Program* previous) {
  for (const std::shared_ptr<Map>& map : previous->maps()) {
    if (map->shape() == shape) return map;
  }
  return nullptr;
}

}  // namespace

Program::Program(const HostInterface& host) : host_(host), programs_(host.hooks.size()) {}

absl::StatusOr<std::unique_ptr<Program>> Program::Load(std::string_view object,
                                                       const HostInterface& host,
                                                       const Program* previous) {
  absl::StatusOr<Object> read = ReadObject(object);
  if (!read.ok()) return read.status();
  if (read->abi_version != host.abi_version) {
    return absl::InvalidArgumentError(
        absl::StrCat("the policy was compiled for version ", read->abi_version,
                     " of warpline_policy.h, and this server has version ", host.abi_version));
  }
  if (const absl::Status maps = CheckMaps(*read, host.most_map_bytes); !maps.ok()) return maps;
  if (const absl::Status verified = VerifyAll(*read, host); !verified.ok()) return verified;

  std::unique_ptr<Program> program(new Program(host));
  program->ask_always_ms_ = read->ask_always_ms;
  program->expects_arrivals_ = read->expects_arrivals;
  if (previous != nullptr && previous->abi_version() != host.abi_version) previous = nullptr;
  for (const MapShape& shape : read->maps) {
    std::shared_ptr<Map> map = previous == nullptr ? nullptr : TakeOver(shape, previous);
    program->maps_.push_back(map != nullptr ? std::move(map) : std::make_shared<Map>(shape));
  }
  for (const Object::Program& entry : read->programs) {
    program->programs_[FindHook(entry.section, host.hooks)] =
        Executable(entry.code, program->maps_, host.helpers);
  }
  return program;
}

std::optional<uint64_t> Program::Run(size_t hook, const void* context, size_t context_bytes) const {
  if (!Has(hook) || context_bytes < host_.hooks[hook].context_bytes) return std::nullopt;
  return programs_[hook].Run(context, host_.self);
}

Map* Program::FindMap(std::string_view name) const {
  for (const std::shared_ptr<Map>& map : maps_) {
    if (map->shape().name == name) return map.get();
  }
  return nullptr;
}

}  // namespace warpline::policy::bpf
