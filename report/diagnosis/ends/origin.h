// The exception behind an exception: what a worker process of the rank raised, of which the rank's own
// exception has the traceback as text (torch's data loader, process pools), or the first member of an
// exception group.
#pragma once

#include "common/model/exception.h"

#include <optional>
#include <string>
#include <string_view>

namespace xpurun::report {

enum class Carrier {
  worker,  // torch: "Caught ValueError in DataLoader worker process 1."
  pool,    // a process of multiprocessing.Pool or ProcessPoolExecutor
  group,   // an exception group
};

struct Origin {
  Carrier carrier = Carrier::group;
  std::string name;  // of the worker, "DataLoader worker process 1"; else empty
  model::ExceptionLink link;
};

// Empty if the exception is its own origin.
std::optional<Origin> origin_of(const model::PythonException& exception);

// The last exception of a traceback in Python's format; empty type if there is none.
model::ExceptionLink parse_traceback(std::string_view text);

}  // namespace xpurun::report
