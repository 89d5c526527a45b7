#include "server/device/cpu/execution/grid_runner.h"

#include <algorithm>

namespace warpline::cpu {
namespace {

// A thread works on one block until it seems to wait for another; then it takes up more, so that
// blocks which are resident together on a GPU make progress together here.
constexpr int kPatience = 8;
constexpr size_t kMaxResident = 64;
// When blocks are known to wait for each other, each runs once around.
constexpr int kCooperativePatience = 1;

}  // namespace

GridRunner::GridRunner(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Help(); });
}

GridRunner::~GridRunner() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

CudaResult GridRunner::Run(const LaunchShape& shape, const std::atomic<bool>& stop,
                           std::string* fault) {
  Job job;
  job.shape = &shape;
  job.stop = &stop;
  job.blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  const bool share = job.blocks > 1 && !threads_.empty();
  if (share) {
    MutexLock lock(&mu_);
    jobs_.push_back(&job);
    changed_.NotifyAll();
  }
  RunBlocks(&job, false);
  if (share) {
    MutexLock lock(&mu_);
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
    while (job.helpers > 0) changed_.Wait(&mu_);
  }
  *fault = job.fault;
  return job.result;
}

void GridRunner::Help() {
  mu_.Lock();
  while (!stopping_) {
    Job* job = nullptr;
    for (Job* candidate : jobs_) {
      if (!candidate->failed && candidate->next.load() < candidate->blocks) job = candidate;
    }
    if (job == nullptr) {
      changed_.Wait(&mu_);
      continue;
    }
    ++job->helpers;
    mu_.Unlock();
    RunBlocks(job, true);
    mu_.Lock();
    --job->helpers;
    changed_.NotifyAll();
  }
  mu_.Unlock();
}

void GridRunner::Fail(Job* job, CudaResult result, const std::string& text) {
  MutexLock lock(&mu_);
  if (job->failed.exchange(true)) return;
  job->result = result;
  job->fault = text;
}

void GridRunner::RunBlocks(Job* job, bool is_helper) {
  std::vector<std::unique_ptr<Block>> resident;
  // Gives `block` its next index; returns false when none are left.
  const auto start = [&](Block* block) {
    const uint64_t index = job->next.fetch_add(1);
    if (index >= job->blocks) return false;
    block->Start(index);
    return true;
  };
  const auto add = [&] {
    if (job->next.load() >= job->blocks) return true;
    auto block = std::make_unique<Block>(*job->shape);
    if (!block->ok()) return false;
    if (start(block.get())) resident.push_back(std::move(block));
    return true;
  };
  const bool cooperative = job->shape->workspace != 0;
  const size_t max_resident = cooperative ? SIZE_MAX : kMaxResident;
  const int patience = cooperative ? kCooperativePatience : kPatience;
  // A helper without memory leaves the work to the others, but the launch's own thread cannot.
  if (!add()) {
    if (is_helper) return;
    return Fail(job, CudaResult::kLaunchOutOfResources, "no memory for a block");
  }
  int fruitless = 0;
  while (!resident.empty()) {
    for (size_t i = 0; i < resident.size();) {
      if (job->failed.load(std::memory_order_relaxed)) return;
      if (job->stop->load(std::memory_order_relaxed)) {
        return Fail(job, CudaResult::kContextIsDestroyed, "stopped");
      }
      Block& block = *resident[i];
      switch (block.Run()) {
        case Block::Outcome::kFault:
          return Fail(job, block.fault(), block.fault_text());
        case Block::Outcome::kDone:
          fruitless = 0;
          if (start(&block)) {
            ++i;
          } else {
            resident.erase(resident.begin() + static_cast<ptrdiff_t>(i));
          }
          break;
        case Block::Outcome::kMoreToDo:
          ++i;
          break;
      }
    }
    if (++fruitless < patience) continue;
    fruitless = 0;
    if (resident.size() < max_resident && job->next.load() < job->blocks) {
      // Without memory for another block the resident ones have to do, unless they need it to go
      // on.
      if (!add() && cooperative && !is_helper) {
        return Fail(job, CudaResult::kLaunchOutOfResources, "no memory for all blocks");
      }
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace warpline::cpu
