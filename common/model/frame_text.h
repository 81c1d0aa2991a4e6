// One-line names of frames for people: the same everywhere a frame is printed, merged or compared.
#pragma once

#include "common/model/stack_snapshot.h"

#include <string>

namespace xpurun::model {

// "load_batch (train.py:31)", "poll (libc.so.6)", "[unwind stopped: no unwind table]".
// Python frames carry the base name of their file; native ones a module unless the name already holds it.
std::string frame_label(const Frame& f);

// "train.py:31" or empty.
std::string short_location(const Frame& f);

}  // namespace xpurun::model
