#include "client_stub/core/runtime/thread_state.h"

#include <pthread.h>

#include <utility>

namespace warpline::stub {

__thread ThreadState t_thread;

namespace {

pthread_key_t g_key;

void Hold(Context* context) {
  if (context == nullptr || context->green == nullptr) return;
  context->holders.fetch_add(1);
  WatchThreadEnd();
}

void LetGo(Context* context) {
  if (context != nullptr && context->green != nullptr) context->holders.fetch_sub(1);
}

// A context that is not counted stays current for what other libraries do at the thread's end.
void LetGoAll(ThreadState* thread) {
  if (thread->current != nullptr && thread->current->green != nullptr) {
    LetGo(std::exchange(thread->current, nullptr));
  }
  if (thread->below == nullptr) return;
  for (Context* const context : *thread->below) LetGo(context);
}

void ReleaseThread(void* value) {
  ThreadState* thread = static_cast<ThreadState*>(value);
  LetGoAll(thread);
  delete thread->below;
  thread->below = nullptr;
  if (thread->default_streams == nullptr) return;
  thread->release_streams(thread->default_streams);
  thread->default_streams = nullptr;
}

}  // namespace

void WatchThreadEnd() {
  static const bool created = pthread_key_create(&g_key, ReleaseThread) == 0;
  if (created) pthread_setspecific(g_key, &t_thread);
}

void PushContext(Context* context) {
  Hold(context);
  if (t_thread.current != nullptr) {
    if (t_thread.below == nullptr) {
      t_thread.below = new std::vector<Context*>;
      WatchThreadEnd();
    }
    t_thread.below->push_back(t_thread.current);
  }
  t_thread.current = context;
}

Context* PopContext() {
  Context* top = std::exchange(t_thread.current, nullptr);
  LetGo(top);
  if (t_thread.below != nullptr && !t_thread.below->empty()) {
    t_thread.current = t_thread.below->back();
    t_thread.below->pop_back();
  }
  return top;
}

void SetContext(Context* context) {
  Hold(context);
  LetGo(std::exchange(t_thread.current, context));
}

}  // namespace warpline::stub
