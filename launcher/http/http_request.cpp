#include "launcher/http/http_request.h"

#include "common/base/ascii_case.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>

namespace xpurun::launcher {

namespace {

HttpParse refused(int status) {
  return {.state = HttpParse::State::refused, .status = status, .request = {}};
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// "GET /metrics HTTP/1.1"
bool parse_request_line(std::string_view line, HttpRequest& request) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (last == std::string_view::npos || first >= last || !line.substr(last + 1).starts_with("HTTP/1.")) {
    return false;
  }
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const bool clean = std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < 127; });
  request.method = line.substr(0, first);
  const size_t question = target.find('?');
  request.path = target.substr(0, question);
  request.query = question == std::string_view::npos ? "" : target.substr(question + 1);
  return is_token(request.method) && target.starts_with('/') && clean;
}

}  // namespace

const std::string* HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) {
      return &value;
    }
  }
  return nullptr;
}

namespace {

// "[::1]:80" and "h:80" without the port; empty if it is none of these.
std::string_view host_of(std::string_view text) {
  const size_t end = text.starts_with('[') ? text.find(']') + 1 : std::min(text.find(':'), text.size());
  const std::string_view port = text.substr(end);
  const bool good = port.empty() || (port.size() > 1 && port[0] == ':' &&
                                     port.find_first_not_of("0123456789", 1) == std::string_view::npos);
  return good ? text.substr(0, end) : std::string_view();
}

bool is_address(std::string_view host) {
  if (host.size() > 2 && host.starts_with('[') && host.ends_with(']')) {
    return host.substr(1, host.size() - 2).find_first_not_of("0123456789abcdefABCDEF:.") ==
           std::string_view::npos;
  }
  in_addr parsed{};
  return ::inet_pton(AF_INET, std::string(host).c_str(), &parsed) == 1;
}

}  // namespace

bool HttpRequest::is_from_a_web_page(std::string_view own_name) const {
  if (header("origin") != nullptr) {
    return true;
  }
  const std::string* field = header("host");
  const std::string host = base::lower(field == nullptr ? "localhost" : host_of(*field));
  return host != "localhost" && !is_address(host) && (own_name.empty() || host != base::lower(own_name));
}

HttpParse parse_http(std::string_view input) {
  const size_t end = input.find("\r\n\r\n");
  if (end > kMostHttpHead) {  // npos too
    return input.size() > kMostHttpHead ? refused(431) : HttpParse{};
  }
  HttpParse out;
  std::string_view rest = input.substr(0, end);
  bool first = true;
  while (!rest.empty() || first) {
    const size_t eol = rest.find("\r\n");
    const std::string_view line = rest.substr(0, eol);
    rest = eol == std::string_view::npos ? "" : rest.substr(eol + 2);
    if (first) {
      if (!parse_request_line(line, out.request)) {
        return refused(400);
      }
      first = false;
      continue;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
      return refused(400);
    }
    const std::string name = base::lower(line.substr(0, colon));
    if (name == "host" && out.request.header(name) != nullptr) {
      return refused(400);
    }
    out.request.headers.emplace_back(name, trimmed(line.substr(colon + 1)));
  }
  if (out.request.header("transfer-encoding") != nullptr) {
    return refused(501);
  }
  size_t length = 0;
  if (const std::string* text = out.request.header("content-length")) {
    const auto parsed = base::parse_int(*text);
    if (!parsed || *parsed < 0) {
      return refused(400);
    }
    if (static_cast<uint64_t>(*parsed) > kMostHttpBody) {
      return refused(413);
    }
    length = static_cast<size_t>(*parsed);
  }
  if (input.size() - end - 4 < length) {
    return HttpParse{};
  }
  out.request.body = input.substr(end + 4, length);
  out.state = HttpParse::State::complete;
  return out;
}

std::string to_bytes(const HttpResponse& response, bool with_body) {
  constexpr std::pair<int, std::string_view> kReasons[] = {
      {200, "OK"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {413, "Content Too Large"},
      {431, "Request Header Fields Too Large"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
  };
  const auto* reason = std::find_if(std::begin(kReasons), std::end(kReasons),
                                    [&](const auto& entry) { return entry.first == response.status; });
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n{}",
      response.status, reason != std::end(kReasons) ? reason->second : "Error", response.content_type,
      response.body.size(), response.status == 401 ? "WWW-Authenticate: Bearer\r\n" : "",
      with_body ? response.body : "");
}

}  // namespace xpurun::launcher
