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

TEST_CASE("secrets in a line of source are masked where they are given to a name") {
  CHECK(redact_source("api_key = 'abc'") == "api_key = '****'");
  CHECK(redact_source("login(token=f\"a{b}\", user=\"me\")") == "login(token=f\"****\", user=\"me\")");
  CHECK(redact_source("h = {\"api_key\": \"a\", 'n': 'b'}") == "h = {\"api_key\": \"****\", 'n': 'b'}");
  CHECK(redact_source("os.environ[\"HF_TOKEN\"] = \"hf_x\"") == "os.environ[\"HF_TOKEN\"] = \"****\"");
  CHECK(redact_source("setenv(\"HF_TOKEN\", r'a\\'b')") == "setenv(\"HF_TOKEN\", r'****')");
  CHECK(redact_source("password: str = 'abc'") == "password: str = '****'");
  CHECK(redact_source("password = \"\"\"a\"\"\"") == "password = \"\"\"****\"\"\"");
  CHECK(redact_source("password = 'never closed") == "password = '****");
  CHECK(redact_source("get('https://u:p@host/x')") == "get('https://****@host/x')");
  for (const char* plain : {"tokens = batch[\"tokens\"]", "AutoTokenizer.from_pretrained(\"gpt2\")",
                            "x = 'a\\", "loss = model(key)", "", "print(\"it's\", key)"}) {
    CHECK(redact_source(plain) == plain);
  }
}
