#include "common/model/redact.h"

#include <doctest/doctest.h>

using namespace xpurun::model;

TEST_CASE("secrets in the environment are masked by name and in URLs") {
  const auto env = redact_env({{"HF_TOKEN", "hf_abc"}, {"PATH", "/bin"}, {"PROXY", "http://u:p@host:1/x"}});
  CHECK(env.at("HF_TOKEN") == "****");
  CHECK(env.at("PATH") == "/bin");
  CHECK(env.at("PROXY") == "http://****@host:1/x");
}

TEST_CASE("secrets in arguments are masked in all their spellings") {
  const std::vector<std::string> argv = {"train.py",          "--api-key", "abc", "--api_key=abc",
                                         "WANDB_API_KEY=abc", "--lr",      "0.1", "s3://user:pw@b/k"};
  const std::vector<std::string> expected = {"train.py",           "--api-key", "****", "--api_key=****",
                                             "WANDB_API_KEY=****", "--lr",      "0.1",  "s3://****@b/k"};
  CHECK(redact_argv(argv) == expected);
}

TEST_CASE("an option after a secret option is not taken for its value") {
  CHECK(redact_argv({"--token", "--verbose", "x"}) == std::vector<std::string>{"--token", "--verbose", "x"});
}
