#include "server/gpu_server/session/session_modules.h"

#include <algorithm>
#include <utility>

namespace warpline::server {
namespace {

// Offers that are not yet stored; more are dropped, and the images sent again some day.
constexpr int kMostOffers = 8;

}  // namespace

void SessionModules::OnOtherWorker() {
  ++worker_number_;
  finding_ = false;
}

void SessionModules::Stop() { OnOtherWorker(); }

absl::Status SessionModules::Find(const warpline_internal::FindModule& find) {
  ContentHash hash;
  if (cache_ == nullptr || finding_ || find.sha256().size() != hash.size()) {
    return absl::InvalidArgumentError("it asked for a module image out of turn");
  }
  std::copy(find.sha256().begin(), find.sha256().end(), hash.begin());
  finding_ = true;
  cache_->Find(tenant_, payer_, hash, find.bytes(),
               [self = shared_from_this(), worker = worker_number_, hash,
                bytes = find.bytes()](const std::shared_ptr<UniqueFd>& image) {
                 self->control_->Post([self, worker, hash, bytes, image] {
                   control_loop.AssertOnLoop();
                   self->Answer(worker, hash, bytes, *image);
                 });
               });
  return absl::OkStatus();
}

void SessionModules::Answer(uint64_t worker, const ContentHash& hash, uint64_t bytes,
                            const UniqueFd& image) {
  if (worker != worker_number_) return;
  finding_ = false;
  warpline_internal::ToWorker answer;
  answer.mutable_module_image()->set_bytes(bytes);
  const int fd = image.get();
  if (image.valid()) audit_->ModuleLoaded(hash, bytes, "cache");
  const absl::Status sent =
      worker_->Send(answer, image.valid() ? absl::MakeConstSpan(&fd, 1) : absl::Span<const int>());
  if (!sent.ok()) lost_(sent.ToString());
}

absl::Status SessionModules::Loaded(const warpline_internal::ModuleLoaded& loaded) {
  ContentHash hash;
  if (loaded.sha256().size() != hash.size()) {
    return absl::InvalidArgumentError("it told of a module without its hash");
  }
  std::copy(loaded.sha256().begin(), loaded.sha256().end(), hash.begin());
  audit_->ModuleLoaded(hash, loaded.bytes(), "worker");
  return absl::OkStatus();
}

void SessionModules::Keep(const warpline_internal::KeepModule& keep, UniqueFd image) {
  if (cache_ == nullptr || keeping_ >= kMostOffers) {
    return audit_->ModuleLoaded(absl::ResourceExhaustedError("it was not hashed"), keep.bytes(),
                                "client");
  }
  ++keeping_;
  cache_->Keep(
      tenant_, payer_, std::make_shared<UniqueFd>(std::move(image)), keep.bytes(),
      [self = shared_from_this(), bytes = keep.bytes()](const absl::StatusOr<ContentHash>& hash) {
        self->control_->Post([self, bytes, hash] {
          control_loop.AssertOnLoop();
          --self->keeping_;
          self->audit_->ModuleLoaded(hash, bytes, "client");
        });
      });
}

}  // namespace warpline::server
