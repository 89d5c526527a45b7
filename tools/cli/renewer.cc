#include "tools/cli/renewer.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/steady_time.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

constexpr absl::Duration kRetry = absl::Seconds(2);

void Say(const std::string& text) { Complain("warpline run", text, 0); }

}  // namespace

Renewer::Renewer(Lease* lease, TokenKeeper* keeper, std::string token, First first)
    : lease_(lease),
      keeper_(keeper),
      pause_(absl::Milliseconds(std::max<uint32_t>(lease->granted().renew_ms(), 100))),
      token_(std::move(token)) {
  const absl::Duration first_pause = first == First::kAtOnce ? absl::ZeroDuration() : pause_;
  thread_ = std::thread([this, first_pause] { Run(first_pause); });
}

std::string Renewer::Stop() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    stop_.NotifyAll();
  }
  thread_.join();
  return token_;
}

void Renewer::Release() {
  // When the scheduler does not answer, the lease expires by itself.
  (void)lease_->Release(Stop());
}

bool Renewer::SleepFor(absl::Duration pause) {
  const absl::Time until = SteadyNow() + pause;
  MutexLock lock(&mu_);
  while (!stopping_ && SteadyNow() < until) {
    stop_.WaitWithTimeout(&mu_, std::max(until - SteadyNow(), absl::Milliseconds(1)));
  }
  return !stopping_;
}

void Renewer::Run(absl::Duration first_pause) {
  absl::Duration pause = first_pause;
  while (SleepFor(pause)) {
    const auto renewed = lease_->Renew(token_);
    if (!renewed.ok()) {
      pause = std::min(pause_, kRetry);
      if (!GoesOnAfter(renewed.status())) return;
      continue;
    }
    pause = pause_;
    in_trouble_ = false;
    token_ = renewed->token();
    TellEnd(*renewed);
    if (const auto status = keeper_->Replace(token_); !status.ok()) {
      Say(std::string(status.message()));
    }
  }
}

bool Renewer::GoesOnAfter(const absl::Status& failure) {
  const auto code = failure.code();
  const bool over =
      code == absl::StatusCode::kNotFound || code == absl::StatusCode::kFailedPrecondition;
  if (over) {
    Say(absl::StrCat("the lease is lost: ", failure.message()));
  } else if (!in_trouble_) {
    Say(absl::StrCat("the lease cannot be renewed now (", failure.message(),
                     "): what runs goes on, and it is tried again"));
  }
  in_trouble_ = true;
  lost_.store(over);
  return !over;
}

void Renewer::TellEnd(const warpline_internal::LeaseReply& renewed) {
  const bool ended = std::exchange(ends_, renewed.ends_in_ms() != 0);
  if (!ends_) {
    if (ended) Say("the lease goes on after all");
    return;
  }
  if (ended && renewed.ends_reason() == ends_reason_) return;
  ends_reason_ = renewed.ends_reason();
  Say(absl::StrCat("the lease ends in ", (renewed.ends_in_ms() + 999) / 1000,
                   " s: ", Shown(ends_reason_)));
}

}  // namespace warpline::cli
