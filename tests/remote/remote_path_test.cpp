#include "base/remote/remote_path.h"

#include <catch2/catch.hpp>

#include "base/error.h"

namespace composer::remote_path_test {

using Catch::Matchers::Contains;

namespace {

std::string problem(const std::string& text) {
  try {
    RemotePath path(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("which paths are remote", "[remote]") {
  CHECK(is_remote("s3://bucket/key"));
  CHECK(is_remote("https://host/file"));
  CHECK(is_remote("gs://bucket/key"));
  CHECK_FALSE(is_remote("folder/file"));
  CHECK_FALSE(is_remote("/s3://bucket"));
  CHECK_FALSE(is_remote("://x"));
  CHECK_FALSE(is_remote("a b://x"));
}

TEST_CASE("the parts of remote paths", "[remote]") {
  const RemotePath s3("s3://my-bucket/a folder/50%?#.beton");
  CHECK(s3.scheme() == RemotePath::Scheme::s3);
  CHECK(s3.host() == "my-bucket");
  CHECK(s3.key() == "a folder/50%?#.beton");
  CHECK(s3.name() == "50%?#.beton");
  CHECK_FALSE(s3.is_folder());
  CHECK(RemotePath("s3://my-bucket").is_folder());
  CHECK((RemotePath("S3://my-bucket") / "x/y").text() == "s3://my-bucket/x/y");
  CHECK((RemotePath("s3://my-bucket/a/") / "x").key() == "a/x");
  CHECK(s3.with_key("other") == RemotePath("s3://my-bucket/other"));

  const RemotePath web("https://me:secret@Example.org:8443/a b/c%20d.pt?X-Amz-Signature=12");
  CHECK(web.scheme() == RemotePath::Scheme::https);
  CHECK(web.host() == "example.org:8443");
  CHECK(web.userinfo() == "me:secret");
  CHECK(web.key() == "a%20b/c%20d.pt?X-Amz-Signature=12");
  CHECK(web.name() == "c d.pt");
  CHECK(web.text() == "https://example.org:8443/a%20b/c%20d.pt");
  CHECK(RemotePath("https://host/up%2F..").name() == "up%2F..");
  CHECK((RemotePath("https://host/dir?key=1") / "a b%").key() == "dir/a%20b%25?key=1");
  CHECK(RemotePath("http://[::1]:80/x").host() == "[::1]:80");
  CHECK(RemotePath("https://host?list").key() == "?list");
  CHECK(RemotePath("https://host?list").is_folder());
}

TEST_CASE("paths that name nothing are refused with a reason and without secrets", "[remote]") {
  CHECK_THAT(problem("s3:///key"), Contains("bucket is missing"));
  CHECK_THAT(problem("s3://b/key"), Contains("no name of a bucket"));
  CHECK_THAT(problem("s3://../key"), Contains("no name of a bucket"));
  CHECK_THAT(problem("s3://key:secret@bucket/x"), Contains("no name of a bucket"));
  CHECK_THAT(problem("s3://key:secret@bucket/x"), !Contains("secret"));
  CHECK_THAT(problem("s3://bucket/" + std::string(1025, 'k')), Contains("at most 1024"));
  CHECK_THAT(problem("gs://bucket/x"), Contains("gs:// is not known") && Contains("s3://"));
  CHECK_THAT(problem("file:///x"), Contains("plain path"));
  CHECK_THAT(problem("https:///x"), Contains("host is missing"));
  CHECK_THAT(problem("https://ho st/x"), Contains("no host's name has"));
  CHECK_THAT(problem("https://host:99999/x"), Contains("port"));
  CHECK_THAT(problem("https://host:/x"), Contains("port"));
  CHECK_THAT(problem("https://[::1/x"), Contains("no address"));
  CHECK_THAT(problem("https://host/x#y"), Contains("%23"));
  CHECK_THAT(problem("https://me:secret@host:0/x?token=secret"), !Contains("secret"));
  CHECK_THAT(problem("https://host/a\nb"), Contains("control characters") && !Contains("\n"));
  CHECK_THAT(problem("folder/file"), Contains("no path of a store"));
}

TEST_CASE("percent-encoding", "[remote]") {
  CHECK(percent_encoded("a b/\xC3\xBC~", "/") == "a%20b/%C3%BC~");
  CHECK(percent_decoded("%C3%BC%2f%zz%4") == "\xC3\xBC/%zz%4");
}

TEST_CASE("what tells objects apart in caches", "[remote]") {
  const auto identity = [](const char* text) { return RemotePath(text).identity(); };
  CHECK(identity("s3://bucket/a?b=1") == "s3://bucket/a?b=1");
  CHECK(identity("https://me:secret@host/a") == "https://host/a");
  CHECK(identity("https://host/a?X-Amz-Signature=1&Expires=3&token=5") == "https://host/a");
  const auto first = identity("https://host/a?b=1");
  CHECK(first != identity("https://host/a?b=2"));
  CHECK(first != identity("https://host/a"));
  CHECK(first == identity("https://host/a?sig=1&b=1&se=2"));
  CHECK(first.find("b=1") == first.npos);
}

}  // namespace composer::remote_path_test
