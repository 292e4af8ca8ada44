// Signatures of AWS's published test suite, and of the examples in Amazon S3's API reference.
#include "base/remote/signature.h"

#include <catch2/catch.hpp>

#include "base/remote/remote_path.h"

namespace composer::signature_test {

using Catch::Matchers::EndsWith;

namespace {

constexpr std::time_t kSuiteTime = 1440938160;  // 20150830T123600Z
constexpr std::time_t kS3Time = 1369353600;     // 20130524T000000Z
const SigningKey kSuiteKey{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1",
                           "service"};
const SigningKey kS3Key{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                        "us-east-1", "s3"};

std::string hash_of(const std::string& text) {
  return payload_hash({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

std::string suite_signature(const std::string& path, const TextPairs& query = {},
                            const TextPairs& more_headers = {}, const std::string& method = "GET",
                            const std::string& body = "") {
  SignedRequest request{method, path, query, more_headers, hash_of(body)};
  request.headers.emplace_back("Host", "example.amazonaws.com");
  request.headers.emplace_back("X-Amz-Date", amazon_time(kSuiteTime));
  const std::string value = authorization(request, kSuiteKey, kSuiteTime);
  return value.substr(value.rfind('=') + 1);
}

std::string s3_authorization(const std::string& method, const std::string& path,
                             const TextPairs& query, const TextPairs& more_headers,
                             const std::string& body = "") {
  SignedRequest request{method, path, query, more_headers, hash_of(body)};
  request.headers.emplace_back("host", "examplebucket.s3.amazonaws.com");
  request.headers.emplace_back("x-amz-date", amazon_time(kS3Time));
  request.headers.emplace_back("x-amz-content-sha256", hash_of(body));
  return authorization(request, kS3Key, kS3Time);
}

}  // namespace

TEST_CASE("signatures of AWS's test suite", "[remote]") {
  CHECK(suite_signature("/") == "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  CHECK(suite_signature("/", {{"Param2", "value2"}, {"Param1", "value1"}}) ==
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
  CHECK(suite_signature("/", {{"Param-3", "Value3"}, {"Param", "Value2"}, {"\u1234", "Value1"}}) ==
        "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac");
  CHECK(suite_signature("/", {{"\u1234", "bar"}}) ==
        "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04");
  CHECK(suite_signature(percent_encoded("/\u1234", "/")) ==
        "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85");
  const std::string unreserved =
      "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  CHECK(suite_signature(percent_encoded(unreserved, "/")) ==
        "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f");
  CHECK(suite_signature("//example//") ==
        "87cca117541a147f6df867677d98a7d80dff226d2bfca9e4ffa899665623c7e5");
  CHECK(suite_signature("/", {},
                        {{"X-Amz-Security-Token",
                          "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"}}) ==
        "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8");
  CHECK(suite_signature("/", {}, {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}}) ==
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736");
  CHECK(suite_signature("/", {},
                        {{"My-Header1", "value4"},
                         {"My-Header1", "value1"},
                         {"My-Header1", "value3"},
                         {"My-Header1", "value2"}}) ==
        "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01");
  CHECK(suite_signature("/", {}, {{"My-Header1", "value1"}}, "POST") ==
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c");
  const std::string form = "Param1=value1";
  CHECK(suite_signature("/", {},
                        {{"Content-Type", "application/x-www-form-urlencoded"},
                         {"Content-Length", "13"},
                         {"x-amz-content-sha256", hash_of(form)}},
                        "POST", form) ==
        "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b");
}

TEST_CASE("signatures of Amazon S3's examples", "[remote]") {
  CHECK(s3_authorization("GET", "/test.txt", {}, {{"range", "bytes=0-9"}}) ==
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  CHECK_THAT(s3_authorization("PUT", percent_encoded("/test$file.text", "/"), {},
                              {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                               {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                              "Welcome to Amazon S3."),
             EndsWith("98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"));
  CHECK_THAT(s3_authorization("GET", "/", {{"lifecycle", ""}}, {}),
             EndsWith("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  CHECK_THAT(s3_authorization("GET", "/", {{"max-keys", "2"}, {"prefix", "J"}}, {}),
             EndsWith("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

}  // namespace composer::signature_test
