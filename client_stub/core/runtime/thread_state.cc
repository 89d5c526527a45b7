#include "client_stub/core/runtime/thread_state.h"

#include <pthread.h>

namespace warpline::stub {

__thread ThreadState t_thread;

namespace {

pthread_key_t g_key;

void ReleaseThread(void* value) {
  ThreadState* thread = static_cast<ThreadState*>(value);
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
  Context* top = t_thread.current;
  t_thread.current = nullptr;
  if (t_thread.below != nullptr && !t_thread.below->empty()) {
    t_thread.current = t_thread.below->back();
    t_thread.below->pop_back();
  }
  return top;
}

}  // namespace warpline::stub
