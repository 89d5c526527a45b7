#include "client_stub/core/graph_launch/remote_graph.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "client_stub/core/copy/copies.h"
#include "client_stub/core/copy/described_copies.h"
#include "client_stub/core/launch/launch.h"
#include "client_stub/core/libraries/library_send.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/memory/host_memory.h"
#include "client_stub/core/pinned/pinned_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/command_recorder.h"
#include "client_stub/core/stream/events.h"
#include "client_stub/core/stream/host_calls.h"
#include "client_stub/core/stream/stream_commands.h"
#include "client_stub/core/stream/streams.h"
#include "proto/graph_definition.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kPartBytes = kMaxTail;

// Takes the command of one node.
class NodeRecorder : public CommandRecorder {
 public:
  CUresult Add(CommandId id, std::string_view fields, std::string_view tail) override {
    // A node is one command, of a kind that graphs may have.
    if (id_ != 0 || !IsGraphCommand(id)) return CUDA_ERROR_NOT_SUPPORTED;
    id_ = static_cast<uint32_t>(id);
    fields_ = fields;
    tail_ = tail;
    return CUDA_SUCCESS;
  }

  void AppendTo(const std::vector<uint32_t>& after, uint32_t body, std::string* definition) {
    AppendGraphStep(id_, after, fields_, tail_, definition, body);
    id_ = 0;
    fields_.clear();
    tail_.clear();
  }

 private:
  uint32_t id_ = 0;
  std::string fields_;
  std::string tail_;
};

// Waits for host functions that may write the source of a copy, since the source is read now.
void AwaitHostFunctions(const Stream* stream, const CUDA_MEMCPY3D& copy) {
  const bool host =
      copy.srcMemoryType == CU_MEMORYTYPE_HOST ||
      (copy.srcMemoryType == CU_MEMORYTYPE_UNIFIED && !runtime().memory->IsDevice(copy.srcDevice));
  if (host && stream->recorder == nullptr && runtime().host_calls->any()) {
    runtime().host_calls->Await();
  }
}

// Whether a node's work involves this process.
bool IsLocal(const GraphNodeParams& params) {
  const auto host = [](CUmemorytype type, CUdeviceptr address) {
    return type == CU_MEMORYTYPE_HOST || runtime().host_memory->HostsArena(address) ||
           (type == CU_MEMORYTYPE_UNIFIED && !runtime().memory->IsDevice(address));
  };
  if (const auto* copy = std::get_if<MemcpyNodeParams>(&params)) {
    return host(copy->copy.srcMemoryType, copy->copy.srcDevice) ||
           host(copy->copy.dstMemoryType, copy->copy.dstDevice);
  }
  return std::holds_alternative<CUDA_HOST_NODE_PARAMS_v2>(params) ||
         std::holds_alternative<EventRecordNodeParams>(params) ||
         std::holds_alternative<EventWaitNodeParams>(params) ||
         // The device's own graphs have no such nodes.
         std::holds_alternative<LibraryNodeParams>(params);
}

// Returns the device whose stream a node needs; nullptr where any stream will do.
Device* DeviceOf(const SharedNodeParams& params) {
  if (params == nullptr) return nullptr;
  if (const auto* kernel = std::get_if<KernelNodeParams>(params.get())) {
    return kernel->kernel->device;
  }
  if (const auto* memset = std::get_if<CUDA_MEMSET_NODE_PARAMS_v2>(params.get())) {
    return runtime().DeviceAt(memset->dst);
  }
  return nullptr;
}

// Returns the stream of a device for graphs that are launched on other devices; nullptr where none
// could be made.
Stream* SideStream(Device* device) {
  struct Streams {
    Mutex mu;
    std::array<Stream*, kMaxSessionDevices> of ABSL_GUARDED_BY(mu) = {};
  };
  static Streams* const streams = new Streams;
  MutexLock lock(&streams->mu);
  Stream*& stream = streams->of[device->number];
  if (stream == nullptr &&
      CreateStream(device, nullptr, CU_STREAM_NON_BLOCKING, 0, &stream) != CUDA_SUCCESS) {
    stream = nullptr;
  }
  return stream;
}

}  // namespace

// Follows the work of one stream to other devices and back, in one order.
class Path {
 public:
  explicit Path(Stream* start) : start_(start), at_(start) {}

  Stream* at() const { return at_; }
  CUresult GoTo(Device* device) {
    Stream* const next = device == nullptr          ? at_
                         : device == start_->device ? start_
                                                    : SideStream(device);
    return next == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : GoTo(next);
  }
  CUresult Return() { return GoTo(start_); }

 private:
  CUresult GoTo(Stream* next) {
    if (next != at_) WARPLINE_TRY(Join(at_, next));
    at_ = next;
    return CUDA_SUCCESS;
  }

  Stream* const start_;
  Stream* at_;
};

namespace {

// Gives the stream the work of a node.
struct Sender {
  Stream* stream;

  CUresult operator()(const std::monostate&) const { return CUDA_SUCCESS; }
  CUresult operator()(const KernelNodeParams& node) const {
    // In a definition the place of the stream says where the kernel runs.
    if (stream->recorder != nullptr) stream->wire = node.partition;
    return SendLaunch(node.kernel, stream, node.launch, &node.attributes, node.packed);
  }
  CUresult operator()(const MemcpyNodeParams& node) const {
    AwaitHostFunctions(stream, node.copy);
    return CopyDescribed(stream, node.copy, Completion::kAsynchronous);
  }
  CUresult operator()(const CUDA_MEMSET_NODE_PARAMS_v2& node) const {
    if (node.height == 1) {
      return Fill(stream, node.dst, node.value, node.elementSize, node.width,
                  Completion::kAsynchronous);
    }
    return FillRows(stream, node.dst, node.pitch, node.value, node.elementSize, node.width,
                    node.height, Completion::kAsynchronous);
  }
  CUresult operator()(const CUDA_HOST_NODE_PARAMS_v2& node) const {
    return SendHostCall(stream, {.function = node.fn, .data = node.userData});
  }
  CUresult operator()(const EventRecordNodeParams& node) const {
    Event* const event = FindEvent(node.event);
    return event == nullptr ? CUDA_ERROR_INVALID_HANDLE : RecordEvent(event, stream);
  }
  CUresult operator()(const EventWaitNodeParams& node) const {
    const Event* const event = FindEvent(node.event);
    return event == nullptr ? CUDA_ERROR_INVALID_HANDLE : WaitForEvent(stream, event);
  }
  // Only the books of this process are kept for memory nodes, and not here.
  CUresult operator()(const MemAllocNodeParams&) const { return CUDA_SUCCESS; }
  CUresult operator()(const MemFreeNodeParams&) const { return CUDA_SUCCESS; }
  CUresult operator()(const BatchMemOpNodeParams& node) const {
    return SendMemOps(stream, node.operations.data(), node.operations.size());
  }
  CUresult operator()(const LibraryNodeParams& node) const {
    return SendLibraryCall(stream, node.function, node.modes, node.values);
  }
  // A stream cannot run it.
  CUresult operator()(const ConditionalNodeParams&) const { return CUDA_ERROR_NOT_SUPPORTED; }
};

const ConditionalNodeParams* ConditionalOf(const GraphPlan::Step& step) {
  return step.params == nullptr ? nullptr : std::get_if<ConditionalNodeParams>(step.params.get());
}

const KernelNodeParams* KernelOf(const GraphPlan::Step& step) {
  return step.params == nullptr ? nullptr : std::get_if<KernelNodeParams>(step.params.get());
}

// Returns true for a step that only the server's copy of a graph can run.
bool NeedsCopy(const GraphPlan::Step& step) {
  const KernelNodeParams* const kernel = KernelOf(step);
  return ConditionalOf(step) != nullptr || (kernel != nullptr && kernel->partition != 0);
}

}  // namespace

GraphPlan::GraphPlan(std::vector<Step> steps, uint64_t frame)
    : steps_(std::move(steps)), frame_(frame) {
  for (const Step& step : steps_) {
    const KernelNodeParams* const kernel = KernelOf(step);
    partitioned_ |= kernel != nullptr && kernel->partition != 0;
    Device* const device = DeviceOf(step.params);
    if (device == nullptr) continue;
    several_ |= device_ != nullptr && device_ != device;
    device_ = device;
  }
  split_ = Split();
}

GraphPlan::~GraphPlan() {
  if (wire_ != 0 && EnterInitialized() == CUDA_SUCCESS) {
    runtime().commands->Send(cmd::GraphDestroy{wire_});
  }
}

// A step comes after the copy if it needs this process and a step of the copy comes before it, and
// so do the steps that come after it. Likewise for those before the copy.
bool GraphPlan::Split() {
  const size_t count = steps_.size();
  places_.assign(count, Place::kCopy);
  if (frame_ == 0 && !partitioned_) return true;
  std::vector<bool> follows(count), leads(count);  // A step of the copy, or itself one.
  for (size_t i = 0; i < count; ++i) {
    follows[i] = NeedsCopy(steps_[i]);
    for (const uint32_t before : steps_[i].after) follows[i] = follows[i] || follows[before];
  }
  for (size_t i = count; i-- > 0;) {
    leads[i] = leads[i] || NeedsCopy(steps_[i]);
    if (!leads[i]) continue;
    for (const uint32_t before : steps_[i].after) leads[before] = true;
  }
  for (size_t i = 0; i < count; ++i) {
    const Step& step = steps_[i];
    // A step of a conditional node's body stays in that body.
    if (step.body != 0 || step.params == nullptr || !IsLocal(*step.params)) continue;
    if (follows[i] && leads[i]) return false;
    places_[i] = leads[i] ? Place::kBefore : Place::kAfter;
  }
  for (size_t i = 0; i < count; ++i) {
    for (const uint32_t before : steps_[i].after) {
      if (places_[before] == Place::kAfter) places_[i] = Place::kAfter;
    }
  }
  for (size_t i = count; i-- > 0;) {
    if (places_[i] != Place::kBefore) continue;
    for (const uint32_t before : steps_[i].after) places_[before] = Place::kBefore;
  }
  return true;
}

bool GraphPlan::SetsConditionBefore() const {
  for (const Step& step : steps_) {
    const ConditionalNodeParams* const conditional = ConditionalOf(step);
    if (conditional == nullptr) continue;
    const CUgraphConditionalHandle handle = conditional->params.handle;
    const std::string_view wanted(reinterpret_cast<const char*>(&handle), sizeof(handle));
    for (size_t i = 0; i < steps_.size(); ++i) {
      const KernelNodeParams* const kernel = KernelOf(steps_[i]);
      if (kernel != nullptr && places_[i] == Place::kBefore &&
          std::string_view(kernel->packed).find(wanted) != std::string_view::npos) {
        return true;
      }
    }
  }
  return false;
}

bool GraphPlan::Define(Device* device, std::string* definition) const {
  if (!split_) return false;
  Stream nowhere;
  NodeRecorder recorder;
  nowhere.recorder = &recorder;
  nowhere.device = device;
  std::vector<uint32_t> index(steps_.size());  // In the definition.
  uint32_t defined = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (places_[i] != Place::kCopy) continue;
    index[i] = defined++;
    const Step& step = steps_[i];
    std::vector<uint32_t> after;
    for (const uint32_t before : step.after) {
      if (places_[before] == Place::kCopy) after.push_back(index[before]);
    }
    const ConditionalNodeParams* const conditional = ConditionalOf(step);
    if (conditional != nullptr) {
      const CUDA_CONDITIONAL_NODE_PARAMS& params = conditional->params;
      const ConditionalStep fields = {params.handle, static_cast<uint32_t>(params.type),
                                      params.size};
      AppendGraphStep(kConditionalStep, after,
                      {reinterpret_cast<const char*>(&fields), sizeof(fields)}, {}, definition,
                      step.body);
      continue;
    }
    if (step.params != nullptr) {
      if (IsLocal(*step.params) || std::visit(Sender{&nowhere}, *step.params) != CUDA_SUCCESS) {
        return false;
      }
    }
    recorder.AppendTo(after, step.body, definition);
  }
  return definition->size() <= kMaxGraphDefinitionBytes;
}

CUresult GraphPlan::Send(const std::string& definition, const Device& device,
                         uint64_t* graph) const {
  Runtime& r = runtime();
  const uint64_t image = r.NewNumber();
  *graph = r.NewNumber(device);
  for (uint64_t done = 0; done < definition.size(); done += kPartBytes) {
    const std::string_view part = std::string_view(definition).substr(done, kPartBytes);
    WARPLINE_TRY(SentAs(r.commands->Send(cmd::ImageData{image, definition.size(), done}, part)));
  }
  const CUresult result =
      ToCu(frame_ == 0
               ? r.commands->Call(WaitKind::kRoundTrip, cmd::GraphCreate{*graph, image})
               : r.commands->Call(WaitKind::kRoundTrip, cmd::GraphCreateIn{*graph, image, frame_}));
  if (result == CUDA_SUCCESS) return CUDA_SUCCESS;
  r.commands->Send(cmd::GraphDestroy{*graph});
  *graph = 0;
  return result;
}

uint64_t GraphPlan::Create(Device* device) const {
  std::string definition;
  uint64_t graph = 0;
  if (!several_ && Define(device, &definition)) Send(definition, *device, &graph);
  return graph;
}

CUresult GraphPlan::Make() {
  Device* const device = &runtime().devices[DeviceOfHandle(frame_)];
  std::string definition;
  if (several_ || (device_ != nullptr && device_ != device) || SetsConditionBefore() ||
      !Define(device, &definition)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  uint64_t graph = 0;
  const CUresult result = Send(definition, *device, &graph);
  MutexLock lock(&mu_);
  tried_ = true;
  wire_ = graph;
  return result;
}

uint64_t GraphPlan::Remote(Device* device, bool make) {
  {
    MutexLock lock(&mu_);
    const bool now = !tried_ && (make || std::exchange(launched_, true)) && !steps_.empty();
    if (!now) return wire_;
    // A launch in between does without the copy.
    tried_ = true;
  }
  const uint64_t wire = Create(device_ != nullptr ? device_ : device);
  MutexLock lock(&mu_);
  wire_ = wire;
  return wire_;
}

CUresult GraphPlan::GiveNamed(bool* launchable) {
  *launchable = true;
  Runtime& r = runtime();
  const uint64_t additions = r.host_memory->additions();
  if (searched_.load(std::memory_order_relaxed) == additions) return CUDA_SUCCESS;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.params == nullptr || places_[i] != Place::kCopy) continue;
    if (const auto* kernel = std::get_if<KernelNodeParams>(step.params.get())) {
      std::string_view packed = kernel->packed;
      std::string own;
      WARPLINE_TRY(r.pinned->BeforeLaunch(&packed, &own));
      *launchable &= own.empty();
    } else if (const auto* memset = std::get_if<CUDA_MEMSET_NODE_PARAMS_v2>(step.params.get())) {
      uint64_t address = memset->dst;
      WARPLINE_TRY(r.pinned->GiveAt(&address));
      *launchable &= address == memset->dst;
    } else {
      *launchable &= !IsLocal(*step.params);
    }
  }
  // Each launch has to look again.
  if (*launchable) searched_.store(additions, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult GraphPlan::RunSteps(Place place, Path* path) const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.params == nullptr || places_[i] != place) continue;
    WARPLINE_TRY(path->GoTo(DeviceOf(step.params)));
    WARPLINE_TRY(std::visit(Sender{path->at()}, *step.params));
  }
  return CUDA_SUCCESS;
}

void GraphPlan::Upload(Device* device) { Remote(device, /*make=*/true); }

CUresult GraphPlan::Launch(Stream* stream) {
  Path path(stream);
  const uint64_t wire = Remote(stream->device, /*make=*/partitioned_);
  bool launchable = false;
  if (wire != 0) WARPLINE_TRY(GiveNamed(&launchable));
  if (launchable) {
    WARPLINE_TRY(RunSteps(Place::kBefore, &path));
    WARPLINE_TRY(path.GoTo(&runtime().devices[DeviceOfHandle(wire)]));
    {
      MirroredMemory::Work work(runtime().mirrored);
      WARPLINE_TRY(BeforeKernels(path.at(), &work));
      WARPLINE_TRY(SendOn(path.at(), cmd::GraphLaunch{path.at()->wire, wire}));
    }
    WARPLINE_TRY(RunSteps(Place::kAfter, &path));
    return path.Return();
  }
  // It was never made, or would need other addresses.
  if (frame_ != 0) return wire == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
  // In the launch's stream the kernels would run on other multiprocessors.
  if (partitioned_) return CUDA_ERROR_NOT_SUPPORTED;
  WARPLINE_TRY(RunSteps(Place::kCopy, &path));
  return path.Return();
}

}  // namespace warpline::stub
