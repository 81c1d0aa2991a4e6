#include "report/pipeline/view/gantt.h"

#include "common/base/tr.h"
#include "common/model/language/vocabulary_words.h"
#include "report/flamegraph/escape.h"
#include "report/pipeline/view/wording.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

namespace xpurun::report {

namespace {

using model::Pipeline;
using model::PipelineJob;
using model::PipelineStage;
using model::PipelineStep;

constexpr double kWidth = 1000;
constexpr double kLeft = 128;
constexpr double kRight = 84;  // of the bubble shares
constexpr double kHead = 44;   // of the steps
constexpr double kRow = 30;
constexpr double kBox = 24;
constexpr double kFoot = 30;
constexpr double kLegend = 26;
constexpr double kLetter = 7;
constexpr double kBetween = 0.5;  // boxes
// Narrower neighbours become one box.
constexpr double kNarrow = 0.7;
constexpr int kTicks = 5;

// The colours of templates/report.css, for a standalone picture.
constexpr std::string_view kStyle = R"(<style>
svg { --ink: #1f2328; --dim: #5b6470; --rule: #e3e4e1; --card: #fff; --bad: #b23c06; --good: #1a6b3c;
  --look1: #c3cfd6; --look2: #8aa3b2; --look3: #5b7788; --look4: #35505f; background: var(--card);
  font: 13px system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { svg { --ink: #e6e8eb; --dim: #9aa4af; --rule: #2e343b; --card: #1c2025;
  --bad: #ff9b66; --good: #77c795; --look1: #4a5a63; --look2: #6b8796; --look3: #8fabba; --look4: #bcd3de; } }
text { fill: var(--dim); } .stage { fill: var(--ink); } .critical { fill: var(--bad); font-weight: 600; }
.rule { stroke: var(--rule); } .row { fill: var(--rule); fill-opacity: .45; }
.job-forward { --job: var(--look2); } .job-backward { --job: var(--look4); } .job-weight { --job: var(--look3); }
.job-optimizer { --job: var(--good); } .job-other { --job: var(--look1); }
.job { fill: var(--job); } .line { fill: none; stroke: var(--job); }
.on { font-size: 11px; fill: #15181c; } .onbackward, .onweight, .onoptimizer { fill: var(--card); }
</style>
)";

struct Window {
  int64_t begin_ns = std::numeric_limits<int64_t>::max();
  int64_t end_ns = std::numeric_limits<int64_t>::min();

  double x(int64_t ns) const {
    return kLeft + static_cast<double>(ns - begin_ns) / static_cast<double>(end_ns - begin_ns) *
                       (kWidth - kLeft - kRight);
  }
};

bool is_in(const PipelineJob& job, const StepRange& steps) {
  return job.step >= 0 && static_cast<size_t>(job.step) >= steps.first &&
         static_cast<size_t>(job.step) <= steps.last;
}

std::string text(double x, double y, std::string_view anchor, std::string_view look,
                 const std::string& words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor,
                     look.empty() ? "" : fmt::format(" class=\"{}\"", look), escape_text(words));
}

class Picture {
 public:
  Picture(const Pipeline& pipeline, const StepRange& steps, const GanttLimits& limits)
      : pipeline_(pipeline), steps_(steps), rows_(std::min(pipeline.stages.size(), limits.stages)) {
    size_t jobs = 0;
    for (size_t s = 0; s < rows_; ++s) {
      for (const PipelineJob& job : pipeline.stages[s].jobs) {
        if (is_in(job, steps)) {
          window_.begin_ns = std::min(window_.begin_ns, job.begin_ns);
          window_.end_ns = std::max(window_.end_ns, job.end_ns());
          ++jobs;
        }
      }
    }
    titles_ = jobs <= limits.titles;
  }

  bool empty() const { return window_.begin_ns >= window_.end_ns; }

  std::string draw(GanttUse use) const {
    const double axis = kHead + static_cast<double>(rows_) * kRow + kFoot;
    const double height = axis + (use == GanttUse::file ? kLegend : 0);
    std::string out = fmt::format(
        "<svg class=\"gantt\"{} viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"{}\">\n",
        use == GanttUse::file ? " xmlns=\"http://www.w3.org/2000/svg\" preserveAspectRatio=\"xMidYMin\"" : "",
        kWidth, height,
        escape_attribute(
            base::tr("Jobs of {} stages over {}", pipeline_.stages.size(),
                     short_seconds(static_cast<double>(window_.end_ns - window_.begin_ns) / 1e9))));
    out += use == GanttUse::file ? kStyle : "";
    out += time_axis(axis) + step_heads(axis);
    out += text(kWidth - 8, kHead - 8, "end", "", base::tr("bubble"));
    for (size_t s = 0; s < rows_; ++s) {
      out += row(s);
    }
    out += use == GanttUse::file ? legend(axis) : "";
    return out + "</svg>\n";
  }

 private:
  // The kinds that there are. On the page the legend stands above the picture.
  std::string legend(double top) const {
    std::array<bool, model::kNames<model::JobKind>.size()> seen{};
    for (const PipelineStage& stage : pipeline_.stages) {
      for (const PipelineJob& job : stage.jobs) {
        seen[static_cast<size_t>(job.kind)] = true;
      }
    }
    std::string out;
    double x = kLeft;
    for (size_t kind = 0; kind < seen.size(); ++kind) {
      if (seen[kind]) {
        const std::string name(model::kNames<model::JobKind>[kind]);
        out +=
            fmt::format("<rect class=\"job job-{}\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"18\" height=\"12\"/>\n",
                        name, x, top + 4);
        out += text(x + 24, top + 15, "start", "", name);
        x += 48 + static_cast<double>(name.size()) * kLetter;
      }
    }
    return out;
  }

  std::string time_axis(double height) const {
    std::string out;
    const double whole = static_cast<double>(window_.end_ns - window_.begin_ns);
    for (int tick = 0; tick <= kTicks; ++tick) {
      const auto at = static_cast<int64_t>(whole * tick / kTicks);
      const double x = window_.x(window_.begin_ns + at);
      out += fmt::format("<path class=\"rule\" d=\"M{:.1f} {}V{:.0f}\"/>\n", x, kHead - 4, height - kFoot);
      out +=
          text(x, height - 8, "middle", "", tick == 0 ? "0" : short_seconds(static_cast<double>(at) / 1e9));
    }
    return out;
  }

  // A bar above the stages for each step: from the first forward to the last backward.
  std::string step_heads(double height) const {
    std::string out;
    for (size_t i = steps_.first; i <= steps_.last && i < pipeline_.steps.size(); ++i) {
      const PipelineStep& step = pipeline_.steps[i];
      const double begin = window_.x(static_cast<int64_t>(step.begin_s * 1e9));
      const double end = window_.x(static_cast<int64_t>((step.begin_s + step.duration_s) * 1e9));
      out +=
          fmt::format("<rect class=\"job job-other\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"6\"/>\n",
                      begin, kHead - 18, std::max(0.0, end - begin));
      std::string words = base::tr("step {}: {}", step.number, short_seconds(step.duration_s));
      words += step.complete ? base::tr(", bubble {}", percent(step.bubble)) : base::tr(", incomplete");
      if (static_cast<double>(words.size()) * kLetter <= end - begin) {
        out += text((begin + end) / 2, kHead - 26, "middle", "", words);
      }
      out +=
          fmt::format("<path class=\"rule\" d=\"M{:.1f} {}V{:.0f}\"/>\n", begin, kHead - 18, height - kFoot);
    }
    return out;
  }

  std::string row(size_t s) const {
    const PipelineStage& stage = pipeline_.stages[s];
    const double top = kHead + static_cast<double>(s) * kRow;
    const bool critical = static_cast<int>(s) == pipeline_.critical;
    const double middle = top + kBox / 2 + 5;
    std::string out =
        fmt::format("<rect class=\"row\" x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>\n", kLeft,
                    top, kWidth - kLeft - kRight, kBox);
    out += text(kLeft - 8, middle, "end", critical ? "stage critical" : "stage",
                fmt::format("{}{} · {}", critical ? "▶ " : "", stage.stage, place_words(stage)));
    out += boxes(stage, top);
    if (stage.busy_s > 0) {
      out += text(kWidth - 8, middle, "end", critical ? "critical" : "", percent(stage.bubble));
    }
    return out;
  }

  // A box for a job, or for neighbours that are too narrow for separate boxes.
  struct Box {
    const PipelineJob* job = nullptr;
    double begin = 0;
    double end = 0;

    double width() const { return std::max(end - begin - kBetween, kNarrow / 2); }
  };

  std::vector<Box> boxes_of(const PipelineStage& stage) const {
    std::vector<Box> out;
    for (const PipelineJob& job : stage.jobs) {
      if (!is_in(job, steps_)) {
        continue;
      }
      const double begin = window_.x(job.begin_ns);
      const double end = window_.x(job.end_ns());
      const bool joins = !out.empty() && end - begin < kNarrow && begin - out.back().end < kNarrow &&
                         (out.back().job->kind == job.kind || out.back().end - out.back().begin < kNarrow);
      if (joins) {
        out.back().end = std::max(out.back().end, end);
      } else {
        out.push_back({&job, begin, end});
      }
    }
    return out;
  }

  std::string boxes(const PipelineStage& stage, double top) const {
    std::string out;
    std::array<std::string, model::kNames<model::JobKind>.size()> paths;
    for (const Box& box : boxes_of(stage)) {
      const PipelineJob& job = *box.job;
      const std::string_view kind = model::name_of(job.kind);
      if (titles_) {
        out += fmt::format(
            "<rect class=\"job job-{}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\">"
            "<title>{}</title></rect>\n",
            kind, box.begin, top, box.width(), kBox, escape_text(title_of(job)));
      } else {
        paths[static_cast<size_t>(job.kind)] +=
            fmt::format("M{:.1f} {:.1f}h{:.1f}", box.begin, top + kBox / 2, box.width());
      }
      const std::string label = job.micro_batch < 0 ? "" : fmt::format("{}", job.micro_batch);
      if (!label.empty() && static_cast<double>(label.size()) * kLetter + 4 <= box.width()) {
        out += text((box.begin + box.end) / 2, top + kBox / 2 + 4, "middle", fmt::format("on on{}", kind),
                    label);
      }
    }
    for (size_t kind = 0; kind < paths.size(); ++kind) {
      if (!paths[kind].empty()) {
        out += fmt::format("<path class=\"line job-{}\" stroke-width=\"{}\" d=\"{}\"/>\n",
                           model::kNames<model::JobKind>[kind], kBox, paths[kind]);
      }
    }
    return out;
  }

  std::string title_of(const PipelineJob& job) const {
    return base::tr("{}{}{}, {}{}, step {}", model::word_of(job.kind),
                    job.micro_batch < 0 ? "" : base::tr(" of micro-batch {}", job.micro_batch),
                    job.chunk < 0 ? "" : base::tr(", chunk {}", job.chunk),
                    job.at_least ? base::tr("at least ") : "",
                    short_seconds(static_cast<double>(job.duration_ns) / 1e9),
                    pipeline_.steps[static_cast<size_t>(job.step)].number);
  }

  const Pipeline& pipeline_;
  StepRange steps_;
  size_t rows_;
  Window window_;
  bool titles_ = false;
};

}  // namespace

StepRange shown_steps(const Pipeline& pipeline) {
  for (size_t i = pipeline.steps.size(); i-- > 0;) {
    if (pipeline.steps[i].complete) {
      return {i > 0 && pipeline.steps[i - 1].complete ? i - 1 : i, i};
    }
  }
  return {0, pipeline.steps.empty() ? 0 : pipeline.steps.size() - 1};
}

std::string gantt_svg(const Pipeline& pipeline, const StepRange& steps, GanttUse use,
                      const GanttLimits& limits) {
  const Picture picture(pipeline, steps, limits);
  return picture.empty() ? "" : picture.draw(use);
}

}  // namespace xpurun::report
