// Places: the lines of the selftest's job that carry a mark, a comment `# at: NAME` at their end.
// Expectations name marks, so that a line of the job may move.
#pragma once

#include "common/base/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

struct Place {
  std::string mark;
  std::string file;      // without its directory
  std::string function;  // whose body the line is in
  int line = 0;          // from 1
};

// The marks in the text of one Python file.
std::vector<Place> places_in(std::string_view text, std::string_view file);
// Those of every .py file of a directory. Fails if the directory cannot be read or has none.
base::Result<std::vector<Place>> load_places(const std::string& directory);

}  // namespace xpurun::launcher
