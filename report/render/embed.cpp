#include "report/render/embed.h"

#include "report/flamegraph/escape.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <cstdint>

namespace xpurun::report {

namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr int kGzipWindow = 15 + 16;  // zlib's way of saying gzip
constexpr size_t kPlainUpTo = 192 * 1024;
constexpr size_t kMostUnpacked = size_t{256} << 20;

std::string base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) {
      word = word << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      out += k <= n ? kAlphabet[word >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

base::Result<std::string> from_base64(std::string_view text) {
  std::array<int, 256> value{};
  value.fill(-1);
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    value[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int>(i);
  }
  std::string out;
  out.reserve(text.size() / 4 * 3);
  uint32_t word = 0;
  int bits = 0;
  for (char c : text) {
    if (c == '=' || c == '\n' || c == '\r') {
      continue;
    }
    const int v = value[static_cast<unsigned char>(c)];
    if (v < 0) {
      return base::fail("the packed data holds a character that is not base64");
    }
    word = word << 6 | static_cast<uint32_t>(v);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out += static_cast<char>(word >> bits & 0xff);
    }
  }
  return out;
}

base::Result<std::string> inflate_all(std::string_view packed, size_t limit) {
  z_stream z{};
  if (inflateInit2(&z, kGzipWindow) != Z_OK) {
    return base::fail("zlib cannot be used");
  }
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  z.avail_in = static_cast<uInt>(packed.size());
  std::string out;
  std::array<char, 64 * 1024> chunk;
  int rc = Z_OK;
  while (rc == Z_OK && out.size() <= limit) {
    z.next_out = reinterpret_cast<Bytef*>(chunk.data());
    z.avail_out = static_cast<uInt>(chunk.size());
    rc = inflate(&z, Z_NO_FLUSH);
    out.append(chunk.data(), chunk.size() - z.avail_out);
  }
  inflateEnd(&z);
  if (rc != Z_STREAM_END || out.size() > limit) {
    return base::fail(out.size() > limit ? "the packed data is too large" : "the packed data is damaged");
  }
  return out;
}

std::string gzip(std::string_view text) {
  z_stream z{};
  if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipWindow, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
    return {};
  }
  std::string out(deflateBound(&z, text.size()) + 32, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string opening(std::string_view id) {
  return fmt::format(R"(id="{}")", id);
}

constexpr std::string_view kPacked = R"( data-encoding="gzip+base64")";

}  // namespace

std::string gzip_base64(std::string_view text) {
  return base64(gzip(text));
}

base::Result<std::string> from_gzip_base64(std::string_view text, size_t limit) {
  XPURUN_TRY_ASSIGN(const std::string packed, from_base64(text));
  return inflate_all(packed, limit);
}

std::string data_block(std::string_view id, std::string_view json, Packing packing) {
  if (packing == Packing::automatic && json.size() <= kPlainUpTo) {
    return fmt::format(R"(<script type="application/json" {}>{}</script>)", opening(id),
                       escape_script_json(json));
  }
  return fmt::format(R"(<script type="text/plain" {}{}>{}</script>)", opening(id), kPacked,
                     gzip_base64(json));
}

base::Result<std::string> read_data_block(std::string_view page, std::string_view id) {
  // Text of a traced process cannot look like this: its < and " are escaped wherever a page holds them.
  for (size_t at = page.find("<script type="); at != std::string_view::npos;
       at = page.find("<script type=", at + 1)) {
    const size_t end = page.find('>', at);
    const size_t close = page.find("</script>", at);
    if (end == std::string_view::npos || close == std::string_view::npos) {
      break;
    }
    const std::string_view tag = page.substr(at, end - at);
    if (tag.find(opening(id)) == std::string_view::npos) {
      continue;
    }
    const std::string_view content = page.substr(end + 1, close - end - 1);
    if (tag.find(kPacked) != std::string_view::npos) {
      return from_gzip_base64(content, kMostUnpacked);
    }
    return std::string(content);
  }
  return base::fail(base::Error{.what = fmt::format("the page holds no data block {}", id),
                                .id = "E-NO-DATA",
                                .cause = "it was not written by xpurun, or only a part of it arrived",
                                .hint = "ask for the whole file report.html"});
}

}  // namespace xpurun::report
