#include "launcher/http/http_request.h"

#include <doctest/doctest.h>

using namespace xpurun::launcher;

TEST_CASE("a request in any number of pieces") {
  const std::string text =
      "POST /a/b?x=1 HTTP/1.1\r\nHost: h\r\nAccept:  text/plain \r\nContent-Length: 3\r\n\r\nabc";
  for (size_t n = 0; n < text.size(); ++n) {
    CHECK(parse_http(text.substr(0, n)).state == HttpParse::State::incomplete);
  }
  const HttpParse parsed = parse_http(text + "more");
  REQUIRE(parsed.state == HttpParse::State::complete);
  CHECK(parsed.request.method == "POST");
  CHECK(parsed.request.path == "/a/b");
  CHECK(parsed.request.query == "x=1");
  REQUIRE(parsed.request.header("accept") != nullptr);
  CHECK(*parsed.request.header("accept") == "text/plain");
  CHECK(parsed.request.header("cookie") == nullptr);
  CHECK(parsed.request.body == "abc");
}

TEST_CASE("refused requests and their status") {
  const auto status = [](const std::string& text) {
    const HttpParse parsed = parse_http(text);
    return parsed.state == HttpParse::State::refused ? parsed.status : 0;
  };
  CHECK(status("hello\r\n\r\n") == 400);
  CHECK(status("\r\n\r\n") == 400);
  CHECK(status("GET  HTTP/1.1\r\n\r\n") == 400);
  CHECK(status("GET metrics HTTP/1.1\r\n\r\n") == 400);
  CHECK(status("GET /a b HTTP/1.1\r\n\r\n") == 400);
  CHECK(status("GET / HTTP/2\r\n\r\n") == 400);
  CHECK(status("G\x01T / HTTP/1.1\r\n\r\n") == 400);
  CHECK(status("GET / HTTP/1.1\r\nno colon\r\n\r\n") == 400);
  CHECK(status("GET / HTTP/1.1\r\nbad name: x\r\n\r\n") == 400);
  CHECK(status("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n") == 400);
  CHECK(status("GET / HTTP/1.1\r\nContent-Length: 12x\r\n\r\n") == 400);
  CHECK(status("GET / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n") == 413);
  CHECK(status("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n") == 501);
  CHECK(status(std::string(kMostHttpHead + 1, 'x')) == 431);
}

TEST_CASE("the response") {
  const HttpResponse response{.status = 404, .body = "no\n"};
  CHECK(to_bytes(response, true) ==
        "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n"
        "Connection: close\r\n\r\nno\n");
  CHECK(to_bytes(response, false).ends_with("\r\n\r\n"));
}
