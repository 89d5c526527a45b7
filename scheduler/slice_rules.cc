#include "scheduler/slice_rules.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/given_name.h"
#include "common/text.h"
#include "scheduler/placement/pool.h"

namespace warpline::scheduler {
namespace {

constexpr size_t kMaxName = 64;
constexpr size_t kMaxSlicesOfTenant = 64;
// What no slice is called, since tenants' lists have them in another sense.
constexpr char kNoSlice[] = "none";

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kDayMs = 24ull * 3600 * 1000;
// A change of turns takes a good part of a shorter one.
constexpr uint64_t kLeastPeriodMs = 2;

// A part of a slice is 0, or from `least` to `most`.
struct Bounds {
  const char* option;  // Of the command line.
  uint64_t value;
  uint64_t least;
  uint64_t most;
};

std::vector<Bounds> BoundsOf(const SliceShape& shape) {
  const DeviceSlice usual;
  return {
      {"memory", shape.memory_bytes, 2 * kMiB, (1ull << 50) - 1},
      {"resident", shape.resident_bytes, 2 * kMiB, (1ull << 50) - 1},
      {"staging", shape.staging_bytes, kMiB, 1ull << 44},
      {"sessions", shape.max_sessions, 1, 65536},
      // Fewer, and no program could begin.
      {"handles", shape.max_handles, 16, usual.max_handles},
      {"module_bytes", shape.max_module_bytes, kMiB, usual.max_module_bytes},
      {"commands", shape.max_commands, 64, 65536},
      {"sm_percent", shape.sm_percent, 1, 100},
      {"launch_ms", shape.launch_ms, 1, kDayMs},
      {"weight", shape.weight, 1, kMostWeight},
      {"copy_weight", shape.copy_weight, 1, kMostWeight},
      {"priority", shape.priority, 1, kMostPriority},
      {"period_ms", shape.period_ms, kLeastPeriodMs, kMostPeriodMs},
      {"budget_ms", shape.budget_ms, 1, kMostPeriodMs},
  };
}

absl::Status CheckResident(const SliceRecord& slice) {
  const SliceShape& shape = slice.shape;
  if (shape.memory_bytes == 0 || shape.resident_bytes <= shape.memory_bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--resident=", shape.resident_bytes, " of slice ", slice.name,
                   ": it is a part of the slice's --memory=", shape.memory_bytes));
}

absl::Status CheckReservation(const SliceRecord& slice) {
  const SliceShape& shape = slice.shape;
  if ((shape.period_ms == 0) != (shape.budget_ms == 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("slice ", slice.name, ": --period_ms and --budget_ms stand together"));
  }
  if (TimeOf(shape) <= placement::kMostTime) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--budget_ms=", shape.budget_ms, " of slice ", slice.name, ": a slice has at most ",
      placement::kMostTime / 10, " % of its period of ", shape.period_ms, " ms"));
}

bool HasAny(const TenantRecord& tenant) {
  return tenant.slices.size() == 1 && tenant.slices.front() == kAnySlice;
}

bool MayHave(const TenantRecord& tenant, const std::string& slice) {
  return HasAny(tenant) ||
         std::find(tenant.slices.begin(), tenant.slices.end(), slice) != tenant.slices.end();
}

absl::Status NotItsSlice(const TenantRecord& tenant, const std::string& wanted) {
  const std::string has = tenant.slices.empty()
                              ? "it has none"
                              : absl::StrCat("only ", absl::StrJoin(tenant.slices, ", "));
  return absl::PermissionDeniedError(
      absl::StrCat("tenant ", tenant.name, " may not have slice ", wanted, ": ", has));
}

// 0 stands for what there is without a slice.
template <typename Number>
Number Either(Number slices, Number otherwise) {
  return slices == 0 ? otherwise : slices;
}

const SliceRecord* Find(const std::string& name, const std::vector<SliceRecord>& known) {
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const SliceRecord& slice) { return slice.name == name; });
  return found == known.end() ? nullptr : &*found;
}

}  // namespace

absl::Status CheckSlice(const SliceRecord& slice) {
  if (!IsPlainName(slice.name, kMaxName, "-_.")) {
    return absl::InvalidArgumentError("a slice's name has up to 64 letters, digits, -, _ or .");
  }
  if (slice.name == kAnySlice || slice.name == kNoSlice) {
    return absl::InvalidArgumentError(
        absl::StrCat("a slice cannot be called ", slice.name, ", which is a word for --slices"));
  }
  for (const Bounds& part : BoundsOf(slice.shape)) {
    if (part.value == 0 || (part.value >= part.least && part.value <= part.most)) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", part.option, "=", part.value, " of slice ",
                                                   slice.name, ": expected 0 for the default, or ",
                                                   part.least, " to ", part.most));
  }
  if (auto status = CheckResident(slice); !status.ok()) return status;
  return CheckReservation(slice);
}

absl::Status CheckNewSlice(const std::string& name) {
  return CheckGivenName("slice", name, kMaxName, "-_.");
}

absl::Status CheckSlicesOf(const TenantRecord& tenant, const std::vector<SliceRecord>& known) {
  if (HasAny(tenant)) return absl::OkStatus();
  if (tenant.slices.size() > kMaxSlicesOfTenant) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tenant has at most ", kMaxSlicesOfTenant, " slices; any stands for all"));
  }
  const std::set<std::string> names(tenant.slices.begin(), tenant.slices.end());
  if (names.size() != tenant.slices.size()) {
    return absl::InvalidArgumentError("a slice is named twice");
  }
  for (const std::string& name : tenant.slices) {
    if (name == kAnySlice || name == kNoSlice) {
      return absl::InvalidArgumentError(absl::StrCat("--slices: ", name, " stands alone"));
    }
    if (Find(name, known) == nullptr) {
      return absl::NotFoundError(absl::StrCat("there is no slice ", FitText(name, kMaxName)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SliceRecord> SliceFor(const TenantRecord& tenant, const std::string& wanted,
                                     const std::vector<SliceRecord>& known) {
  std::string name = wanted;
  if (name.empty() && !tenant.slices.empty() && !HasAny(tenant)) name = tenant.slices.front();
  if (name.empty()) return SliceRecord();
  // Whoever may not have a slice is not told whether it exists.
  if (!MayHave(tenant, name)) return NotItsSlice(tenant, FitText(name, kMaxName));
  const SliceRecord* const found = Find(name, known);
  if (found != nullptr) return *found;
  return absl::NotFoundError(absl::StrCat("there is no slice ", FitText(name, kMaxName)));
}

absl::Status ShapeRequest(const SliceRecord& slice, const TenantRecord& tenant, bool by_sessions,
                          warpline_internal::AcquireRequest* request) {
  const SliceShape& shape = slice.shape;
  if (shape.memory_bytes != 0) {
    if (request->memory_bytes() > shape.memory_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("slice ", slice.name, " has ", shape.memory_bytes >> 20, " MiB; ",
                       request->memory_bytes() >> 20, " MiB wanted"));
    }
    request->set_memory_bytes(Either(request->memory_bytes(), shape.memory_bytes));
  }
  if (shape.max_sessions != 0) {
    if (request->sessions() > shape.max_sessions) {
      return absl::ResourceExhaustedError(absl::StrCat("slice ", slice.name, " has ",
                                                       shape.max_sessions, " sessions; ",
                                                       request->sessions(), " wanted"));
    }
    // A client that dialled the scheduler is one process.
    if (request->sessions() == 0 && !by_sessions) {
      request->set_sessions(std::min(shape.max_sessions, tenant.max_lease_sessions));
    }
  }
  return absl::OkStatus();
}

LeaseTerms TermsOf(const SliceShape& shape, const TenantRecord& tenant) {
  return {Either(shape.weight, tenant.weight), Either(shape.copy_weight, tenant.copy_weight),
          Either(shape.priority, tenant.priority)};
}

uint32_t TimeOf(const SliceShape& shape) {
  if (shape.period_ms == 0) return 0;
  const uint64_t budget = uint64_t{1000} * shape.budget_ms;
  return static_cast<uint32_t>((budget + shape.period_ms - 1) / shape.period_ms);
}

DeviceSlice TokenSliceOf(const LeaseRecord& lease, const TenantRecord& tenant) {
  const SliceShape& shape = lease.slice.shape;
  DeviceSlice slice;
  slice.memory_bytes = lease.memory_bytes;
  slice.staging_bytes = shape.staging_bytes;
  slice.max_handles = Either(shape.max_handles, slice.max_handles);
  slice.max_module_bytes = Either(shape.max_module_bytes, slice.max_module_bytes);
  slice.max_commands = shape.max_commands;
  slice.sm_percent = Either(shape.sm_percent, slice.sm_percent);
  if (shape.launch_ms != 0) slice.launch_time_limit = absl::Milliseconds(shape.launch_ms);
  const LeaseTerms terms = TermsOf(shape, tenant);
  slice.weight = terms.weight;
  slice.copy_weight = terms.copy_weight;
  slice.priority = static_cast<int32_t>(terms.priority);
  slice.period = absl::Milliseconds(shape.period_ms);
  slice.budget = absl::Milliseconds(shape.budget_ms);
  slice.best_effort = shape.best_effort;
  slice.resident_bytes = shape.resident_bytes;
  // Whoever uses a scheduler without tenants is nobody in particular, and has no credential.
  const bool is_tenant = !tenant.credential_hash.empty();
  slice.tenants_weight = is_tenant && shape.weight == 0;
  slice.tenants_copy_weight = is_tenant && shape.copy_weight == 0;
  return slice;
}

}  // namespace warpline::scheduler
