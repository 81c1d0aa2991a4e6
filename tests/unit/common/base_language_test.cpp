#include "common/base/catalogue.h"
#include "common/base/line_breaks.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/language/verdict_translation.h"
#include "common/model/language/vocabulary_words.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <thread>

using namespace xpurun;
using base::Language;
using base::Speaking;
using base::tr;

TEST_CASE("a locale chooses the language as setlocale does") {
  using base::language_of_locale;
  CHECK(language_of_locale("", "", "") == Language::english);
  CHECK(language_of_locale("", "", "zh_CN.UTF-8") == Language::chinese);
  CHECK(language_of_locale("", "zh_CN.utf8", "en_US.UTF-8") == Language::chinese);
  CHECK(language_of_locale("C", "zh_CN.UTF-8", "zh_CN.UTF-8") == Language::english);
  CHECK(language_of_locale("zh_TW.UTF-8", "", "C") == Language::chinese);
  CHECK(language_of_locale("", "", "zh") == Language::chinese);
  CHECK(language_of_locale("", "", "zh_CN.UTF-8@pinyin") == Language::chinese);
  // Their encodings are not what xpurun writes.
  CHECK(language_of_locale("", "", "zh_CN.GB18030") == Language::english);
  CHECK(language_of_locale("", "", "zh_TW.Big5") == Language::english);
}

TEST_CASE("languages have names") {
  CHECK(base::language_named("zh") == Language::chinese);
  CHECK(base::language_named("en") == Language::english);
  CHECK_FALSE(base::language_named("auto"));
  CHECK(base::name_of(Language::chinese) == "zh");
}

TEST_CASE("text is English outside of a scope, and the scopes nest") {
  CHECK(tr("stuck") == "stuck");
  CHECK(tr("rank {}", 3) == "rank 3");
  {
    const Speaking chinese(Language::chinese);
    CHECK(tr("stuck") == "卡住");
    {
      const Speaking english(Language::english);
      CHECK(tr("stuck") == "stuck");
    }
    CHECK(tr("stuck") == "卡住");
    CHECK(tr("no entry of the catalogue") == "no entry of the catalogue");
    // Another thread writes for machines meanwhile.
    std::string elsewhere;
    std::thread([&elsewhere] { elsewhere = tr("stuck"); }).join();
    CHECK(elsewhere == "stuck");
  }
  CHECK(tr("stuck") == "stuck");
}

TEST_CASE("a translation orders the arguments as its grammar needs") {
  const Speaking chinese(Language::chinese);
  CHECK(tr("{} called {}, {} {}", "rank 0", "f", "rank 1", "g") == "rank 0 调用了 f，rank 1 调用了 g");
  CHECK(tr(" · {} slower since {}", "3.0×", "21:46") == " · 自 21:46 起慢 3.0×");
  CHECK(tr("at {:.{}f} s", 1.25, 1) == "1.2 s 时");
}

TEST_CASE("templates are translated between their marks") {
  CHECK(base::tr_template("<h2>{{#t}}Ranks{{/t}}</h2> {{x}} {{#t}}Confidence: {{confidence}}{{/t}}") ==
        "<h2>Ranks</h2> {{x}} Confidence: {{confidence}}");
  const Speaking chinese(Language::chinese);
  CHECK(base::tr_template("<h2>{{#t}}Next step{{/t}}</h2>") == "<h2>下一步</h2>");
  CHECK(base::tr_template("{{#t}}without an end") == "{{#t}}without an end");
}

TEST_CASE("the catalogue is sorted, and every entry is found") {
  const auto catalogue = base::chinese_catalogue();
  REQUIRE(catalogue.size() > 500);
  CHECK(std::is_sorted(catalogue.begin(), catalogue.end(),
                       [](const auto& a, const auto& b) { return a.english < b.english; }));
  const Speaking chinese(Language::chinese);
  for (const auto& [english, text] : catalogue) {
    CHECK(base::translation_of(english) == text);
    CHECK_FALSE(text.empty());
  }
}

TEST_CASE("Chinese text breaks between characters, not before a closing mark") {
  CHECK(base::wrap("各 rank 互相等待，没有进展。", 12, 0) == "各 rank 互相\n等待，没有进\n展。");
  CHECK(base::wrap("等待（主机）", 6, 0) == "等待\n（主\n机）");
  CHECK(base::wrap("停在read_shard已", 12, 0) == "停在\nread_shard已");
  for (const size_t columns : {16, 20, 40}) {
    const std::string text = base::wrap(
        "挂起：rank 2 停在 read_shard (a.py:3) 已 5 s；其他 rank 在等它，一直没有进展。", columns, 2);
    for (const std::string_view line : base::split(text, '\n')) {
      CHECK(base::display_width(line) <= columns);
    }
  }
  // Words of other scripts stay whole.
  CHECK(base::unbreakable_parts("all_reduce(x)").size() == 1);
  CHECK(base::unbreakable_parts("naïve—text").size() == 1);
  CHECK(base::unbreakable_parts("\xff\xfe").size() == 1);
}

TEST_CASE("the closed vocabularies have words") {
  CHECK(model::word_of(model::RankState::uninterruptible) == "uninterruptible");
  CHECK(model::word_of(model::VerdictLevel::none).empty());
  const Speaking chinese(Language::chinese);
  for (const std::string_view name : model::kNames<model::RankState>) {
    CHECK((name.empty() || tr(name) != name));
  }
  for (const std::string_view name : model::kNames<model::VerdictKind>) {
    CHECK(tr(name) != name);
  }
  CHECK(model::word_of(model::VerdictLevel::none).empty());
}

TEST_CASE("the words of a verdict travel beside the English verdict") {
  model::Verdict english{.id = "hang.stuck", .kind = model::VerdictKind::hang};
  say(english, "rank 2 hangs");
  english.evidence = {"a", "b"};
  english.next = {.text = "look", .command = "dmesg"};
  model::Verdict spoken = english;
  spoken.sentence = "挂起：rank 2";
  spoken.headline = "rank 2";
  spoken.evidence = {"甲"};
  spoken.next = {.text = "看", .command = "dmesg"};
  nlohmann::json j = to_json(english);
  CHECK_FALSE(translated(english, j));
  j["translation"] = translation_json(spoken, Language::chinese);
  const auto read = translated(english, j);
  REQUIRE(read);
  CHECK(read->sentence == spoken.sentence);
  CHECK(read->evidence == spoken.evidence);
  CHECK(read->next.text == "看");
  CHECK(read->id == english.id);
  j["translation"].erase("evidence");
  CHECK_FALSE(translated(english, j));
  j["translation"] = 3;
  CHECK_FALSE(translated(english, j));
}
