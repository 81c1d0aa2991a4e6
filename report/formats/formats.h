// Output formats of a set of stacks. Pure functions that return the text of a file.
#pragma once

#include "report/build/stack_set.h"
#include "report/tree/stack_forest.h"

#include <string>
#include <string_view>

namespace xpurun::report {

enum class Format { tree, text, json, pyspy, folded, speedscope, pprof, svg, html };

// Which frames are shown: a view of the same snapshot.
using View = Layer;

// Every format in the order of Format, "tree text json ...".
Format format_from(std::string_view name);
std::string_view name_of(Format format);
// Not for terminals.
inline bool is_binary(Format format) {
  return format == Format::pprof;
}

// Consumes the set.
std::string write_format(Format format, StackSet set, View view);
// Whether the format needs single processes and not only merged stacks.
bool needs_processes(Format format);

// The frames of a thread in a view, innermost first. Markers are in every view.
std::vector<const model::Frame*> frames_in(const model::ThreadStack& t, View view);

// One process after the other, for people: innermost frame first; equal threads together.
std::string processes_text(const StackSet& set, View view);
// Schema xpurun.stackset/1: {"schema", "about", "notes", "processes": [xpurun.stacks/1, ...]}.
inline constexpr std::string_view kStackSetSchema = "xpurun.stackset/1";
std::string stack_set_json(const StackSet& set);
// What `py-spy dump -j` prints for the same processes: threads that run Python, all keys, same order.
// In View::merged native frames are in it as with `py-spy dump --native`.
std::string pyspy_json(const StackSet& set, View view);
// https://www.speedscope.app/file-format-schema.json: one profile a thread.
std::string speedscope_json(const StackSet& set, View view);
// A gzipped profile.proto: a sample a thread, labels rank, pid, host, thread, tid, state.
std::string pprof_gz(const StackSet& set, View view);
// One self-contained page.
std::string stacks_html(StackSet set);

}  // namespace xpurun::report
