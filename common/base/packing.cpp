#include "common/base/packing.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace xpurun::base {

namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr int kGzipWindow = MAX_WBITS + 16;  // 16 selects the gzip header
constexpr int kMemoryLevel = 9;

// zlib never writes to its input.
Bytef* input_of(std::string_view bytes) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
}

}  // namespace

struct GzipStream::Zlib {
  z_stream stream{};
  std::array<char, 64 * 1024> out{};
};

uint32_t crc32(std::string_view bytes) {
  return static_cast<uint32_t>(::crc32(0, input_of(bytes), static_cast<uInt>(bytes.size())));
}

GzipStream::GzipStream(int level) : z_(std::make_unique<Zlib>()) {
  if (deflateInit2(&z_->stream, level, Z_DEFLATED, kGzipWindow, kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK) {
    z_.reset();
  }
}

GzipStream::~GzipStream() {
  if (z_ != nullptr) {
    deflateEnd(&z_->stream);
  }
}

void GzipStream::pack(std::string_view bytes, int flush, const Sink& sink) {
  z_stream& z = z_->stream;
  z.next_in = input_of(bytes);
  z.avail_in = static_cast<uInt>(bytes.size());
  // deflate() has more output for as long as it fills the buffer.
  do {
    z.next_out = reinterpret_cast<Bytef*>(z_->out.data());
    z.avail_out = static_cast<uInt>(z_->out.size());
    (void)deflate(&z, flush);
    sink({z_->out.data(), z_->out.size() - z.avail_out});
  } while (z.avail_out == 0);
}

void GzipStream::add(std::string_view bytes, const Sink& sink) {
  pack(bytes, Z_NO_FLUSH, sink);
}

void GzipStream::finish(const Sink& sink) {
  pack({}, Z_FINISH, sink);
}

std::string gzip(std::string_view bytes) {
  GzipStream stream(Z_BEST_COMPRESSION);
  std::string out;
  if (stream.ready()) {
    const auto append = [&out](std::string_view packed) { out += packed; };
    stream.add(bytes, append);
    stream.finish(append);
  }
  return out;
}

Result<std::string> gunzip(std::string_view packed, size_t limit) {
  z_stream z{};
  if (inflateInit2(&z, kGzipWindow) != Z_OK) {
    return fail("zlib cannot be used");
  }
  z.next_in = input_of(packed);
  z.avail_in = static_cast<uInt>(packed.size());
  std::string out;
  std::array<char, 64 * 1024> chunk;
  int rc = Z_OK;
  // The limit is checked for each chunk, because a few packed KiB can unpack to GiB.
  while (rc == Z_OK && out.size() <= limit) {
    z.next_out = reinterpret_cast<Bytef*>(chunk.data());
    z.avail_out = static_cast<uInt>(chunk.size());
    rc = inflate(&z, Z_NO_FLUSH);
    out.append(chunk.data(), chunk.size() - z.avail_out);
  }
  inflateEnd(&z);
  if (rc != Z_STREAM_END || out.size() > limit) {
    return fail(out.size() > limit ? "the packed data is too large" : "the packed data is damaged");
  }
  return out;
}

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

Result<std::string> from_base64(std::string_view text) {
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
      return fail("the packed data holds a character that is not base64");
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

}  // namespace xpurun::base
