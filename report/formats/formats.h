// Output formats of a set of stacks. Pure functions that return the text of a file.
#pragma once

#include "report/build/stack_set.h"
#include "report/tree/stack_forest.h"

#include <string>
#include <string_view>

namespace xpurun::report {

enum class Format { tree, text, json, pyspy, folded, speedscope, pprof, svg, html };

// The frames to show; a view of the same snapshot.
using View = Layer;

// The formats' names in the order of Format, "tree text json ...".
Format format_from(std::string_view name);
std::string_view name_of(Format format);
// Unsuitable for terminals.
inline bool is_binary(Format format) {
  return format == Format::pprof;
}

// Consumes the set.
std::string write_format(Format format, StackSet set, View view);
// Whether the format needs single processes in addition to merged stacks.
bool needs_processes(Format format);

// The frames of a thread in a view, innermost first. Every view includes markers.
std::vector<const model::Frame*> frames_in(const model::ThreadStack& t, View view);

// For people, process by process: innermost frame first, equal threads grouped.
std::string processes_text(const StackSet& set, View view);
// Schema xpurun.stackset/1: {"schema", "about", "notes", "processes": [xpurun.stacks/1, ...]}.
inline constexpr std::string_view kStackSetSchema = "xpurun.stackset/1";
std::string stack_set_json(const StackSet& set);
// The output of `py-spy dump -j` for the same processes: threads that run Python, all keys, same order.
// View::merged includes native frames, as `py-spy dump --native` does.
std::string pyspy_json(const StackSet& set, View view);
// https://www.speedscope.app/file-format-schema.json: one profile per thread.
std::string speedscope_json(const StackSet& set, View view);
// A gzipped profile.proto: one sample per thread, labels rank, pid, host, thread, tid, state.
std::string pprof_gz(const StackSet& set, View view);
// One self-contained page.
std::string stacks_html(StackSet set);

}  // namespace xpurun::report
