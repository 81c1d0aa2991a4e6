#include "report/flamegraph/escape.h"

#include <doctest/doctest.h>

using namespace xpurun::report;

TEST_CASE("text and attributes") {
  CHECK(escape_text("a<b> & \"c\"\n'd'") == "a&lt;b&gt; &amp; \"c\"\n'd'");
  CHECK(escape_attribute("a<b> & \"c\"\n'd'") == "a&lt;b&gt; &amp; &quot;c&quot;&#10;&#39;d&#39;");
  CHECK(escape_text("x\x01y\xff") == "x?y\xEF\xBF\xBD");
  CHECK(escape_attribute("Grüße ✓") == "Grüße ✓");
}

TEST_CASE("JSON inside a script cannot end it") {
  CHECK(escape_script_json(R"({"a":"</script><!-- & "})") ==
        R"({"a":"\u003c/script\u003e\u003c!-- \u0026 "})");
  CHECK(escape_script_json("\"\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xAA\"") == "\"\\u2028\\u2029\xE2\x80\xAA\"");
}
