// Parses one HTTP/1.x request from untrusted bytes. Pure; bounded by the caller's buffer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xpurun::launcher {

struct HttpRequest {
  std::string method;
  std::string path;                                          // without the query
  std::string query;                                         // behind '?', as sent
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;

  // The first header of this name (in lower case), or nullptr.
  const std::string* header(std::string_view name) const;
  // Whether a web page makes this request: a browser then sends the page's address as Origin or, after DNS
  // rebinding, a Host that is a name of somebody else. Addresses of IP, localhost and `own_name`, the name of
  // this host, cannot be rebound.
  bool is_from_a_web_page(std::string_view own_name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

inline constexpr size_t kMostHttpHead = 16 * 1024;
inline constexpr size_t kMostHttpBody = 64 * 1024;

// State of a partly received request.
struct HttpParse {
  enum class State { incomplete, complete, refused };
  State state = State::incomplete;
  int status = 0;  // refused: the status to answer
  HttpRequest request;
};
HttpParse parse_http(std::string_view input);

// The bytes of the response. The connection closes after it.
std::string to_bytes(const HttpResponse& response, bool with_body);

}  // namespace xpurun::launcher
