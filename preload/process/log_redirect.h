// xpurun run --logs: sends the standard output and error of a rank to pipes of its own. Called once, from the
// constructor. Whatever goes wrong leaves the stream where it was.
#pragma once

namespace xpurun::preload {

// `text` is the value of wire::kLogsEnv or nullptr. Does nothing in a process that is not a rank by its
// environment.
void redirect_output(const char* text);

}  // namespace xpurun::preload
