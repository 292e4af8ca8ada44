#include "base/url_secrets.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/remote/remote_path.h"

namespace composer::url_secrets_test {

TEST_CASE("addresses in messages show neither user, password nor query", "[remote]") {
  CHECK(without_secrets("https://me:secret@host/x?token=secret") == "https://***@host/x?***");
  CHECK(without_secrets("datadir: 'https://me:se'cret@host:80/x' is remote") ==
        "datadir: 'https://***@host:80/x' is remote");
  CHECK(without_secrets("HTTP://me@host, http://host/a?b=c: wrong (https://host/?d)") ==
        "HTTP://***@host, http://host/a?***: wrong (https://host/?***)");
  CHECK(without_secrets("https://me:pa/ss@host/x") == "https://***@host/x");
  CHECK(without_secrets("https://a:b@host/{0..3}.tar::https://a:b@host/9.tar") ==
        "https://***@host/{0..3}.tar::https://***@host/9.tar");
  CHECK(without_secrets("https://host?a=b") == "https://host?***");
  for (const char* plain :
       {"", "://", "https://", "s3://bucket/a@b?c", "https://host:8080/a@b", "http://[::1]:80/x",
        "what? at a@b: nothing", "is https://host/x there?", "ahttps:/host?x"})
    CHECK(without_secrets(plain) == plain);
}

TEST_CASE("a recipe's addresses show no secrets, spaces and all", "[remote]") {
  CHECK(address_without_secrets("https://me:se cret@host/a b?t=1 2") == "https://***@host/a b?***");
  CHECK(address_without_secrets("see https://me:secret@host/a") == "see https://***@host/a");
  CHECK(address_without_secrets("s3://bucket/a@b") == "s3://bucket/a@b");
  CHECK(address_without_secrets("") == "");
  for (const char* kept : {"https://***@host/x", "https://host/x?***"}) {
    CHECK(address_without_secrets(kept) == kept);
    CHECK_THROWS_WITH(RemotePath(kept), Catch::Contains("give the whole address anew"));
  }
}

}  // namespace composer::url_secrets_test
