// Module images that a session's worker asks for and offers.
#include <algorithm>
#include <memory>
#include <utility>

#include "server/session/session.h"

namespace warpline {
namespace {

// Offers that are not yet stored; more are dropped, and the images sent again some day.
constexpr int kMostOffers = 8;

}  // namespace

void Session::OnFindModule(const warpline_internal::FindModule& find) {
  ContentHash hash;
  if (context_.modules == nullptr || finding_for_ == worker_.get() ||
      find.sha256().size() != hash.size()) {
    return DistrustWorker("it asked for a module image out of turn");
  }
  std::copy(find.sha256().begin(), find.sha256().end(), hash.begin());
  finding_for_ = worker_.get();
  context_.modules->Find(entitlement().contents_tenant(), hash, find.bytes(),
                         [self = shared_from_this(), worker = worker_,
                          bytes = find.bytes()](const std::shared_ptr<UniqueFd>& image) {
                           self->context_.control->Post([self, worker, bytes, image] {
                             if (self->finding_for_ == worker.get()) self->finding_for_ = nullptr;
                             // Another has taken over: it asks again if it has to.
                             if (worker != self->worker_) return;
                             warpline_internal::ToWorker answer;
                             answer.mutable_module_image()->set_bytes(bytes);
                             const int fd = image->get();
                             const absl::Status sent =
                                 worker->Send(answer, image->valid() ? absl::MakeConstSpan(&fd, 1)
                                                                     : absl::Span<const int>());
                             if (!sent.ok()) self->LoseWorker(sent.ToString());
                           });
                         });
}

void Session::OnKeepModule(const warpline_internal::KeepModule& keep, UniqueFd image) {
  if (context_.modules == nullptr || keeping_modules_ >= kMostOffers) return;
  ++keeping_modules_;
  context_.modules->Keep(entitlement().contents_tenant(),
                         std::make_shared<UniqueFd>(std::move(image)), keep.bytes(),
                         [self = shared_from_this()] {
                           self->context_.control->Post([self] { --self->keeping_modules_; });
                         });
}

}  // namespace warpline
