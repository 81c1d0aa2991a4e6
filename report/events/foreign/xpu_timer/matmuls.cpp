#include "report/events/foreign/xpu_timer/matmuls.h"

#include "common/base/os/io.h"
#include "common/model/timing/op_names.h"
#include "report/events/foreign/left_out.h"
#include "report/events/foreign/operation_names.h"
#include "report/events/foreign/xpu_timer/kernel.h"
#include "report/events/op_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace xpurun::report {

namespace {

using namespace xpu_timer;
using protozero::pbf_reader;
constexpr size_t kLargestMatmuls = size_t{1} << 30;

// Calls `use` with each rank and its problems. False: there is damage.
bool for_each_rank(std::string_view bytes, const std::function<void(int64_t, pbf_reader)>& use) {
  try {
    for (pbf_reader file(bytes.data(), bytes.size()); file.next();) {
      if (file.tag_and_type() != field(1, kBytes)) {
        file.skip();
        continue;
      }
      int64_t rank = 0;  // protobuf leaves zeros out
      pbf_reader problems;
      for (pbf_reader entry = file.get_message(); entry.next();) {
        if (entry.tag_and_type() == field(1, kVarint)) {
          rank = entry.get_int64();
        } else if (entry.tag_and_type() == field(2, kBytes)) {
          problems = entry.get_message();
        } else {
          entry.skip();
        }
      }
      use(rank, problems);
    }
  } catch (const protozero::exception&) {
    return false;
  }
  return true;
}

class MatmulReader {
 public:
  explicit MatmulReader(Activity& out) : out_(out) {}

  void read(pbf_reader problems) {
    while (problems.next()) {
      if (problems.tag_and_type() == field(1, kBytes)) {
        read_problem(problems.get_message());
      } else {
        problems.skip();
      }
    }
  }

  void finish(bool whole) { left_out_.note(out_, whole); }

 private:
  void read_problem(pbf_reader r) {
    XpuTimerKernel kernel;
    std::vector<double> rates;
    while (r.next()) {
      if (r.tag_and_type() == field(1, kBytes)) {
        read_xpu_timer_matmul(kernel, r.get_message());
      } else if (r.tag_and_type() == field(2, kBytes)) {
        for (const double rate : r.get_packed_double()) {
          rates.push_back(rate);
        }
      } else {
        r.skip();
      }
    }
    const uint8_t type = kernel.key.dtype[0];
    Call call{.name = fmt::format("matmul {}{}", shape_text(kernel.key),
                                  type == model::kNoType ? "" : ' ' + model::cuda_type_name(type)),
              .category = Category::matmul,
              .arguments = std::move(kernel.arguments),
              .work = kernel.work,
              .key = kernel.key};
    const model::EventKey general = key_of_category(call.category);
    call.key.api = general.api;
    call.key.op_class = general.op_class;
    call.key.comm = general.comm;
    call.key.peer = general.peer;
    const auto index = static_cast<uint32_t>(out_.calls.size());
    out_.calls.push_back(std::move(call));
    for (const double rate : rates) {
      add(index, kernel.work, rate);
    }
  }

  // `tflops`: 10¹² FLOP in a second, or 10³ in a nanosecond.
  void add(uint32_t call, uint64_t work, double tflops) {
    const double ns = static_cast<double>(work) / tflops / 1e3;
    if (!(ns >= 1 && ns < static_cast<double>(kLongestNs)) || at_ns_ > kLatestNs / 2) {
      left_out_.add(out_.calls[call].name);
      return;
    }
    out_.slices.push_back({.begin_ns = at_ns_,
                           .duration_ns = static_cast<int64_t>(ns),
                           .call = call,
                           .track = out_.track(TrackKind::compute, 0, "matmuls one after the other")});
    at_ns_ += static_cast<int64_t>(ns);
  }

  Activity& out_;
  int64_t at_ns_ = 0;
  LeftOut left_out_;
};

}  // namespace

std::vector<RecordOwner> owners_in_xpu_timer_matmuls(std::string_view bytes) {
  std::vector<RecordOwner> out;
  (void)for_each_rank(bytes, [&out](int64_t rank, const pbf_reader&) {
    const bool is_known =
        std::any_of(out.begin(), out.end(), [rank](const auto& o) { return o.rank == rank; });
    if (rank >= 0 && rank < base::kHighestRank && !is_known) {
      out.push_back({.rank = static_cast<base::Rank>(rank)});
    }
  });
  return out;
}

bool parse_xpu_timer_matmuls(Activity& out, std::string_view bytes) {
  out.placed = true;
  MatmulReader reader(out);
  const bool whole = for_each_rank(bytes, [&](int64_t rank, const pbf_reader& problems) {
    if (rank == out.rank) {
      reader.read(problems);
    }
  });
  reader.finish(whole);
  return whole;
}

base::Result<std::vector<RecordOwner>> owners_of_xpu_timer_matmuls(const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string bytes, base::read_regular_file(path, kLargestMatmuls));
  std::vector<RecordOwner> out = owners_in_xpu_timer_matmuls(bytes);
  if (out.empty()) {
    return base::fail(fmt::format("{} has no matmuls of xpu_timer", path));
  }
  return out;
}

base::Status add_xpu_timer_matmuls(Activity& out, const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string bytes, base::read_regular_file(path, kLargestMatmuls));
  (void)parse_xpu_timer_matmuls(out, bytes);
  return {};
}

}  // namespace xpurun::report
