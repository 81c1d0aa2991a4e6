// One-line names of frames for people, used wherever a frame is printed, merged or compared.
#pragma once

#include "common/model/stack_snapshot.h"

#include <string>

namespace xpurun::model {

// "load_batch (train.py:31)", "poll (libc.so.6)", "[unwind stopped: no unwind table]". Python frames show the
// base name of their file; native frames show the module unless the name already contains it.
std::string frame_label(const Frame& f);

// "train.py:31", or empty.
std::string short_location(const Frame& f);

}  // namespace xpurun::model
