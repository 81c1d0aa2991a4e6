// Input: a byte with the kind of file, then a small file of a run or its user: the manifests of a run and of
// a dump (separated by a NUL byte), a verdict, a live status, a configuration file, a rank set, an error
// file, trace.json of a trace, clocks.json and gpu.json of a capture. Everything that can be read can be
// diagnosed, rendered and written, and reading the written file gives the same.
#include "common/base/strings.h"
#include "common/model/evidence/error_file.h"
#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"
#include "common/model/speed/gpu_capture.h"
#include "common/model/speed/trace_manifest.h"
#include "launcher/options/settings.h"
#include "launcher/output/ink.h"
#include "launcher/output/live_status.h"
#include "launcher/output/status_text.h"
#include "report/diagnosis/diagnose.h"
#include "report/render/html.h"
#include "report/render/json.h"
#include "report/render/terminal.h"
#include "report/run/findings.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

using namespace xpurun;
using nlohmann::json;

namespace {

void require(bool good) {
  if (!good) {
    std::abort();
  }
}

void check_bytes(const std::string& text) {
  require(std::none_of(text.begin(), text.end(),
                       [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7f; }));
}

template <typename T>
std::string text_of(const T& value) {
  return model::json_text(to_json(value));
}

// Reads, writes and reads again; the second reading must give the written value.
template <typename T>
std::optional<T> read(std::string_view text, base::Result<T> (*from_json)(const json&)) {
  auto value = from_json(json::parse(text, nullptr, /*allow_exceptions=*/false));
  if (!value) {
    return std::nullopt;
  }
  const std::string written = text_of(*value);
  const auto again = from_json(json::parse(written));
  require(again && text_of(*again) == written);
  return std::move(*value);
}

void judge(std::string_view text) {
  const size_t end = std::min(text.find('\0'), text.size());
  const auto run = read<model::RunManifest>(text.substr(0, end), model::run_manifest_from_json);
  const auto dump =
      read<model::DumpManifest>(text.substr(std::min(end + 1, text.size())), model::dump_manifest_from_json);
  if (!run && !dump) {
    return;
  }
  report::RunReport r{.run = run.value_or(model::RunManifest())};
  report::dump_that_matters(r.run);
  r.verdict = report::diagnose({.run = r.run, .dump = dump, .dump_dir = dump ? "dumps/1-hang" : ""});
  for (const std::string& line : report::evidence_lines(r.verdict)) {
    check_bytes(line);
  }
  r.ranks = report::rank_rows(r.run, r.verdict, dump, {});
  if (dump) {
    r.dump = "dumps/1-hang";
    r.dumps.push_back({.dir = r.dump, .manifest = dump});
    for (const model::DumpedProcess& p : dump->processes) {
      r.dumps.back().processes.push_back({.rank = p.rank, .role = p.role, .status = p.status});
    }
  }
  r.findings = report::find_findings(r);
  const std::string out = report::report_json(r, report::JsonLayout::one_line);
  const auto shown = report::terminal_text(out, {});
  require(shown.has_value());
  check_bytes(*shown);
  // The page has its own fuzz target, and takes longer than everything else.
  if (text.size() % 16 == 0) {
    check_bytes(report::report_html(r));
  }
}

void show(std::string_view text) {
  const auto status = launcher::live_status_from_json(text);
  if (!status) {
    return;
  }
  text_of(*status);
  for (size_t columns : {0, 20, 100}) {
    check_bytes(launcher::status_line_text(*status, columns));
    check_bytes(launcher::live_table(*status, columns, columns / 10, launcher::Ink::plain()));
  }
}

void configure(const std::string& text) {
  launcher::Settings settings;
  const launcher::CommandSpec* run = launcher::find_command("run");
  require(run != nullptr);
  static_cast<void>(add_config_text(settings, *run, text, "xpurun.conf", launcher::FileLevel::user));
}

void count(std::string_view text) {
  const size_t end = std::min(text.find(' '), text.size());
  const auto a = model::RankSet::parse(text.substr(0, end));
  const auto b = model::RankSet::parse(text.substr(end));
  if (!a || !b) {
    return;
  }
  require(model::RankSet::parse(a->text()) == a);
  model::RankSet both = *a;
  both.insert(*b);
  const model::RankSet rest = a->minus(*b);
  require(both.contains(*a) && both.contains(*b) && a->contains(rest) && rest.size() <= a->size());
  require(both.size() == rest.size() + b->size());
  if (!a->empty()) {
    model::RankSet one{a->lowest()};
    one.insert(b->empty() ? a->lowest() : b->lowest());
    require(both.contains(one) && model::RankSet::parse(one.text()) == one);
  }
}

// torchelastic's error file, and a message of Python's bootstrap.
void explain(const std::string& text) {
  if (const auto file = model::parse_error_file(text)) {
    require(!file->exception.chain.empty());
    check_bytes(model::headline(file->exception.chain.front()));
    model::traceback_text(file->exception);
  }
  model::identity_in_message(text);
}

void measure(const std::string& text) {
  if (const auto seconds = base::parse_duration_s(text)) {
    check_bytes(base::human_duration(*seconds));
  }
  if (const auto bytes = base::parse_size(text)) {
    check_bytes(base::human_size(*bytes));
  }
  const std::string clean = base::sanitize(text);
  check_bytes(clean);
  for (size_t columns : {0, 1, 9}) {
    require(base::display_width(base::elide_middle(clean, columns)) <= columns);
    base::wrap(clean, columns, columns / 3);
  }
  base::shell_quote(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0]) {
    case 'v':
      read<model::Verdict>(text, model::verdict_from_json);
      break;
    case 'l':
      show(text);
      break;
    case 'c':
      configure(text);
      break;
    case 'r':
      count(text);
      break;
    case 'e':
      explain(text);
      break;
    case 't':
      if (const auto trace = read<model::TraceManifest>(text, model::trace_manifest_from_json)) {
        static_cast<void>(trace->has_all_gpu_work());
      }
      break;
    case 'k':
      read<model::ClockSamples>(text, model::clock_samples_from_json);
      break;
    case 'g':
      read<model::GpuCapture>(text, model::gpu_capture_from_json);
      break;
    case 'm':
      measure(text);
      break;
    default:
      judge(text);
  }
  return 0;
}
