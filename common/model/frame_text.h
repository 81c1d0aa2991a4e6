// One-line names of frames for people, used wherever a frame is printed, merged or compared.
#pragma once

#include "common/model/stack_snapshot.h"

#include <string>
#include <string_view>

namespace xpurun::model {

// The name of a source file as people read it: its base name; of a file that is named after its purpose alone
// (`__init__.py`, `__main__.py`) with the package's: "pkg/__init__.py".
std::string_view source_name(std::string_view path);

// "load_batch (train.py:31)", "poll (libc.so.6)", "[unwind stopped: no unwind table]". Python frames show the
// source_name() of their file; native frames show the module unless the name already contains it.
std::string frame_label(const Frame& f);

// "train.py:31", or empty.
std::string short_location(const Frame& f);

// "train.py:31 load_batch": the line first, so that a narrow column shows it. Empty without a function.
std::string line_label(std::string_view function, std::string_view file, int line);

}  // namespace xpurun::model
