// Finds the subcommand on the command line, parses its options and runs it.
#pragma once

#include <string>
#include <vector>

namespace xpurun::launcher {

// `words` is argv without argv[0]. Never throws; errors have been printed.
int dispatch(const std::vector<std::string>& words);

}  // namespace xpurun::launcher
