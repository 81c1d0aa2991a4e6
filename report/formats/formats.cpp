#include "report/formats/formats.h"

#include "common/base/strings.h"
#include "report/flamegraph/svg.h"
#include "report/render/html.h"
#include "report/render/parts/text.h"
#include "report/tree/folded.h"

#include <fmt/format.h>

#include <array>

namespace xpurun::report {

namespace {

constexpr std::array<std::string_view, 9> kNames = {"tree",       "text",  "json", "pyspy", "folded",
                                                    "speedscope", "pprof", "svg",  "html"};
constexpr size_t kMaxBoxes = 2000;

std::string svg_of(const StackSet& set, View view) {
  const StackForest& forest = set.collected.forest;
  const Layout layout = lay_out(forest, view, {.max_boxes = kMaxBoxes});
  const Palette palette(lay_out(forest, Layer::merged, {.max_boxes = kMaxBoxes}), forest.ranks(), {});
  return svg_file(layout, palette,
                  {.layer = view, .title = ranks_title(set.collected), .subtitle = set.about});
}

}  // namespace

Format format_from(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) {
      return static_cast<Format>(i);
    }
  }
  return Format::text;
}

std::string_view name_of(Format format) {
  return kNames[static_cast<size_t>(format)];
}

std::vector<const model::Frame*> frames_in(const model::ThreadStack& t, View view) {
  std::vector<const model::Frame*> out;
  for (const model::Frame& f : t.frames) {
    const bool python = f.kind == model::FrameKind::python;
    const bool wanted = f.kind == model::FrameKind::marker || (view == View::python   ? python
                                                               : view == View::native ? !python
                                                                                      : !f.eval);
    if (wanted) {
      out.push_back(&f);
    }
  }
  return out;
}

bool needs_processes(Format format) {
  return format != Format::tree && format != Format::folded && format != Format::svg &&
         format != Format::html;
}

std::string stacks_html(StackSet set) {
  RunReport page{.subject = Subject::stacks};
  page.run.id = set.about;
  page.run.version = XPURUN_VERSION;
  page.verdict.sentence = ranks_title(set.collected);
  page.classes = set.collected.classes.classes();
  page.forest = std::move(set.collected.forest);
  page.dumps = {{.dir = set.about, .processes = set.collected.processes}};
  page.dump = set.about;
  if (!set.notes.empty()) {
    page.findings.push_back({.severity = Severity::warning,
                             .id = "input.unreadable",
                             .title = "Not everything could be read",
                             .evidence = set.notes});
  }
  return report_html(page);
}

std::string write_format(Format format, StackSet set, View view) {
  switch (format) {
    case Format::tree:
      return stacks_text(fmt::format("{}. {}", ranks_title(set.collected), set.about), set.collected.forest,
                         set.collected.classes.classes(), view);
    case Format::text:
      return processes_text(set, view);
    case Format::json:
      return stack_set_json(set);
    case Format::pyspy:
      return pyspy_json(set, view);
    case Format::folded:
      return folded_text(set.collected.forest, view);
    case Format::speedscope:
      return speedscope_json(set, view);
    case Format::pprof:
      return pprof_gz(set, view);
    case Format::svg:
      return svg_of(set, view);
    case Format::html:
      return stacks_html(std::move(set));
  }
  return {};
}

}  // namespace xpurun::report
