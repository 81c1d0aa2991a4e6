#include "common/base/os/io.h"
#include "launcher/storage/file_operation.h"

#include <doctest/doctest.h>

#include <string>

using namespace xpurun;
using namespace xpurun::launcher;

TEST_CASE("operations and answers survive encoding and decoding") {
  const std::string bytes("a\0\n\xff", 4);
  std::string stream = encode(7, {FileAction::append, "a path", bytes}) + encode(8, {FileAction::remove, ""});
  std::string arrived;
  std::vector<NumberedOperation> got;
  for (const char c : stream) {
    arrived += c;
    while (auto next = take_operation(arrived)) {
      got.push_back(std::move(*next));
    }
  }
  REQUIRE(got.size() == 2);
  CHECK(got[0].number == 7);
  CHECK(got[0].operation.action == FileAction::append);
  CHECK(got[0].operation.path == "a path");
  CHECK(got[0].operation.data == bytes);
  CHECK(got[1].number == 8);
  CHECK(arrived.empty());

  std::string answers = encode_answer(1, {});
  answers += encode_answer(
      2, base::fail(base::Error{.what = "w", .sys_errno = 28, .id = "E", .cause = "c", .hint = "h"}));
  const auto good = take_answer(answers);
  REQUIRE(good);
  CHECK_FALSE(good->error);
  const auto bad = take_answer(answers);
  REQUIRE(bad);
  REQUIRE(bad->error);
  CHECK(bad->error->sys_errno == 28);
  CHECK(bad->error->hint == "h");
  CHECK_FALSE(take_answer(answers));
}

TEST_CASE("operations on files") {
  CHECK_FALSE(perform({FileAction::append, "ops-missing", "x"}));
  CHECK(perform({FileAction::append_or_create, "ops-log", "one\n"}));
  CHECK(perform({FileAction::append, "ops-log", "two\n"}));
  CHECK(base::read_file("ops-log").value() == "one\ntwo\n");
  CHECK(perform({FileAction::create, "ops-new", "1"}));
  CHECK_FALSE(perform({FileAction::create, "ops-new", "2"}));
  CHECK(perform({FileAction::replace, "ops-new", "3"}));
  CHECK(base::read_file("ops-new").value() == "3");
  CHECK(perform({FileAction::remove, "ops-new"}));
  CHECK(perform({FileAction::remove, "ops-new"}));
  CHECK(perform({FileAction::make_dirs, "ops-a/b"}));
  CHECK(perform({FileAction::probe, "ops-a/b/.probe"}));
  CHECK_FALSE(base::file_exists("ops-a/b/.probe"));
  CHECK_FALSE(perform({FileAction::probe, "ops-a/missing/.probe"}));
  CHECK(perform({FileAction::replace, "ops-a/b/file", "4"}));
  CHECK_FALSE(perform({FileAction::remove, "ops-a/b"}));
  CHECK(perform({FileAction::remove_tree, "ops-a"}));
  CHECK_FALSE(base::file_exists("ops-a/b/file"));
  CHECK(perform({FileAction::remove_tree, "ops-a"}));
}
