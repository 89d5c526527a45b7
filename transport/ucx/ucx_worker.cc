#include "transport/ucx/ucx_worker.h"

#include <cstring>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "transport/loop_thread.h"
#include "transport/ucx/ucx_door.h"

namespace warpline::ucx_internal {
namespace {

// The one kind of active messages.
constexpr unsigned kMessageId = 1;

// How often a connection that is being ended is looked after, at most.
constexpr int kClosingTurns = 1000;

}  // namespace

template <typename Call>
bool UcxWorker::Ask(Call call) {
  if (gave_up_) return false;
  if (ucx_->Guard(call)) return true;
  gave_up_ = true;
  endpoint_ = nullptr;
  events_->OnLost(absl::UnavailableError("UCX gave up on the connection"));
  return false;
}

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Create(const Options& options,
                                                             UcxWorkerEvents* events) {
  const auto ucx = UcxLibrary::Get();
  if (!ucx.ok()) return ucx.status();
  std::unique_ptr<UcxWorker> worker(new UcxWorker(*ucx, events));
  const absl::Status opened = worker->Open(options);
  if (!opened.ok()) return opened;
  return worker;
}

absl::Status UcxWorker::Open(const Options& options) {
  // UCX has a thread that accepts connections.
  const ScopedSignalBlock no_signals;
  ucp_config_t* config = nullptr;
  absl::Status status =
      ucx_->ToStatus(ucx_->ucp_config_read(nullptr, nullptr, &config), "UCX's settings");
  if (!status.ok()) return status;
  const absl::Cleanup release = [this, config] { ucx_->ucp_config_release(config); };
  const auto set = [&](const char* name, const std::string& value) {
    status.Update(ucx_->ToStatus(ucx_->ucp_config_modify(config, name, value.c_str()), name));
  };
  set("TLS", "tcp");
  // A message comes with its bytes: there is no buffer of the receiver's to ask for.
  set("RNDV_THRESH", "inf");
  set("NET_DEVICES", options.device);
  if (!options.port_range.empty()) set("PORT_RANGE", options.port_range);
  if (!status.ok()) return status;

  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  status = ucx_->ToStatus(
      ucx_->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_),
      "UCX has no way over this network");
  if (!status.ok()) return status;
  ucp_worker_params_t worker_params = {};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  const std::set<int> before = ListenersAt(options.ip);
  status = ucx_->ToStatus(ucx_->ucp_worker_create(context_, &worker_params, &worker_),
                          "UCX cannot listen");
  if (!status.ok()) return status;
  // Other threads of the host may listen, too, but hardly there and at this moment.
  std::set<int> made = ListenersAt(options.ip);
  for (const int fd : before) made.erase(fd);
  if (made.size() != 1) return absl::UnavailableError("cannot tell where UCX listens");
  listener_ = *made.begin();
  listener_watchers_ = WatchersOf(listener_);
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = &UcxWorker::OnActiveMessage;
  handler.arg = this;
  status.Update(
      ucx_->ToStatus(ucx_->ucp_worker_set_am_recv_handler(worker_, &handler), "active messages"));
  status.Update(ucx_->ToStatus(ucx_->ucp_worker_get_efd(worker_, &fd_), "UCX's descriptor"));
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  status.Update(
      ucx_->ToStatus(ucx_->ucp_worker_get_address(worker_, &address, &bytes), "UCX's address"));
  if (!status.ok()) return status;
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  ucx_->ucp_worker_release_address(worker_, address);
  return absl::OkStatus();
}

UcxWorker::~UcxWorker() {
  const LoopScope scope(&channel_loop);
  Disconnect();
  for (const Sending& send : sends_) {
    Ask([ucx = ucx_, request = send.request] {
      if (ucx->ucp_request_check_status(request) == UCS_INPROGRESS) return;
      ucx->ucp_request_free(request);
    });
  }
  Ask([this] {
    if (worker_ != nullptr) ucx_->ucp_worker_destroy(worker_);
    if (context_ != nullptr) ucx_->ucp_cleanup(context_);
  });
}

absl::Status UcxWorker::CloseDoor() { return CloseToStrangers(listener_, listener_watchers_); }

absl::Status UcxWorker::Connect(const std::string& address) {
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = &UcxWorker::OnError, .arg = this};
  ucs_status_t status = UCS_ERR_CONNECTION_RESET;
  ucp_ep_h made = nullptr;
  Ask([this, &params, &made, &status] { status = ucx_->ucp_ep_create(worker_, &params, &made); });
  if (status == UCS_OK) endpoint_ = made;
  return ucx_->ToStatus(status, "UCX cannot connect");
}

void UcxWorker::Disconnect() {
  if (endpoint_ == nullptr) return;
  ucp_request_param_t how = {};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_EP_CLOSE_FLAG_FORCE;
  Ask([this, &how, endpoint = std::exchange(endpoint_, nullptr)] {
    void* const closing = ucx_->ucp_ep_close_nbx(endpoint, &how);
    if (closing == nullptr || UCS_PTR_IS_ERR(closing)) return;
    for (int turn = 0; turn < kClosingTurns; ++turn) {
      if (ucx_->ucp_request_check_status(closing) != UCS_INPROGRESS) break;
      ucx_->ucp_worker_progress(worker_);
    }
    ucx_->ucp_request_free(closing);
  });
}

void UcxWorker::Send(const MessageHeader& header, Frame payload) {
  if (endpoint_ == nullptr) return;
  Sending& send = sends_.emplace_back(Sending{header, std::move(payload)});
  ucp_request_param_t how = {};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_AM_SEND_FLAG_EAGER;
  const std::string_view bytes = send.payload.bytes();
  const bool asked = Ask([this, endpoint = endpoint_, &send, bytes, &how] {
    send.request = ucx_->ucp_am_send_nbx(endpoint, kMessageId, &send.header, sizeof(send.header),
                                         bytes.data(), bytes.size(), &how);
  });
  if (!asked) return;  // The message stays: UCX may have taken it.
  if (send.request != nullptr && !UCS_PTR_IS_ERR(send.request)) return;
  const ucs_status_t status = UCS_PTR_STATUS(send.request);
  sends_.pop_back();
  if (status != UCS_OK) events_->OnLost(ucx_->ToStatus(status, "the UCX connection is lost"));
}

bool UcxWorker::Progress() {
  bool active = false;
  Ask([this, &active] { active = ucx_->ucp_worker_progress(worker_) != 0; });
  while (!sends_.empty()) {
    ucs_status_t status = UCS_INPROGRESS;
    Ask([ucx = ucx_, request = sends_.front().request, &status] {
      status = ucx->ucp_request_check_status(request);
      if (status != UCS_INPROGRESS) ucx->ucp_request_free(request);
    });
    if (status == UCS_INPROGRESS) break;
    active = true;
    sends_.pop_front();
    if (status != UCS_OK) events_->OnLost(ucx_->ToStatus(status, "the UCX connection is lost"));
  }
  return active;
}

bool UcxWorker::Arm() {
  bool armed = false;
  Ask([this, &armed] { armed = ucx_->ucp_worker_arm(worker_) == UCS_OK; });
  return armed;
}

ucs_status_t UcxWorker::OnActiveMessage(void* self, const void* header, size_t header_bytes,
                                        void* data, size_t bytes, const ucp_am_recv_param_t* how) {
  channel_loop.AssertOnLoop();
  // What a correct peer does not send, nobody needs to hear of.
  MessageHeader copy;
  if (header_bytes != sizeof(copy) || (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    return UCS_OK;
  }
  std::memcpy(&copy, header, sizeof(copy));
  static_cast<UcxWorker*>(self)->events_->OnMessage(
      copy, {static_cast<const char*>(data), data == nullptr ? 0 : bytes});
  return UCS_OK;
}

void UcxWorker::OnError(void* self, ucp_ep_h, ucs_status_t status) {
  channel_loop.AssertOnLoop();
  auto* const worker = static_cast<UcxWorker*>(self);
  worker->events_->OnLost(worker->ucx_->ToStatus(status, "the UCX connection is lost"));
}

}  // namespace warpline::ucx_internal
