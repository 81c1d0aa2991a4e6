#include "common/model/timing/record_file.h"

#include "common/base/packing.h"
#include "common/model/json_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace xpurun::model::records {

namespace {

constexpr size_t kLongestHeader = 64 * 1024;

EventFileHeader header_from(const nlohmann::json& j) {
  EventFileHeader h;
  h.rank = integer(j, "rank", base::kNoRank);
  h.local_rank = integer(j, "local_rank", -1);
  h.pid = integer(j, "pid", 0);
  h.host = j.value("host", "");
  h.gpu = j.value("gpu", "");
  h.gpu_uuid = j.value("gpu_uuid", "");
  h.mono_ns = integer(j, "mono_ns", int64_t{0});
  h.wall_ns = integer(j, "wall_ns", int64_t{0});
  return h;
}

// Removes and returns the first line.
std::string_view take_line(std::string_view& in) {
  const size_t end = in.substr(0, kLongestHeader).find('\n');
  const std::string_view line = in.substr(0, end == std::string_view::npos ? 0 : end);
  in.remove_prefix(end == std::string_view::npos ? 0 : end + 1);
  return line;
}

// False at a damaged record; earlier records are kept.
bool records_of(std::string_view payload, const std::function<bool(uint8_t, Fields)>& record) {
  while (!payload.empty()) {
    const auto tag = static_cast<uint8_t>(payload.front());
    payload.remove_prefix(1);
    uint64_t size = 0;
    if (!take_varint(payload, size) || size > payload.size() ||
        !record(tag, Fields(payload.substr(0, size)))) {
      return false;
    }
    payload.remove_prefix(size);
  }
  return true;
}

}  // namespace

std::string header_lines(std::string_view schema, const EventFileHeader& h) {
  nlohmann::ordered_json j;
  j["rank"] = rank_or_null(h.rank);
  j["local_rank"] = h.local_rank;
  j["pid"] = h.pid;
  j["host"] = h.host;
  j["gpu"] = h.gpu;
  j["gpu_uuid"] = h.gpu_uuid;
  j["mono_ns"] = h.mono_ns;
  j["wall_ns"] = h.wall_ns;
  return fmt::format("{}\n{}\n", schema,
                     j.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
}

base::Result<EventFileHeader> take_header(std::string_view& file, std::string_view schema) {
  if (take_line(file) != schema) {
    return base::fail(fmt::format("not a file of the format {}", schema));
  }
  try {
    return header_from(parse_json(take_line(file)));
  } catch (const nlohmann::json::exception&) {
    return base::fail(fmt::format("the second line of the file cannot be read ({})", schema));
  }
}

void put_record(std::string& payload, uint8_t tag, std::string_view body) {
  payload += static_cast<char>(tag);
  put_text(payload, body);
}

std::string block_of(std::string_view payload) {
  std::string out;
  if (!payload.empty()) {
    out.reserve(payload.size() + 8);
    put_fixed(out, payload.size(), 4);
    put_fixed(out, base::crc32(payload), 4);
    out += payload;
  }
  return out;
}

bool each_record(std::string_view blocks, const std::function<bool(uint8_t tag, Fields body)>& record) {
  // A writer that was killed leaves a part of its last block, which the size or the checksum reveals.
  while (!blocks.empty()) {
    uint64_t size = 0;
    uint64_t sum = 0;
    const bool framed = take_fixed(blocks, 4, size) && take_fixed(blocks, 4, sum) && size <= blocks.size();
    if (!framed || base::crc32(blocks.substr(0, size)) != sum ||
        !records_of(blocks.substr(0, size), record)) {
      return false;
    }
    blocks.remove_prefix(size);
  }
  return true;
}

}  // namespace xpurun::model::records
