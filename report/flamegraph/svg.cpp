#include "report/flamegraph/svg.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/flamegraph/escape.h"
#include "templates/templates.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

using base::tr;

namespace {

// Pixels of the static picture; flamegraph.js reads them back from the attributes that are written here.
constexpr double kWidth = 1200;
constexpr double kMargin = 12;
constexpr double kInner = kWidth - 2 * kMargin;
constexpr int kRow = 19;
constexpr int kPanelHead = 30;
constexpr int kPanelGap = 16;
constexpr double kCharWidth = 6.65;  // of the 11 px monospaced font
constexpr double kTextPad = 5;
constexpr double kNarrowest = 1;  // a lone rank among thousands must not vanish

std::string_view css_of(model::FrameKind kind) {
  switch (kind) {
    case model::FrameKind::python:
      return "kp";
    case model::FrameKind::native:
      return "kn";
    case model::FrameKind::kernel:
      return "kk";
    case model::FrameKind::gpu:
      return "kg";
    case model::FrameKind::marker:
      break;
  }
  return "km";
}

// As much of the label as fits, with the note behind it if that fits too.
std::string fitting_text(const std::string& label, const std::string& note, double width) {
  const auto columns = static_cast<size_t>(std::max(0.0, (width - 2 * kTextPad) / kCharWidth));
  if (!note.empty() && base::display_width(label) + base::display_width(note) + 3 <= columns) {
    return fmt::format("{} · {}", label, note);
  }
  if (base::display_width(label) <= columns) {
    return label;
  }
  if (columns < 3) {
    return {};
  }
  std::string cut = label;
  while (base::display_width(cut) + 1 > columns) {
    // Whole UTF-8 characters from the end.
    while (!cut.empty() && (static_cast<unsigned char>(cut.back()) & 0xC0u) == 0x80) {
      cut.pop_back();
    }
    cut.pop_back();
  }
  return cut + "…";
}

std::string note_of(const Box& box) {
  return box.diverges && !box.ranks.empty() ? ranks_text(box.ranks) : std::string();
}

std::string tooltip_of(const Panel& panel, const Box& box) {
  std::string out = box.label;
  const double share =
      100.0 * static_cast<double>(box.n) / static_cast<double>(std::max<size_t>(panel.total, 1));
  if (panel.unit == "samples" || panel.unit == "KiB") {
    out += panel.unit == "samples" ? tr("\n{} samples, {:.1f} % of this panel", box.n, share)
                                   : tr("\n{} KiB, {:.1f} % of this panel", box.n, share);
    out += box.ranks.empty() ? "" : ", " + ranks_text(box.ranks);
    out += box.compared.empty() ? "" : "\n" + box.compared;
    return out + (box.detail.empty() ? "" : "\n" + box.detail);
  }
  out += box.ranks.empty() ? "\n" + (box.n == 1 ? tr("{} process", box.n) : tr("{} processes", box.n))
         : box.n == 1      ? tr("\n{}, {:.0f} % of this panel", ranks_text(box.ranks), share)
                           : tr("\n{} ranks ({}), {:.0f} % of this panel", box.n, box.ranks.brief(), share);
  if (box.threads > 0) {
    out += "\n" + (box.threads == 1 ? tr("{} thread: {}", box.threads, box.states)
                                    : tr("{} threads: {}", box.threads, box.states));
  }
  if (!box.detail.empty()) {
    out += "\n" + box.detail;
  }
  return out;
}

void put_box(std::string& out, const Panel& panel, const Box& box, const Palette& palette, int top) {
  const double x = kMargin + box.x * kInner;
  const double w = box.width * kInner;
  const int y = top + box.depth * kRow;
  const std::string note = note_of(box);
  fmt::format_to(std::back_inserter(out), R"(<g class="f {} {}" data-ranks="{}" data-n="{}")",
                 box.look.empty() ? palette.css_of(box.ranks) : box.look, css_of(box.kind), box.ranks.text(),
                 box.n);
  if (!note.empty()) {
    fmt::format_to(std::back_inserter(out), R"( data-d="{}")", escape_attribute(note));
  }
  fmt::format_to(std::back_inserter(out),
                 R"(><title>{}</title><rect x="{:.2f}" y="{}" width="{:.2f}" height="{}"/>)",
                 escape_text(tooltip_of(panel, box)), x, y, std::max(w, kNarrowest), kRow - 1);
  fmt::format_to(std::back_inserter(out),
                 R"(<text x="{:.2f}" y="{}">{}</text></g>)"
                 "\n",
                 x + kTextPad, y + 13, escape_text(fitting_text(box.label, note, w)));
}

int panels_height(const Layout& layout) {
  int height = 0;
  for (const Panel& panel : layout.panels) {
    height += kPanelHead + panel.depth * kRow + kPanelGap;
  }
  return height;
}

void put_panels(std::string& out, const Layout& layout, const Palette& palette, int top) {
  for (const Panel& panel : layout.panels) {
    const std::string heading = tr(panel.title);
    fmt::format_to(
        std::back_inserter(out),
        R"(<g class="panel"><text class="ph" x="{}" y="{}">{}</text><g class="boxes" role="group" aria-label="{}">)"
        "\n",
        kMargin, top + 19, escape_text(heading), escape_attribute(heading));
    for (const Box& box : panel.boxes) {
      put_box(out, panel, box, palette, top + kPanelHead);
    }
    out += "</g></g>\n";
    top += kPanelHead + panel.depth * kRow + kPanelGap;
  }
  if (layout.panels.empty()) {
    fmt::format_to(std::back_inserter(out),
                   R"(<text class="ph" x="{}" y="{}">No stacks in this layer.</text>)", kMargin, top + 19);
  }
}

// Entries side by side, in as many rows as they need. Returns where the next thing may begin.
int put_legend(std::string& out, const std::vector<LegendEntry>& legend, int top) {
  double x = kMargin;
  out += "<g class=\"legend\">\n";
  for (const LegendEntry& e : legend) {
    const double w = 30 + kCharWidth * static_cast<double>(base::display_width(e.text)) + 18;
    if (x + w > kWidth - kMargin && x > kMargin) {
      x = kMargin;
      top += 22;
    }
    fmt::format_to(
        std::back_inserter(out),
        R"(<g class="{}"><rect x="{:.1f}" y="{}" width="22" height="14" rx="3"/></g><text x="{:.1f}" y="{}">{}</text>)"
        "\n",
        e.css, x, top, x + 29, top + 11, escape_text(e.text));
    x += w;
  }
  out += "</g>\n";
  return top + 22;
}

std::string_view layer_words(Layer layer) {
  switch (layer) {
    case Layer::python:
      return base::later("Python frames");
    case Layer::native:
      return base::later("native frames");
    case Layer::merged:
      break;
  }
  return base::later("Python and native frames");
}

// No process of the picture is a rank.
bool is_alone(const Layout& layout) {
  return !layout.panels.empty() && std::all_of(layout.panels.begin(), layout.panels.end(),
                                               [](const Panel& p) { return p.unit == "processes"; });
}

std::string_view width_words(const Layout& layout, const SvgText& text) {
  return is_alone(layout) ? base::later("processes") : std::string_view(text.width_is);
}

std::string opening(const Layout& layout, const SvgText& text, int height) {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" class="fg" id="fg-{0}" data-layer="{0}" data-colors="{4}" viewBox="0 0 {1} {2}" width="{1}" height="{2}" role="group" aria-label="{3}">)"
      "\n",
      name_of(text.layer), kWidth, height,
      escape_attribute(
          tr("{}, {}, width is {}", text.title, tr(layer_words(text.layer)), tr(width_words(layout, text)))),
      is_alone(layout) ? "frames" : "ranks");
}

}  // namespace

std::string_view svg_patterns() {
  return R"svg(<pattern id="h1" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="p1" width="7" height="7"/><rect class="ht" width="1.6" height="7"/></pattern>
<pattern id="h2" width="7" height="7" patternUnits="userSpaceOnUse"><rect class="p2" width="7" height="7"/><circle class="ht" cx="2" cy="2" r="1.1"/></pattern>
<pattern id="h3" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><rect class="p3" width="7" height="7"/><rect class="ht" width="1.6" height="7"/></pattern>
<pattern id="h4" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="p4" width="6" height="6"/><rect class="ht" width="1.4" height="6"/></pattern>
<pattern id="h5" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="p5" width="6" height="6"/><rect class="ht" width="6" height="1.4"/></pattern>
<pattern id="h6" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="p6" width="8" height="8"/><rect class="ht" width="1.3" height="8"/><rect class="ht" width="8" height="1.3"/></pattern>
<pattern id="h7" width="10" height="10" patternUnits="userSpaceOnUse"><rect class="p7" width="10" height="10"/><circle class="ht" cx="3" cy="3" r="1.6"/></pattern>
)svg";
}

std::string svg_fragment(const Layout& layout, const Palette& palette, const SvgText& text) {
  std::string out = opening(layout, text, panels_height(layout));
  put_panels(out, layout, palette, 0);
  out += "</svg>\n";
  return out;
}

std::string svg_file(const Layout& layout, const Palette& palette, const SvgText& text) {
  std::string body;
  const int top = put_legend(body, text.legend.empty() ? palette.legend() : text.legend, 62);
  put_panels(body, layout, palette, top + 4);
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out += opening(layout, text, top + 4 + std::max(panels_height(layout), 40));
  out += fmt::format(
      "<title>{}: {}</title>\n<desc>Width is the number of {}; outermost frames are on top.</desc>\n",
      escape_text(text.title), layer_words(text.layer), width_words(layout, text));
  out += fmt::format("<style><![CDATA[\n{}]]></style>\n<defs>\n{}</defs>\n", templates::kFlamegraphCss,
                     svg_patterns());
  out += fmt::format(
      "<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n<text class=\"h\" x=\"{0}\" "
      "y=\"28\">{1}</text>\n<text class=\"sub\" x=\"{0}\" "
      "y=\"47\">{2}</text>\n<text class=\"found\" x=\"{3}\" y=\"47\" aria-live=\"polite\"></text>\n",
      kMargin, escape_text(tr("{}: {}", text.title, tr(layer_words(text.layer)))), escape_text(text.subtitle),
      kWidth - kMargin);
  out += "<g class=\"tools\"></g>\n";
  out += body;
  out += fmt::format("<script><![CDATA[\n{}]]></script>\n</svg>\n", templates::kFlamegraphJs.text);
  return out;
}

}  // namespace xpurun::report
