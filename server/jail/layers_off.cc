#include "server/jail/layers_off.h"

namespace warpline::jail {
namespace {

LayerSet off;

}  // namespace

LayerSet LayersOff() { return off; }
void TurnOffForTest(LayerSet layers) { off = layers; }

}  // namespace warpline::jail
