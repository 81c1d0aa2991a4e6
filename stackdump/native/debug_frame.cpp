// Rewrites .debug_frame (DWARF 2 to 5, section 6.4) as .eh_frame, the form that libunwind reads in another
// process: CIEs lose the fields that only .debug_frame has, and code addresses become relative to their own
// position.
#include "stackdump/native/eh_frame.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace xpurun::stackdump {

namespace {

constexpr uint32_t kCieId = 0xffffffff;
constexpr uint8_t kPcrelSdata8 = 0x1c;
constexpr size_t kMaxSection = size_t{512} << 20;

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}

  template <typename T>
  void put(T value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void put(std::span<const std::byte> bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
  size_t at() const { return out_.size(); }
  // Pads the entry that began at `start` and writes its length there.
  void close(size_t start) {
    while ((out_.size() - start) % 8 != 0) {
      out_.push_back(std::byte{0});  // DW_CFA_nop
    }
    const auto length = static_cast<uint32_t>(out_.size() - start - sizeof(uint32_t));
    std::memcpy(out_.data() + start, &length, sizeof length);
  }

 private:
  std::vector<std::byte>& out_;
};

// Length of the LEB128 number at the start; 0 if it does not end.
size_t leb_size(std::span<const std::byte> bytes) {
  for (size_t i = 0; i < std::min<size_t>(bytes.size(), 10); ++i) {
    if ((bytes[i] & std::byte{0x80}) == std::byte{0}) {
      return i + 1;
    }
  }
  return 0;
}

// Appends the CIE with this content (after its id). False if .eh_frame cannot express it.
bool convert_cie(std::span<const std::byte> cie, Writer& w) {
  if (cie.size() < 2) {
    return false;
  }
  const auto version = static_cast<uint8_t>(cie[0]);
  if ((version != 1 && version != 3 && version != 4) || cie[1] != std::byte{0}) {
    return false;  // an unknown augmentation may change everything
  }
  cie = cie.subspan(2);
  if (version == 4) {
    if (cie.size() < 2 || cie[0] != std::byte{8} || cie[1] != std::byte{0}) {
      return false;  // addresses of another size, or segments
    }
    cie = cie.subspan(2);
  }
  // Code alignment, data alignment, return address register.
  size_t fixed = 0;
  for (int i = 0; i < 3; ++i) {
    const auto rest = cie.subspan(fixed);
    const size_t n = i == 2 && version == 1 ? std::min<size_t>(rest.size(), 1) : leb_size(rest);
    if (n == 0) {
      return false;
    }
    fixed += n;
  }
  const size_t start = w.at();
  w.put(uint32_t{0});
  w.put(uint32_t{0});  // id of a CIE in .eh_frame
  w.put(static_cast<uint8_t>(version == 1 ? 1 : 3));
  w.put(std::as_bytes(std::span("zR", 3)));
  w.put(cie.subspan(0, fixed));
  w.put(uint8_t{1});  // bytes of augmentation data
  w.put(kPcrelSdata8);
  w.put(cie.subspan(fixed));
  w.close(start);
  return true;
}

}  // namespace

UnwindTable convert_debug_frame(std::span<const std::byte> debug_frame) {
  constexpr size_t kNone = ~size_t{0};
  UnwindTable out;
  Writer w(out.frames);
  std::unordered_map<size_t, size_t> cies;  // offset in .debug_frame -> offset in the copy
  const auto cie_at = [&](size_t offset) {
    const auto known = cies.find(offset);
    if (known != cies.end()) {
      return known->second;
    }
    const auto length = field<uint32_t>(debug_frame, offset);
    size_t place = kNone;
    if (length && *length >= 4 && *length <= debug_frame.size() - offset - 4 &&
        field<uint32_t>(debug_frame, offset + 4) == kCieId) {
      place = w.at();
      if (!convert_cie(debug_frame.subspan(offset + 8, *length - 4), w)) {
        place = kNone;
      }
    }
    cies.emplace(offset, place);
    return place;
  };
  size_t at = 0;
  while (const auto length = field<uint32_t>(debug_frame, at)) {
    const size_t content = at + 4;
    if (*length < 4 || *length > debug_frame.size() - content || out.frames.size() > kMaxSection) {
      break;  // damage, or 64-bit DWARF, which no compiler emits on x86-64
    }
    const auto id = field<uint32_t>(debug_frame, content);
    const auto begin = field<uint64_t>(debug_frame, content + 4);
    const auto size = field<uint64_t>(debug_frame, content + 12);
    if (id && *id != kCieId && *length >= 20 && begin && *begin != 0 && *begin < 0x7fffffff && size) {
      if (const size_t cie = cie_at(*id); cie != kNone) {
        const size_t start = w.at();
        w.put(uint32_t{0});
        w.put(static_cast<uint32_t>(w.at() - cie));
        w.put(static_cast<int64_t>(*begin - w.at()));
        w.put(*size);
        w.put(uint8_t{0});  // no augmentation data
        w.put(debug_frame.subspan(content + 20, *length - 20));
        w.close(start);
        out.own.push_back({static_cast<int32_t>(*begin), static_cast<int32_t>(start)});
      }
    }
    at = content + *length;
  }
  w.put(uint64_t{0});  // libunwind reads whole words
  std::sort(out.own.begin(), out.own.end(),
            [](const FdeEntry& a, const FdeEntry& b) { return a.start < b.start; });
  out.count = out.own.size();
  return out;
}

std::optional<UnwindTable> find_debug_frame(const ElfImage& image) {
  const auto section = image.section(".debug_frame");
  if (!section || (section->sh_flags & SHF_COMPRESSED) != 0) {
    return std::nullopt;
  }
  UnwindTable out = convert_debug_frame(image.section_bytes(*section));
  return out.count == 0 ? std::nullopt : std::optional(std::move(out));
}

}  // namespace xpurun::stackdump
