// Layers that are left out, so that a test can show what each of them stops. Only programs of tests
// turn one off; there is no flag, and nothing that a process is sent does it.
#ifndef WARPLINE_SERVER_JAIL_LAYERS_OFF_H_
#define WARPLINE_SERVER_JAIL_LAYERS_OFF_H_

#include "server/jail/layers.h"

namespace warpline::jail {

// None, unless TurnOffForTest() was called. Not for use while a jail is being closed by another
// thread.
LayerSet LayersOff();
void TurnOffForTest(LayerSet layers);

}  // namespace warpline::jail

#endif  // WARPLINE_SERVER_JAIL_LAYERS_OFF_H_
