// Memory and events that two processes share. The second process tells the first one what its calls
// gave, and that one prints it.
#include <sys/socket.h>

#include "setting.h"

namespace conformance {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

struct Said {
  char call[48];
  char check[48];
  CUresult expected, got;
};

struct Report {
  int count = 0;
  Said said[40] = {};
};

Report g_report;

CUresult Say(const char* call, const char* check, CUresult expected, CUresult got) {
  if (g_report.count < 40) {
    Said& said = g_report.said[g_report.count++];
    std::snprintf(said.call, sizeof(said.call), "%s", call);
    std::snprintf(said.check, sizeof(said.check), "%s", check);
    said.expected = expected;
    said.got = got;
  }
  return got;
}

// Used in the second process: notes the result of the call, and evaluates to it.
#define THERE(check, expected, fn, ...) Say(#fn, check, expected, CU(fn)(__VA_ARGS__))

struct Other {
  int socket = -1;
  pid_t pid = -1;
};

// Starts the second process before either has used CUDA. `run` gets its end of the connection.
Other Start(void (*run)(int socket)) {
  Other other;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0) return other;
  other.pid = fork();
  if (other.pid == 0) {
    close(pair[0]);
    alarm(kSectionTimeoutSeconds);
    run(pair[1]);
    _exit(send(pair[1], &g_report, sizeof(g_report), 0) == sizeof(g_report) ? 0 : 1);
  }
  close(pair[1]);
  other.socket = pair[0];
  return other;
}

// Waits for the second process's report and prints it.
void Finish(const Other& other) {
  Report report;
  const ssize_t got = recv(other.socket, &report, sizeof(report), 0);
  int status = 0;
  waitpid(other.pid, &status, 0);
  if (!Holds("second process", "reports and ends", got == sizeof(report) && status == 0,
             "%zd bytes, status %d", got, status)) {
    return;
  }
  for (int i = 0; i < report.count; ++i) {
    Mark(report.said[i].call, report.said[i].check);
    Judge(report.said[i].expected, report.said[i].got);
  }
}

bool BeginThere() {
  CUdevice device;
  CUcontext context;
  return THERE("second process", CUDA_SUCCESS, cuInit, 0) == CUDA_SUCCESS &&
         THERE("second process", CUDA_SUCCESS, cuDeviceGet, &device, 0) == CUDA_SUCCESS &&
         THERE("second process", CUDA_SUCCESS, cuDevicePrimaryCtxRetain, &context, device) ==
             CUDA_SUCCESS &&
         THERE("second process", CUDA_SUCCESS, cuCtxSetCurrent, context) == CUDA_SUCCESS;
}

void SayWord(const char* check, unsigned got, unsigned expected) {
  Say("second process", check, CUDA_SUCCESS, got == expected ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
}

struct Message {
  CUipcMemHandle memory;
  CUipcMemHandle small;
  CUipcEventHandle event;
  CUmemPoolPtrExportData pointer;
};

bool SendDescriptor(int socket, const Message& message, int descriptor) {
  iovec data = {const_cast<Message*>(&message), sizeof(message)};
  char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &descriptor, sizeof(int));
  return sendmsg(socket, &header, 0) == sizeof(message);
}

int TakeDescriptor(int socket, Message* message) {
  iovec data = {message, sizeof(*message)};
  char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  if (recvmsg(socket, &header, 0) != sizeof(*message)) return -1;
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  int descriptor = -1;
  if (rights != nullptr) std::memcpy(&descriptor, CMSG_DATA(rights), sizeof(int));
  return descriptor;
}

// --- Allocations and events.

void OpenThere(int socket) {
  Message message;
  if (!BeginThere() || recv(socket, &message, sizeof(message), 0) != sizeof(message)) return;
  CUdeviceptr memory = 0, again = 0, small = 0;
  CUevent event = nullptr;
  unsigned got = 0;
  THERE("unknown flags", CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle, &memory, message.memory, 0);
  if (THERE("2 MiB", CUDA_SUCCESS, cuIpcOpenMemHandle, &memory, message.memory,
            CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS) {
    return;
  }
  THERE("an event", CUDA_SUCCESS, cuIpcOpenEventHandle, &event, message.event);
  THERE("another process's record", CUDA_SUCCESS, cuStreamWaitEvent, nullptr, event, 0);
  THERE("shared memory", CUDA_SUCCESS, cuMemcpyDtoH, &got, memory + kMiB, 4);
  SayWord("sees what the first one wrote", got, 0x11);
  THERE("4 KiB", CUDA_SUCCESS, cuIpcOpenMemHandle, &small, message.small,
        CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  THERE("shared memory", CUDA_SUCCESS, cuMemcpyDtoH, &got, small, 4);
  SayWord("sees a small allocation's start", got, 0x22);
  THERE("opened before", CUDA_SUCCESS, cuIpcOpenMemHandle, &again, message.memory,
        CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  SayWord("is at the same address", again == memory, 1);
  THERE("one of two", CUDA_SUCCESS, cuIpcCloseMemHandle, again);
  THERE("shared memory", CUDA_SUCCESS, cuMemsetD32, memory, 0x33, 2 * kMiB / 4);
  THERE("own stream", CUDA_SUCCESS, cuEventRecord, event, nullptr);
  THERE("own work", CUDA_SUCCESS, cuCtxSynchronize);
  THERE("the last one", CUDA_SUCCESS, cuIpcCloseMemHandle, memory);
  THERE("4 KiB", CUDA_SUCCESS, cuIpcCloseMemHandle, small);
  THERE("closed before", CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle, memory);
  THERE("another process's", CUDA_SUCCESS, cuEventDestroy, event);
}

void Ipc() {
  const Other other = Start(OpenThere);
  if (!Begin()) return;
  CUdeviceptr memory = 0, small = 0, own = 0;
  CUevent event = nullptr, ordinary = nullptr;
  Message message = {};
  int supported = 0;
  SETUP(cuMemAlloc, &memory, 2 * kMiB);
  SETUP(cuMemAlloc, &small, 4096);
  SETUP(cuMemsetD32, memory, 0x11, 2 * kMiB / 4);
  SETUP(cuMemsetD32, small, 0x22, 1024);
  CALL("between processes", CUDA_SUCCESS, cuEventCreate, &event,
       CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  CALL("between processes", CUDA_SUCCESS, cuEventRecord, event, nullptr);
  CALL("2 MiB", CUDA_SUCCESS, cuIpcGetMemHandle, &message.memory, memory);
  CALL("4 KiB", CUDA_SUCCESS, cuIpcGetMemHandle, &message.small, small);
  CALL("an event", CUDA_SUCCESS, cuIpcGetEventHandle, &message.event, event);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle, nullptr, memory);
  CALL("no such memory", CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle, &message.memory, kBadAddress);
  CALL("own memory", CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle, &own, message.memory,
       CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  CALL("not opened", CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle, memory);
  SETUP(cuEventCreate, &ordinary, CU_EVENT_DISABLE_TIMING);
  CUipcEventHandle none = {};
  CALL("an ordinary event", CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle, &none, ordinary);
  CALL("events", CUDA_SUCCESS, cuDeviceGetAttribute, &supported,
       CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, g_device);
  EQUAL(cuDeviceGetAttribute, "events between processes", supported, 1);
  send(other.socket, &message, sizeof(message), 0);
  Finish(other);
  unsigned got = 0;
  CALL("another process's record", CUDA_SUCCESS, cuEventSynchronize, event);
  CALL("after the other process", CUDA_SUCCESS, cuMemcpyDtoH, &got, memory + 2 * kMiB - 4, 4);
  EQUAL(cuIpcGetMemHandle, "what the second process wrote", got, 0x33u);
  CALL("shared before", CUDA_SUCCESS, cuMemFree, memory);
}

// --- Handles.

CUmemAccessDesc ReadWrite() {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

void ImportThere(int socket) {
  Message message;
  if (!BeginThere()) return;
  const int descriptor = TakeDescriptor(socket, &message);
  CUmemGenericAllocationHandle handle = 0, none = 0;
  CUdeviceptr address = 0;
  unsigned got = 0;
  const CUmemAccessDesc access = ReadWrite();
  THERE("no descriptor", CUDA_ERROR_UNKNOWN, cuMemImportFromShareableHandle, &none,
        reinterpret_cast<void*>(intptr_t{-1}), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  THERE("a descriptor", CUDA_SUCCESS, cuMemImportFromShareableHandle, &handle,
        reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  close(descriptor);
  THERE("22 MiB", CUDA_SUCCESS, cuMemAddressReserve, &address, 22 * kMiB, 0, 0, 0);
  THERE("imported", CUDA_SUCCESS, cuMemMap, address, 22 * kMiB, 0, handle, 0);
  THERE("imported", CUDA_SUCCESS, cuMemSetAccess, address, 22 * kMiB, &access, 1);
  THERE("imported", CUDA_SUCCESS, cuMemcpyDtoH, &got, address + 21 * kMiB, 4);
  SayWord("sees what the first one wrote", got, 0x44);
  THERE("imported", CUDA_SUCCESS, cuMemsetD32, address, 0x55, 22 * kMiB / 4);
  THERE("own work", CUDA_SUCCESS, cuCtxSynchronize);
  THERE("imported", CUDA_SUCCESS, cuMemUnmap, address, 22 * kMiB);
  THERE("imported", CUDA_SUCCESS, cuMemRelease, handle);
}

void Descriptors() {
  const Other other = Start(ImportThere);
  if (!Begin()) return;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  const CUmemAccessDesc access = ReadWrite();
  CUmemGenericAllocationHandle handle = 0, own = 0;
  CUdeviceptr address = 0;
  int descriptor = -1, second = -1;
  SETUP(cuMemCreate, &handle, 22 * kMiB, &properties, 0);
  SETUP(cuMemAddressReserve, &address, 22 * kMiB, 0, 0, 0);
  SETUP(cuMemMap, address, 22 * kMiB, 0, handle, 0);
  SETUP(cuMemSetAccess, address, 22 * kMiB, &access, 1);
  SETUP(cuMemsetD32, address, 0x44, 22 * kMiB / 4);
  CALL("before it is shared", CUDA_SUCCESS, cuCtxSynchronize);
  CALL("22 MiB", CUDA_SUCCESS, cuMemExportToShareableHandle, &descriptor, handle,
       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  CALL("again", CUDA_SUCCESS, cuMemExportToShareableHandle, &second, handle,
       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  HOLDS(cuMemExportToShareableHandle, "a descriptor", descriptor >= 0 && second >= 0, "%d and %d",
        descriptor, second);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle, nullptr, handle,
       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle, &second, handle,
       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 64);
  CALL("in the same process", CUDA_SUCCESS, cuMemImportFromShareableHandle, &own,
       reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CALL("in the same process", CUDA_SUCCESS, cuMemRelease, own);
  // The descriptor alone keeps memory that is not mapped; here the mapping keeps it too.
  CALL("exported", CUDA_SUCCESS, cuMemRelease, handle);
  Message message = {};
  SendDescriptor(other.socket, message, descriptor);
  close(descriptor);
  Finish(other);
  unsigned got = 0;
  CALL("after the other process", CUDA_SUCCESS, cuMemcpyDtoH, &got, address + 22 * kMiB - 4, 4);
  EQUAL(cuMemExportToShareableHandle, "what the second process wrote", got, 0x55u);
  CALL("exported", CUDA_SUCCESS, cuMemUnmap, address, 22 * kMiB);
}

// --- Pools.

void PoolThere(int socket) {
  Message message;
  if (!BeginThere()) return;
  const int descriptor = TakeDescriptor(socket, &message);
  CUmemoryPool pool = nullptr;
  CUdeviceptr memory = 0;
  unsigned got = 0;
  THERE("a descriptor", CUDA_SUCCESS, cuMemPoolImportFromShareableHandle, &pool,
        reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  close(descriptor);
  if (THERE("of the pool", CUDA_SUCCESS, cuMemPoolImportPointer, &memory, pool, &message.pointer) !=
      CUDA_SUCCESS) {
    return;
  }
  THERE("imported", CUDA_SUCCESS, cuMemcpyDtoH, &got, memory, 4);
  SayWord("sees what the first one wrote", got, 0x66);
  THERE("imported", CUDA_SUCCESS, cuMemsetD32, memory, 0x77, 16384);
  THERE("own work", CUDA_SUCCESS, cuCtxSynchronize);
  THERE("imported", CUDA_SUCCESS, cuMemFreeAsync, memory, nullptr);
  THERE("own work", CUDA_SUCCESS, cuCtxSynchronize);
}

void Pools() {
  const Other other = Start(PoolThere);
  if (!Begin()) return;
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  CUdeviceptr memory = 0;
  int descriptor = -1;
  Message message = {};
  CALL("that can be exported", CUDA_SUCCESS, cuMemPoolCreate, &pool, &properties);
  SETUP(cuMemAllocFromPoolAsync, &memory, 65536, pool, nullptr);
  SETUP(cuMemsetD32Async, memory, 0x66, 16384, nullptr);
  SETUP(cuCtxSynchronize);
  CALL("a pool", CUDA_SUCCESS, cuMemPoolExportToShareableHandle, &descriptor, pool,
       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  CALL("memory of a pool", CUDA_SUCCESS, cuMemPoolExportPointer, &message.pointer, memory);
  CALL("no such memory", CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer, &message.pointer,
       kBadAddress);
  SETUP(cuMemPoolExportPointer, &message.pointer, memory);
  SendDescriptor(other.socket, message, descriptor);
  close(descriptor);
  Finish(other);
  unsigned got = 0;
  CALL("after the other process", CUDA_SUCCESS, cuMemcpyDtoH, &got, memory, 4);
  EQUAL(cuMemPoolExportPointer, "what the second process wrote", got, 0x77u);
  CALL("exported", CUDA_SUCCESS, cuMemFreeAsync, memory, nullptr);
  CALL("exported", CUDA_SUCCESS, cuMemPoolDestroy, pool);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "sharing", {{"ipc", Ipc}, {"descriptors", Descriptors}, {"pools", Pools}});
}
