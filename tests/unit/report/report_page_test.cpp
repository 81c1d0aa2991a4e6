#include "common/base/strings.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/vocabulary.h"
#include "report/render/html.h"
#include "report/render/json.h"
#include "report/render/parts/page_parts.h"
#include "report/render/stack_data.h"
#include "report/render/terminal.h"
#include "report/run/findings.h"
#include "tests/support/golden.h"
#include "tests/unit/report/sample_stacks.h"

#include <doctest/doctest.h>
#include <kainjow/mustache.hpp>
#include <nlohmann/json.hpp>

using namespace xpurun;
using namespace xpurun::report;

namespace {

// The sample job as a report, with `more` ranks of long names.
RunReport sample_report(int more = 0) {
  RunReport r{.dir = "xpurun-runs/20261121T021500Z-train-1a2b"};
  r.run.id = "20261121T021500Z-train-1a2b";
  r.run.host = "a";
  r.run.version = "0.1.0";
  r.run.command = {"torchrun", "train.py", "--name", "two words"};
  r.verdict.kind = model::VerdictKind::hang;
  r.verdict.id = "hang.stuck";
  r.verdict.level = model::VerdictLevel::confirmed;
  r.verdict.ranks = {2};
  r.verdict.state = model::RankState::stuck;
  r.verdict.sentence = "hang: rank 2 has been in load_batch (train.py:31) for 10 s";
  r.verdict.evidence = {"stuck: rank 2 (1 of 4) in load_batch (train.py:31), still for 10 s, CPU 0 %"};
  r.verdict.next.text = "find out why load_batch (train.py:31) does not return on rank 2";
  ClassBuilder classes;
  for (model::ProcessStacks p : testing::sample_job()) {
    classes.add(p);
    r.forest.add(p);
  }
  for (int i = 0; i < more; ++i) {
    const auto p =
        testing::process(4 + i, testing::thread({testing::py(std::string(200, 'f') + std::to_string(i), i)}));
    classes.add(p);
    r.forest.add(p);
  }
  r.forest.finish();
  r.classes = classes.classes();
  r.dump = "dumps/1-hang";
  for (int rank = 0; rank < 4 + more; ++rank) {
    r.ranks.push_back({.rank = rank,
                       .host = "a",
                       .pid = 100 + rank,
                       .culprit = rank == 2,
                       .state = rank == 2 ? "stuck" : "waiting: all_reduce",
                       .function = rank == 2 ? "load_batch" : "step",
                       .place = rank == 2 ? "train.py:31" : "train.py:44",
                       .progress = "10 s before the dump"});
  }
  r.dumps.push_back(
      {.dir = "dumps/1-hang",
       .processes = {{.rank = 0, .role = model::ProcessRole::rank, .status = model::DumpStatus::ok},
                     {.rank = 1,
                      .role = model::ProcessRole::rank,
                      .status = model::DumpStatus::timeout,
                      .reason = "longer than 100 ms"}}});
  r.verdict.dump = "dumps/1-hang";
  r.run.stalls.push_back({.n = 1, .at_s = 12, .cleared_s = 15, .dump = "dumps/0-hang"});
  r.run.stalls.push_back({.n = 2, .at_s = 42, .cleared_s = 43, .dump = "dumps/1-hang"});
  r.notes = {"rank-3.stacks.json: not valid JSON"};
  r.run.preload_reason = "the command is statically linked";
  r.findings = find_findings(r);
  return r;
}

}  // namespace

TEST_CASE("findings begin with the verdict and name missing parts") {
  const auto findings = sample_report().findings;
  REQUIRE(findings.size() == 5);
  CHECK(findings[0].title == "Root cause: rank 2 stuck");
  CHECK(findings[0].severity == Severity::error);
  CHECK(findings[1].title == "1 of 2 processes was not dumped completely");
  CHECK(findings[1].evidence == std::vector<std::string>{"rank 1, timeout: longer than 100 ms"});
  CHECK(findings[2].id == "input.unreadable");
  CHECK(findings[3].title == "A stall at 12 s cleared by itself after 3.0 s");
  CHECK(findings[4].id == "preload.off");
}

TEST_CASE("a line that another finding has is no evidence of the verdict as well") {
  RunReport r = sample_report();
  r.verdict.evidence = {"rank 1, timeout: longer than 100 ms", "news"};
  const auto findings = find_findings(r);
  CHECK(findings[0].evidence == std::vector<std::string>{"news"});
  CHECK(findings[1].evidence == std::vector<std::string>{"rank 1, timeout: longer than 100 ms"});
}

TEST_CASE("a table of the page has no columns without values, and a column of rank 0 is one with values") {
  TextTable table{
      .id = "t",
      .title = "T",
      .columns = {{"Shape", false}, {"Rank"}, {"Idle %"}, {"Timed %"}, {"Note", false}, {"Bus GB/s"}},
      .rows = {{"a", "0", "0.0", "0.0", "", "0.000"}, {"b", "0", "0.0", "3.5", "", ""}}};
  kainjow::mustache::mustache names(
      "{{#columns}}{{text}},{{/columns}} {{#rows}}{{first}}{{#cells}}|{{text}}{{/cells}};{{/rows}}");
  CHECK(names.render(table_data(table)) == "Shape,Rank,Timed %, a|0|0.0;b|0|3.5;");
}

TEST_CASE("the navigation has at most seven entries, and leaves out what the first screen shows") {
  RunReport r = sample_report();
  const auto entries = [&r] {
    const std::string page = report_html(r);
    const size_t begin = page.find("<nav");
    const std::string nav = page.substr(begin, page.find("</nav>") - begin);
    std::vector<std::string> out;
    for (size_t at = 0; (at = nav.find("href=\"#", at)) != std::string::npos; ++at) {
      out.push_back(nav.substr(at + 7, nav.find('"', at + 7) - at - 7));
    }
    return out;
  };
  r.source = {{.function = "f", .file = "train.py", .line = 31, .lines = {{.number = 31, .text = "f()"}}}};
  r.tracebacks.shown = {{.title = "Rank 2", .word = "exception", .text = "KeyError"}};
  r.picture.about = "The last 10 s";
  r.speed = model::SpeedReport{.steps = 5};
  CHECK(entries() == std::vector<std::string>{"source", "tracebacks", "device", "speed", "ranks", "stacks"});
  r.verdict.waiting = {{.ranks = {0}, .what = "all_reduce"}};
  CHECK(entries().size() == 7);
  r.memory.push_back({.rank = 0});
  CHECK(entries() ==
        std::vector<std::string>{"source", "tracebacks", "device", "speed", "memory", "ranks", "stacks"});
}

TEST_CASE("the next step after an exception is on the page, unless it is the traceback that the page shows") {
  RunReport r = sample_report();
  r.verdict.kind = model::VerdictKind::exception;
  r.verdict.id = kExitException;
  r.tracebacks.shown = {{.title = "Rank 2", .word = "exception", .text = "KeyError"}};
  r.findings[0].command.clear();
  const auto has_next = [&r] { return report_html(r).find("<section id=\"next\"") != std::string::npos; };
  r.findings[0].next = "use smaller batches";
  CHECK(has_next());
  r.findings[0].next = whole_traceback_words("xpurun-runs/a/report.html");
  CHECK_FALSE(has_next());
}

TEST_CASE("a page says once how sure the verdict is") {
  RunReport r = sample_report();
  r.verdict.confidence = model::Confidence::high;
  const auto says = [&r](const char* words) { return report_html(r).find(words) != std::string::npos; };
  CHECK(says("Confidence: high"));
  CHECK_FALSE(says("Only suspected"));
  r.verdict.level = model::VerdictLevel::suspected;
  CHECK(says("Only suspected"));
  CHECK_FALSE(says("Confidence: high"));
  r.verdict.kind = model::VerdictKind::slow;  // measured
  CHECK(says("Confidence: high"));
  CHECK_FALSE(says("Only suspected"));
}

TEST_CASE("the terminal has the content of the page, at every width") {
  const std::string json = report_json(sample_report(), JsonLayout::one_line);
  std::string all;
  for (size_t columns : {40, 80, 120}) {
    const auto text =
        terminal_text(json, {.columns = columns, .glyphs = columns == 40 ? Glyphs::ascii : Glyphs::utf8});
    REQUIRE(text);
    for (std::string_view line : base::split(*text, '\n')) {
      CAPTURE(line);
      CHECK((base::display_width(line) <= columns || line.find(' ', 12) == std::string_view::npos ||
             line.starts_with("Ranks grouped") || line.starts_with("    $ ")));
    }
    all += "--- " + std::to_string(columns) + " columns\n" + *text;
  }
  testing::expect_golden("report/terminal.txt", all);
}

TEST_CASE("text that is not a report is refused, damaged values are omitted") {
  CHECK_FALSE(terminal_text("", {}));
  CHECK_FALSE(terminal_text("[]", {}));
  CHECK_FALSE(terminal_text(R"({"schema":"xpurun.report/9"})", {}));
  const auto text = terminal_text(
      R"({"schema":"xpurun.report/1","verdict":[],"findings":[1,{"evidence":[2],"title":7}],"ranks":[null,{"rank":"x"},{"rank":-1},{"rank":99999999999}],
          "classes":[{"ranks":"0-","telling":[9],"frames":[1]}],"environment":{"command":[3]}})",
      {});
  REQUIRE(text);
  CHECK(text->starts_with("no verdict\n"));
}

TEST_CASE("control characters of a mailed page do not reach the terminal") {
  const auto text =
      terminal_text(R"({"schema":"xpurun.report/1","verdict":{"sentence":"a\u001b[31mb\u0007"}})", {});
  REQUIRE(text);
  CHECK(text->find('\x1b') == std::string::npos);
  CHECK(text->find('\a') == std::string::npos);
}

TEST_CASE("the GPUs at the dump are a table of the page and numbers of report.json") {
  RunReport r = sample_report();
  CHECK(report_html(r).find("id=\"gpus\"") == std::string::npos);
  CHECK(report_json(r, JsonLayout::one_line).find("\"gpus\"") == std::string::npos);
  r.gpus.driver = "550.54";
  r.gpus.devices = {
      {.index = 3,
       .name = "NVIDIA <H200>",
       .sm_clock_mhz = 345,
       .sm_clock_max_mhz = 1980,
       .throttle_reasons = {model::ThrottleReason::thermal, model::ThrottleReason::hardware_thermal,
                            model::ThrottleReason::power_cap},
       .power_w = 121.4,
       .power_limit_w = 700,
       .temperature_c = 91,
       .memory_used_bytes = INT64_C(3) << 30,
       .memory_total_bytes = INT64_C(141) << 30,
       .ecc_corrected = 2,
       .ecc_uncorrected = 1,
       .remap_pending = true,
       .nvlink = {{.link = 5, .replays = 7, .recoveries = 1, .crc = 0}}},
      {.index = 4, .problem = "GPU is lost"}};
  const std::string page = report_html(r);
  for (const char* cell :
       {"<th scope=\"row\">3</th>",
        "<td>NVIDIA &lt;H200&gt;</td><td>345 of 1980 MHz</td><td>heat, power limit</td>"
        "<td>121 of 700 W</td><td>91 °C</td><td>3.0 of 141.0 GiB</td><td>1 uncorrected, 2 corrected, a row "
        "is "
        "replaced at the next reset</td><td>link 5: 7 replays, 1 recoveries, 0 CRC errors</td>",
        "<td> ✗ GPU is lost</td><td></td>", "driver 550.54"}) {
    CAPTURE(cell);
    CHECK(page.find(cell) != std::string::npos);
  }
  const std::string json = report_json(r, JsonLayout::one_line);
  CHECK(json.find("\"power_limit_w\":700") != std::string::npos);
  CHECK(json.find("\"problem\":\"GPU is lost\"") != std::string::npos);
}

TEST_CASE("what became slower while the job ran is in the section Speed and in the time line of the run") {
  RunReport r = sample_report();
  r.run.started_wall_ns = 1'795'230'915'000'000'000;  // 2026-11-21T03:15:15Z
  r.run.elapsed_s = 2000;
  for (int rank = 0; rank < 4; ++rank) {
    r.run.processes.push_back(
        {.pid = 100 + rank, .role = model::ProcessRole::rank, .rank = rank, .last_progress_s = 2000});
  }
  r.speed = model::SpeedReport{
      .steps = 9000, .step_s = 0.2, .series = {{.first = 0, .count = 9000, .median_s = 0.2, .most_s = 0.3}}};
  CHECK(report_html(r).find("Slower while the job ran") == std::string::npos);
  r.run.slowdowns = {{.at_s = 1000,
                      .step = 4120,
                      .wall_ns = r.run.started_wall_ns + 990 * INT64_C(1'000'000'000),
                      .before_s = 0.171,
                      .after_s = 0.210,
                      .share = 0.23,
                      .cleared_s = 1200,
                      .cleared_step = 5000},
                     {.at_s = 1900, .step = 8000, .before_s = 0.171, .after_s = 0.3, .share = 0.75}};
  const std::string page = report_html(r);
  const auto has = [&](const char* part) {
    CAPTURE(part);
    CHECK(page.find(part) != std::string::npos);
  };
  has("Slower while the job ran");
  has(R"(<tr><th scope="row">03:31:45 UTC</th><td class="num">4,120</td><td class="num">23 %</td>)"
      R"(<td class="num">171 ms</td><td class="num">210 ms</td><td>03:31:55 UTC</td><td>step 5,000, reported at 03:35:15 UTC</td></tr>)");
  // Without the begin of its first step: since it was reported.
  has(R"(<tr><th scope="row">03:46:55 UTC</th><td class="num">8,000</td>)");
  has("<td>03:46:55 UTC</td><td>not seen</td></tr>");
  has(R"(class="reported slower")");
  has("the job has been 23 % slower since step 4,120 (03:31:45 UTC): 210 ms instead of 171 ms per step; as "
      "fast as before since step 5,000</li>");
  has(R"(<i class="slow" style="left:49.50%;width:10.50%"></i>)");
  has(R"(<i class="slow" style="left:95.00%;width:5.00%"></i>)");
}

TEST_CASE("in the time line of the run progress ends where the stall begins") {
  RunReport r = sample_report();
  r.run.started_wall_ns = 1'795'230'915'000'000'000;  // 03:15:15 UTC
  r.run.elapsed_s = 100;
  r.run.verdict = r.verdict;
  // A stall that passed, and one that xpurun ended: the ranks react to SIGTERM at 90 s and end at 92 s.
  r.run.stalls = {{.n = 1, .at_s = 30, .since_s = 20, .cleared_s = 40, .dump = "dumps/0-hang"},
                  {.n = 2,
                   .at_s = 80,
                   .since_s = 60,
                   .cleared_s = 90,
                   .action = model::HangAction::kill,
                   .dump = "dumps/1-hang"}};
  for (int rank = 0; rank < 4; ++rank) {
    r.run.processes.push_back({.pid = 100 + rank,
                               .role = model::ProcessRole::rank,
                               .rank = rank,
                               .last_progress_s = 90,
                               .still = {{.from_s = 20, .to_s = 40}, {.from_s = 60, .to_s = 90}},
                               .death = {.happened = true, .at_s = 92}});
  }
  const std::string page = report_html(r);
  CHECK(page.find(R"(<b class="moves" style="left:0.00%;width:20.00%"></b>)"
                  R"(<b class="still" style="left:20.00%;width:20.00%"></b>)"
                  R"(<b class="moves" style="left:40.00%;width:20.00%"></b>)"
                  R"(<b class="still" style="left:60.00%;width:32.00%"></b>)"
                  R"(<b class="end" style="left:92.00%;width:0.00%"></b>)") != std::string::npos);
  CHECK(page.find(R"(<i class="stall" style="left:20.00%;width:20.00%"></i>)") != std::string::npos);
  CHECK(page.find(R"(<i class="stall" style="left:60.00%;width:30.00%"></i>)") != std::string::npos);
  CHECK(model::progress_before_end_s(r.run, r.run.processes.front()) == 60);
  // A rank that went on by itself after the last stall.
  r.run.stalls.pop_back();
  r.run.verdict = {};
  CHECK(model::progress_before_end_s(r.run, r.run.processes.front()) == 90);
}

TEST_CASE("slowdowns of a damaged run.json give a page") {
  RunReport r = sample_report();
  r.run.started_wall_ns = INT64_MAX;
  r.run.elapsed_s = 5;
  r.run.processes.push_back(
      {.pid = 100, .role = model::ProcessRole::rank, .rank = 0, .last_progress_s = 1e300});
  r.speed = model::SpeedReport{.steps = 9, .series = {{.count = 9, .median_s = 0.2, .most_s = 0.3}}};
  r.run.slowdowns.resize(50, {.at_s = 1e300,
                              .step = INT64_MAX,
                              .wall_ns = INT64_MIN,
                              .before_s = -1e300,
                              .after_s = 1e300,
                              .share = 1e300,
                              .cleared_s = 1e300,
                              .cleared_step = INT64_MIN});
  CHECK(report_html(r).find("10 more are in run.json.") != std::string::npos);
}

TEST_CASE("a page that would be too large is folded, with a note") {
  const RunReport report = sample_report(300);
  const std::string whole = report_html(report);
  CHECK(whole.find("To keep this page below") == std::string::npos);
  const size_t limit = size_t{240} << 10;
  REQUIRE(whole.size() > limit);
  const std::string folded = report_html(report, limit);
  CHECK(folded.size() <= limit);
  CHECK(folded.find("To keep this page below") != std::string::npos);
  CHECK(folded.find("load_batch") != std::string::npos);
}

TEST_CASE("the page's stacks name every distinct stack once") {
  const RunReport report = sample_report();
  const auto data = nlohmann::json::parse(
      stack_data({{.name = "now", .forest = &report.forest}, {.name = "then", .forest = &report.forest}}, {2},
                 1000)
          .json);
  CHECK(data["moments"].size() == 2);
  CHECK(data["stacks"]["path"].size() == 4);
  // The second dump has the same stacks, so it adds no frames.
  CHECK(data["parents"].size() == 8);
  CHECK(data["kinds"].get<std::string>().size() == data["labels"].size());
  CHECK(data["sets"] == nlohmann::json({"2", "", "0-1,3"}));
  const StackData cut = stack_data({{.name = "now", .forest = &report.forest}}, {2}, 1);
  CHECK(cut.left_out == 3);
}
