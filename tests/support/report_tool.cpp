// Test program: `report_tool report DIR [LANGUAGE]` calls the report library as the product does and prints
// the notes. Tests of the content of the files are written in Python.
// `report_tool page DIR` prints the page of stacks without a run. `report_tool forest DIR` prints the data of
// the page and, for each layer, the boxes of the static picture as JSON.
#include "report/build/build.h"
#include "report/build/stack_set.h"
#include "report/flamegraph/layout.h"
#include "report/formats/formats.h"
#include "report/render/stack_data.h"
#include "report/run/collect.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <limits>
#include <string_view>
#include <utility>

using namespace xpurun;

namespace {

nlohmann::ordered_json boxes_of(const report::StackForest& forest, report::Layer layer) {
  auto panels = nlohmann::ordered_json::array();
  constexpr size_t kAll = std::numeric_limits<uint32_t>::max();
  for (const report::Panel& panel : lay_out(forest, layer, {.max_boxes = kAll}).panels) {
    auto boxes = nlohmann::ordered_json::array();
    for (const report::Box& box : panel.boxes) {
      boxes.push_back({{"depth", box.depth},
                       {"label", box.label},
                       {"ranks", box.ranks.text()},
                       {"n", box.n},
                       {"threads", box.threads},
                       {"diverges", box.diverges && !box.ranks.empty()},
                       {"x", box.x},
                       {"width", box.width}});
    }
    panels.push_back(std::move(boxes));
  }
  return panels;
}

int print_forest(const char* dir) {
  const report::Collected collected = report::collect({dir}, report::Keep::nothing);
  const auto data = report::stack_data({{.name = "now", .forest = &collected.forest}}, {},
                                       std::numeric_limits<uint32_t>::max());
  nlohmann::ordered_json out;
  out["data"] = nlohmann::ordered_json::parse(data.json);
  for (const report::Layer layer : report::kLayers) {
    out["layers"][std::string(name_of(layer))] = boxes_of(collected.forest, layer);
  }
  std::printf("%s\n", out.dump().c_str());
  return 0;
}

int print_page(const char* dir) {
  auto set = report::read_stack_set({dir}, report::Keep::nothing);
  if (!set) {
    std::fprintf(stderr, "%s", base::to_text(set.error()).c_str());
    return 1;
  }
  std::printf("%s", report::stacks_html(std::move(*set)).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "forest" && argc == 3) {
    return print_forest(argv[2]);
  }
  if (what == "page" && argc == 3) {
    return print_page(argv[2]);
  }
  if (!(what == "report" && (argc == 3 || argc == 4))) {
    std::fprintf(
        stderr, "usage: report_tool report DIR [LANGUAGE] | report_tool forest DIR | report_tool page DIR\n");
    return 2;
  }
  report::BuildOptions options;
  if (what == "report" && argc == 4) {
    options.language = base::language_named(argv[3]).value_or(base::Language::english);
  }
  const auto built = report::build_report(model::RunDir(argv[2]), options);
  if (!built) {
    std::fprintf(stderr, "%s", base::to_text(built.error()).c_str());
    return 1;
  }
  for (const std::string& note : built->notes) {
    std::printf("note: %s\n", note.c_str());
  }
  return 0;
}
