// One reader per format. All are pure functions of the file's bytes: they accept any input, never throw, and
// are bounded by the input size. A file without any thread is an error with that message.
#pragma once

#include "report/import/imported.h"

#include <string_view>

namespace xpurun::report {

// "outer;inner;innermost 3" lines: one thread per line.
base::Result<Imported> read_folded(std::string_view text, const ImportHint& hint);
// py-spy dump -j
base::Result<Imported> read_pyspy_json(std::string_view text, const ImportHint& hint);
// py-spy dump, with or without --native and --locals
base::Result<Imported> read_pyspy_text(std::string_view text, const ImportHint& hint);
// pystack remote, with or without --native and --locals
base::Result<Imported> read_pystack_text(std::string_view text, const ImportHint& hint);
// gdb's `thread apply all bt`, pstack, eu-stack
base::Result<Imported> read_gdb_text(std::string_view text, const ImportHint& hint);
// Python's faulthandler
base::Result<Imported> read_faulthandler_text(std::string_view text, const ImportHint& hint);
// Sampled profiles of speedscope: one thread per different stack.
base::Result<Imported> read_speedscope(std::string_view text, const ImportHint& hint);
// Begins and ends of functions in trace events: one thread per different stack.
base::Result<Imported> read_chrome_stacks(std::string_view text, const ImportHint& hint);
// xpu_timer's .tracing_kernel_callstack: one thread per kernel, with the stack of its first launch.
base::Result<Imported> read_xpu_timer_launches(std::string_view bytes, const ImportHint& hint);
// xpu_timer's .stacktrace
base::Result<Imported> read_xpu_timer(std::string_view bytes, const ImportHint& hint);

// A process without threads, with the fields of the hint.
model::ProcessStacks imported_process(const ImportHint& hint);
// Parses a frame in people's form: "func (train.py:31)", "poll (libc.so.6)", "do_poll [kernel]", "[why]".
model::Frame frame_from_label(std::string_view label);
// Marks the main thread: the thread whose id equals the pid, else the one with the lowest id.
void choose_main_thread(model::ProcessStacks& process);
// The result of a reader of one process; if the process has no thread, an error with the first note.
base::Result<Imported> only_process(model::ProcessStacks process, std::vector<std::string> notes);

}  // namespace xpurun::report
