#include "report/render/parts/embed.h"

#include "common/base/packing.h"
#include "common/base/tr.h"
#include "common/model/json/json_text.h"
#include "report/flamegraph/escape.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace xpurun::report {

namespace {

constexpr size_t kPlainUpTo = 192 * 1024;
constexpr size_t kMostUnpacked = size_t{256} << 20;

std::string opening(std::string_view id) {
  return fmt::format(R"(id="{}")", id);
}

constexpr std::string_view kWordsId = "page-words";
constexpr std::string_view kPacked = R"( data-encoding="gzip+base64")";

void add_words(std::string_view script, nlohmann::json& words) {
  constexpr std::string_view kCall = "xpurun.t(\"";
  for (size_t at = script.find(kCall); at != std::string_view::npos; at = script.find(kCall, at)) {
    at += kCall.size();
    std::string english;
    for (; at < script.size() && script[at] != '"'; ++at) {
      at += script[at] == '\\' ? 1 : 0;
      english += at < script.size() ? std::string(1, script[at]) : std::string();
    }
    words[english] = base::tr(english);
  }
}

}  // namespace

std::string gzip_base64(std::string_view text) {
  return base::base64(base::gzip(text));
}

base::Result<std::string> from_gzip_base64(std::string_view text, size_t limit) {
  XPURUN_TRY_ASSIGN(const std::string packed, base::from_base64(text));
  return base::gunzip(packed, limit);
}

std::string data_block(std::string_view id, std::string_view json, Packing packing) {
  if (packing == Packing::automatic && json.size() <= kPlainUpTo) {
    return fmt::format(R"(<script type="application/json" {}>{}</script>)", opening(id),
                       escape_script_json(json));
  }
  return fmt::format(R"(<script type="text/plain" {}{}>{}</script>)", opening(id), kPacked,
                     gzip_base64(json));
}

base::Result<std::string> read_data_block(std::string_view page, std::string_view id) {
  // Text of a traced process cannot look like this: its < and " are escaped wherever a page holds them.
  for (size_t at = page.find("<script type="); at != std::string_view::npos;
       at = page.find("<script type=", at + 1)) {
    const size_t end = page.find('>', at);
    const size_t close = page.find("</script>", at);
    if (end == std::string_view::npos || close == std::string_view::npos) {
      break;
    }
    const std::string_view tag = page.substr(at, end - at);
    if (tag.find(opening(id)) == std::string_view::npos) {
      continue;
    }
    const std::string_view content = page.substr(end + 1, close - end - 1);
    if (tag.find(kPacked) != std::string_view::npos) {
      return from_gzip_base64(content, kMostUnpacked);
    }
    return std::string(content);
  }
  return base::fail(base::Error{.what = fmt::format("the page holds no data block {}", id),
                                .id = "E-NO-DATA",
                                .cause = "it was not written by xpurun, or only a part of it arrived",
                                .hint = "ask for the whole file report.html"});
}

PageScripts page_scripts(const std::vector<templates::Script>& scripts) {
  PageScripts out;
  nlohmann::json words = nlohmann::json::object();
  for (const templates::Script& script : scripts) {
    add_words(script.text, words);
    out.elements += fmt::format("<script>{}</script>\n", script.text);
    out.sources += fmt::format("{}{}", out.sources.empty() ? "" : " ", script.source);
  }
  if (base::spoken() != base::Language::english) {
    out.elements = data_block(kWordsId, model::json_text(words), Packing::automatic) + "\n" + out.elements;
  }
  return out;
}

}  // namespace xpurun::report
