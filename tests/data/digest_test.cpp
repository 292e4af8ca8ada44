#include "data/files/digest.h"

#include <catch2/catch.hpp>

namespace composer::digest_test {

namespace {

std::string hash_of(const std::string& text) {
  return sha256_hex({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

}  // namespace

TEST_CASE("SHA-256 of the standard's messages", "[data]") {
  CHECK(hash_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hash_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hash_of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
                "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu") ==
        "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  CHECK(hash_of(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 in pieces is that of the whole", "[data]") {
  std::vector<uint8_t> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 64);
  for (size_t piece = 1; piece < 200; piece += 3) {
    Digest hash("sha256");
    for (size_t at = 0; at < bytes.size(); at += piece)
      hash.update(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    CHECK(hash.hex() == sha256_hex(bytes));
  }
}

TEST_CASE("digests by the names that hashlib has for them", "[data]") {
  const auto hex = [](const std::string& algorithm) {
    Digest digest(algorithm);
    digest.update(std::vector<uint8_t>{'a', 'b', 'c'});
    return digest.hex();
  };
  CHECK(hex("sha1") == "a9993e364706816aba3e25717850c26c9cd0d89d");
  CHECK(hex("md5") == "900150983cd24fb0d6963f7d28e17f72");
  CHECK(hex("sha3_256") == "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532");
  CHECK(hex("blake2s") == "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982");
  for (const char* algorithm : {"md4", "ripemd160", "whirlpool", "sm3", "sha512_256", "blake2b"}) {
    INFO(algorithm);
    if (Digest::knows(algorithm)) CHECK_NOTHROW(Digest(algorithm));  // some have no provider
  }
  CHECK_FALSE(Digest::knows("xxh3_64"));
  CHECK_THROWS_WITH(Digest("xxh3_64"), Catch::Contains("cannot compute xxh3_64"));
}

// The numbers are those of Collet's own program.
TEST_CASE("XXH64 in pieces", "[data]") {
  const auto hex = [](const std::string& text, size_t piece) {
    Digest digest("xxh64");
    for (size_t at = 0; at < text.size(); at += piece) {
      const std::string part = text.substr(at, piece);
      digest.update({reinterpret_cast<const uint8_t*>(part.data()), part.size()});
    }
    return digest.hex();
  };
  for (size_t piece = 1; piece < 70; ++piece) {
    CAPTURE(piece);
    CHECK(hex("", piece) == "ef46db3751d8e999");
    CHECK(hex("a", piece) == "d24ec4f1a98c6e5b");
    CHECK(hex("abc", piece) == "44bc2cf5ad770999");
    CHECK(hex("Nobody inspects the spammish repetition", piece) == "fbcea83c8a378bf1");
  }
}

}  // namespace composer::digest_test
