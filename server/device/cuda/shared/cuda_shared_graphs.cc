#include "server/device/cuda/shared/cuda_shared_graphs.h"

#include <utility>

#include "server/device/cuda/shared/cuda_share.h"

namespace warpline::device {

CUcontext CudaSharedGraphs::NodeContext() const {
  const CUcontext green = share_->contexts->ContextOf(share_->session->place());
  return green == nullptr ? context_ : green;
}

CudaResult CudaSharedGraphs::Place(Recipe* recipe) {
  // A session that gets another place meanwhile has the graph made again at the next launch.
  const SlotRange place = share_->session->place();
  if (recipe->exists && recipe->place == place) return CudaResult::kSuccess;
  GraphId made{};
  const CudaResult result = CudaGraphs::CreateGraph(recipe->nodes, &made);
  if (result != CudaResult::kSuccess) return result;
  if (recipe->exists) (void)CudaGraphs::DestroyGraph(recipe->made);
  recipe->place = place;
  recipe->made = made;
  recipe->exists = true;
  return CudaResult::kSuccess;
}

CudaResult CudaSharedGraphs::CreateGraph(absl::Span<const GraphNode> nodes, GraphId* graph) {
  auto recipe = std::make_shared<Recipe>();
  recipe->nodes.assign(nodes.begin(), nodes.end());
  recipe->params.reserve(nodes.size());
  for (GraphNode& node : recipe->nodes) {
    node.params = recipe->params.emplace_back(node.params.begin(), node.params.end());
  }
  {
    MutexLock lock(&recipe->mu);
    const CudaResult result = Place(recipe.get());
    if (result != CudaResult::kSuccess) return result;
  }
  MutexLock lock(&recipes_mu_);
  *graph = static_cast<GraphId>(next_++);
  recipes_[*graph] = std::move(recipe);
  return CudaResult::kSuccess;
}

CudaResult CudaSharedGraphs::LaunchGraph(GraphId graph, StreamId stream) {
  std::shared_ptr<Recipe> recipe;
  {
    MutexLock lock(&recipes_mu_);
    const auto found = recipes_.find(graph);
    if (found == recipes_.end()) return CudaResult::kInvalidHandle;
    recipe = found->second;
  }
  MutexLock lock(&recipe->mu);
  if (!recipe->exists) return CudaResult::kInvalidHandle;
  // One that cannot be made elsewhere, as for want of memory, is launched where it was made.
  (void)Place(recipe.get());
  return CudaGraphs::LaunchGraph(recipe->made, stream);
}

CudaResult CudaSharedGraphs::DestroyGraph(GraphId graph) {
  std::shared_ptr<Recipe> recipe;
  {
    MutexLock lock(&recipes_mu_);
    const auto found = recipes_.find(graph);
    if (found == recipes_.end()) return CudaResult::kInvalidHandle;
    recipe = std::move(found->second);
    recipes_.erase(found);
  }
  MutexLock lock(&recipe->mu);
  recipe->exists = false;
  return CudaGraphs::DestroyGraph(recipe->made);
}

}  // namespace warpline::device
