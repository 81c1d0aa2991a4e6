#include "report/render/markdown.h"

#include <doctest/doctest.h>

#include <string>

using namespace xpurun::report;

namespace {

std::string markdown(const std::string& members) {
  const auto text = markdown_text(R"({"schema":"xpurun.report/1",)" + members + "}");
  REQUIRE(text);
  return *text;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("Markdown holds verdict, source, traceback, waiting ranks and the next step") {
  const std::string text = markdown(
      R"j("id":"run-1","version":"0.1.0","verdict":{"sentence":"hang: rank 2 in load (a.py:3)",
         "waiting":[{"ranks":[0,1,3],"what":"all_reduce","where":{"function":"step","file":"/x/b.py","line":9}}],
         "log_tail":{"lines":["last words"]},"evidence":["stuck: rank 2"]},
         "source":[{"function":"load","file":"/x/a.py","line":3,"lines":[{"number":2,"text":"def load():"},{"number":3,"text":"    wait()"}]}],
         "tracebacks":[{"title":"Rank 2","text":"Traceback:\n  File"}],
         "findings":[{"next":"look","command":"xpurun stacks x"}],"environment":{"host":"h"})j");
  CHECK(text ==
        "**hang: rank 2 in load (a.py:3)**\n\n"
        "`a.py:3` in `load`\n\n```\n     2  def load():\n>    3      wait()\n```\n\n"
        "Rank 2:\n\n```\nTraceback:\n  File\n```\n\n"
        "Last lines of standard error:\n\n```\nlast words\n```\n\n"
        "**The others wait:**\n\n- ranks 0-1,3 in all\\_reduce: `step (b.py:9)`\n\n"
        "**Next:** look\n\n```sh\nxpurun stacks x\n```\n\n"
        "<details><summary>Evidence</summary>\n\n- stuck: rank 2\n\n</details>\n\n"
        "Run `run-1` on `h`, xpurun 0.1.0.\n");
}

TEST_CASE("names of a job are no Markdown") {
  const std::string text = markdown(
      R"j("verdict":{"sentence":"<img src=x> [a](b) **c**"},"tracebacks":[{"title":"t","text":"```\n# x\n````"}],
         "source":[{"function":"a`b","file":"/x","line":1,"lines":[]}])j");
  CHECK(has(text, "**\\<img src=x\\> \\[a\\](b) \\*\\*c\\*\\***"));
  CHECK(has(text, "`````\n```\n# x\n````\n`````"));
  CHECK(has(text, "`` a`b ``"));
}

TEST_CASE("text that is not a report gives no Markdown, damaged members are left out") {
  CHECK_FALSE(markdown_text("[]"));
  CHECK_FALSE(markdown_text(R"({"schema":"xpurun.report/9"})"));
  CHECK(has(markdown(R"("verdict":[1],"source":[2],"tracebacks":[{"text":3}],"findings":[4])"),
            "**no verdict**"));
}
