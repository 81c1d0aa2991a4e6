// xpurun run --logs: redirects a rank's standard output and error to pipes of its own. Called once, from the
// constructor. On any error the stream stays unchanged.
#pragma once

namespace xpurun::preload {

// `text` is the value of wire::kLogsEnv or nullptr. Does nothing in a process whose environment does not make
// it a rank.
void redirect_output(const char* text);

}  // namespace xpurun::preload
