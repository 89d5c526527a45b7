#define _GNU_SOURCE
#include "client_stub/nvml/facts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client_stub/nvml/ask.h"

enum { kMaxDevices = 64 };
static const int64_t kFreshNs = 200000000;
static const int64_t kRetryNs = 1000000000;

/* A device's handle is the address of its element. */
struct NvmlDevice {
  char unused;
};
static struct NvmlDevice g_devices[kMaxDevices];

static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t g_once = PTHREAD_ONCE_INIT;

/* Guarded by g_mutex. The text is lines of "name value\n"; NULL before the first answer. */
static int g_opened;
static char* g_text;
static int64_t g_asked_ns; /* When the answer was asked for. */
static int g_lost;

/* In the child of a fork: another thread may have held the mutex and been about to exchange the
 * text. */
static void StartAnew(void) {
  pthread_mutex_init(&g_mutex, NULL);
  g_asked_ns = 0;
}

static void RegisterFork(void) { pthread_atfork(NULL, NULL, StartAnew); }

static int64_t NowNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Locks the mutex and returns the time of the call. */
static int64_t Lock(void) {
  const int64_t now = NowNs();
  pthread_once(&g_once, RegisterFork);
  pthread_mutex_lock(&g_mutex);
  return now;
}

static int IsDue(enum WarplineAge age, int64_t called_ns) {
  if (g_text == NULL) return 1;
  switch (age) {
    case kWarplineFixed:
      return 0;
    case kWarplineNow:
      return called_ns - g_asked_ns > kFreshNs;
    case kWarplineExact:
      break;
  }
  /* Threads that wait for the same answer share it. */
  return g_asked_ns < called_ns;
}

/* Asks Warpline where that is due. Called with the mutex held. Returns whether the facts are as new
 * as `age` requires. */
static int Refresh(enum WarplineAge age, int64_t called_ns) {
  if (!IsDue(age, called_ns)) return 1;
  if (g_lost && called_ns - g_asked_ns < kRetryNs) return 0;
  g_asked_ns = NowNs();
  char* const text = WarplineAskForDevices();
  g_lost = text == NULL;
  if (text == NULL) return 0;
  char* const former = g_text;
  g_text = text;
  free(former);
  return 1;
}

/* Returns the value behind `name` in the lines from `text` to the next device, or NULL. */
static const char* ValueIn(const char* text, const char* name) {
  const size_t length = strlen(name);
  while (text != NULL && *text != '\0') {
    if (strncmp(text, name, length) == 0 && text[length] == ' ') return text + length + 1;
    text = strchr(text, '\n');
    if (text != NULL) ++text;
    if (text != NULL && strncmp(text, "device ", 7) == 0) return NULL;
  }
  return NULL;
}

/* Returns the lines of a device, or NULL. */
static const char* LinesOf(uint32_t index) {
  const char* line = g_text;
  while (line != NULL && *line != '\0') {
    if (strncmp(line, "device ", 7) == 0 && index-- == 0) return strchr(line, '\n') + 1;
    line = strchr(line, '\n');
    if (line != NULL) ++line;
  }
  return NULL;
}

static size_t LineLength(const char* value) { return (size_t)(strchrnul(value, '\n') - value); }

static uint32_t Count(void) {
  uint32_t count = 0;
  while (count < kMaxDevices && LinesOf(count) != NULL) ++count;
  return count;
}

static int IndexOf(nvmlDevice_t device, uint32_t* index) {
  const uintptr_t offset = (uintptr_t)device - (uintptr_t)g_devices;
  if (device == NULL || offset >= sizeof(g_devices)) return kNvmlInvalidArgument;
  *index = (uint32_t)(offset / sizeof(g_devices[0]));
  return *index < Count() ? kNvmlSuccess : kNvmlInvalidArgument;
}

/* Finds the lines that belong to `device`. Called with the mutex held. */
static int Find(nvmlDevice_t device, enum WarplineAge age, int64_t called_ns, const char** lines) {
  if (g_opened == 0) return kNvmlUninitialized;
  uint32_t index = 0;
  if (device != NULL) {
    const int result = IndexOf(device, &index);
    if (result != kNvmlSuccess) return result;
  }
  if (!Refresh(age, called_ns)) return kNvmlGpuIsLost;
  *lines = device == NULL ? g_text : LinesOf(index);
  return *lines == NULL ? kNvmlGpuIsLost : kNvmlSuccess;
}

int WarplineNvmlOpen(void) {
  const int64_t called_ns = Lock();
  /* There may be another lease, or another server, since the last time. */
  const int answered = g_opened > 0 || Refresh(kWarplineExact, called_ns);
  if (answered) ++g_opened;
  pthread_mutex_unlock(&g_mutex);
  return answered ? kNvmlSuccess : kNvmlDriverNotLoaded;
}

int WarplineNvmlClose(void) {
  Lock();
  const int opened = g_opened > 0;
  if (opened) --g_opened;
  pthread_mutex_unlock(&g_mutex);
  return opened ? kNvmlSuccess : kNvmlUninitialized;
}

int WarplineNvmlCheck(void) {
  Lock();
  const int opened = g_opened > 0;
  pthread_mutex_unlock(&g_mutex);
  return opened ? kNvmlSuccess : kNvmlUninitialized;
}

int WarplineDeviceCount(uint32_t* count) {
  if (count == NULL) return kNvmlInvalidArgument;
  Lock();
  const int opened = g_opened > 0;
  if (opened) *count = Count();
  pthread_mutex_unlock(&g_mutex);
  return opened ? kNvmlSuccess : kNvmlUninitialized;
}

int WarplineDeviceAt(uint32_t index, nvmlDevice_t* device) {
  uint32_t count = 0;
  const int result = WarplineDeviceCount(&count);
  if (result != kNvmlSuccess) return result;
  if (device == NULL || index >= count) return kNvmlInvalidArgument;
  *device = &g_devices[index];
  return kNvmlSuccess;
}

int WarplineDeviceIndex(nvmlDevice_t device, uint32_t* index) {
  uint32_t found = 0;
  Lock();
  const int result = g_opened == 0 ? kNvmlUninitialized : IndexOf(device, &found);
  pthread_mutex_unlock(&g_mutex);
  if (result != kNvmlSuccess) return result;
  if (index == NULL) return kNvmlInvalidArgument;
  *index = found;
  return kNvmlSuccess;
}

int WarplineNumber(nvmlDevice_t device, enum WarplineAge age, const char* name, uint64_t* value) {
  const char* lines = NULL;
  const int64_t called_ns = Lock();
  int result = Find(device, age, called_ns, &lines);
  if (result == kNvmlSuccess) {
    const char* const text = ValueIn(lines, name);
    if (text == NULL) {
      result = kNvmlNotSupported;
    } else {
      *value = strtoull(text, NULL, 10);
    }
  }
  pthread_mutex_unlock(&g_mutex);
  return result;
}

int WarplineText(nvmlDevice_t device, const char* name, char* text, size_t size) {
  const char* lines = NULL;
  if (text == NULL) return kNvmlInvalidArgument;
  const int64_t called_ns = Lock();
  int result = Find(device, kWarplineFixed, called_ns, &lines);
  if (result == kNvmlSuccess) {
    const char* const value = ValueIn(lines, name);
    const size_t length = value == NULL ? 0 : LineLength(value);
    if (value == NULL) {
      result = kNvmlNotSupported;
    } else if (length + 1 > size) {
      result = kNvmlInsufficientSize;
    } else {
      memcpy(text, value, length);
      text[length] = '\0';
    }
  }
  pthread_mutex_unlock(&g_mutex);
  return result;
}

int WarplineProcessAt(nvmlDevice_t device, uint32_t index, struct WarplineProcess* process) {
  const char* lines = NULL;
  const int64_t called_ns = Lock();
  /* All processes of a list come from one answer. */
  int result = Find(device, index == 0 ? kWarplineExact : kWarplineFixed, called_ns, &lines);
  if (result == kNvmlSuccess) {
    const char* value = ValueIn(lines, "process");
    while (value != NULL && index-- > 0) value = ValueIn(strchr(value, '\n') + 1, "process");
    if (value == NULL) {
      result = kNvmlNotFound;
    } else {
      char* rest = NULL;
      process->pid = (uint32_t)strtoul(value, &rest, 10);
      process->bytes = strtoull(rest, &rest, 10);
      if (*rest == ' ') ++rest;
      size_t length = LineLength(rest);
      if (length >= sizeof(process->name)) length = sizeof(process->name) - 1;
      memcpy(process->name, rest, length);
      process->name[length] = '\0';
    }
  }
  pthread_mutex_unlock(&g_mutex);
  return result;
}
