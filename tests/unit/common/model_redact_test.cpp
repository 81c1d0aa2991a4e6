#include "common/model/secrets/kept_environment.h"
#include "common/model/secrets/redact.h"
#include "common/model/stacks/stack_file.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace xpurun::model;

TEST_CASE("secrets in arguments are masked in all their spellings") {
  const std::vector<std::string> argv = {"train.py",          "--api-key", "abc", "--api_key=abc",
                                         "WANDB_API_KEY=abc", "--lr",      "0.1", "s3://user:pw@b/k"};
  const std::vector<std::string> expected = {"train.py",           "--api-key", "****", "--api_key=****",
                                             "WANDB_API_KEY=****", "--lr",      "0.1",  "s3://****@b/k"};
  CHECK(redact_argv(argv) == expected);
}

TEST_CASE("an option after a secret option does not count as its value") {
  CHECK(redact_argv({"--token", "--verbose", "x"}) == std::vector<std::string>{"--token", "--verbose", "x"});
}

TEST_CASE("secrets assigned to a name in a source line are masked") {
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

namespace {

using Words = std::vector<std::string>;

bool shows(const Words& words, std::string_view secret) {
  return std::any_of(words.begin(), words.end(),
                     [secret](const std::string& word) { return word.find(secret) != std::string::npos; });
}

// Invented secrets, assembled at run time so that secret scanners do not report them.
std::string token(std::string_view beginning, std::string_view rest = "R4nD0mPartOfAT0k3nX7q") {
  return std::string(beginning) + std::string(rest);
}

struct Hidden {
  Words argv;
  std::string secret;
};

}  // namespace

TEST_CASE("sixty ways to hide a secret in a command") {
  const std::string blob =
      "u8Q2"
      "zR7vT1mK9wX4bN6cY3pL";  // random, 24 characters
  const std::string hex =
      "9f86d081884c7d65"
      "9a2feaa0c55ad015a3bf4f1b";
  const std::string aws =
      "wJalrXUtn/K7MDENG/bPxR"
      "fiCYz4mpl3K3yQ81";
  const std::vector<Hidden> ways = {
      // options and their values
      {{"train.py", "-p", "hunter2"}, "hunter2"},
      {{"train.py", "--password", "hunter2"}, "hunter2"},
      {{"train.py", "--password=hunter2"}, "hunter2"},
      {{"train.py", "--db-pass", "hunter2"}, "hunter2"},
      {{"train.py", "--passphrase", "hunter2"}, "hunter2"},
      {{"train.py", "-password", "hunter2"}, "hunter2"},
      {{"train.py", "--pat=hunter2"}, "hunter2"},
      {{"train.py", "--auth", "hunter2"}, "hunter2"},
      {{"train.py", "--apiKey", "hunter2"}, "hunter2"},
      {{"train.py", "--slack-webhook", "hunter2"}, "hunter2"},
      {{"train.py", "--cookie", "hunter2"}, "hunter2"},
      {{"train.py", "--client_secret", "hunter2"}, "hunter2"},
      {{"train.py", "--registryPwd", "hunter2"}, "hunter2"},
      {{"train.py", "--jwt", "hunter2"}, "hunter2"},
      {{"train.py", "--kube-creds", "hunter2"}, "hunter2"},
      {{"train.py", "--dsn", "hunter2"}, "hunter2"},
      {{"curl", "-u", "me:hunter2", "host"}, "hunter2"},
      {{"curl", "-ume:hunter2", "host"}, "hunter2"},
      {{"curl", "--user", "me:hunter2", "host"}, "hunter2"},
      {{"mysql", "-phunter2", "db"}, "hunter2"},
      {{"/usr/bin/sshpass", "-phunter2", "ssh", "host"}, "hunter2"},
      {{"redis-cli", "-a", "hunter2"}, "hunter2"},
      {{"ldapsearch", "-w", "hunter2"}, "hunter2"},
      {{"zip", "-P", "hunter2", "a.zip"}, "hunter2"},
      {{"smbclient", "-U", "me%hunter2", "//host/share"}, "hunter2"},
      {{"openssl", "enc", "-k", "hunter2"}, "hunter2"},
      {{"openssl", "rsa", "-passin", "pass:hunter2"}, "hunter2"},
      // names and values in one word
      {{"env", "MY_PASS=hunter2", "python3"}, "hunter2"},
      {{"env", "GITHUB_PAT=hunter2 and more", "python3"}, "more"},
      {{"env", "SSHPASS=hunter2"}, "hunter2"},
      {{"train.py", "+wandb.api_key=hunter2"}, "hunter2"},
      {{"helm", "--set", "db.password=hunter2,db.user=me"}, "hunter2"},
      {{"train.py", "AccountName=x;AccountKey=hunter2;Suffix=y"}, "hunter2"},
      {{"psql", "host=db user=me password=hunter2 dbname=x"}, "hunter2"},
      {{"train.py", "password: hunter2"}, "hunter2"},
      {{"train.py", R"({"user": "me", "password": "hunter2"})"}, "hunter2"},
      {{"train.py", R"({'auth': {'token':'hunter2'}})"}, "hunter2"},
      {{"ruby", "-e", ":password => 'hunter2'"}, "hunter2"},
      {{"python3", "-c", "import os; os.environ['HF_TOKEN'] = 'hunter2'"}, "hunter2"},
      {{"python3", "-c", "login(token='hunter2')"}, "hunter2"},
      // addresses
      {{"git", "clone", "https://me:hunter2@host/x.git"}, "hunter2"},
      {{"git", "clone", "https://hunter2@host/x.git"}, "hunter2"},
      {{"train.py", "redis://:hunter2@host:6379/0"}, "hunter2"},
      {{"train.py", "--db=postgresql+psycopg2://me:hun/ter2@host/x"}, "ter2"},
      {{"train.py", "me:hunter2@host:/path"}, "hunter2"},
      {{"wget", "https://host/file?user=me&access_token=hunter2&x=1"}, "hunter2"},
      {{"wget", "https://host/file?sv=2022&sig=hunter2%3D"}, "hunter2"},
      {{"curl", "https://hooks.slack.com/services/T0/B0/hunter2"}, "hunter2"},
      {{"curl", "https://discord.com/api/webhooks/123/hunter2"}, "hunter2"},
      // headers
      {{"curl", "-H", "Authorization: Bearer hunter2"}, "hunter2"},
      {{"curl", "-H", "authorization: token hunter2"}, "hunter2"},
      {{"curl", "-H", "Proxy-Authorization: Basic bWU6aHVudGVyMg=="}, "bWU6"},
      {{"curl", "-H", "X-Api-Key: hunter2"}, "hunter2"},
      {{"curl", "--header=Cookie: session=hunter2; other=hunter2"}, "hunter2"},
      {{"train.py", "--header", "Bearer hunter2222"}, "hunter2222"},
      // scripts
      {{"bash", "-c", "export WANDB_API_KEY=hunter2; python3 train.py"}, "hunter2"},
      {{"bash", "-c", "python3 login.py --token hunter2 && python3 train.py"}, "hunter2"},
      {{"bash", "-c", "login -p 'hunter2 and more' x"}, "more"},
      {{"bash", "-c", "mysql -phunter2 < dump.sql"}, "hunter2"},
      {{"bash", "-c", "curl -u me:hunter2 host | tar x"}, "hunter2"},
      {{"sh", "-c", "PGPASSWORD=\"hunter2\" psql"}, "hunter2"},
      // recognised by their format, under harmless names
      {{"train.py", "--x", token("ghp_")}, token("ghp_")},
      {{"train.py", "--x=" + token("github_pat_")}, token("github_pat_")},
      {{"train.py", token("hf_")}, token("hf_")},
      {{"train.py", token("sk-proj-")}, token("sk-proj-")},
      {{"train.py", token("xoxb-", "123456789012-abcdefABCDEF")}, "abcdefABCDEF"},
      {{"train.py", token("AKIA", "IOSFODNN7EXAMPLE")}, "IOSFODNN7"},
      {{"train.py", token("glpat-")}, token("glpat-")},
      {{"train.py", token("eyJ", "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl")}, "c2lnbmF0dXJl"},
      {{"train.py", "--x", blob}, blob},
      {{"train.py", "--x", hex}, hex},
      {{"train.py", "--x", aws}, "K7MDENG"},
      {{"train.py", "-----BEGIN RSA PRIVATE KEY-----\nMIIhunter2\n-----END RSA PRIVATE KEY-----"}, "hunter2"},
      {{"train.py", "https://host/download/" + blob + "/file"}, blob},
      {{"train.py", "a b " + token("ghp_") + " c"}, token("ghp_")},
      // one word, as left by programs that rewrite their arguments
      {{"trainer: rank 0 --api-key hunter2 --lr 0.1"}, "hunter2"},
  };
  CHECK(ways.size() >= 60);
  for (const Hidden& way : ways) {
    CAPTURE(way.argv);
    CHECK(shows(way.argv, way.secret));  // otherwise the check below proves nothing
    CHECK_FALSE(shows(redact_argv(way.argv), way.secret));
    CHECK_FALSE(redact_argv(way.argv).front().empty());
  }
}

TEST_CASE("the key of a KeyError is no secret") {
  for (const char* line :
       {"KeyError: 'label'", "sqlalchemy.exc.DuplicateKeyError: \"id\"", "KeyboardInterrupt: x"}) {
    CHECK(redact_text(line) == line);
  }
  CHECK(redact_text("api_key: 'abc'") == "api_key: '****'");
}

TEST_CASE("harmless words of commands stay") {
  const std::vector<Words> plain = {
      {"torchrun", "--nproc_per_node", "8", "--rdzv_endpoint", "host:29500", "train.py", "--lr=0.1"},
      {"python3", "-u", "train.py", "--tokenizer", "gpt2", "--tokenizer-name=gpt2", "--max-tokens", "1024"},
      {"python3", "-m", "torch.distributed.run", "--max_tokens=1024", "--pin-memory", "--author", "me"},
      {"train.py", "--model", "meta-llama/Llama-3.1-70B-Instruct", "--name", "Qwen2.5-VL-72B-Instruct-AWQ"},
      {"train.py", "/cache/models--x/snapshots/0e9e39f249a16976918f6564b8830bc894c89659/model.safetensors"},
      {"train.py", "--data", "s3://bucket/part-00000/of-00128.parquet", "--seed", "20261122064044"},
      {"docker", "run", "image:tag@sha256", "--gpus", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"},
      {"bash", "-c", "set -e; cd /work && python3 train.py --lr 0.1 > log.txt 2>&1"},
      {"python3", "-c",
       "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)"},
      {"python3", "-c", "from multiprocessing.resource_tracker import main;main(5)"},
      {"checkpoint_000000012345_of_000000099999", "LlamaForConditionalGenerationModel",
       "2026-11-22T06:40:44"},
      {"train.py", "--num-keypoints", "17", "--keyframe_interval=5", "--num_key_value_heads=8"},
      {"http://host:8080/@user/page", "git@host:path/x.git", "12:30", "a=b", "", "-", "--"},
  };
  for (const Words& argv : plain) {
    CHECK(redact_argv(argv) == argv);
  }
}

TEST_CASE("text of any bytes is masked without harm") {
  for (const char* text :
       {"'", "\"\\", "=", "://", "://@", "-p", "password=", "password:\"", "-----BEGIN PRIVATE", "bearer ",
        "\xff\xfe=\x80", "a://b:c/@", "Authorization:", "x='", "ghp_", "@:@"}) {
    CHECK_NOTHROW(redact_text(text));
    CHECK_NOTHROW(redact_source(text));
    CHECK_NOTHROW(redact_argv({text, text}));
  }
}

TEST_CASE("only values of listed variables are kept, with secrets masked") {
  const KeptEnvironment kept =
      keep_environment({{"MY_PASS", "hunter2"},
                        {"SLACK_WEBHOOK", "https://hooks.slack.com/services/T0/B0/x"},
                        {"GITHUB_PAT", "hunter2"},
                        {"KUBE_CREDS", "{}"},
                        {"LOOKS_HARMLESS", "hunter2"},
                        {"RANK", "3"},
                        {"NCCL_DEBUG", "INFO"},
                        {"CUDA_VISIBLE_DEVICES", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"},
                        {"SLURM_JWT", "hunter2"},
                        {"NCCL_MY_TOKEN", "hunter2"},
                        {"TOKENIZERS_PARALLELISM", "false"},
                        {"PWD", "/work"},
                        {"PATH", "/usr/bin:/bin"},
                        {"OMP_X", "a " + token("ghp_")},
                        {"HTTPS_PROXY", "http://u:p@host:1/x"}});
  const std::map<std::string, std::string> values = {
      {"RANK", "3"},
      {"NCCL_DEBUG", "INFO"},
      {"CUDA_VISIBLE_DEVICES", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"},
      {"SLURM_JWT", "****"},
      {"NCCL_MY_TOKEN", "****"},
      {"TOKENIZERS_PARALLELISM", "false"},
      {"PWD", "/work"},
      {"PATH", "/usr/bin:/bin"},
      {"OMP_X", "a ****"},
      {"HTTPS_PROXY", "http://****@host:1/x"}};
  CHECK(kept.values == values);
  CHECK(kept.names == Words{"GITHUB_PAT", "KUBE_CREDS", "LOOKS_HARMLESS", "MY_PASS", "SLACK_WEBHOOK"});
}

TEST_CASE("arguments in another program's stacks file are masked on reading") {
  ProcessStacks stacks;
  stacks.cmdline = {"train.py", "-p", "hunter2"};
  const auto read = process_stacks_from_json(to_json(stacks));
  REQUIRE(read.has_value());
  CHECK(read->cmdline == Words{"train.py", "-p", "****"});
}
