// Finds the functions of a module that call each other in circles.
#ifndef WARPLINE_GUARD_REWRITE_CIRCLES_H_
#define WARPLINE_GUARD_REWRITE_CIRCLES_H_

#include <string>
#include <vector>

#include "guard/rewrite/call_graph.h"

namespace warpline::guard {

// Functions each of which may come to call each other one, and nobody else does: the strongly
// connected components of the graph of calls.
struct Circle {
  std::vector<std::string> functions;
  bool calls_itself = false;  // False for one function that is in no circle
};

// All of a module's functions, each group behind those that it calls. Its time is linear in the
// calls, and it does not call itself, whatever the tenant's functions do.
std::vector<Circle> FindCircles(const FunctionsByName& functions);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_CIRCLES_H_
