#include "client_stub/core/stream/captures.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "client_stub/core/runtime/runtime.h"

namespace warpline::stub {
namespace {

using Sequences = std::map<uint64_t, std::unique_ptr<CaptureSequence>>;
// Guarded by GraphMutex(). Never destroyed.
Sequences& sequences() {
  static Sequences* const made = new Sequences;
  return *made;
}

uint64_t g_next_id = 1;  // Guarded by GraphMutex().

// Returns a number for this thread. Unlike the system's, these numbers are not used again.
uint64_t ThisThread() {
  static std::atomic<uint64_t> next{1};
  static thread_local const uint64_t mine = next.fetch_add(1);
  return mine;
}

}  // namespace

Mutex& GraphMutex() {
  static Mutex* const made = new Mutex;
  return *made;
}

void StartCapture(std::unique_ptr<CaptureSequence> sequence, Stream* origin,
                  std::vector<GraphEdge> edges) {
  sequence->id = g_next_id++;
  sequence->thread = ThisThread();
  sequence->origin = origin;
  sequence->fronts[origin].edges = std::move(edges);
  runtime().captures.fetch_add(1, std::memory_order_relaxed);
  origin->capture.store(sequence->id, std::memory_order_relaxed);
  sequences()[sequence->id] = std::move(sequence);
}

bool StartedOnThisThread(const CaptureSequence& sequence) {
  return sequence.thread == ThisThread();
}

CaptureSequence* FindCapture(uint64_t id) {
  const auto it = sequences().find(id);
  return it == sequences().end() ? nullptr : it->second.get();
}

CaptureSequence* CaptureOf(const Stream& stream) {
  const uint64_t id = stream.capture.load(std::memory_order_relaxed);
  return id == 0 ? nullptr : FindCapture(id);
}

CUresult ValidCapture(const Stream& stream, CaptureSequence** sequence) {
  *sequence = CaptureOf(stream);
  if (*sequence == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  return (*sequence)->valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

void ForEachCapture(const std::function<void(CaptureSequence*)>& visit) {
  for (const auto& [id, sequence] : sequences()) visit(sequence.get());
}

void InvalidateCapture(CaptureSequence* sequence) {
  if (!std::exchange(sequence->valid, false)) return;
  for (auto& [stream, front] : sequence->fronts) front = {};
  sequence->left.clear();
  sequence->events.clear();
}

void CloseCapture(CaptureSequence* sequence) {
  for (const auto& [stream, front] : sequence->fronts) {
    stream->capture.store(0, std::memory_order_relaxed);
  }
  sequence->ended(*sequence);
  runtime().captures.fetch_sub(1, std::memory_order_relaxed);
  sequences().erase(sequence->id);
}

void MergeEdges(std::vector<GraphEdge>* into, const std::vector<GraphEdge>& edges) {
  for (const GraphEdge& edge : edges) {
    const bool known = std::any_of(into->begin(), into->end(),
                                   [&](const GraphEdge& other) { return other.node == edge.node; });
    if (!known) into->push_back(edge);
  }
}

}  // namespace warpline::stub
