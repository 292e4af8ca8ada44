#include "base/remote/store_reply.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/remote/store_requests.h"

namespace composer::store_reply_test {

TEST_CASE("XML as stores write it", "[remote]") {
  const XmlElement root = parse_xml(
      "\xEF\xBB\xBF<?xml version=\"1.0\"?>\n<!-- c --><n:a x='>' y = \"&\"><b>1 &lt;&#38;&#x20AC;"
      "</b><c/><b>2<!-- c --><![CDATA[<&]]></b ></n:a>\n");
  CHECK(root.name == "a");
  REQUIRE(root.children.size() == 3);
  CHECK(root.text_of("b") == "1 <&\u20AC");
  CHECK(root.children[2].text == "2<&");
  CHECK(root.child("d") == nullptr);
  for (const char* damaged : {"",
                              "x",
                              "<a>",
                              "<a></b>",
                              "<a></a",
                              "<a></a>x",
                              "<a>&nbsp;</a>",
                              "<a>&#0;</a>",
                              "<a>&#xD800;</a>",
                              "<a>&#x110000;</a>",
                              "<a>&#;</a>",
                              "<a x></a>",
                              "<a x=1></a>",
                              "<a x=\"1></a>",
                              "<1/>",
                              "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
                              "<a><b></a></b>",
                              "<a>&amp</a>",
                              "<a",
                              "<a><![CDATA[x</a>",
                              "<?xml"}) {
    CAPTURE(damaged);
    CHECK_THROWS_AS(parse_xml(damaged), RunError);
  }
  std::string deep, end;
  for (int i = 0; i < 17; ++i) {
    deep += "<a>";
    end += "</a>";
  }
  CHECK_THROWS_AS(parse_xml(deep + end), RunError);
}

TEST_CASE("a page of a listing", "[remote]") {
  const ListingPage page = read_listing(
      "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
      "<Contents><Key>a+b%2Bc%0A</Key><Size>12</Size><ETag>abc</ETag></Contents>"
      "<CommonPrefixes><Prefix>d+e/</Prefix></CommonPrefixes></ListBucketResult>");
  REQUIRE(page.objects.size() == 1);
  CHECK(page.objects[0].key == "a b+c\n");
  CHECK(page.objects[0].bytes == 12);
  CHECK(page.objects[0].etag == "\"abc\"");
  CHECK(page.folders == std::vector<std::string>{"d e/"});
  CHECK(page.next.empty());
  CHECK(read_listing("<ListBucketResult><Contents><Key>a+b</Key><Size>1</Size></Contents>"
                     "</ListBucketResult>")
            .objects[0]
            .key == "a+b");
  CHECK_THROWS_AS(read_listing("<Error/>"), RunError);
  CHECK_THROWS_AS(read_listing("<ListBucketResult><Contents><Key>a</Key><Size>-1</Size>"
                               "</Contents></ListBucketResult>"),
                  RunError);
  CHECK_THROWS_AS(
      read_listing("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"),
      RunError);
}

TEST_CASE("the store's words", "[remote]") {
  const StoreProblem problem =
      read_problem("<Error><Code>C</Code><Message>one\nline</Message><Region>r</Region></Error>");
  CHECK(problem.code == "C");
  CHECK(problem.message == "one line");
  CHECK(problem.region == "r");
  CHECK(read_problem("<html><body>busy</body></html>").code.empty());
  CHECK(read_problem("busy").message.empty());
  CHECK(read_upload_id("<R><UploadId>u</UploadId></R>") == "u");
  CHECK_THROWS_AS(read_upload_id("<R/>"), RunError);
}

TEST_CASE("headers of answers", "[remote]") {
  const ContentRange range = read_content_range("bytes 2-5/10");
  CHECK(range.begin == 2);
  CHECK(range.end == 6);
  CHECK(range.whole == 10);
  CHECK_FALSE(read_content_range("bytes 2-5/*").whole);
  for (const char* damaged :
       {"", "bytes", "bytes 5-2/10", "bytes 2-10/10", "bytes -5/10", "bytes 2-/10", "bytes 2-5",
        "bytes 2-5/x", "items 2-5/10", "bytes 0-18446744073709551615/*", "bytes 1/2-3"}) {
    CAPTURE(damaged);
    CHECK_THROWS_AS(read_content_range(damaged), RunError);
  }
  CHECK(read_length("18446744073709551615") == 18446744073709551615u);
  CHECK_THROWS_AS(read_length("18446744073709551616"), RunError);
  CHECK_THROWS_AS(read_length(" 1"), RunError);
  CHECK(read_date("Tue, 15 Nov 1994 08:12:31 GMT") == 784887151);
  CHECK_FALSE(read_date("yesterday"));
  CHECK(read_retry_after("17", 0) == 17);
  CHECK(read_retry_after("Tue, 15 Nov 1994 08:12:31 GMT", 784887101) == 50);
  CHECK(read_retry_after("Tue, 15 Nov 1994 08:12:31 GMT", 784887201) == 0);
  CHECK(read_retry_after("soon", 0) == 0);
}

TEST_CASE("which reads take too long", "[remote]") {
  ReadTimes times;
  constexpr uint64_t kBytes = 1 << 20;
  for (int i = 0; i < 19; ++i) times.add(kBytes, 0.1);
  CHECK_FALSE(times.limit(kBytes));
  times.add(kBytes, 0.1);
  CHECK(times.limit(kBytes).value() == Approx(0.25));
  CHECK_FALSE(times.limit(16 << 20));
  // One to begin with, and one in twenty, whoever asks at the same time.
  CHECK(times.take_allowance());
  CHECK(times.take_allowance());
  CHECK_FALSE(times.take_allowance());
  for (int i = 0; i < 300; ++i) times.add(kBytes, 0.2);
  int allowed = 0;
  while (times.take_allowance()) ++allowed;
  CHECK(allowed == 8);
  CHECK(times.limit(kBytes).value() == Approx(0.45));
  CHECK_FALSE(times.limit(ReadTimes::kMostBytes + 1));
}

}  // namespace composer::store_reply_test
