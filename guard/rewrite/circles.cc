#include "guard/rewrite/circles.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <unordered_map>
#include <utility>

namespace warpline::guard {
namespace {

// Tarjan's algorithm, with a stack of its own.
class CircleFinder {
 public:
  explicit CircleFinder(const FunctionsByName& functions) {
    std::unordered_map<std::string, size_t> numbers;
    for (const auto& [name, function] : functions) {
      numbers.emplace(name, nodes_.size());
      nodes_.emplace_back().name = name;
    }
    for (Node& node : nodes_) {
      for (const std::string& callee : CalleesOf(functions.at(node.name))) {
        const auto found = numbers.find(callee);
        if (found != numbers.end()) node.callees.push_back(found->second);
      }
    }
  }

  std::vector<Circle> Run() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].number == kUnseen) Visit(i);
    }
    return std::move(circles_);
  }

 private:
  static constexpr size_t kUnseen = std::numeric_limits<size_t>::max();

  struct Node {
    std::string name;
    std::vector<size_t> callees;
    size_t next = 0;          // Of the callees, the one that is to be visited next
    size_t number = kUnseen;  // In the order in which they are visited
    size_t lowest = 0;        // The lowest number of an open function that is known to be reached
    bool is_open = false;     // Its circle is not complete.
  };

  void Visit(size_t first) {
    std::vector<size_t> path = {first};
    Open(first);
    while (!path.empty()) {
      const size_t at = path.back();
      Node& node = nodes_[at];
      if (node.next < node.callees.size()) {
        const size_t callee = node.callees[node.next++];
        if (nodes_[callee].number == kUnseen) {
          Open(callee);
          path.push_back(callee);
        } else if (nodes_[callee].is_open) {
          node.lowest = std::min(node.lowest, nodes_[callee].number);
        }
        continue;
      }
      path.pop_back();
      if (!path.empty()) {
        nodes_[path.back()].lowest = std::min(nodes_[path.back()].lowest, node.lowest);
      }
      if (node.lowest == node.number) Close(at);
    }
  }

  void Open(size_t at) {
    nodes_[at].number = nodes_[at].lowest = visited_++;
    nodes_[at].is_open = true;
    open_.push_back(at);
  }

  // `first` and all that were opened after it make a circle.
  void Close(size_t first) {
    Circle circle;
    size_t at = 0;
    do {
      at = open_.back();
      open_.pop_back();
      nodes_[at].is_open = false;
      circle.functions.push_back(nodes_[at].name);
    } while (at != first);
    const std::vector<size_t>& callees = nodes_[first].callees;
    circle.calls_itself = circle.functions.size() > 1 ||
                          std::find(callees.begin(), callees.end(), first) != callees.end();
    std::sort(circle.functions.begin(), circle.functions.end());
    circles_.push_back(std::move(circle));
  }

  std::vector<Node> nodes_;
  std::vector<size_t> open_;
  size_t visited_ = 0;
  std::vector<Circle> circles_;
};

}  // namespace

std::vector<Circle> FindCircles(const FunctionsByName& functions) {
  return CircleFinder(functions).Run();
}

}  // namespace warpline::guard
