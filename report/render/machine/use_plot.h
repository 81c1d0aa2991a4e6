// UsePlot: where the values of a history of use are in a picture, as parts of SVG paths. Used by the pictures
// of the section "Machine".
#pragma once

#include "report/render/parts/run_axis.h"

#include <string>
#include <string_view>

namespace xpurun::report {

// A time in which something was wrong with the host, for people.
struct MachineBand {
  double from_s = 0;  // since the start of the run
  double to_s = 0;
  std::string words;
  std::string gpu = {};  // whose it is, "GPU 3"; empty: of the host
};

// A part of a picture that has the time of the run from left to right.
class UsePlot {
 public:
  UsePlot(const model::HostUseHistory& use, const RunAxis& axis, double left, double width, double height)
      : use_(use), axis_(axis), left_(left), width_(width), height_(height) {}

  double x(double s) const { return left_ + axis_.share(s) * width_; }
  double begin_s(size_t bin) const {
    return axis_.of_wall(use_.begin_wall_ns) + static_cast<double>(bin) * use_.bin_s;
  }
  // Steps from bin to bin in a row that begins at `top`; `closed`: down to the floor of the row.
  std::string path(const model::UseTrack& track, double high, double top, bool closed) const;
  // The mark of a time in which something was wrong.
  std::string band(const MachineBand& band, double top, double height) const;

 private:
  const model::HostUseHistory& use_;
  const RunAxis& axis_;
  double left_;
  double width_;
  double height_;  // of a row
};

const model::UseTrack* find_track(const model::HostUseHistory& use, model::HostUse what,
                                  const std::string& object);
// 0 without a value.
double highest(const model::UseTrack* track);
std::string text_at(double x, double y, const char* anchor, const char* look, std::string_view words);

}  // namespace xpurun::report
