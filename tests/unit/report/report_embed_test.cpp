#include "report/render/parts/embed.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;

TEST_CASE("a data block returns its content, plain or packed") {
  std::string large = "{\"x\":\"";
  for (int i = 0; i < 40000; ++i) {
    large += std::to_string(i * 7919) + " ";
  }
  large += "\"}";
  for (const std::string& json : {std::string("{}"), large}) {
    for (Packing packing : {Packing::automatic, Packing::always}) {
      const std::string page = "<p>id=\"data\"</p><script type=\"text/plain\" id=\"other\">{1}</script>\n" +
                               data_block("data", json, packing) + "<script>var x;</script>";
      const auto read = read_data_block(page, "data");
      REQUIRE(read);
      CHECK(*read == json);
    }
  }
  CHECK(data_block("data", large, Packing::automatic).size() < large.size());
}

TEST_CASE("data with hostile names stays inside its block") {
  const std::string block =
      data_block("data", R"({"a":"</script><script>alert(1)</script>&"})", Packing::automatic);
  CHECK(block.find("</script>") == block.size() - 9);
  const auto read = read_data_block(block, "data");
  REQUIRE(read);
  CHECK(read->find("\\u003c/script") != std::string::npos);
}

TEST_CASE("pages without data, damaged and endless data are refused") {
  CHECK_FALSE(read_data_block("", "data"));
  CHECK_FALSE(read_data_block("<script type=\"application/json\" id=\"data\">{", "data"));
  CHECK_FALSE(read_data_block("<script type=\"application/json\" id=\"dat\">{}</script>", "data"));
  const std::string packed = gzip_base64("hello hello hello");
  CHECK(from_gzip_base64(packed, 100) == "hello hello hello");
  CHECK_FALSE(from_gzip_base64(packed, 5));
  CHECK_FALSE(from_gzip_base64(packed.substr(0, packed.size() / 2), 100));
  CHECK_FALSE(from_gzip_base64("<>", 100));
  CHECK_FALSE(from_gzip_base64("aGVsbG8=", 100));
  CHECK_FALSE(from_gzip_base64("", 100));
  for (size_t n = 0; n < 40; ++n) {
    const std::string bytes(n, static_cast<char>('a' + n));
    CHECK(from_gzip_base64(gzip_base64(bytes), 1000) == bytes);
  }
}
