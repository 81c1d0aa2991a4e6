// A Perfetto trace as text, one line a packet, with interned names resolved, for tests: an independent small
// decoder of the fields that we write.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>

namespace xpurun::testing {

class PerfettoText {
 public:
  static std::string of(std::string_view bytes) {
    PerfettoText out;
    protozero::pbf_reader file(bytes.data(), bytes.size());
    while (file.next(1)) {
      out.packet(file.get_message());
    }
    return out.text_;
  }

 private:
  using Reader = protozero::pbf_reader;
  using Names = std::map<uint64_t, std::string>;

  static void intern(Names& names, Reader r) {
    uint64_t iid = 0;
    while (r.next()) {
      if (r.tag() == 1) {
        iid = r.get_uint64();
      } else {
        names[iid] = r.get_string();
      }
    }
    CHECK(iid != 0);
  }

  void packet(Reader r) {
    uint64_t at = 0;
    Reader event;
    Reader descriptor;
    Reader interned;
    sequence_ = 0;
    bool needs_state = false;
    while (r.next()) {
      switch (r.tag()) {
        case 8:
          at = r.get_uint64();
          break;
        case 10:
          sequence_ = r.get_uint32();
          break;
        case 11:
          event = r.get_message();
          break;
        case 12:
          interned = r.get_message();
          break;
        case 13: {
          const uint32_t flags = r.get_uint32();
          needs_state = (flags & 2) != 0;
          cleared_[sequence_] = cleared_[sequence_] || (flags & 1) != 0;
          break;
        }
        case 60:
          descriptor = r.get_message();
          break;
        default:
          r.skip();
      }
    }
    CHECK(sequence_ != 0);
    CHECK((!needs_state || cleared_[sequence_]));
    while (interned.next()) {
      Names& names = names_[{sequence_, interned.tag()}];
      intern(names, interned.get_message());
    }
    if (descriptor.length() > 0) {
      track(descriptor);
    }
    if (event.length() > 0) {
      slice(event, at);
    }
  }

  void track(Reader r) {
    uint64_t uuid = 0;
    std::string name;
    std::string parent;
    while (r.next()) {
      switch (r.tag()) {
        case 1:
          uuid = r.get_uint64();
          break;
        case 2:
          name = r.get_string();
          break;
        case 3: {
          Reader process = r.get_message();
          while (process.next()) {
            if (process.tag() == 6) {
              name = process.get_string();
            } else {
              process.skip();
            }
          }
          break;
        }
        case 5:
          parent = tracks_.at(r.get_uint64()) + " / ";
          break;
        default:
          r.skip();
      }
    }
    CHECK(!tracks_.contains(uuid));
    tracks_[uuid] = parent + name;
    text_ += fmt::format("track {}\n", tracks_[uuid]);
  }

  std::string annotation(Reader r) {
    std::string name;
    std::string value;
    while (r.next()) {
      switch (r.tag()) {
        case 1:
          name = names_[{sequence_, 3}].at(r.get_uint64());
          break;
        case 4:
          value = fmt::format("{}", r.get_int64());
          break;
        case 5:
          value = fmt::format("{:.6g}", r.get_double());
          break;
        case 6:
          value = r.get_string();
          break;
        case 10:
          name = r.get_string();
          break;
        case 17:
          value = names_[{sequence_, 29}].at(r.get_uint64());
          break;
        default:
          FAIL("unexpected field of an annotation");
      }
    }
    return fmt::format(" {}={}", name, value);
  }

  void slice(Reader r, uint64_t at) {
    uint64_t type = 0;
    std::string head;
    std::string rest;
    while (r.next()) {
      switch (r.tag()) {
        case 3:
          head += " [" + names_[{sequence_, 1}].at(r.get_uint64()) + "]";
          break;
        case 4:
          rest += annotation(r.get_message());
          break;
        case 9:
          type = r.get_uint64();
          break;
        case 10:
          head += " " + names_[{sequence_, 2}].at(r.get_uint64());
          break;
        case 11:
          head = tracks_.at(r.get_uint64()) + ":" + head;
          break;
        case 44:
          rest += fmt::format(" {:.6g}", r.get_double());
          break;
        case 47:
          rest += fmt::format(" flow{}", flow(r.get_fixed64()));
          break;
        case 52:
          rest += fmt::format(" correlation{}", flow(r.get_uint64()));
          break;
        default:
          FAIL("unexpected field of an event");
      }
    }
    const char* const word = type == 1 ? "begin" : type == 2 ? "end" : type == 4 ? "counter" : "instant";
    text_ += fmt::format("{} {} {}{}\n", at, word, head, rest);
  }

  // Flows are hashes; here they count from 1.
  size_t flow(uint64_t id) { return flows_.emplace(id, flows_.size() + 1).first->second; }

  std::string text_;
  uint32_t sequence_ = 0;
  std::map<uint32_t, bool> cleared_;
  std::map<std::pair<uint32_t, uint32_t>, Names> names_;
  std::map<uint64_t, std::string> tracks_;
  std::map<uint64_t, size_t> flows_;
};

}  // namespace xpurun::testing
