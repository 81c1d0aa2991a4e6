// One reader a format. All are pure functions of the file's bytes: they accept anything, never throw, and are
// bounded by the size of their input. A file without a single thread in it is an error that says so.
#pragma once

#include "report/import/imported.h"

#include <string_view>

namespace xpurun::report {

// "outer;inner;innermost 3" lines: one thread a line.
base::Result<Imported> read_folded(std::string_view text, const ImportHint& hint);
// py-spy dump -j
base::Result<Imported> read_pyspy_json(std::string_view text, const ImportHint& hint);
// py-spy dump, with or without --native and --locals
base::Result<Imported> read_pyspy_text(std::string_view text, const ImportHint& hint);
// pystack remote, with or without --native and --locals
base::Result<Imported> read_pystack_text(std::string_view text, const ImportHint& hint);
// gdb's `thread apply all bt`, pstack, eu-stack
base::Result<Imported> read_gdb_text(std::string_view text, const ImportHint& hint);
// xpu_timer's .stacktrace
base::Result<Imported> read_xpu_timer(std::string_view bytes, const ImportHint& hint);

// A process without threads as the hint describes it.
model::ProcessStacks imported_process(const ImportHint& hint);
// "func (train.py:31)", "poll (libc.so.6)", "do_poll [kernel]", "[why]": a frame as people read it.
model::Frame frame_from_label(std::string_view label);
// The thread whose id is the process's, or else the one with the lowest id, is the main one.
void choose_main_thread(model::ProcessStacks& process);
// What a reader of one process gives back: an error, the first of the notes, if it has no thread.
base::Result<Imported> only_process(model::ProcessStacks process, std::vector<std::string> notes);

}  // namespace xpurun::report
