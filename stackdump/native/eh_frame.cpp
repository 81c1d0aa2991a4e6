#include "stackdump/native/eh_frame.h"

#include <algorithm>
#include <map>

namespace xpurun::stackdump {

namespace {

// Pointer encodings, LSB "DWARF Extensions".
constexpr uint8_t kPcrel = 0x10;
constexpr uint8_t kOmit = 0xff;
constexpr uint8_t kUdata4 = 0x03;
constexpr uint8_t kPcrelSdata4 = 0x1b;
constexpr uint8_t kDatarelSdata4 = 0x3b;

// A cursor over bytes loaded at a known virtual address.
class FrameInfoReader {
 public:
  FrameInfoReader(std::span<const std::byte> data, uint64_t vaddr) : data_(data), vaddr_(vaddr) {}

  size_t at = 0;
  bool ok = true;

  template <typename T>
  T take() {
    const auto v = field<T>(data_, at);
    ok = ok && v.has_value();
    at += sizeof(T);
    return v.value_or(T{});
  }
  uint64_t uleb() {
    uint64_t v = 0;
    for (unsigned shift = 0; ok && shift < 64; shift += 7) {
      const auto byte = take<uint8_t>();
      v |= uint64_t{byte & 0x7fU} << shift;
      if ((byte & 0x80) == 0) {
        break;
      }
    }
    return v;
  }
  // An encoded pointer as a virtual address. Supports only the encodings that compilers emit for code
  // addresses.
  uint64_t pointer(uint8_t encoding) {
    const uint64_t here = vaddr_ + at;
    int64_t v = 0;
    switch (encoding & 0x0f) {
      case 0x00:
      case 0x04:
      case 0x0c:
        v = take<int64_t>();
        break;
      case 0x02:
        v = take<uint16_t>();
        break;
      case 0x03:
        v = take<uint32_t>();
        break;
      case 0x0a:
        v = take<int16_t>();
        break;
      case 0x0b:
        v = take<int32_t>();
        break;
      default:
        ok = false;
    }
    switch (encoding & 0x70) {
      case 0x00:
        break;
      case kPcrel:
        v += static_cast<int64_t>(here);
        break;
      default:
        ok = false;
    }
    return static_cast<uint64_t>(v);
  }

 private:
  std::span<const std::byte> data_;
  uint64_t vaddr_;
};

// Encoding of code addresses in the FDEs of a CIE (augmentation 'R'); kOmit for an implausible CIE.
uint8_t code_encoding(FrameInfoReader r) {
  const auto version = r.take<uint8_t>();
  std::string augmentation;
  while (r.ok) {
    const char c = r.take<char>();
    if (c == '\0' || augmentation.size() > 16) {
      break;
    }
    augmentation += c;
  }
  r.uleb();  // code alignment
  r.uleb();  // data alignment; signed, but only its length matters
  if (version == 1) {
    r.take<uint8_t>();
  } else {
    r.uleb();
  }
  if (augmentation.empty() || augmentation[0] != 'z') {
    return r.ok ? 0 : kOmit;
  }
  r.uleb();
  uint8_t encoding = 0;
  for (char c : augmentation.substr(1)) {
    if (c == 'R') {
      encoding = r.take<uint8_t>();
    } else if (c == 'L') {
      r.take<uint8_t>();
    } else if (c == 'P') {
      const auto personality = r.take<uint8_t>();
      r.pointer(personality & 0x7f);
    } else if (c != 'S' && c != 'B') {
      break;  // unknown augmentation: keep the encoding found so far
    }
  }
  return r.ok ? encoding : kOmit;
}

struct EhFrameSpan {
  std::span<const std::byte> bytes;
  uint64_t vaddr = 0;
};

std::optional<EhFrameSpan> eh_frame_of(const ElfImage& image, std::optional<uint64_t> from_header) {
  if (const auto s = image.section(".eh_frame")) {
    return EhFrameSpan{image.section_bytes(*s), s->sh_addr};
  }
  if (from_header) {
    return EhFrameSpan{image.at_vaddr(*from_header), *from_header};
  }
  return std::nullopt;
}

}  // namespace

std::vector<FdeEntry> index_eh_frame(std::span<const std::byte> eh_frame, uint64_t vaddr) {
  std::vector<FdeEntry> out;
  std::map<size_t, uint8_t> cie_encoding;  // by the offset of the CIE's content
  FrameInfoReader r(eh_frame, vaddr);
  while (r.ok && r.at < eh_frame.size()) {
    const size_t start = r.at;
    const auto length = r.take<uint32_t>();
    if (!r.ok || length == 0 || length == 0xffffffff || length > eh_frame.size() - r.at) {
      break;  // terminator, 64-bit DWARF (not emitted on x86-64) or damage
    }
    const size_t content = r.at;
    const auto cie_distance = r.take<uint32_t>();
    if (cie_distance != 0 && cie_distance <= content) {
      const size_t cie = content - cie_distance;
      auto it = cie_encoding.find(cie);
      if (it == cie_encoding.end()) {
        FrameInfoReader at_cie = r;
        at_cie.at = cie + 8;
        it = cie_encoding.emplace(cie, code_encoding(at_cie)).first;
      }
      FrameInfoReader fde = r;
      const uint64_t begin = it->second == kOmit ? 0 : fde.pointer(it->second);
      if (fde.ok && begin != 0) {
        out.push_back(
            {static_cast<int32_t>(static_cast<int64_t>(begin - vaddr)), static_cast<int32_t>(start)});
      }
    }
    r.at = content + length;
  }
  std::sort(out.begin(), out.end(), [](const FdeEntry& a, const FdeEntry& b) { return a.start < b.start; });
  return out;
}

std::optional<UnwindTable> find_unwind_table(const ElfImage& image) {
  std::optional<uint64_t> eh_frame_vaddr;
  if (const auto segment = image.segment_of_type(PT_GNU_EH_FRAME)) {
    const auto header = image.at_vaddr(segment->p_vaddr);
    FrameInfoReader r(header, segment->p_vaddr);
    const auto version = r.take<uint8_t>();
    const auto frame_encoding = r.take<uint8_t>();
    const auto count_encoding = r.take<uint8_t>();
    const auto table_encoding = r.take<uint8_t>();
    if (r.ok && version == 1 && frame_encoding == kPcrelSdata4) {
      eh_frame_vaddr = r.pointer(frame_encoding);
    }
    // The one format that linkers write, and that libunwind's binary search reads. Others are indexed below.
    if (r.ok && eh_frame_vaddr && count_encoding == kUdata4 && table_encoding == kDatarelSdata4) {
      const auto count = r.take<uint32_t>();
      if (r.ok && count > 0 && count <= (header.size() - r.at) / sizeof(FdeEntry)) {
        return UnwindTable{.base = segment->p_vaddr, .table_vaddr = segment->p_vaddr + r.at, .count = count};
      }
    }
  }
  const auto frames = eh_frame_of(image, eh_frame_vaddr);
  if (!frames) {
    return std::nullopt;
  }
  UnwindTable out;
  out.base = frames->vaddr;
  out.own = index_eh_frame(frames->bytes, frames->vaddr);
  out.count = out.own.size();
  return out.count == 0 ? std::nullopt : std::optional(std::move(out));
}

}  // namespace xpurun::stackdump
