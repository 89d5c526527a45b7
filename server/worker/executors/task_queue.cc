#include "server/worker/executors/task_queue.h"

#include <algorithm>
#include <memory>
#include <new>

namespace warpline::worker {
namespace {

// The first chunk of a queue is small, since most queues have a task or two.
constexpr size_t kLeastTasks = 4;
constexpr size_t kMostTasks = 64;
// Fewer tasks are moved into the room that is left in a chunk, so that many small queues do not
// become as many chunks.
constexpr size_t kFewTasks = 64;

}  // namespace

// Has tasks in [begin, end) of its memory.
struct TaskQueue::Chunk {
  Chunk* next = nullptr;
  size_t begin = 0;
  size_t end = 0;
  size_t capacity = 0;

  static constexpr size_t kHead = 64;

  static Chunk* New(size_t capacity) {
    void* const memory = ::operator new(kHead + capacity * sizeof(Task));
    Chunk* const chunk = ::new (memory) Chunk;
    chunk->capacity = capacity;
    return chunk;
  }
  static void Delete(Chunk* chunk) { ::operator delete(chunk); }

  void* Memory(size_t index) {
    return reinterpret_cast<std::byte*>(this) + kHead + index * sizeof(Task);
  }
  Task* At(size_t index) { return std::launder(static_cast<Task*>(Memory(index))); }
};

void TaskQueue::AddChunk() {
  static_assert(sizeof(Chunk) <= Chunk::kHead && alignof(Task) <= 16 && Chunk::kHead % 16 == 0);
  const size_t capacity =
      last_ == nullptr ? kLeastTasks : std::min(4 * last_->capacity, kMostTasks);
  Chunk* const chunk = Chunk::New(capacity);
  (last_ == nullptr ? first_ : last_->next) = chunk;
  last_ = chunk;
}

Task& TaskQueue::front() { return *first_->At(first_->begin); }

void TaskQueue::pop_front() {
  Chunk* const chunk = first_;
  std::destroy_at(chunk->At(chunk->begin));
  --size_;
  if (++chunk->begin != chunk->end) return;
  first_ = chunk->next;
  if (first_ == nullptr) last_ = nullptr;
  Chunk::Delete(chunk);
}

void TaskQueue::push_back(Task&& task) {
  if (last_ == nullptr || last_->end == last_->capacity) AddChunk();
  ::new (last_->Memory(last_->end)) Task(std::move(task));
  ++last_->end;
  ++size_;
}

void TaskQueue::Append(TaskQueue* other) {
  if (other->empty()) return;
  if (!empty() && other->size_ <= kFewTasks) {
    for (; !other->empty(); other->pop_front()) push_back(std::move(other->front()));
    return;
  }
  (last_ == nullptr ? first_ : last_->next) = std::exchange(other->first_, nullptr);
  last_ = std::exchange(other->last_, nullptr);
  size_ += std::exchange(other->size_, 0);
}

bool TaskQueue::AllOf(absl::FunctionRef<bool(const Task&)> is) const {
  for (Chunk* chunk = first_; chunk != nullptr; chunk = chunk->next) {
    for (size_t i = chunk->begin; i < chunk->end; ++i) {
      if (!is(*chunk->At(i))) return false;
    }
  }
  return true;
}

void TaskQueue::clear() {
  while (!empty()) pop_front();
}

}  // namespace warpline::worker
