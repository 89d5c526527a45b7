// The families of commands (column `family` of proto/calls.toml), and their dispatch.
//
// Each class declares an On() for every command of its family. One that is missing in its .cc does
// not link, and one that the table does not know does not compile.
#ifndef WARPLINE_SERVER_WORKER_COMMANDS_FAMILIES_H_
#define WARPLINE_SERVER_WORKER_COMMANDS_FAMILIES_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "proto/command_lists.h"
#include "proto/commands.h"
#include "server/worker/commands/command_handler.h"
#include "server/worker/executors/decoder_thread.h"

namespace warpline::worker {

#define WARPLINE_ON(Command) \
  void On(const cmd::Command& command, std::string_view tail) RUNS_ON(decoder_thread);

// Handles streams, waits for their work, and host functions.
class StreamCommands : public CommandHandler {
 public:
  using CommandHandler::CommandHandler;
  WARPLINE_FAMILY_STREAMS(WARPLINE_ON)

 private:
  // Opens a stream under a new handle; returns null after a refusal.
  Stream* Open(Executor::Kind kind, uint64_t handle) RUNS_ON(decoder_thread);
  // Returns whether another stream may have a thread. Where all that there may be are taken it
  // waits for the threads of destroyed streams that have no work left, at most for stream_end_wait
  // and not beyond the end of the session.
  bool AwaitThread() RUNS_ON(decoder_thread);

  // The last wait took all its time, and no executor has finished since.
  bool waited_in_vain_ ABSL_GUARDED_BY(decoder_thread) = false;
};

// Handles events and their records.
class EventCommands : public CommandHandler {
 public:
  using CommandHandler::CommandHandler;
  WARPLINE_FAMILY_EVENTS(WARPLINE_ON)
};

// Handles copies and fills of device memory.
class CopyCommands : public CommandHandler {
 public:
  using CommandHandler::CommandHandler;
  WARPLINE_FAMILY_COPIES(WARPLINE_ON)
};

// Handles the images of modules and graphs: in parts, compressed or not, or from what the server
// has kept.
class ImageCommands : public CommandHandler {
 public:
  using CommandHandler::CommandHandler;
  WARPLINE_FAMILY_IMAGES(WARPLINE_ON)

 private:
  // Makes an image, counts it and puts it into the table; returns null after a refusal.
  // Whether an image of `total` bytes may be made; says why not.
  bool HasRoomFor(uint64_t total) RUNS_ON(decoder_thread);
  std::shared_ptr<Image> NewImage(uint64_t handle, uint64_t total) RUNS_ON(decoder_thread);
  std::shared_ptr<Image> ImageForPart(uint64_t handle, uint64_t total, uint64_t offset)
      RUNS_ON(decoder_thread);
  // Notes a whole image in the journal. Returns false when the journal has no room.
  bool NoteParts(uint64_t handle, std::string_view bytes) RUNS_ON(decoder_thread);
};

// Handles calls of libraries' functions.
class LibraryCommands : public CommandHandler {
 public:
  using CommandHandler::CommandHandler;
  WARPLINE_FAMILY_LIBRARIES(WARPLINE_ON)
};

// Handles modules and their variables.
class ModuleCommands : public CommandHandler {
 public:
  using CommandHandler::CommandHandler;
  WARPLINE_FAMILY_MODULES(WARPLINE_ON)

 private:
  template <typename Command>
  void Load(const Command& command, std::string_view tail) RUNS_ON(decoder_thread);
  // Returns false for a complete image that the session may not load.
  bool IsVetted(uint64_t handle) RUNS_ON(decoder_thread);
  // Sends a command to the control executor with the module that it names.
  template <typename Command>
  void ToModule(const Command& command, std::string_view tail) RUNS_ON(decoder_thread);
};

// Handles kernels and their launches.
class KernelCommands : public CommandHandler {
 public:
  using CommandHandler::CommandHandler;
  WARPLINE_FAMILY_KERNELS(WARPLINE_ON)

 private:
  // Sends a command to the control executor with the kernel that it names.
  template <typename Command>
  void ToKernel(const Command& command, std::string_view tail) RUNS_ON(decoder_thread);
  template <typename Command>
  void Launch(const Command& command, std::string_view tail) RUNS_ON(decoder_thread);
};

// Handles device code that is linked.
class LinkCommands : public CommandHandler {
 public:
  using CommandHandler::CommandHandler;
  WARPLINE_FAMILY_LINKS(WARPLINE_ON)

 private:
  // Sends a command to the linker executor with the link that it names.
  template <typename Command>
  void ToLink(const Command& command, std::string_view tail) RUNS_ON(decoder_thread);
};

// Handles arrays with their copies, textures and tensor maps.
class ArrayCommands : public CommandHandler {
 public:
  using CommandHandler::CommandHandler;
  WARPLINE_FAMILY_ARRAYS(WARPLINE_ON)

 private:
  // Sends a copy to its stream, after the creation of the arrays. Refuses it and returns null for
  // handles that name nothing.
  template <typename Command>
  Stream* Copy(const Command& command, std::string_view tail, std::shared_ptr<Array> array,
               std::shared_ptr<Array> second) RUNS_ON(decoder_thread);
};

// Handles executable graphs and their conditional handles.
class GraphCommands : public CommandHandler {
 public:
  using CommandHandler::CommandHandler;
  WARPLINE_FAMILY_GRAPHS(WARPLINE_ON)

 private:
  // `frame` is null for a graph without conditional nodes.
  template <typename Command>
  void Create(const Command& command, std::string_view tail, std::shared_ptr<Frame> frame)
      RUNS_ON(decoder_thread);
  // Reads the graph's nodes out of its image and counts them. Returns kSuccess, or why the graph
  // cannot be made.
  CudaResult Count(const std::shared_ptr<Image>& image, Graph* graph) RUNS_ON(decoder_thread);
};

// Handles mapped memory handles, freed memory, and a device's limits.
class MemoryCommands : public CommandHandler {
 public:
  using CommandHandler::CommandHandler;
  WARPLINE_FAMILY_MEMORY(WARPLINE_ON)
};

// Handles partitions of a device's multiprocessors.
class PartitionCommands : public CommandHandler {
 public:
  using CommandHandler::CommandHandler;
  WARPLINE_FAMILY_PARTITIONS(WARPLINE_ON)
};

#undef WARPLINE_ON

// One object of each family, over the same parts.
class CommandFamilies {
 public:
  // `parts` is borrowed.
  explicit CommandFamilies(const CommandParts* parts);

  // Passes the current command, whose length has been checked, to its family. Refuses a command
  // that names memory beyond the end of the address space.
  void Dispatch(CommandId id, std::string_view body) RUNS_ON(decoder_thread);

  // The families by name, for DispatchCommand() of proto/dispatch.h.
  StreamCommands& streams() { return streams_; }
  EventCommands& events() { return events_; }
  CopyCommands& copies() { return copies_; }
  ImageCommands& images() { return images_; }
  ModuleCommands& modules() { return modules_; }
  KernelCommands& kernels() { return kernels_; }
  LinkCommands& links() { return links_; }
  ArrayCommands& arrays() { return arrays_; }
  GraphCommands& graphs() { return graphs_; }
  MemoryCommands& memory() { return memory_; }
  PartitionCommands& partitions() { return partitions_; }
  LibraryCommands& libraries() { return libraries_; }

 private:
  CurrentCommand* const current_;
  StreamCommands streams_;
  EventCommands events_;
  CopyCommands copies_;
  ImageCommands images_;
  ModuleCommands modules_;
  KernelCommands kernels_;
  LinkCommands links_;
  ArrayCommands arrays_;
  GraphCommands graphs_;
  MemoryCommands memory_;
  PartitionCommands partitions_;
  LibraryCommands libraries_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_COMMANDS_FAMILIES_H_
