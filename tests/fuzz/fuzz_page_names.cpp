// Input: lines of text, which become the names of threads, functions, files, modules, hosts, variables and
// notes of a small run. With any input, the page and the pictures have only the tags, attributes and
// scripts of the templates, no byte that XML forbids, and the page's data can be extracted.
#include "common/model/secrets/kept_environment.h"
#include "common/model/secrets/redact.h"
#include "report/flamegraph/svg.h"
#include "report/render/html.h"
#include "report/render/json.h"
#include "report/render/parts/embed.h"
#include "report/render/terminal.h"
#include "report/run/findings.h"
#include "report/tree/folded.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <sstream>

using namespace xpurun;
using namespace xpurun::report;

namespace {

void require(bool good) {
  if (!good) {
    std::abort();
  }
}

class Names {
 public:
  explicit Names(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line) && lines_.size() < 32;) {
      lines_.push_back(line.substr(0, 300));
    }
    lines_.resize(std::max<size_t>(lines_.size(), 1));
  }
  const std::string& next() { return lines_[at_++ % lines_.size()]; }

 private:
  std::vector<std::string> lines_;
  size_t at_ = 0;
};

RunReport report_of(Names& names) {
  RunReport r;
  ClassBuilder classes;
  for (int rank = 0; rank < 2; ++rank) {
    model::ProcessStacks p;
    p.host = names.next();
    p.pid = 1 + rank;
    p.rank = rank;
    p.role = model::ProcessRole::rank;
    p.reason = names.next();
    for (bool main : {true, false}) {
      model::ThreadStack t{.tid = 1, .comm = names.next(), .python_name = names.next(), .main = main};
      t.frames.push_back({.kind = model::FrameKind::native,
                          .func = names.next(),
                          .full_func = names.next(),
                          .module = names.next()});
      t.frames.push_back({.kind = model::FrameKind::python,
                          .func = names.next(),
                          .file = names.next(),
                          .line = 3,
                          .callee = names.next()});
      p.threads.push_back(std::move(t));
    }
    classes.add(p);
    r.forest.add(p);
  }
  r.forest.finish();
  r.classes = classes.classes();
  r.classes[0].source[1] = names.next();
  r.run.id = names.next();
  r.run.host = names.next();
  r.run.cwd = names.next();
  r.run.command = model::redact_argv({names.next(), names.next()});
  model::KeptEnvironment kept = model::keep_environment(
      {{names.next(), names.next()}, {"NCCL_" + names.next(), names.next()}, {"MY_TOKEN", "hunter2hunter2"}});
  r.run.env = std::move(kept.values);
  r.run.env_names = std::move(kept.names);
  r.run.stalls.push_back({.n = 1, .dump = names.next()});
  r.verdict.kind = model::VerdictKind::hang;
  r.verdict.id = "hang.stuck";
  r.verdict.sentence = names.next();
  r.verdict.evidence = {names.next()};
  r.verdict.next = {.text = names.next(), .command = names.next()};
  r.dump = "dumps/1-" + names.next();
  r.ranks.push_back({.rank = 0,
                     .host = names.next(),
                     .state = names.next(),
                     .function = names.next(),
                     .place = names.next()});
  r.dumps.push_back({.dir = r.dump,
                     .processes = {{.rank = 0,
                                    .host = names.next(),
                                    .role = model::ProcessRole::rank,
                                    .status = model::DumpStatus::failed,
                                    .reason = names.next()}}});
  r.notes = {names.next()};
  r.findings = find_findings(r);
  return r;
}

// Names of tags and attributes outside of scripts, as a browser would see them.
struct Markup {
  std::multiset<std::string> tags;
  std::set<std::string> attributes;
};

Markup markup_of(const std::string& text) {
  Markup out;
  for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at)) {
    const size_t name_end = text.find_first_of(" >\n", at);
    const std::string tag = text.substr(at + 1, name_end - at - 1);
    out.tags.insert(tag);
    // Attributes: name="value" until the tag ends.
    at = name_end;
    while (at < text.size() && text[at] != '>') {
      const size_t begin = text.find_first_not_of(" \n", at);
      const size_t end = text.find_first_of("= >\n", begin);
      out.attributes.insert(text.substr(begin, end - begin));
      at = end;
      if (at < text.size() && text[at] == '=') {
        require(text[at + 1] == '"');
        at = text.find('"', at + 2);
        require(at != std::string::npos);
        ++at;
      }
    }
    if (tag == "script" || tag == "style") {
      at = text.find("</" + tag, at);
    }
  }
  return out;
}

void check_bytes(const std::string& text) {
  require(std::none_of(text.begin(), text.end(),
                       [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7f; }));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto known = [] {
    Names plain("a\nb\nc");
    return markup_of(report_html(report_of(plain)));
  }();
  Names names(std::string(reinterpret_cast<const char*>(data), size));
  const RunReport report = report_of(names);
  const std::string page = report_html(report);
  check_bytes(page);
  require(page.find("hunter2") == std::string::npos);
  const Markup markup = markup_of(page);
  require(markup.tags.count("script") == known.tags.count("script"));
  for (const std::string& tag : markup.tags) {
    // Without the last part of the path: tags that only some pages have, such as lists of ranks, are
    // identified by their parents.
    require(known.tags.contains(tag) || tag == "/li" || tag == "li" || tag == "p" || tag == "/p" ||
            tag == "span" || tag == "/span" || tag == "code" || tag == "/code");
  }
  for (const std::string& attribute : markup.attributes) {
    require(known.attributes.contains(attribute) || attribute == "title" || attribute == "data-d");
  }
  const auto json = read_data_block(page, kReportDataId);
  require(json.has_value());
  require(terminal_text(*json, {}).has_value());
  const Layout layout = lay_out(report.forest, Layer::merged, {});
  const std::string svg = svg_file(layout, Palette(layout, report.forest.ranks(), {}),
                                   {.title = names.next(), .subtitle = names.next()});
  check_bytes(svg);
  const std::string folded = folded_text(report.forest, Layer::merged);
  check_bytes(folded);
  return 0;
}
