#include "analysis/markup.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "analysis/picture_section.h"

namespace composer::markup_test {
namespace {

TEST_CASE("text and attributes cannot become markup", "[markup]") {
  CHECK(escaped("a<b> & 'c' \"d\"") == "a&lt;b&gt; &amp; &#39;c&#39; &quot;d&quot;");
  CHECK(element("p", {{"title", "\"><script>"}}, "x") ==
        "<p title=\"&quot;&gt;&lt;script&gt;\">x</p>");
  CHECK(element("img", {{"alt", ""}}) == "<img alt=\"\"/>");
  CHECK(script_safe(R"({"a": "</script><b>"})") == R"({"a": "\u003c/script>\u003cb>"})");
}

TEST_CASE("data of a page are valid whatever is in names", "[markup]") {
  CHECK(data_element("id", "x", {{"a<b", "\xff!"}}) ==
        "<script type=\"application/json\" id=\"x\">{\"a\\u003cb\":\"\xef\xbf\xbd!\"}</script>");
}

TEST_CASE("lengths are short", "[markup]") {
  CHECK(length_text(0) == "0");
  CHECK(length_text(-0.001) == "0");
  CHECK(length_text(12.5) == "12.5");
  CHECK(length_text(3.14159) == "3.14");
}

TEST_CASE("base64 has RFC 4648's examples", "[markup]") {
  CHECK(base64("").empty());
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foo") == "Zm9v");
  CHECK(base64("foobar") == "Zm9vYmFy");
  CHECK(base64("\xff\xfe") == "//4=");
}

}  // namespace
}  // namespace composer::markup_test
