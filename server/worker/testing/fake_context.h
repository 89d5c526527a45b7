// A device for tests of the worker: it logs what is issued and completes it when told.
#ifndef WARPLINE_SERVER_WORKER_TESTING_FAKE_CONTEXT_H_
#define WARPLINE_SERVER_WORKER_TESTING_FAKE_CONTEXT_H_

#include <sched.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "server/device/device.h"

namespace warpline::worker {

// Streams and events of contexts that are tested together: they know each other's. Thread-safe.
class FakeStreams {
 public:
  void Stall(uint64_t stream) {
    MutexLock lock(&mu_);
    stalled_.insert(stream);
  }
  void Resume(uint64_t stream) {
    MutexLock lock(&mu_);
    stalled_.erase(stream);
  }
  uint64_t NewStream() {
    MutexLock lock(&mu_);
    return next_stream_++;
  }
  uint64_t NewEvent() {
    MutexLock lock(&mu_);
    return next_event_++;
  }
  void Record(device::EventId event, device::StreamId stream) {
    MutexLock lock(&mu_);
    records_[static_cast<uint64_t>(event)] = static_cast<uint64_t>(stream);
  }
  // Where it was recorded.
  uint64_t StreamOf(device::EventId event) {
    MutexLock lock(&mu_);
    return records_[static_cast<uint64_t>(event)];
  }
  bool Stalled(device::EventId event) {
    MutexLock lock(&mu_);
    return stalled_.count(records_[static_cast<uint64_t>(event)]) != 0;
  }

 private:
  Mutex mu_;
  std::set<uint64_t> stalled_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, uint64_t> records_ ABSL_GUARDED_BY(mu_);
  uint64_t next_stream_ ABSL_GUARDED_BY(mu_) = 10;
  uint64_t next_event_ ABSL_GUARDED_BY(mu_) = 1;
};

// Thread-safe. Streams are numbered from 10 in the order of their creation.
class FakeContext : public device::Context {
 public:
  explicit FakeContext(std::shared_ptr<FakeStreams> streams = std::make_shared<FakeStreams>())
      : streams_(std::move(streams)) {}

  // The latest that was set of any kernel.
  std::atomic<int> kernel_attribute{0};

  // Of kernels, whichever: the attributes that were set, by number, and as they were at each
  // launch.
  using KernelAttributes = std::map<int, int>;
  KernelAttributes kernel_attributes() {
    MutexLock lock(&mu_);
    return kernel_attributes_;
  }
  std::vector<KernelAttributes> attributes_at_launches() {
    MutexLock lock(&mu_);
    return attributes_at_launches_;
  }
  int kernel_attributes_set() {
    MutexLock lock(&mu_);
    return kernel_attributes_set_;
  }

  // Work submitted to a stalled stream does not complete; what waits for it neither.
  void Stall(uint64_t stream) { streams_->Stall(stream); }
  void Resume(uint64_t stream) { streams_->Resume(stream); }
  // From now on every query ends with `result`.
  void Break(CudaResult result) {
    MutexLock lock(&mu_);
    broken_ = result;
  }
  std::vector<std::string> log() {
    MutexLock lock(&mu_);
    return log_;
  }
  // Where a memset of `value` went; waits for it.
  uint64_t StreamThatSet(uint32_t value) {
    while (true) {
      for (const std::string& line : log()) {
        const size_t space = line.find(' ');
        if (line.substr(0, 4) == "set@" && line.substr(space + 1) == absl::StrCat(value)) {
          return std::stoull(line.substr(4, space - 4));
        }
      }
      sched_yield();
    }
  }
  // Copies out of what lies at or above `address` are invalid.
  void set_end_of_memory(uint64_t address) {
    MutexLock lock(&mu_);
    end_of_memory_ = address;
  }
  // What is mapped: by address, the size and the access.
  using Chunks = std::map<uint64_t, std::pair<uint64_t, uint32_t>>;
  Chunks chunks() {
    MutexLock lock(&mu_);
    return chunks_;
  }
  int staging_made() {
    MutexLock lock(&mu_);
    return staging_made_;
  }
  int live_events() {
    MutexLock lock(&mu_);
    return live_events_;
  }

  CudaResult ReserveArena(uint64_t, uint64_t) override { return CudaResult::kSuccess; }
  CudaResult MapSink(uint64_t, uint64_t) override { return CudaResult::kSuccess; }
  CudaResult MapChunk(uint64_t va, uint64_t bytes, int) override {
    MutexLock lock(&mu_);
    chunks_[va] = {bytes, 3};
    return CudaResult::kSuccess;
  }
  CudaResult UnmapChunk(uint64_t va, uint64_t) override {
    MutexLock lock(&mu_);
    chunks_.erase(va);
    return CudaResult::kSuccess;
  }
  CudaResult SetChunkAccess(uint64_t va, uint64_t, device::MemoryAccess access) override {
    MutexLock lock(&mu_);
    chunks_[va].second = static_cast<uint32_t>(access);
    return CudaResult::kSuccess;
  }
  CudaResult AllocStaging(size_t bytes, void** host) override {
    *host = ::operator new(bytes);
    MutexLock lock(&mu_);
    ++staging_made_;
    return CudaResult::kSuccess;
  }
  void FreeStaging(void* host) override { ::operator delete(host); }

  CudaResult CreateStream(uint32_t, int, device::StreamId* stream) override {
    *stream = static_cast<device::StreamId>(streams_->NewStream());
    return CudaResult::kSuccess;
  }
  CudaResult DestroyStream(device::StreamId stream) override { return Log("destroy", stream, ""); }

  CudaResult CreateEvent(uint32_t, device::EventId* event) override {
    MutexLock lock(&mu_);
    ++live_events_;
    *event = static_cast<device::EventId>(streams_->NewEvent());
    return CudaResult::kSuccess;
  }
  CudaResult DestroyEvent(device::EventId) override {
    MutexLock lock(&mu_);
    --live_events_;
    return CudaResult::kSuccess;
  }
  CudaResult RecordEvent(device::EventId event, device::StreamId stream) override {
    streams_->Record(event, stream);
    return CudaResult::kSuccess;
  }
  CudaResult WaitEvent(device::StreamId stream, device::EventId event) override {
    return Log("wait", stream, absl::StrCat(streams_->StreamOf(event)));
  }
  CudaResult QueryEvent(device::EventId event) override {
    MutexLock lock(&mu_);
    if (broken_ != CudaResult::kSuccess) return broken_;
    return streams_->Stalled(event) ? CudaResult::kNotReady : CudaResult::kSuccess;
  }
  CudaResult ElapsedMs(device::EventId, device::EventId, float* ms) override {
    *ms = 1.5f;
    return CudaResult::kSuccess;
  }

  CudaResult Launch(device::KernelId kernel, const device::LaunchConfig& config,
                    absl::Span<const std::byte>, device::StreamId stream) override {
    for (const device::LaunchAttribute& attribute : config.attributes) {
      Log("attribute", stream,
          absl::StrCat(attribute.id, "=", static_cast<int>(attribute.value[0])));
    }
    if (config.cooperative) Log("cooperative", stream, "");
    {
      MutexLock lock(&mu_);
      attributes_at_launches_.push_back(kernel_attributes_);
    }
    return Log("launch", stream, absl::StrCat(static_cast<uint64_t>(kernel), "x", config.grid[0]));
  }
  CudaResult CopyToDevice(uint64_t dst, const void* src, size_t bytes,
                          device::StreamId stream) override {
    return Log("in", stream,
               absl::StrCat(dst, "=", std::string(static_cast<const char*>(src), bytes)));
  }
  CudaResult CopyFromDevice(void* dst, uint64_t src, size_t bytes, device::StreamId) override {
    {
      MutexLock lock(&mu_);
      if (src == 0 || src >= end_of_memory_) return CudaResult::kInvalidValue;
    }
    std::memset(dst, static_cast<int>(src & 0xff), bytes);
    return CudaResult::kSuccess;
  }
  CudaResult CopyOnDevice(uint64_t, uint64_t, size_t, device::StreamId stream) override {
    return Log("copy", stream, "");
  }
  CudaResult Memset(uint64_t, uint32_t value, int, size_t, device::StreamId stream) override {
    return Log("set", stream, absl::StrCat(value));
  }

  CudaResult MemsetRows(uint64_t, uint64_t, uint32_t value, int, size_t, size_t rows,
                        device::StreamId stream) override {
    return Log("rows", stream, absl::StrCat(value, "x", rows));
  }
  CudaResult CopyBoxToDevice(const BoxPlace& dst, const void* src, const BoxExtent& extent,
                             device::StreamId stream) override {
    return Log(
        "box-in", stream,
        absl::StrCat(dst.address, "=", std::string(static_cast<const char*>(src), extent.bytes())));
  }
  // Each byte is its place in the box.
  CudaResult CopyBoxFromDevice(void* dst, const BoxPlace& src, const BoxExtent& extent,
                               device::StreamId) override {
    ForEachRow(src, extent, [&](uint64_t address, uint64_t offset, uint64_t bytes) {
      for (uint64_t i = 0; i < bytes; ++i) {
        static_cast<char*>(dst)[offset + i] = static_cast<char>(address + i);
      }
    });
    return CudaResult::kSuccess;
  }
  CudaResult CopyBoxOnDevice(const BoxPlace&, const BoxPlace&, const BoxExtent& extent,
                             device::StreamId stream) override {
    return Log("box", stream, absl::StrCat(extent.bytes()));
  }
  CudaResult MemOps(absl::Span<const device::MemOp> operations, device::StreamId stream) override {
    return Log("words", stream, absl::StrCat(operations.size()));
  }
  CudaResult SetStreamAttribute(device::StreamId stream,
                                const device::LaunchAttribute& attribute) override {
    return Log("attribute", stream, absl::StrCat(attribute.id));
  }

  CudaResult LoadModule(std::string_view image, device::ModuleId* module) override {
    if (image.substr(0, 3) == "bad") return CudaResult::kInvalidImage;
    *module = device::ModuleId{5};
    return CudaResult::kSuccess;
  }
  CudaResult LoadModuleJit(std::string_view image, absl::Span<const device::JitOption> options,
                           device::JitLog* log, device::ModuleId* module) override {
    log->info = absl::StrCat(options.size(), " options");
    if (image == "bad") log->errors = "no such instruction";
    return LoadModule(image, module);
  }
  CudaResult EncodeTensorMap(const device::TensorMap& request,
                             device::TensorMapBytes* map) override {
    (*map)[0] = request.address;
    (*map)[2] = request.kind;
    return CudaResult::kSuccess;
  }
  CudaResult CreateLink(absl::Span<const device::JitOption> options,
                        device::LinkId* link) override {
    *link = device::LinkId{4};
    return Log("link", {}, absl::StrCat(options.size()));
  }
  CudaResult AddToLink(device::LinkId, uint32_t type, std::string_view data,
                       const std::string& name, absl::Span<const device::JitOption>,
                       device::JitLog* log) override {
    log->info = absl::StrCat(name, " added;");
    if (data == "bad") log->errors = "no such instruction";
    Log("input", {}, absl::StrCat(type, "=", std::string(data)));
    return data == "bad" ? CudaResult::kInvalidPtx : CudaResult::kSuccess;
  }
  CudaResult CompleteLink(device::LinkId, std::string* code, device::JitLog*) override {
    code->assign(300u << 10, 'c');
    return CudaResult::kSuccess;
  }
  void DestroyLink(device::LinkId) override { Log("unlink", {}, ""); }
  // Arrays of width 13 there are none.
  CudaResult CreateArray(device::ArrayShape* shape, device::ArrayId* array) override {
    *array = device::ArrayId{20};
    Log("array", {}, absl::StrCat(shape->width, "x", shape->height, " levels=", shape->levels));
    return shape->width == 13 ? CudaResult::kInvalidValue : CudaResult::kSuccess;
  }
  CudaResult DestroyArray(device::ArrayId) override { return Log("free-array", {}, ""); }
  CudaResult ArrayLevel(device::ArrayId, uint32_t level, device::ArrayShape* shape,
                        device::ArrayId* part) override {
    shape->width = 64u >> level;
    *part = static_cast<device::ArrayId>(30 + level);
    return CudaResult::kSuccess;
  }
  CudaResult CopyArray(const device::ArrayEnd& to, const device::ArrayEnd& from,
                       const BoxExtent& extent, device::StreamId stream) override {
    const auto name = [](const device::ArrayEnd& end) {
      using Kind = device::ArrayEnd::Kind;
      return end.kind == Kind::kArray  ? absl::StrCat("array", static_cast<uint64_t>(end.array))
             : end.kind == Kind::kHost ? std::string("host")
                                       : absl::StrCat(end.place.address);
    };
    if (to.host != nullptr) std::memset(to.host, 'a', extent.bytes());
    return Log("array-copy", stream, absl::StrCat(name(from), ">", name(to)));
  }
  CudaResult CreateFrame(device::FrameId* frame) override {
    *frame = device::FrameId{70};
    return Log("frame", {}, "");
  }
  CudaResult AddConditional(device::FrameId, uint32_t first_value, uint32_t flags,
                            uint64_t* conditional) override {
    MutexLock lock(&mu_);
    *conditional = next_conditional_++;
    log_.push_back(absl::StrCat("conditional ", first_value, " ", flags));
    return CudaResult::kSuccess;
  }
  CudaResult FillFrame(device::FrameId, absl::Span<const device::GraphNode> nodes) override {
    MutexLock lock(&mu_);
    for (const device::GraphNode& node : nodes) {
      log_.push_back(absl::StrCat("node ", static_cast<int>(node.kind), " in ", node.body));
    }
    return CudaResult::kSuccess;
  }
  CudaResult CreateGraphOf(device::FrameId, device::GraphId* graph) override {
    *graph = device::GraphId{71};
    return Log("graph", {}, "");
  }
  CudaResult LaunchGraph(device::GraphId graph, device::StreamId stream) override {
    return Log("graph-launch", stream, absl::StrCat(static_cast<uint64_t>(graph)));
  }
  CudaResult DestroyGraph(device::GraphId) override { return Log("free-graph", {}, ""); }
  CudaResult DestroyFrame(device::FrameId) override { return Log("free-frame", {}, ""); }
  CudaResult CreateTexture(const device::Texture& texture, uint64_t* object) override {
    *object = 0x77;
    return Log(texture.is_surface ? "surface" : "texture", {},
               absl::StrCat(static_cast<uint64_t>(texture.array)));
  }
  CudaResult DestroyTexture(uint64_t object, bool) override {
    return Log("free-texture", {}, absl::StrCat(object));
  }
  CudaResult FlushOutput() override { return Log("flush", {}, ""); }
  CudaResult GetLimit(int, uint64_t* value) override {
    MutexLock lock(&mu_);
    *value = limit_;
    return CudaResult::kSuccess;
  }
  CudaResult SetLimit(int, uint64_t value) override {
    MutexLock lock(&mu_);
    limit_ = value;
    return CudaResult::kSuccess;
  }
  CudaResult MaxActiveClusters(device::KernelId, const device::LaunchConfig& config,
                               int* clusters) override {
    *clusters = static_cast<int>(config.attributes.size());
    return CudaResult::kSuccess;
  }
  CudaResult UnloadModule(device::ModuleId) override { return Log("unload", {}, ""); }
  CudaResult Kernels(device::ModuleId, std::vector<std::string>* names) override {
    *names = {"one", "two"};
    return CudaResult::kSuccess;
  }
  CudaResult FindKernel(device::ModuleId, const std::string& name,
                        device::KernelId* kernel) override {
    if (name == "missing") return CudaResult::kNotFound;
    *kernel = device::KernelId{77};
    return CudaResult::kSuccess;
  }
  CudaResult Params(device::KernelId, std::vector<device::ParamLayout>* params) override {
    *params = {{0, 8}, {8, 4}};
    return CudaResult::kSuccess;
  }
  CudaResult GetKernelAttribute(device::KernelId, int attribute, int* value) override {
    *value = attribute * 10;
    return CudaResult::kSuccess;
  }
  CudaResult SetKernelAttribute(device::KernelId, int attribute, int value) override {
    if (value < 0) return CudaResult::kInvalidValue;
    MutexLock lock(&mu_);
    kernel_attributes_[attribute] = value;
    ++kernel_attributes_set_;
    return CudaResult::kSuccess;
  }
  CudaResult FindGlobal(device::ModuleId, const std::string& name, uint64_t* address,
                        uint64_t* bytes) override {
    *address = 4096;
    *bytes = 16;
    return name == "missing" ? CudaResult::kNotFound : CudaResult::kSuccess;
  }
  CudaResult MaxActiveBlocks(device::KernelId, int, size_t, uint32_t, int* blocks) override {
    *blocks = 3;
    return CudaResult::kSuccess;
  }

 private:
  CudaResult Log(const char* what, device::StreamId stream, const std::string& detail) {
    MutexLock lock(&mu_);
    log_.push_back(absl::StrCat(what, "@", static_cast<uint64_t>(stream), " ", detail));
    return CudaResult::kSuccess;
  }

  const std::shared_ptr<FakeStreams> streams_;
  Mutex mu_;
  Chunks chunks_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> log_ ABSL_GUARDED_BY(mu_);
  KernelAttributes kernel_attributes_ ABSL_GUARDED_BY(mu_);
  std::vector<KernelAttributes> attributes_at_launches_ ABSL_GUARDED_BY(mu_);
  int kernel_attributes_set_ ABSL_GUARDED_BY(mu_) = 0;
  CudaResult broken_ ABSL_GUARDED_BY(mu_) = CudaResult::kSuccess;
  uint64_t limit_ ABSL_GUARDED_BY(mu_) = 1024;
  uint64_t next_conditional_ ABSL_GUARDED_BY(mu_) = 900;
  int live_events_ ABSL_GUARDED_BY(mu_) = 0;
  int staging_made_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t end_of_memory_ ABSL_GUARDED_BY(mu_) = ~uint64_t{0};
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_TESTING_FAKE_CONTEXT_H_
