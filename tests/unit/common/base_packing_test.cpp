#include "common/base/hash.h"
#include "common/base/packing.h"

#include <doctest/doctest.h>

using namespace xpurun::base;

TEST_CASE("a stream that was packed in pieces is one gzip stream") {
  for (const int level : {1, 9}) {
    GzipStream stream(level);
    REQUIRE(stream.ready());
    std::string packed;
    std::string all;
    const auto sink = [&packed](std::string_view bytes) { packed += bytes; };
    for (int i = 0; i < 1000; ++i) {
      const std::string piece(static_cast<size_t>(i), static_cast<char>(i * 37));
      stream.add(piece, sink);
      all += piece;
    }
    stream.finish(sink);
    CHECK(packed.size() < all.size() / 10);
    CHECK(gunzip(packed, all.size()).value() == all);
  }
}

TEST_CASE("the checksum is the usual CRC-32") {
  CHECK(crc32("123456789") == 0xcbf43926);
}

TEST_CASE("base64 conforms to RFC 4648") {
  CHECK(base64("") == "");
  CHECK(base64("f") == "Zg==");
  CHECK(base64("ba") == "YmE=");
  CHECK(base64("foobar") == "Zm9vYmFy");
  CHECK(from_base64("Zm9v\nYg==") == "foob");
  CHECK_FALSE(from_base64("Zm9v!"));
}

TEST_CASE("gzip data is unpacked; damaged and oversized data is refused") {
  const std::string text(100'000, 'x');
  const std::string packed = gzip(text);
  CHECK(packed.size() < 1000);
  CHECK(packed.starts_with("\x1f\x8b"));
  CHECK(gunzip(packed, text.size()) == text);
  CHECK_FALSE(gunzip(packed, text.size() - 1));
  CHECK_FALSE(gunzip(packed.substr(0, packed.size() - 9), text.size()));
  CHECK_FALSE(gunzip("no gzip", 100));
}

TEST_CASE("hashes are XXH3 and depend on the order of words and on the seed") {
  CHECK(hash_text("") == 0x2d06800538d394c2);  // xxhsum -H3
  CHECK(hash_words(0, {1, 2}) != hash_words(0, {2, 1}));
  CHECK(hash_words(1, {1, 2}) != hash_words(0, {1, 2}));
}
