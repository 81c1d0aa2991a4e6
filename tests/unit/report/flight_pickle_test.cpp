#include "report/flight_recorder/pickle.h"

#include <doctest/doctest.h>

#include <string>

using namespace xpurun;
using namespace xpurun::report;

namespace {

using namespace std::string_literals;

PlainTree good(const std::string& bytes) {
  auto tree = read_pickle(bytes);
  REQUIRE_MESSAGE(tree, (tree ? "" : tree.error().what));
  return std::move(*tree);
}

std::string problem(const std::string& bytes, const PlainLimits& limits = {}) {
  const auto tree = read_pickle(bytes, limits);
  REQUIRE_FALSE(tree);
  return tree.error().what;
}

}  // namespace

TEST_CASE("pickle: the values of a dict in protocol 2") {
  // pickle.dumps({"a": [1, -2, 70000, 2**40, True, None, 0.5], "t": ("x", "y")}, protocol=2)
  const std::string bytes =
      "\x80\x02}q\x00(X\x01\x00\x00\x00"s + "aq\x01]q\x02(K\x01J\xfe\xff\xff\xffJp\x11\x01\x00"s +
      "\x8a\x06\x00\x00\x00\x00\x00\x01\x88NG?\xe0\x00\x00\x00\x00\x00\x00"s +
      "eX\x01\x00\x00\x00tq\x03X\x01\x00\x00\x00xq\x04X\x01\x00\x00\x00yq\x05\x86q\x06u."s;
  const PlainTree tree = good(bytes);
  const auto list = tree.items(*tree.member(tree.root, "a"));
  REQUIRE(list.size() == 7);
  CHECK(integer_of(&list[0]) == 1);
  CHECK(integer_of(&list[1]) == -2);
  CHECK(integer_of(&list[2]) == 70000);
  CHECK(integer_of(&list[3]) == int64_t{1} << 40);
  CHECK(list[4].kind == PlainKind::boolean);
  CHECK(list[5].kind == PlainKind::none);
  CHECK(list[6].real == 0.5);
  const PlainValue& tuple = *tree.member(tree.root, "t");
  CHECK(tuple.kind == PlainKind::tuple);
  CHECK(text_of(&tree.items(tuple)[1]) == "y");
  CHECK(tree.member(tree.root, "none") == nullptr);
}

TEST_CASE("pickle: protocol 5 with frames and MEMOIZE, values from the memo") {
  // pickle.dumps(["ab", "ab", {}], protocol=5), and the same list twice
  const std::string bytes =
      "\x80\x05\x95\x0f\x00\x00\x00\x00\x00\x00\x00]\x94(\x8c\x02"s + "ab\x94h\x01}\x94h\x02" + "e.";
  const PlainTree tree = good(bytes);
  const auto list = tree.items(tree.root);
  REQUIRE(list.size() == 4);
  CHECK(text_of(&list[1]) == "ab");
  CHECK(list[2].node == list[3].node);
}

TEST_CASE("pickle: negative integers of every length") {
  CHECK(good("\x80\x02\x8a\x01\xff."s).root.integer == -1);
  CHECK(good("\x80\x02\x8a\x00."s).root.integer == 0);
  CHECK(good("\x80\x02\x8a\x02\x00\x80."s).root.integer == -32768);
  CHECK(good("\x80\x02\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."s).root.integer == INT64_MAX);
  CHECK(problem("\x80\x02\x8a\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01."s) ==
        "an integer is larger than 64 bits at byte 2");
}

TEST_CASE("pickle: opcodes that import or call are refused by name and offset") {
  CHECK(problem("\x80\x02"s + "cos\nsystem\n(X\x02\x00\x00\x00lstR."s) ==
        "opcode GLOBAL is refused: only plain values are read at byte 2");
  CHECK(problem("\x80\x04\x8c\x02os\x8c\x06system\x93."s) ==
        "opcode STACK_GLOBAL is refused: only plain values are read at byte 14");
  CHECK(problem("\x80\x02)R."s) == "opcode REDUCE is refused: only plain values are read at byte 3");
  CHECK(problem("\x80\x02}}b."s) == "opcode BUILD is refused: only plain values are read at byte 4");
  CHECK(problem("\x80\x02I1\n."s).starts_with("opcode INT is refused"));
  CHECK(problem("\x80\x02\xff."s) == "unknown opcode 0xff at byte 2");
  CHECK(problem("\x80\x06."s) == "pickle protocol 6 is not known at byte 0");
}

TEST_CASE("pickle: damaged streams") {
  CHECK(problem("") == "the pickle is truncated at byte 0");
  CHECK(problem("\x80\x02X\xff\xff\xff\x7f"s) == "the pickle is truncated at byte 2");
  CHECK(problem("\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff"s) == "the pickle is truncated at byte 2");
  CHECK(problem("\x80\x02."s) == "the pickle ends with 0 values instead of one at byte 2");
  CHECK(problem("\x80\x02(K\x01."s) == "the pickle ends with 1 values instead of one at byte 5");
  CHECK(problem("\x80\x02K\x01"
                "e."s) == "an opcode finds no mark at byte 4");
  CHECK(problem("\x80\x02K\x01(K\x02"
                "e."s) == "an opcode finds no list at byte 7");
  CHECK(problem("\x80\x02}(K\x01u."s) == "a dict has a key without a value at byte 6");
  CHECK(problem("\x80\x02K\x01\x86."s) == "an opcode finds too few values at byte 4");
  CHECK(problem("\x80\x02h\x07."s) == "memo number 7 was never stored at byte 2");
  CHECK(problem("\x80\x02Nr\xff\xff\xff\xff."s) == "memo number 4294967295 is out of order at byte 3");
  // Values below a mark belong to the outer container.
  CHECK(problem("\x80\x02]K\x01(0."s).starts_with("the pickle ends with"));
  CHECK(problem("\x80\x02]K\x01(a."s) == "an opcode finds too few values at byte 6");
}

TEST_CASE("pickle: a list that contains itself is ordinary data") {
  const PlainTree tree = good(
      "\x80\x02]q\x00h\x00"
      "a."s);
  const auto list = tree.items(tree.root);
  REQUIRE(list.size() == 1);
  CHECK(list[0].node == tree.root.node);
}

TEST_CASE("pickle: limits of values, containers and depth") {
  const std::string nones(50, 'N');
  CHECK(problem("\x80\x02](" + nones + "e.", {.values = 20}) == "too many values at byte 23");
  CHECK(problem("\x80\x02" + std::string(50, ']') + ".", {.containers = 9}) ==
        "too many containers at byte 11");
  CHECK(problem("\x80\x02" + std::string(200, '(')) == "nested too deeply at byte 102");
}

TEST_CASE("plain JSON: the same tree, and its limits") {
  const auto tree = read_plain_json(R"({"a": [1, -2, 1.5, "7", true, null, 18446744073709551615]})");
  REQUIRE(tree);
  const auto list = tree->items(*tree->member(tree->root, "a"));
  REQUIRE(list.size() == 7);
  CHECK(integer_of(&list[1]) == -2);
  CHECK(integer_of(&list[3]) == 7);
  CHECK(list[6].kind == PlainKind::real);
  CHECK_FALSE(read_plain_json(R"({"a": [1, )"));
  CHECK_FALSE(read_plain_json(std::string(200, '[') + std::string(200, ']')));
  CHECK_FALSE(read_plain_json("[1,2,3,4]", {.values = 3}));
}
