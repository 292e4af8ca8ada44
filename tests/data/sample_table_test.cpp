#include "data/samples/sample_table.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "base/error.h"
#include "base/files/byte_reader.h"
#include "base/files/checksum.h"
#include "base/random.h"
#include "data/samples/source.h"
#include "data/samples/target_rows.h"
#include "tests/files.h"

namespace composer::sample_table_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

SampleTableWriter some_files() {
  SampleTableWriter writer;
  for (const char* name : {"cat", "dog", "no image"}) writer.add_class(name);
  writer.add_file("cat/1.jpg", 0);
  writer.add_file("cat/deep/2.jpg", 0);
  writer.add_file("cat/3.jpg", 0);
  writer.add_file("/elsewhere/4.jpg", 1);
  writer.add_file("5.jpg", 1);
  writer.watch("cat", {PathStamp::folder, 7, 0, 8, 9});
  writer.watch("/elsewhere", {.kind = PathStamp::no_folder});
  return writer;
}

std::vector<std::string> paths_of(const SampleTable& table) {
  std::vector<std::string> paths;
  for (int64_t i = 0; i < table.size(); ++i)
    paths.push_back(std::string(table.container(i)) + "|" + std::string(table.name(i)) + "|" +
                    std::to_string(table.label(i)));
  return paths;
}

}  // namespace

TEST_CASE("a table says where samples lie, in memory and from its file", "[data]") {
  const TemporaryFolder folder;
  const auto bytes = some_files().bytes();
  write_file(folder / "a.table", text_of(bytes));
  const SampleTable owned(bytes), mapped(folder / "a.table");
  for (const SampleTable* table : {&owned, &mapped}) {
    CHECK_FALSE(table->has_parts());
    CHECK(paths_of(*table) == std::vector<std::string>{"cat/|1.jpg|0", "cat/deep/|2.jpg|0",
                                                       "cat/|3.jpg|0", "/elsewhere/|4.jpg|1",
                                                       "|5.jpg|1"});
    CHECK(table->containers() == 4);
    CHECK(table->classes() == 2);
    CHECK(table->class_names() == std::vector<std::string>{"cat", "dog", "no image"});
    REQUIRE(table->watched() == 2);
    CHECK(table->watched(0).path == "cat");
    CHECK(table->watched(0).stamp == PathStamp{PathStamp::folder, 7, 0, 8, 9});
    CHECK(table->watched(1).path == "/elsewhere");
  }
  CHECK(SampleTable(SampleTableWriter().bytes()).size() == 0);
  CHECK_THROWS_AS(SampleTable(folder / "none"), UserError);
}

TEST_CASE("a table has numbers in place of classes", "[data]") {
  const TemporaryFolder folder;
  TargetRows rows({"area", "vec"});
  rows.add({{1.5F}, {2, -3}});
  rows.add({{0}, {4, 5}});
  SampleTableWriter writer;
  writer.add_file("a.jpg", 0);
  writer.add_file("b.jpg", 0);
  writer.set_values(rows);
  const auto bytes = writer.bytes();
  write_file(folder / "a.table", text_of(bytes));
  const SampleTable owned(bytes), mapped(folder / "a.table");
  for (const SampleTable* table : {&owned, &mapped}) {
    CHECK(table->num_values() == 3);
    CHECK(table->value_names() == std::vector<std::string>{"area", "vec[0]", "vec[1]"});
    CHECK(table->class_names().empty());
    CHECK(table->classes() == 0);
    std::vector<float> values(3);
    table->read_values(0, values);
    CHECK(values == std::vector<float>{1.5F, 2, -3});
    table->read_values(1, values);
    CHECK(values == std::vector<float>{0, 4, 5});
    CHECK(paths_of(*table) == std::vector<std::string>{"|a.jpg|0", "|b.jpg|0"});
  }
  CHECK(SampleTable(some_files().bytes()).num_values() == 0);
  CHECK(SampleTable(some_files().bytes()).value_names().empty());
}

TEST_CASE("a table of parts says where in their files they lie", "[data]") {
  SampleTableWriter writer(true, SampleCoding::pil);
  for (int i = 0; i < 100; ++i)
    writer.add_part(i < 60 ? "a.tar" : "b.tar", "k" + std::to_string(i),
                    static_cast<uint64_t>(i) * 512 + (uint64_t{5} << 32),
                    static_cast<uint64_t>(1000 + i), i % 7);
  const SampleTable table(writer.bytes());
  CHECK(table.has_parts());
  CHECK(table.coding() == SampleCoding::pil);
  CHECK(table.containers() == 2);
  CHECK(table.classes() == 7);
  for (int64_t i = 0; i < 100; ++i) {
    CHECK(table.container(i) == (i < 60 ? "a.tar" : "b.tar"));
    CHECK(table.container_number(i) == (i < 60 ? 0 : 1));
    CHECK(table.name(i) == "k" + std::to_string(i));
    CHECK(table.offset(i) == static_cast<uint64_t>(i) * 512 + (uint64_t{5} << 32));
    CHECK(table.length(i) == static_cast<uint64_t>(1000 + i));
  }
}

TEST_CASE("a table is refused when it is cut off or damaged anywhere", "[data]") {
  const std::string whole = text_of(some_files().bytes());
  for (size_t size = 0; size < whole.size(); ++size)
    CHECK_THROWS_AS(SampleTable(bytes_of(whole.substr(0, size))), FormatError);
  CHECK_THROWS_AS(SampleTable(bytes_of(whole + '\0')), FormatError);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] ^= 1;
    CHECK_THROWS_AS(SampleTable(bytes_of(damaged)), FormatError);
  }
}

TEST_CASE("a table of another version is refused", "[data]") {
  constexpr size_t checksum_at = 24, version_at = 88;
  auto bytes = some_files().bytes();
  const auto set = [&](size_t at, auto value) { std::memcpy(&bytes[at], &value, sizeof value); };
  set(version_at, uint64_t{0});
  set(checksum_at, uint32_t{0});
  Checksum sum;
  sum.add(bytes);
  set(checksum_at, sum.crc32());
  CHECK_THROWS_WITH(SampleTable(bytes), "is of another version");
}

TEST_CASE("a table that is cut off while it is in use says so", "[data]") {
  const TemporaryFolder folder;
  SampleTableWriter writer;
  for (int i = 0; i < 2000; ++i) writer.add_file("a/" + std::to_string(i) + ".jpg", i % 3);
  write_file(folder / "a.table", text_of(writer.bytes()));
  const auto table = std::make_shared<const SampleTable>(folder / "a.table");
  const FileSource source(table, "root/", 3);
  CHECK(source.name(1999) == "root/a/1999.jpg");
  fs::resize_file(folder / "a.table", 4096);
  ReadScratch scratch;
  CHECK_THROWS_WITH(source.open(1999, scratch), Contains("a.table: the table of the samples"));
  CHECK_THROWS_AS(source.label(1999), RunError);
  CHECK_THROWS_WITH(label_of(source, 1999), Contains("root/, sample 1999: "));
}

TEST_CASE("a stamp is trusted once the clock of its file system has moved on", "[data]") {
  constexpr int64_t second = 1'000'000'000;
  const PathStamp old{PathStamp::folder, 1, 0, 10 * second, 11 * second};
  PathStamp other = old;
  other.changed += 1;
  CHECK(settled(old, old, 13 * second) == old);
  CHECK(settled(old, old, 13 * second - 1).kind == PathStamp::changing);
  CHECK(settled(old, old, 5 * second).kind == PathStamp::changing);  // of another clock
  CHECK(settled(old, other, 20 * second).kind == PathStamp::changing);
  CHECK_FALSE(PathStamp{} == PathStamp{});

  const TemporaryFolder folder;
  const auto stamp = path_stamp_of(folder.path());
  CHECK(is_as_before(folder.path(), stamp));
  write_file(folder / "x", "x");
  CHECK(path_stamp_of(folder / "x").bytes == 1);
  CHECK(path_stamp_of(folder / "x").kind == PathStamp::file);
  CHECK(path_stamp_of(folder / "none").kind == PathStamp::no_folder);
  const PathStamp none{.kind = PathStamp::no_folder};
  CHECK(is_as_before(folder / "none", none));
  CHECK(is_as_before(folder / "x", none));
  CHECK_FALSE(is_as_before(folder.path(), none));
}

}  // namespace composer::sample_table_test
