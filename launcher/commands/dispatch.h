// From the words of the command line to an exit status: finds the subcommand, reads its options, runs it.
#pragma once

#include <string>
#include <vector>

namespace xpurun::launcher {

// `words` is argv without argv[0]. Never throws; errors have been printed.
int dispatch(const std::vector<std::string>& words);

}  // namespace xpurun::launcher
