#include "launcher/nodes/agent/protocol/packed.h"

#include "common/base/scope.h"

#include <zstd.h>

#include <array>

namespace xpurun::nodes {

namespace {

constexpr int kLevel = 3;
// A frame that wants a larger window than 8 MiB was not written by pack().
constexpr int kLargestWindowLog = 23;

}  // namespace

std::string pack(std::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const size_t n = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), kLevel);
  out.resize(ZSTD_isError(n) == 0 ? n : 0);
  return out;
}

base::Result<std::string> unpack(std::string_view packed, size_t limit) {
  ZSTD_DCtx* context = ZSTD_createDCtx();
  if (context == nullptr) {
    return base::fail("no memory to unpack");
  }
  const auto release = base::on_scope_exit([context] { ZSTD_freeDCtx(context); });
  ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, kLargestWindowLog);
  std::string out;
  std::array<char, size_t{64} << 10> buffer{};
  ZSTD_inBuffer input{packed.data(), packed.size(), 0};
  size_t left = 1;
  while (left != 0) {
    ZSTD_outBuffer output{buffer.data(), buffer.size(), 0};
    const size_t before = input.pos;
    left = ZSTD_decompressStream(context, &output, &input);
    if (ZSTD_isError(left) != 0) {
      return base::fail("not zstd data");
    }
    if (output.pos > limit - out.size()) {
      return base::fail("too large when unpacked");
    }
    out.append(buffer.data(), output.pos);
    if (left != 0 && output.pos == 0 && input.pos == before) {
      return base::fail("cut short");
    }
  }
  if (input.pos != input.size) {
    return base::fail("followed by other bytes");
  }
  return out;
}

}  // namespace xpurun::nodes
