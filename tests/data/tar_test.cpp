#include <catch2/catch.hpp>

#include "base/files/byte_reader.h"
#include "data/shards/webdataset.h"
#include "tests/data/make_tar.h"
#include "tests/files.h"

namespace composer::tar_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

/// "path=content" of each member.
std::vector<std::string> members_of(const std::string& file, bool* has_end = nullptr) {
  const auto bytes = bytes_of(file);
  TarReader reader(bytes.size(), [&](uint64_t begin, uint64_t count) {
    return std::span(bytes).subspan(begin, count);
  });
  std::vector<std::string> all;
  while (const auto member = reader.next())
    all.push_back(member->path + "=" + file.substr(member->offset, member->bytes));
  if (has_end != nullptr) *has_end = reader.has_end_mark();
  CHECK_FALSE(reader.next());
  return all;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("members of tar files of every kind are found", "[data]") {
  const std::string long_name = std::string(120, 'd') + "/" + std::string(150, 'n') + ".jpg";
  const std::string gnu("ustar  ", 7);
  bool has_end = false;
  CHECK(members_of(tar_member("a.jpg", "one") + tar_member("b/c.cls", "2") + tar_end(), &has_end) ==
        Names{"a.jpg=one", "b/c.cls=2"});
  CHECK(has_end);
  CHECK(members_of(tar_member("empty", "") + tar_member("full", std::string(512, 'x')) +
                   tar_end()) == Names{"empty=", "full=" + std::string(512, 'x')});
  CHECK(members_of(tar_header("name", 1, '0', "folder") + tar_padded("x") + tar_end()) ==
        Names{"folder/name=x"});
  // In GNU's own headers that place holds something else.
  CHECK(members_of(tar_header("name", 1, '0', "12345", gnu) + tar_padded("x") + tar_end()) ==
        Names{"name=x"});
  CHECK(members_of(tar_member("././@LongLink", long_name + '\0', 'L') + tar_member("cut", "x") +
                   tar_member("next", "y") + tar_end()) == Names{long_name + "=x", "next=y"});
  CHECK(members_of(tar_pax({{"mtime", "1.5"}, {"path", long_name}}) + tar_member("cut", "x") +
                   tar_member("next", "y") + tar_end()) == Names{long_name + "=x", "next=y"});
  CHECK(members_of(tar_pax({{"size", "3"}}) + tar_header("a", 0) + tar_padded("xyz") + tar_end()) ==
        Names{"a=xyz"});
  CHECK(members_of(tar_pax({{"comment", "x"}}, 'g') + tar_member("a", "x") + tar_end()) ==
        Names{"a=x"});
  CHECK(members_of(tar_member("folder/", "", '5') + tar_header("link", 7, '2') +
                   tar_header("hard", 7, '1') + tar_member("old/", "", '\0') +
                   tar_member("old", "x", '\0') + tar_member("contiguous", "y", '7') + tar_end()) ==
        Names{"old=x", "contiguous=y"});
}

TEST_CASE("a tar file's numbers may be GNU's", "[data]") {
  std::string header = tar_header("a", 0);
  header.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\x02\x01", 12));
  unsigned sum = 0;
  for (size_t i = 0; i < header.size(); ++i)
    sum += i >= 148 && i < 156 ? ' ' : static_cast<uint8_t>(header[i]);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  header.replace(148, 7, text, 7);
  CHECK(members_of(header + tar_padded(std::string(513, 'x')) + tar_end()) ==
        Names{"a=" + std::string(513, 'x')});
}

TEST_CASE("a tar file without its end is read as far as it goes, cut members are refused",
          "[data]") {
  const std::string whole = tar_member("a", "one") + tar_member("b", std::string(700, 'x'));
  bool has_end = true;
  CHECK(members_of(whole, &has_end).size() == 2);
  CHECK_FALSE(has_end);
  CHECK(members_of("").empty());
  for (size_t size = 1; size < whole.size() - 324; ++size) {
    if (size % 512 == 0 && size < 1536) continue;
    INFO(size);
    if (size >= 512 + 3 && size <= 1024) continue;  // the padding may be missing
    CHECK_THROWS_AS(members_of(whole.substr(0, size)), FormatError);
  }
}

TEST_CASE("what is no tar file is told from one that is damaged", "[data]") {
  const std::string good = tar_member("a", "one");
  CHECK_THROWS_WITH(members_of(std::string(600, 'x')), Contains("no tar file"));
  CHECK_THROWS_WITH(members_of("\x1f\x8b" + std::string(600, 'x')), Contains("unpack it"));
  CHECK_THROWS_WITH(members_of(good + std::string(600, 'x')),
                    Contains("the tar file is damaged (at byte 1024)"));
  CHECK_THROWS_WITH(members_of(tar_header("a", 9999) + tar_end()), Contains("cut off"));
  CHECK_THROWS_WITH(members_of(tar_member("a", "x", 'S') + tar_end()), Contains("sparse"));
  CHECK_THROWS_WITH(members_of(tar_pax({{"GNU.sparse.major", "1"}}) + good), Contains("sparse"));
  CHECK_THROWS_WITH(members_of(tar_member("pax", "9 path=x", 'x') + good),
                    Contains("an extended header is damaged"));
  CHECK_THROWS_AS(members_of(tar_pax({{"size", "x"}}) + good), FormatError);
}

}  // namespace composer::tar_test
