// xpurun diff A B: what differs in speed between two runs, or between two groups of ranks of one run.
#include "commands/analyze/comparison_text.h"
#include "commands/analyze/run_speed.h"
#include "commands/commands.h"
#include "common/base/os/io.h"
#include "common/base/tr.h"
#include "common/model/documents/document_text.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "launcher/output/text_block.h"
#include "report/compare/compare.h"
#include "report/render/comparison/comparison_page.h"

#include <fmt/format.h>

#include <optional>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// The ranks of an option, all if it was not given; nothing if it is no list of ranks.
std::optional<model::RankSet> ranks_of(const Settings& settings, std::string_view option) {
  const Setting* s = settings.find(option);
  if (s == nullptr) {
    return model::RankSet();
  }
  const auto ranks = model::RankSet::parse(s->value);
  return ranks && !ranks->empty() ? ranks : std::nullopt;
}

std::string text_of(const model::Comparison& comparison, const std::string& format) {
  if (format == "json") {
    return model::document_text(comparison, 2) + "\n";
  }
  if (format == "html") {
    return report::comparison_page(comparison);
  }
  return comparison_text(comparison, help_columns(STDOUT_FILENO));
}

}  // namespace

int diff_command(const Invocation& call) {
  const Settings& settings = call.words.settings;
  for (const auto& [name, s] : settings.all()) {
    if (const auto checked = check_value(*find_option(diff_options(), name), s.value); !checked) {
      return complain_usage(call, fmt::format("--{}: {}", name, checked.error().what));
    }
  }
  const auto ranks_a = ranks_of(settings, "ranks-a");
  const auto ranks_b = ranks_of(settings, "ranks-b");
  if (!ranks_a || !ranks_b) {
    return complain_usage(call,
                          base::cli_text("--ranks-a and --ranks-b need a list of ranks, such as 0-7,12"));
  }
  std::vector<std::string> operands = call.words.operands;
  if (operands.size() == 1 && !ranks_a->empty() && !ranks_b->empty()) {
    operands.push_back(operands.front());
  }
  if (operands.size() != 2) {
    return complain_usage(call, base::cli_text("give two runs, or one run with --ranks-a and --ranks-b"));
  }
  auto a = read_run_speed({operands[0]}, {.ranks = *ranks_a, .series = true});
  if (!a) {
    return complain(a.error(), kExitFailure);
  }
  auto b = read_run_speed({operands[1]}, {.ranks = *ranks_b, .series = true});
  if (!b) {
    return complain(b.error(), kExitFailure);
  }
  a->samples.side.name = operands[0];
  b->samples.side.name = operands[1];
  const Setting* format = settings.find("format");
  const std::string name = format == nullptr ? "text" : format->value;
  const base::Speaking speaking(name == "json" ? base::Language::english : base::command_language());
  const std::string text = text_of(report::compare(a->samples, b->samples), name);
  const Setting* out = settings.find("out");
  if (out == nullptr) {
    return print(text);
  }
  const auto written = base::write_file_atomic(out->value, text);
  return written ? 0 : complain(written.error(), kExitFailure);
}

}  // namespace xpurun::launcher
