#include "report/events/foreign/perfetto/tracks.h"

#include "common/base/strings.h"
#include "report/events/foreign/checked_pbf.h"
#include "report/events/foreign/perfetto/fields.h"

#include <algorithm>

namespace xpurun::report {

namespace {

using namespace perfetto;
using pbf_reader = CheckedPbf;

constexpr uint64_t kLargestPacket = uint64_t{64} << 20;
constexpr uint64_t kPiece = uint64_t{256} << 10;
constexpr int kMostParents = 16;
// What xpurun writes behind the name of a process of another tool's file.
constexpr std::string_view kOwnEnding = "Perfetto";

std::string text_of(pbf_reader& r) {
  const auto view = r.get_view();
  return base::sanitize({view.data(), view.size()});
}

// "rank 3 (tp1 dp0)", "node7" and "NVIDIA H200" of a title that xpurun wrote.
std::vector<std::string_view> parts_of(std::string_view title) {
  std::vector<std::string_view> out;
  for (const std::string_view part : base::split(title, ',')) {
    out.push_back(base::trim(part));
  }
  while (out.size() > 1 && out.back() == kOwnEnding) {
    out.pop_back();
  }
  return out;
}

// 3 of "rank 3 (tp1 dp0)" behind `word`; negative: another text.
int64_t number_behind(std::string_view text, std::string_view word) {
  if (!text.starts_with(word)) {
    return -1;
  }
  text.remove_prefix(word.size());
  return base::parse_int(text.substr(0, text.find(' '))).value_or(-1);
}

}  // namespace

bool PerfettoPackets::varint(uint64_t& out) {
  out = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const int c = text_.sbumpc();
    if (c == std::streambuf::traits_type::eof()) {
      damaged_ = damaged_ || shift > 0;
      return false;
    }
    out |= static_cast<uint64_t>(c & 0x7f) << shift;
    if ((c & 0x80) == 0) {
      return true;
    }
  }
  damaged_ = true;
  return false;
}

bool PerfettoPackets::skip(uint64_t bytes) {
  while (bytes > 0) {
    const uint64_t piece = std::min(bytes, kPiece);
    packet_.resize(std::max<size_t>(packet_.size(), piece));
    if (text_.sgetn(packet_.data(), static_cast<std::streamsize>(piece)) !=
        static_cast<std::streamsize>(piece)) {
      damaged_ = true;
      return false;
    }
    bytes -= piece;
  }
  return true;
}

bool PerfettoPackets::next(std::string_view& packet) {
  constexpr uint64_t kPacketKey = trace::kPacket << 3 | 2;
  for (;;) {
    uint64_t key = 0;
    uint64_t size = 0;
    if (!varint(key)) {
      return false;
    }
    // Other fields of a trace are bytes too.
    if ((key & 7) != 2 || !varint(size)) {
      damaged_ = true;
      return false;
    }
    if (key != kPacketKey || size > kLargestPacket) {
      damaged_ = damaged_ || size > kLargestPacket;
      if (!skip(size)) {
        return false;
      }
      continue;
    }
    // A small file may promise a large packet.
    for (uint64_t got = 0; got < size;) {
      const uint64_t piece = std::min(size - got, kPiece);
      packet_.resize(std::max<size_t>(packet_.size(), got + piece));
      if (text_.sgetn(packet_.data() + got, static_cast<std::streamsize>(piece)) !=
          static_cast<std::streamsize>(piece)) {
        damaged_ = true;
        return false;
      }
      got += piece;
    }
    packet = std::string_view(packet_).substr(0, size);
    return true;
  }
}

void PerfettoTracks::add(pbf_reader r) {
  uint64_t uuid = 0;
  PerfettoTrack track;
  while (r.next()) {
    switch (r.tag()) {
      case descriptor::kUuid:
        uuid = r.get_uint64();
        break;
      case descriptor::kName:
        track.name = text_of(r);
        break;
      case descriptor::kParent:
        track.parent = r.get_uint64();
        break;
      case descriptor::kProcess: {
        track.is_process = true;
        for (pbf_reader p = r.get_message(); p.next();) {
          if (p.tag() == descriptor::kPid) {
            track.pid = p.get_int32();
          } else if (p.tag() == descriptor::kProcessName) {
            track.name = text_of(p);
          } else if (p.tag() == descriptor::kProcessLabels) {
            track.label = text_of(p);
          } else {
            p.skip();
          }
        }
        break;
      }
      case descriptor::kThread: {
        for (pbf_reader t = r.get_message(); t.next();) {
          if (t.tag() == descriptor::kPid) {
            track.pid = t.get_int32();
          } else if (t.tag() == descriptor::kThreadId) {
            track.tid = t.get_int32();
          } else if (t.tag() == descriptor::kThreadName) {
            track.name = text_of(t);
          } else {
            t.skip();
          }
        }
        break;
      }
      case descriptor::kCounter: {
        track.is_counter = true;
        for (pbf_reader c = r.get_message(); c.next();) {
          if (c.tag() == descriptor::kUnitName) {
            track.unit = text_of(c);
          } else {
            c.skip();
          }
        }
        break;
      }
      default:
        r.skip();
    }
  }
  const auto [at, is_new] = tracks_.insert_or_assign(uuid, std::move(track));
  if (is_new && at->second.is_process) {
    processes_.push_back(uuid);
    by_pid_.emplace(at->second.pid, uuid);
  }
}

const PerfettoTrack* PerfettoTracks::find(uint64_t uuid) const {
  const auto found = tracks_.find(uuid);
  return found == tracks_.end() ? nullptr : &found->second;
}

uint64_t PerfettoTracks::process_of(uint64_t uuid) const {
  for (int i = 0; i < kMostParents; ++i) {
    const PerfettoTrack* track = find(uuid);
    if (track == nullptr) {
      return 0;
    }
    if (track->is_process) {
      return uuid;
    }
    if (track->parent == 0) {
      const auto found = by_pid_.find(track->pid);
      return found == by_pid_.end() ? 0 : found->second;
    }
    uuid = track->parent;
  }
  return 0;
}

RecordOwner PerfettoTracks::owner_of(uint64_t process) const {
  const PerfettoTrack* track = find(process);
  if (track == nullptr) {
    return {};
  }
  const std::vector<std::string_view> parts = parts_of(track->name);
  const int64_t rank = number_behind(parts.front(), "rank ");
  if (rank >= 0 && rank < base::kHighestRank) {
    return {.rank = static_cast<base::Rank>(rank), .host = std::string(parts.size() > 1 ? parts[1] : "")};
  }
  const int64_t pid = number_behind(parts.front(), "process ");
  return {.host = std::string(pid >= 0 && parts.size() > 1 ? parts[1] : ""),
          .pid = static_cast<base::Pid>(pid > 0 ? pid : track->pid)};
}

std::string PerfettoTracks::gpu_of(uint64_t process) const {
  const PerfettoTrack* track = find(process);
  const std::vector<std::string_view> parts =
      parts_of(track == nullptr ? std::string_view() : std::string_view(track->name));
  return parts.size() > 2 && number_behind(parts.front(), "rank ") >= 0 ? std::string(parts[2]) : "";
}

}  // namespace xpurun::report
