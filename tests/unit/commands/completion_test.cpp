#include "commands/cli/completion.h"

#include <doctest/doctest.h>

#include <set>

using namespace xpurun::launcher;

namespace {

Offer offer(std::vector<std::string> words) {
  return offer_for(words);
}

std::set<std::string> words_of(const Offer& offer) {
  std::set<std::string> out;
  for (const Suggestion& s : offer.words) {
    out.insert(s.word);
  }
  return out;
}

}  // namespace

TEST_CASE("completion offers the options of the command that was named") {
  CHECK(words_of(offer({"--gr"})).contains("--grace"));
  CHECK(words_of(offer({"doctor", "-"})).contains("--json"));
  CHECK_FALSE(words_of(offer({"doctor", "-"})).contains("--grace"));
  CHECK(words_of(offer({""})).contains("doctor"));
  CHECK_FALSE(words_of(offer({"run", ""})).contains("doctor"));
}

TEST_CASE("completion offers the values of an option, however they are separated") {
  const std::set<std::string> limits = {"off", "300s"};
  CHECK(words_of(offer({"--hang-timeout", ""})) == limits);
  CHECK(words_of(offer({"--hang-timeout=o"})) == limits);
  CHECK(words_of(offer({"--hang-timeout", "="})) == limits);
  CHECK(words_of(offer({"--hang-timeout", "=", "o"})) == limits);
  CHECK(words_of(offer({"--no-such-option", "=", "o"})).empty());
  CHECK(words_of(offer({"stacks", "--format", "f"})).contains("folded"));
  CHECK(offer({"-o", ""}).also == Offered::directories);
  CHECK(offer({"ctl", "--run", ""}).also == Offered::runs);
  CHECK(offer({"stacks", "-p", "1"}).also == Offered::processes);
}

TEST_CASE("completion leaves the command that xpurun starts to the shell") {
  CHECK(offer({"xprog"}).also == Offered::command);
  CHECK(offer({"xprog"}).begin == 0);
  CHECK(offer({"--", "xprogram", "--gr"}).begin == 1);
  CHECK(offer({"--hang-timeout", "=", "5", "xprogram", "-"}).begin == 3);
  CHECK(offer({"run", "--name", "a", "xprogram", "s"}).begin == 3);
  CHECK(offer({"--logs", "--", "git", "che"}).begin == 2);
  CHECK(offer({"run", "-q", "git", "--gr"}).begin == 2);
  CHECK(offer({"doctor", "--json", "--", "xprogram", ""}).begin == 3);
  CHECK(offer({"report", "--", "x"}).also == Offered::nothing);
}

TEST_CASE("completion knows what may follow an action") {
  CHECK(words_of(offer({"runs", ""})) == std::set<std::string>{"list", "show", "prune"});
  CHECK(offer({"runs", "show", "--json", ""}).also == Offered::runs);
  CHECK(words_of(offer({"ctl", "timing", ""})) == std::set<std::string>{"off", "light", "full"});
  CHECK(words_of(offer({"ctl", "dump", ""})).empty());
  CHECK(words_of(offer({"completions", ""})) == std::set<std::string>{"bash", "zsh", "fish"});
  CHECK(words_of(offer({"completions", "bash", ""})).empty());
  CHECK(words_of(offer({"help", "doc"})).contains("doctor"));
  CHECK(offer({"top", "--interval", "2", "su"}).also == Offered::runs);
}
