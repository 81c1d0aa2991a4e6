// Verdicts in Chinese: the same rules over the same facts.
#include "common/base/tr.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using base::Language;
using model::Verdict;

namespace {

Verdict chinese(const Facts& facts) {
  return diagnose_in(Language::chinese, facts, diagnose(facts));
}

bool has_line(const Verdict& v, std::string_view line) {
  for (const std::string& e : v.evidence) {
    if (e.find(line) != std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("a hang is said in Chinese, and its fields stay the same") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  const Verdict english = diagnose(job.facts);
  const Verdict v = chinese(job.facts);
  CHECK(v.sentence ==
        "挂起：rank 2 停在 load_batch (train.py:31: time.sleep) 已 10 s；rank 0-1,3 在 "
        "all_reduce "
        "(train.py:44) 中等待它");
  CHECK(has_line(
      v, "卡住：rank 2（1 / 4，pid 102）在 load_batch (train.py:31: time.sleep) 已 10 s，CPU 占用 0 %"));
  CHECK(v.next.empty());
  CHECK(v.id == english.id);
  CHECK(v.ranks == english.ranks);
  CHECK(v.waiting[0].what == "all_reduce");
  CHECK(english.sentence.starts_with("hang: rank 2 "));
  CHECK(base::spoken() == Language::english);
}

TEST_CASE("English is returned as it is") {
  Job job(2);
  job.all(in_all_reduce()).rank(1, in_sleep()).hang_dump();
  Verdict english = diagnose(job.facts);
  english.sentence = "unchanged";
  CHECK(diagnose_in(Language::english, job.facts, english).sentence == "unchanged");
}

TEST_CASE("deaths are said in Chinese") {
  Job killed(2);
  killed.all(in_all_reduce()).died(1, kKill, 12).ended(exited(1));
  CHECK(chinese(killed.facts).sentence.starts_with("崩溃：rank 1 在 12 s 后被 SIGKILL 杀死"));
  Job left(2);
  left.all(in_all_reduce()).died(1, exited(3), 5).ended(exited(3));
  CHECK(chinese(left.facts).sentence.starts_with("退出：rank 1 在 5 s 后以状态 3 退出"));
}

TEST_CASE("the lines below the sentence end with the next step") {
  Job job(2);
  job.all(in_all_reduce()).died(1, kKill, 12).ended(exited(1));
  const Verdict v = chinese(job.facts);
  const base::Speaking speaking(Language::chinese);
  const auto lines = evidence_lines(v);
  REQUIRE_FALSE(lines.empty());
  CHECK(lines.back().starts_with("下一步："));
}

TEST_CASE("a verdict without its facts is said from its fields") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  const Verdict stored = diagnose(job.facts);
  CHECK(sentence_of(stored) == stored.sentence);
  const base::Speaking speaking(Language::chinese);
  CHECK(sentence_of(stored) ==
        "挂起：rank 2 卡住，在 load_batch (train.py:31: time.sleep) 中 已 10 s；rank 0-1,3 在 all_reduce "
        "(train.py:44) "
        "中等待它");
}
