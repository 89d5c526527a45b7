// What guarded kernels print and why they ended: reads the records that they leave in the arena.
#ifndef WARPLINE_SERVER_WORKER_CODE_GUARDED_OUTPUT_H_
#define WARPLINE_SERVER_WORKER_CODE_GUARDED_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/cuda/cuda_result.h"
#include "guard/records.h"
#include "proto/guard.h"
#include "server/worker/code/guard_notes.h"
#include "server/worker/code/guarded_modules.h"
#include "server/worker/executors/print_relay.h"
#include "server/worker/memory/small_copies.h"

namespace warpline::worker {

// Reads one device's records. Everything in them is the tenant's word: strings are read where the
// device has memory in the tenant's arena, and no further. Thread-compatible.
class RecordReader {
 public:
  // The longest string that is printed; the rest is left out.
  static constexpr size_t kMostText = 4096;
  // What is printed of the records of one look, at most.
  static constexpr size_t kMostOutput = 8u << 20;

  // `code` is borrowed.
  explicit RecordReader(GuardedModules* code) : code_(code), copies_(code->context()) {}

  // As OutputSource::Collect(). The ring is emptied when `at_rest`; until then, what has been
  // printed is passed over.
  CudaResult Collect(bool at_rest, const OutputSource::Emit& emit);

 private:
  // Where a string is read: from a piece of the arena around it, which is kept, since many records
  // have the same format.
  bool ReadString(uint64_t address, std::string* text);
  void Print(const guard::Record& record, std::string* text);
  CudaResult Show(const guard::Record& record, const OutputSource::Emit& emit, size_t* shown);
  // Says where threads ended since their warp was not whole, if some did.
  CudaResult ShowParted(const guard::RecordsHeader& header, const OutputSource::Emit& emit);
  // What is wrong with the access that a check has found.
  std::string Describe(const guard::Record& record);
  // Where the address lies: ", 16 bytes behind 400 bytes at 0x300000000000,".
  std::string Beside(uint64_t address);
  void AppendRanges(uint64_t table, std::vector<CheckedRange>* ranges);

  GuardedModules* const code_;
  SmallCopies copies_;
  uint32_t read_ = 0;          // Records that were shown since the ring was empty
  bool parted_shown_ = false;  // So was RecordsHeader::parted_line.
  std::vector<guard::Record> records_;
  std::map<uint32_t, uint64_t>
      found_;             // Threads of the present look, by the sites of their accesses
  uint64_t page_at_ = 0;  // The address of what is in page_
  std::string page_;
};

// Thread-compatible, as its base.
class GuardedOutput : public OutputSource {
 public:
  // All are borrowed. `driver` is what the driver's own printf writes, or null.
  GuardedOutput(OutputSource* driver, GuardNotes* notes, std::vector<GuardedModules*> devices);

  CudaResult Collect(bool at_rest, const Emit& emit) override;
  void CollectNotes(const Emit& emit) override;

 private:
  OutputSource* const driver_;
  GuardNotes* const notes_;
  std::vector<std::unique_ptr<RecordReader>> readers_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_CODE_GUARDED_OUTPUT_H_
