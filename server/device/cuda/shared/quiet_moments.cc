#include "server/device/cuda/shared/quiet_moments.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace warpline::device {
namespace {

constexpr absl::Duration kLook = absl::Microseconds(20);

}  // namespace

QuietMoments::~QuietMoments() { UnloadWaiting(); }

void QuietMoments::BeginLaunch() {
  for (;;) {
    // HoldBack() sets `held_back_` first and looks at `launching_` after that.
    launching_.fetch_add(1, std::memory_order_seq_cst);
    if (!held_back_.load(std::memory_order_seq_cst)) return;
    launching_.fetch_sub(1, std::memory_order_acq_rel);
    MutexLock lock(&mu_);
    while (held_back_.load(std::memory_order_seq_cst)) go_on_.Wait(&mu_);
  }
}

void QuietMoments::HoldBack(bool hold) {
  MutexLock lock(&mu_);
  held_back_.store(hold, std::memory_order_seq_cst);
  if (!hold) go_on_.NotifyAll();
}

void QuietMoments::Join(KernelSource* source) {
  MutexLock lock(&sources_mu_);
  sources_.insert(source);
}

void QuietMoments::Leave(KernelSource* source) {
  MutexLock lock(&sources_mu_);
  sources_.erase(source);
}

void QuietMoments::Look() {
  MutexLock lock(&sources_mu_);
  for (KernelSource* const source : sources_) source->Look();
}

bool QuietMoments::AllQuiet() {
  if (launching_.load(std::memory_order_seq_cst) > 0) return false;
  MutexLock lock(&sources_mu_);
  return std::all_of(sources_.begin(), sources_.end(),
                     [](KernelSource* source) { return source->Quiet(); });
}

bool QuietMoments::AwaitQuiet(absl::Time until) {
  while (!AllQuiet()) {
    if (absl::Now() >= until) return false;
    absl::SleepFor(kLook);
  }
  return true;
}

bool QuietMoments::Pause(absl::Duration most) {
  HoldBack(true);
  return AwaitQuiet(absl::Now() + most);
}

bool QuietMoments::Insist() {
  if (Pause(options_.last_pause)) return true;
  {
    MutexLock lock(&sources_mu_);
    for (KernelSource* const source : sources_) {
      if (!source->Quiet()) source->Overdue();
    }
  }
  return AwaitQuiet(absl::Now() + options_.grace);
}

CUresult QuietMoments::At(absl::FunctionRef<CUresult()> call) {
  MutexLock moment(&moment_mu_);
  const absl::Time patient_until = absl::Now() + options_.patience;
  bool quiet = false;
  for (absl::Duration pause = options_.first_pause; !quiet && absl::Now() < patient_until;
       pause = std::min(2 * pause, options_.most_pause)) {
    quiet = Pause(pause);
    if (quiet) break;
    HoldBack(false);
    absl::SleepFor(3 * pause);
  }
  CUresult result = CUDA_ERROR_SYSTEM_NOT_READY;
  if (quiet || Insist()) {
    result = call();
    UnloadWaiting();
  }
  HoldBack(false);
  return result;
}

CUresult QuietMoments::IfQuiet(absl::FunctionRef<CUresult()> call) {
  MutexLock moment(&moment_mu_);
  CUresult result = CUDA_ERROR_NOT_READY;
  if (Pause(options_.first_pause)) {
    result = call();
    UnloadWaiting();
  }
  HoldBack(false);
  return result;
}

void QuietMoments::UnloadLater(CUlibrary library) {
  bool many = false;
  {
    MutexLock lock(&mu_);
    waiting_.push_back(library);
    many = waiting_.size() > kMostWaiting;
  }
  // If it fails, the next one tries again.
  if (many) (void)At([] { return CUDA_SUCCESS; });
}

void QuietMoments::UnloadWaiting() {
  std::vector<CUlibrary> waiting;
  {
    MutexLock lock(&mu_);
    waiting = std::exchange(waiting_, {});
  }
  for (const CUlibrary library : waiting) api_->p_cuLibraryUnload(library);
}

}  // namespace warpline::device
