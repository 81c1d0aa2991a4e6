#include "commands/selftest/judge.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

namespace {

// An exception ends a rank by an exit status: the id is one of exits.
std::string_view kind_of(std::string_view id) {
  return id == "exit.exception" ? "exception" : id.substr(0, id.find('.'));
}

bool stands_at(const model::CodeLocation& where, const Place& place) {
  return base::base_name(where.file) == place.file && where.line == place.line;
}

std::string text_of(const model::CodeLocation& where) {
  return where.function.empty() && where.file.empty()
             ? "no place"
             : fmt::format("{} ({}:{})", where.function, base::base_name(where.file), where.line);
}

std::string text_of(const std::vector<Place>& places) {
  std::vector<std::string> out;
  for (const Place& place : places) {
    out.push_back(fmt::format("{} ({}:{})", place.function, place.file, place.line));
  }
  return base::join(out, " or ");
}

std::string ranks_text(const model::RankSet& ranks) {
  return ranks.empty() ? "no rank" : fmt::format("rank{} {}", ranks.size() > 1 ? "s" : "", ranks.text());
}

std::string brief_text(std::string_view kind, const model::RankSet& ranks, std::string_view function) {
  std::string out(kind);
  if (!ranks.empty()) {
    out += fmt::format(", {}", ranks_text(ranks));
  }
  return function.empty() ? out : fmt::format("{}, {}", out, function);
}

}  // namespace

Expected expected_of(const Injection& injection, Device device, int ranks, std::span<const Place> all) {
  const Expectation& wanted = injection.expected_on(device);
  Expected out{.ids = {wanted.ids.begin(), wanted.ids.end()},
               .ranks = blamed(injection, wanted, ranks),
               .places = {},
               .words = {wanted.words.begin(), wanted.words.end()},
               .evidence = {wanted.evidence.begin(), wanted.evidence.end()},
               .signal = wanted.signal};
  if (wanted.blame != Blame::nobody && out.ranks.empty()) {
    out.or_ranks = {injection.culprit};
  }
  if (out.ranks.empty()) {
    return out;  // nobody is blamed: there is no place
  }
  for (const std::string_view mark : wanted.places) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(out.places),
                 [&](const Place& place) { return place.mark == mark; });
  }
  return out;
}

std::vector<std::string> differences(const Expected& expected, const model::Verdict& given) {
  std::vector<std::string> out;
  if (std::find(expected.ids.begin(), expected.ids.end(), given.id) == expected.ids.end()) {
    out.push_back(fmt::format("the id is {} instead of {}", given.id, base::join(expected.ids, " or ")));
  }
  const bool as_good = !expected.or_ranks.empty() && given.ranks == expected.or_ranks;
  if (given.ranks != expected.ranks && !as_good) {
    out.push_back(fmt::format("{} instead of {}", ranks_text(given.ranks), ranks_text(expected.ranks)));
  }
  if (!expected.places.empty() &&
      std::none_of(expected.places.begin(), expected.places.end(),
                   [&](const Place& place) { return stands_at(given.where, place); })) {
    out.push_back(fmt::format("{} instead of {}", text_of(given.where), text_of(expected.places)));
  }
  if (expected.signal != 0 && given.signal != expected.signal) {
    out.push_back(fmt::format("signal {} instead of {}", given.signal, expected.signal));
  }
  for (const std::string& words : expected.words) {
    if (given.sentence.find(words) == std::string::npos) {
      out.push_back(fmt::format("the sentence lacks '{}'", words));
    }
  }
  const std::string all = given.sentence + '\n' + base::join(given.evidence, "\n");
  for (const std::string& words : expected.evidence) {
    if (all.find(words) == std::string::npos) {
      out.push_back(fmt::format("sentence and evidence lack '{}'", words));
    }
  }
  return out;
}

std::string short_text(const Expected& expected) {
  return brief_text(kind_of(expected.ids.front()), expected.ranks,
                    expected.places.empty() ? std::string_view() : expected.places.front().function);
}

std::string short_text(const model::Verdict& given) {
  return brief_text(kind_of(given.id), given.ranks, given.where.function);
}

}  // namespace xpurun::launcher
