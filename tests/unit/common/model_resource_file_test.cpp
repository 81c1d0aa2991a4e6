#include "common/model/resources/resource_file.h"

#include <doctest/doctest.h>

#include <bit>
#include <functional>
#include <limits>

using namespace xpurun;
using namespace xpurun::model;
using wire::Resource;

namespace {

wire::ResourceSample sample(uint64_t begin_ns, uint32_t duration_ns, float sm, float nvlink) {
  wire::ResourceSample out{.begin_ns = begin_ns, .duration_ns = duration_ns};
  out.values[static_cast<size_t>(Resource::sm)] = sm;
  out.values[static_cast<size_t>(Resource::nvlink_rx)] = nvlink;
  return out;
}

std::string two_samples() {
  ResourceEncoder encoder;
  std::string out = ResourceEncoder::header({.rank = 3, .host = "a", .mono_ns = 5, .wall_ns = 7});
  encoder.define(Resource::sm, "sm__cycles_active");
  encoder.define(Resource::nvlink_rx, "a + b");
  encoder.add(sample(1'000'000'000, 100'000, 0.5F, 1e11F));
  out += encoder.take_block();
  CHECK(encoder.pending() == 0);
  CHECK(encoder.take_block().empty());
  encoder.add(sample(1'000'100'000, 99'968, 0.25F, 0));
  return out + encoder.take_block();
}

}  // namespace

TEST_CASE("a resource file survives writing and reading") {
  const auto file = parse_resource_file(two_samples());
  REQUIRE(file);
  CHECK(file->complete);
  CHECK(file->bad == 0);
  CHECK(file->header.rank == 3);
  CHECK(file->header.wall_ns == 7);
  CHECK(file->metrics ==
        std::map<Resource, std::string>{{Resource::sm, "sm__cycles_active"}, {Resource::nvlink_rx, "a + b"}});
  REQUIRE(file->samples.size() == 2);
  CHECK(file->samples[0].begin_ns == 1'000'000'000);
  CHECK(file->samples[0].values[static_cast<size_t>(Resource::nvlink_rx)] == 1e11F);
  CHECK(file->samples[1].begin_ns == 1'000'100'000);
  CHECK(file->samples[1].duration_ns == 99'968);
  CHECK(file->samples[1].values[static_cast<size_t>(Resource::sm)] == 0.25F);
}

TEST_CASE("a resource file that is cut or damaged is readable up to there") {
  const std::string whole = two_samples();
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto file = parse_resource_file(std::string_view(whole).substr(0, length));
    CHECK((!file || file->samples.size() < 2));
  }
  std::string damaged = whole;
  damaged.back() = static_cast<char>(damaged.back() + 1);
  const auto file = parse_resource_file(damaged);
  REQUIRE(file);
  CHECK_FALSE(file->complete);
  CHECK(file->samples.size() == 1);
  CHECK_FALSE(parse_resource_file("xpurun.events/2\n{}\n"));
}

TEST_CASE("impossible samples are left out and counted") {
  ResourceEncoder encoder;
  std::string bytes = ResourceEncoder::header({.rank = 0});
  encoder.define(Resource::sm, "x");
  const auto add = [&encoder](uint64_t begin, uint32_t duration, float value) {
    wire::ResourceSample s{.begin_ns = begin, .duration_ns = duration};
    s.values[0] = value;
    encoder.add(s);
  };
  add(1000, 100, 0.5F);
  add(1050, 100, 0.5F);  // before the end of the one before
  add(1200, 0, 0.5F);
  add(1300, 100, std::numeric_limits<float>::quiet_NaN());
  add(1400, 100, -1);
  add(1500, 100, std::numeric_limits<float>::infinity());
  add(~uint64_t{0} - 5, 100, 0.5F);
  add(1700, 100, 0.75F);
  const auto file = parse_resource_file(bytes + encoder.take_block());
  REQUIRE(file);
  CHECK(file->bad == 6);
  REQUIRE(file->samples.size() == 2);
  CHECK(file->samples[1].values[0] == 0.75F);
}

TEST_CASE("resources and records of a later version are passed over") {
  std::string payload;
  const auto put = [&payload](uint8_t tag, const std::function<void(std::string&)>& fields) {
    std::string body;
    fields(body);
    records::put_record(payload, tag, body);
  };
  put(1, [](std::string& body) {
    records::put_varint(body, 77);
    records::put_text(body, "later");
  });
  put(1, [](std::string& body) {
    records::put_varint(body, static_cast<uint64_t>(Resource::dram));
    records::put_text(body, "d");
  });
  put(9, [](std::string& body) { body = "?"; });
  put(2, [](std::string& body) {
    records::put_signed(body, 1000);
    records::put_varint(body, 100);
    records::put_fixed(body, std::bit_cast<uint32_t>(3.0F), 4);
    records::put_fixed(body, std::bit_cast<uint32_t>(0.5F), 4);
  });
  const auto file = parse_resource_file(ResourceEncoder::header({}) + records::block_of(payload));
  REQUIRE(file);
  CHECK(file->complete);
  CHECK(file->metrics.size() == 1);
  REQUIRE(file->samples.size() == 1);
  CHECK(file->samples[0].values[static_cast<size_t>(Resource::dram)] == 0.5F);
}
