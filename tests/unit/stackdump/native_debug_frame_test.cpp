#include "stackdump/native/debug_files.h"
#include "stackdump/native/eh_frame.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace xpurun::stackdump;

namespace {

struct Bytes {
  std::vector<std::byte> data;

  template <typename T>
  Bytes& put(T value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    data.insert(data.end(), bytes.begin(), bytes.end());
    return *this;
  }
};

// A CIE of the given version and one FDE for [0x1000, 0x1040).
std::vector<std::byte> debug_frame(uint8_t version, uint8_t augmentation = 0) {
  Bytes cie;
  cie.put(uint32_t{0xffffffff}).put(version).put(augmentation);
  if (version == 4) {
    cie.put(uint8_t{8}).put(uint8_t{0});
  }
  cie.put(uint8_t{1}).put(uint8_t{0x78}).put(uint8_t{16}).put(uint8_t{0x0c}).put(uint8_t{7}).put(uint8_t{8});
  Bytes out;
  out.put(static_cast<uint32_t>(cie.data.size()));
  out.data.insert(out.data.end(), cie.data.begin(), cie.data.end());
  out.put(uint32_t{22})
      .put(uint32_t{0})
      .put(uint64_t{0x1000})
      .put(uint64_t{0x40})
      .put(uint8_t{0x41})
      .put(uint8_t{0});
  return out.data;
}

}  // namespace

TEST_CASE("a .debug_frame becomes an .eh_frame that describes the same code") {
  for (const uint8_t version : {1, 3, 4}) {
    const auto table = convert_debug_frame(debug_frame(version));
    REQUIRE(table.count == 1);
    CHECK(table.own[0].start == 0x1000);
    // Read back by the indexer of .eh_frame: encodings, lengths and distances must be correct.
    const auto index = index_eh_frame(table.frames, 0);
    REQUIRE(index.size() == 1);
    CHECK(index[0].start == table.own[0].start);
    CHECK(index[0].fde == table.own[0].fde);
  }
}

TEST_CASE("entries without an .eh_frame equivalent are left out") {
  CHECK(convert_debug_frame(debug_frame(2)).count == 0);
  CHECK(convert_debug_frame(debug_frame(4, 'x')).count == 0);
  CHECK(convert_debug_frame({}).count == 0);
  const auto whole = debug_frame(4);
  for (size_t n = 0; n < whole.size(); ++n) {
    CHECK(convert_debug_frame(std::span(whole).subspan(0, n)).count == 0);
    auto damaged = whole;
    damaged[n] ^= std::byte{0xff};
    CHECK(convert_debug_frame(damaged).count <= 1);
  }
}
