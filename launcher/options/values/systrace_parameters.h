// Parameters of the detectors of openEuler's sysTrace, which xpurun does not have.
#pragma once

#include <string>
#include <string_view>

namespace xpurun::launcher {

// What replaces the parameter, as a sentence without its full stop; empty: sysTrace has none of this name.
// Takes the name as an option, too: "--k-sigma".
std::string instead_of_systrace(std::string_view parameter);

}  // namespace xpurun::launcher
