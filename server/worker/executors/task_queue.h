// A queue of tasks, on their way from the decoder to an executor.
//
// A row of launches may have many thousands of them waiting, so what a task costs here is a part of
// what each launch costs. Tasks lie in chunks of memory, in which they stay until they are taken
// out, and a whole queue is passed on by passing its chunks on.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_TASK_QUEUE_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_TASK_QUEUE_H_

#include <cstddef>
#include <utility>

#include "absl/functional/function_ref.h"
#include "server/worker/executors/task.h"

namespace warpline::worker {

// Thread-compatible.
class TaskQueue {
 public:
  TaskQueue() = default;
  ~TaskQueue() { clear(); }
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  // The oldest task, of a queue that is not empty. It keeps its place until pop_front().
  Task& front();
  void pop_front();
  void push_back(Task&& task);
  // Appends all tasks of `other`, which is empty then.
  void Append(TaskQueue* other);
  // Whether this is true of each task.
  bool AllOf(absl::FunctionRef<bool(const Task&)> is) const;
  void clear();

 private:
  struct Chunk;

  // Adds an empty chunk at the end.
  void AddChunk();

  Chunk* first_ = nullptr;
  Chunk* last_ = nullptr;
  size_t size_ = 0;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_TASK_QUEUE_H_
