#include "transport/ucx/ucx_worker.h"

#include <cstring>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "transport/loop_thread.h"
#include "transport/ucx/ucx_device.h"
#include "transport/ucx/ucx_door.h"

namespace warpline::ucx_internal {
namespace {

// The one kind of active messages.
constexpr unsigned kMessageId = 1;

// How often a connection that is being ended is looked after, at most.
constexpr int kClosingTurns = 1000;

// One of UCX's, by its name.
struct Setting {
  const char* name;
  std::string value;
};

// Makes a context with settings. `failed` says what an error of it means.
absl::StatusOr<ucp_context_h> NewContext(const UcxLibrary& ucx, const UcxTransports& transports,
                                         const std::vector<Setting>& settings,
                                         absl::string_view failed) {
  // The shim has UCX load no modules, since TCP needs none.
  if (!transports.IsOnlyTcp() && ucx.fits_modules()) {
    const absl::Status set =
        ucx.ToStatus(ucx.ucs_global_opts_set_value("MODULES", "ib"), "UCX's modules");
    if (!set.ok()) return set;
  }
  ucp_config_t* config = nullptr;
  absl::Status status =
      ucx.ToStatus(ucx.ucp_config_read(nullptr, nullptr, &config), "UCX's settings");
  if (!status.ok()) return status;
  const absl::Cleanup release = [&ucx, config] { ucx.ucp_config_release(config); };
  for (const Setting& setting : settings) {
    status.Update(ucx.ToStatus(ucx.ucp_config_modify(config, setting.name, setting.value.c_str()),
                               setting.name));
  }
  if (!status.ok()) return status;
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  status = ucx.ToStatus(
      ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context), failed);
  if (!status.ok()) return status;
  return context;
}

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
  std::vector<std::string> devices = {options.device};
  if (!options.transports.IsOnlyTcp()) {
    for (std::string& rdma : RdmaDevicesOf(options.device)) devices.push_back(std::move(rdma));
  }
  std::vector<Setting> settings = {
      {"TLS", options.transports.ToString()},
      // A message comes with its bytes: there is no buffer of the receiver's to ask for.
      {"RNDV_THRESH", "inf"},
      {"NET_DEVICES", absl::StrJoin(devices, ",")},
  };
  if (!options.port_range.empty()) settings.push_back({"PORT_RANGE", options.port_range});
  const auto context =
      NewContext(*ucx_, options.transports, settings, "UCX has no way over this network");
  if (!context.ok()) return context.status();
  context_ = *context;
  tells_losses_ = !options.transports.AreWithinOneHost();
  absl::Status status = OpenDoor(options);
  if (!status.ok()) return status;
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

absl::Status UcxWorker::OpenDoor(const Options& options) {
  ucp_worker_params_t worker_params = {};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  const std::set<int> before = ListenersAt(options.ip);
  const absl::Status status = ucx_->ToStatus(
      ucx_->ucp_worker_create(context_, &worker_params, &worker_), "UCX cannot listen");
  if (!status.ok()) return status;
  // Other threads of the host may listen, too, but hardly there and at this moment.
  std::set<int> made = ListenersAt(options.ip);
  for (const int fd : before) made.erase(fd);
  if (!options.transports.HasTcp() && made.empty()) return absl::OkStatus();
  if (made.size() != 1) return absl::UnavailableError("cannot tell where UCX listens");
  listener_ = *made.begin();
  listener_watchers_ = WatchersOf(listener_);
  return absl::OkStatus();
}

absl::Status UcxWorker::CheckTransports(const UcxTransports& transports) {
  const auto ucx = UcxLibrary::Get();
  if (!ucx.ok()) return ucx.status();
  const ScopedSignalBlock no_signals;
  for (const std::string& name : transports.names()) {
    const auto context =
        NewContext(**ucx, transports, {{"TLS", name}},
                   absl::StrCat("UCX has no transport \"", name, "\" on this host"));
    if (!context.ok()) return context.status();
    (*ucx)->ucp_cleanup(*context);
  }
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

absl::Status UcxWorker::CloseDoor() {
  if (listener_ < 0) return absl::OkStatus();
  return CloseToStrangers(listener_, listener_watchers_);
}

absl::Status UcxWorker::Connect(const std::string& address) {
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = tells_losses_ ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler = {.cb = &UcxWorker::OnError, .arg = this};
  ucs_status_t status = UCS_ERR_CONNECTION_RESET;
  ucp_ep_h made = nullptr;
  Ask([this, &params, &made, &status] { status = ucx_->ucp_ep_create(worker_, &params, &made); });
  if (status == UCS_OK) endpoint_ = made;
  return ucx_->ToStatus(status, "UCX cannot connect");
}

void UcxWorker::Disconnect() {
  if (endpoint_ == nullptr) return;
  if (!tells_losses_) {
    // An end that is not told of losses cannot end in this way: it goes with its worker.
    endpoint_ = nullptr;
    return;
  }
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
