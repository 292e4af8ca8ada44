#include "data/beton/beton.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <random>

#include "base/error.h"
#include "beton_bytes.h"
#include "data/samples/transform.h"
#include "tests/files.h"

namespace composer::beton_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

std::string text(std::span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

/// Three samples of every field type in pages of 256 bytes.
TestBeton all_types() {
  TestBeton spec;
  spec.fields = {{"image", 2, {}, ""},
                 {"label", 1, {}, ""},
                 {"weight", 0, {}, ""},
                 {"vec", 4, {2, 3}, R"([["", "<i2"]])"},
                 {"info", 5, {}, ""},
                 {"blob", 3, {}, ""},
                 {"a_name_of_16_let", 6, {4}, R"([["", "|u1"]])"},
                 {"pair", 4, {}, R"([["a", "<f4"], ["b", "<i8", [2]]])"}};
  for (int i = 0; i < 3; ++i) {
    TestImage image = raw_image(static_cast<uint16_t>(3 + i), 4, i);
    if (i == 1) image = {0, 5, 6, "these bytes are no JPEG"};
    spec.rows.push_back({image, int64_t{-i}, 0.5 * i, std::string(12, static_cast<char>('a' + i)),
                         "{\"i\": " + std::to_string(i) + "}", std::string("blob") + char('0' + i),
                         "ten" + std::to_string(i), std::string(20, static_cast<char>('p' + i))});
  }
  return spec;
}

struct Written {
  TemporaryFolder folder;
  std::string path = folder / "f.beton";
  explicit Written(const std::string& bytes) { write_file(path, bytes); }
};

/// Reads whatever a row says; UserError and RunError are the two answers to damage.
void read_everything(const std::string& path) {
  try {
    const BetonFile file(path);
    volatile uint8_t sink = 0;
    for (int64_t row = 0; row < std::min<int64_t>(file.samples(), 50); ++row) {
      for (size_t f = 0; f < file.fields().size(); ++f) {
        try {
          switch (file.fields()[f].type) {
            case BetonType::integer:
              file.integer(row, f);
              break;
            case BetonType::real:
              file.real(row, f);
              break;
            case BetonType::image:
              for (const uint8_t byte : file.image(row, f).bytes) sink = sink + byte;
              break;
            default:
              for (const uint8_t byte : file.bytes(row, f)) sink = sink + byte;
          }
          file.page(row, f);
        } catch (const RunError&) {
        }
      }
    }
  } catch (const UserError&) {
  }
}

}  // namespace

TEST_CASE("every field type of a .beton file is read", "[data]") {
  auto spec = all_types();
  const Written written(beton_bytes(spec).file);
  const BetonFile file(written.path);
  REQUIRE(file.samples() == 3);
  CHECK(file.page_size() == 256);
  CHECK(file.regions() == 18);
  CHECK(file.file_bytes() == fs::file_size(written.path));
  REQUIRE(file.fields().size() == 8);
  CHECK(file.fields()[3].shape == std::vector<int64_t>{2, 3});
  CHECK(file.fields()[3].dtype == "<i2");
  CHECK(file.fields()[6].name == "a_name_of_16_let");
  CHECK(file.fields()[7].shape.empty());
  CHECK(file.find_field(BetonType::integer) == 1);
  CHECK(file.find_field(BetonType::tensor, "a_name_of_16_let") == 6);
  CHECK_FALSE(file.find_field(BetonType::integer, "weight"));
  for (int64_t i = 0; i < 3; ++i) {
    const auto image = file.image(i, 0);
    const auto& wanted = std::get<TestImage>(spec.rows[static_cast<size_t>(i)][0]);
    CHECK(image.jpeg == (i == 1));
    CHECK(image.size == ImageSize{wanted.height, wanted.width});
    CHECK(text(image.bytes) == wanted.bytes);
    CHECK(file.integer(i, 1) == -i);
    CHECK(file.real(i, 2) == 0.5 * static_cast<double>(i));
    for (const size_t f : {3, 4, 5, 6, 7})
      CHECK(text(file.bytes(i, f)) == std::get<std::string>(spec.rows[static_cast<size_t>(i)][f]));
  }
  CHECK(file.page(0, 0) == beton_bytes(spec).pages / 256);
  CHECK(file.page(0, 1) == beton_bytes(spec).rows / 256);
  CHECK_THROWS_WITH(file.image(3, 0), Contains("no row 3"));
  CHECK_THROWS_WITH(file.image(-1, 0), Contains("no row -1"));
  CHECK_THROWS_WITH(file.image(0, 1), Contains("'label' holds no image"));
  CHECK_THROWS_WITH(file.bytes(0, 1), Contains("'label' holds no bytes"));
  CHECK_THROWS_WITH(file.integer(0, 8), Contains("no field 8"));
}

TEST_CASE("rows lie as numpy aligns them", "[data]") {
  struct Case {
    std::vector<uint8_t> types;
    std::vector<uint64_t> offsets;
    uint64_t row_bytes;
  };
  // 2 = image, 1 = int, 0 = float, 3 = bytes, 4 = array, 5 = JSON; as FFCV 1.0.2 was seen to write.
  const std::vector<Case> cases{{{2, 1}, {0, 16}, 24},
                                {{1, 2}, {0, 8}, 24},
                                {{2}, {0}, 13},
                                {{2, 3}, {0, 13}, 29},
                                {{2, 5, 2}, {0, 13, 29}, 42},
                                {{3, 2, 1}, {0, 16, 32}, 40},
                                {{2, 1, 0, 4, 4, 5, 3, 4}, {0, 16, 24, 32, 40, 48, 64, 80}, 88}};
  for (const auto& one : cases) {
    TestBeton spec;
    for (const uint8_t type : one.types)
      spec.fields.push_back({"f", type, {1}, R"([["", "|u1"]])"});
    const auto made = beton_bytes(spec);
    REQUIRE(made.row_bytes == one.row_bytes);
    // Just as many rows as fit between fields and table: one more must be refused.
    std::string bytes = made.file;
    const uint64_t table = made.rows + 3 * one.row_bytes;
    bytes.resize(table + 3 * one.types.size() * 24);
    put(bytes, 16, table), put(bytes, 8, uint64_t{3});
    const Written written(bytes);
    const BetonFile file(written.path);
    for (size_t f = 0; f < one.types.size(); ++f) CHECK(file.fields()[f].offset == one.offsets[f]);
    put(bytes, 8, uint64_t{4});
    write_file(written.path, bytes);
    CHECK_THROWS_WITH(BetonFile(written.path),
                      Contains("4 rows of " + std::to_string(one.row_bytes)));
  }
}

TEST_CASE("JPEG sizes are found in any order of the allocation table", "[data]") {
  TestBeton spec;
  spec.fields = {{"blob", 3, {}, ""}, {"image", 2, {}, ""}};
  for (int i = 0; i < 60; ++i) {
    // Empty bytes share their place with the image that follows.
    const std::string blob = i % 3 == 0 ? "" : std::string(static_cast<size_t>(i % 5), 'b');
    spec.rows.push_back({blob, TestImage{0, 9, 9, std::string(static_cast<size_t>(20 + i), 'j')}});
  }
  const auto by_writer = [](std::vector<TableEntry>& table) {  // pages in turn to three writers
    std::stable_sort(table.begin(), table.end(), [](const auto& a, const auto& b) {
      return a.begin / 256 % 3 > b.begin / 256 % 3;
    });
  };
  const auto backwards = [](auto& table) { std::reverse(table.begin(), table.end()); };
  const auto shuffled = [](auto& table) {
    std::shuffle(table.begin(), table.end(), std::mt19937(5));
  };
  using Order = std::function<void(std::vector<TableEntry>&)>;
  for (const auto& order :
       {Order([](auto&) {}), Order(by_writer), Order(backwards), Order(shuffled)}) {
    spec.reorder = order;
    const Written written(beton_bytes(spec).file);
    const BetonFile file(written.path);
    for (int64_t i = 0; i < 60; ++i) {
      CHECK(file.image(i, 1).bytes.size() == static_cast<size_t>(20 + i));
      CHECK(text(file.bytes(i, 0)) == std::get<std::string>(spec.rows[static_cast<size_t>(i)][0]));
    }
  }
}

TEST_CASE("a .beton file may have no pages, no rows, and empty regions", "[data]") {
  TestBeton spec;
  spec.fields = {{"a", 1, {}, ""}, {"b", 0, {}, ""}};
  spec.rows = {{int64_t{7}, 1.5}, {int64_t{-8}, -2.0}};
  const Written numbers(beton_bytes(spec).file);
  CHECK(BetonFile(numbers.path).regions() == 0);
  CHECK(BetonFile(numbers.path).integer(1, 0) == -8);
  CHECK(BetonFile(numbers.path).real(0, 1) == 1.5);

  spec.rows.clear();
  const Written nothing(beton_bytes(spec).file);
  CHECK(BetonFile(nothing.path).samples() == 0);

  spec.fields = {{"b", 3, {}, ""}};
  spec.rows = {{""}, {"abc"}};
  auto made = beton_bytes(spec);
  put(made.file, made.rows, uint64_t{0});  // FFCV's very first empty region lies a page before all
  const Written empty(made.file);
  CHECK(BetonFile(empty.path).bytes(0, 0).empty());
  CHECK(text(BetonFile(empty.path).bytes(1, 0)) == "abc");
}

TEST_CASE("files that are no whole .beton files are refused with the reason", "[data]") {
  const auto made = beton_bytes(all_types());
  struct Case {
    const char* reason;
    std::function<void(std::string&)> damage;
  };
  const size_t vec = 24 + 3 * 1041 + 17;  // arguments of the field 'vec'
  const std::vector<Case> cases{
      {"it has only 0 bytes", [](auto& b) { b.clear(); }},
      {"it has only 23 bytes", [](auto& b) { b.resize(23); }},
      {"it begins with 55551", [](auto& b) { put(b, 0, uint16_t{0xD8FF}); }},
      {"no fields", [](auto& b) { put(b, 2, uint16_t{0}); }},
      {"65535 fields", [](auto& b) { put(b, 2, uint16_t{65535}); }},
      {"field 8: ", [](auto& b) { put(b, 2, uint16_t{9}); }},
      {"page size, 0,", [](auto& b) { put(b, 4, uint32_t{0}); }},
      {"page size, 768,", [](auto& b) { put(b, 4, uint32_t{768}); }},
      {"rows of 88 bytes", [](auto& b) { put(b, 8, ~uint64_t{0}); }},
      {"rows of 88 bytes", [](auto& b) { put(b, 8, uint64_t{1} << 60); }},
      {"unfinished", [](auto& b) { put(b, 16, uint64_t{0}); }},
      {"rows of 88 bytes", [](auto& b) { put(b, 16, uint64_t{1}); }},
      {"cut off", [](auto& b) { put(b, 16, uint64_t{1} << 40); }},
      {"cut off", [](auto& b) { put(b, 16, ~uint64_t{0}); }},
      {"allocation table has", [](auto& b) { put(b, 16, uint64_t{b.size()}); }},
      {"allocation table has", [](auto& b) { b += "more"; }},
      {"field 0 'image': type 9 does not exist", [](auto& b) { b[24] = 9; }},
      {"field 0 'image': it has a type of the user's own", [](auto& b) { b[24] = char(255); }},
      {"field 1: its name is not readable", [](auto& b) { b[24 + 1041 + 1] = 7; }},
      {"larger than 4 GiB", [&](auto& b) { put(b, vec, uint64_t{1} << 31); }},
      {"larger than 4 GiB", [&](auto& b) { put(b, vec, ~uint64_t{0}); }},
      {"the type of its arrays is damaged", [&](auto& b) { put(b, vec + 256, uint64_t{761}); }},
      {"the type of its arrays is no JSON", [&](auto& b) { put(b, vec + 256, uint64_t{4}); }},
      {"the type of its arrays is no JSON", [&](auto& b) { b.replace(vec + 264, 700, 700, '['); }},
      {"unknown type '<x2'", [&](auto& b) { b[vec + 264 + 8] = 'x'; }},
      {"unknown type '<iz'", [&](auto& b) { b[vec + 264 + 9] = 'z'; }},
  };
  for (const auto& one : cases) {
    std::string bytes = made.file;
    one.damage(bytes);
    const Written written(bytes);
    INFO(one.reason);
    try {
      const BetonFile file(written.path);
      FAIL_CHECK("opened");
    } catch (const UserError& error) {
      CHECK_THAT(error.what(), Contains(one.reason) && Contains(written.path));
    }
  }
  const TemporaryFolder folder;
  CHECK_THROWS_AS(BetonFile(folder.path()), UserError);
  CHECK_THROWS_WITH(BetonFile(folder / "none.beton"), Contains("none.beton: no such file"));
}

TEST_CASE("a .beton file cut off anywhere is refused", "[data]") {
  const auto made = beton_bytes(all_types());
  const TemporaryFolder folder;
  const std::string path = folder / "f.beton";
  write_file(path, made.file);
  for (size_t length = made.file.size(); length-- > 0;) {
    fs::resize_file(path, length);
    INFO(length);
    CHECK_THROWS_AS(BetonFile(path), UserError);
  }
}

TEST_CASE("damaged rows of a .beton file are named", "[data]") {
  const auto made = beton_bytes(all_types());
  const size_t row = made.rows, next = made.rows + made.row_bytes;
  struct Case {
    int64_t sample;
    size_t field;
    const char* reason;
    std::function<void(std::string&)> damage;
  };
  const uint64_t end = made.table;
  const std::vector<Case> cases{
      {0, 0, "its mode is 2", [&](auto& b) { b[row] = 2; }},
      {0, 0, "no pixels (0 x 4)", [&](auto& b) { put(b, row + 1, uint16_t{0}); }},
      {0, 0, "no pixels (3 x 0)", [&](auto& b) { put(b, row + 3, uint16_t{0}); }},
      {0, 0, "too large (65535 x 65535)", [&](auto& b) { put(b, row + 1, ~uint32_t{0}); }},
      {0, 0, "lie outside", [&](auto& b) { put(b, row + 1, uint16_t{300}); }},
      {0, 0, "lie outside", [&](auto& b) { put(b, row + 5, uint64_t{24}); }},
      {0, 0, "lie outside", [&](auto& b) { put(b, row + 5, end - 35); }},
      {0, 0, "lie outside", [&](auto& b) { put(b, row + 5, ~uint64_t{0}); }},
      {1, 0, "has no JPEG", [&](auto& b) { b[next + 5] ^= 1; }},
      {1, 0, "lie outside", [&](auto& b) { put(b, made.table + 6 * 24 + 16, ~uint64_t{0}); }},
      {1, 0, "has no JPEG", [&](auto& b) { put(b, made.table + 6 * 24 + 16, uint64_t{0}); }},
      {1, 0, "has no JPEG", [&](auto& b) { put(b, made.table + 6 * 24 + 8, uint64_t{5}); }},
      {0, 3, "lie outside", [&](auto& b) { put(b, row + 32, end - 11); }},
      {0, 4, "lie outside", [&](auto& b) { put(b, row + 48, ~uint64_t{0} - 3); }},
      {0, 5, "lie outside", [&](auto& b) { put(b, row + 64, end + 1); }},
  };
  for (const auto& one : cases) {
    std::string bytes = made.file;
    one.damage(bytes);
    const Written written(bytes);
    const BetonFile file(written.path);
    INFO(one.reason);
    const auto read = [&] {
      return one.field == 0 ? file.image(one.sample, 0).bytes : file.bytes(one.sample, one.field);
    };
    try {
      read();
      FAIL_CHECK("read");
    } catch (const RunError& error) {
      CHECK_THAT(error.what(), Contains(one.reason));
    }
    CHECK_NOTHROW(file.image(2, 0));
  }
}

TEST_CASE("no changed byte of a .beton file does harm", "[data]") {
  const auto made = beton_bytes(all_types());
  const TemporaryFolder folder;
  const std::string path = folder / "f.beton";
  write_file(path, made.file);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto put_byte = [&](size_t at, int byte) {
    file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte)).flush();
  };
  std::mt19937 random(11);
  const auto interesting = [&](size_t at) {  // most of a descriptor is unused
    return at < 24 || at >= made.rows || (at - 24) % 1041 < 300;
  };
  for (size_t at = 0; at < made.file.size(); ++at) {
    if (!interesting(at) || (at >= made.pages && at < made.table)) continue;
    for (const int change : {0xFF, 1 << (random() % 8)}) {
      put_byte(at, made.file[at] ^ change);
      read_everything(path);
    }
    put_byte(at, made.file[at]);
  }
  CHECK(read_bytes(path) == made.file);
}

TEST_CASE("no damage to a .beton file does harm", "[data][.long]") {
  const auto made = beton_bytes(all_types());
  const TemporaryFolder folder;
  const std::string path = folder / "f.beton";
  std::mt19937_64 random(12);
  const uint64_t values[] = {
      0,          1,          made.rows,  made.pages,          made.table,
      ~0ULL,      1ULL << 63, 1ULL << 32, made.file.size(),    made.table - 1,
      0x7FFFFFFF, 24,         255,        made.file.size() + 1};
  const auto stop = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < stop) {
    std::string bytes = made.file;
    for (uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
      // Headers, descriptions' used parts, rows and table, all alike likely.
      size_t at = random() % 24;
      const auto part = random() % 4;
      if (part == 1) at = 24 + random() % 8 * 1041 + random() % 330;
      if (part == 2) at = made.rows + random() % (3 * made.row_bytes);
      if (part == 3) at = made.table + random() % (bytes.size() - made.table);
      const uint64_t value = random() % 4 == 0 ? random() : values[random() % std::size(values)];
      const size_t length = std::min<size_t>(bytes.size() - at, size_t{1} << random() % 4);
      std::memcpy(bytes.data() + at, &value, length);
    }
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    write_file(path, bytes);
    read_everything(path);
  }
  write_file(path, made.file);
  CHECK(BetonFile(path).samples() == 3);
}

TEST_CASE("opening a million rows takes no time and little memory", "[data]") {
  const int64_t samples = 1'300'000;
  const uint64_t page = 8 << 20, region = 55'000, in_page = page / region;
  const uint64_t rows = 24 + 2 * 1041, data = rounded_up(rows + samples * 24, page);
  const auto begin = [&](uint64_t i) { return data + i / in_page * page + i % in_page * region; };
  const uint64_t table = begin(samples - 1) / page * page + page;
  const TemporaryFolder folder;
  const std::string path = folder / "f.beton";
  {
    std::string head, all_rows(static_cast<size_t>(samples) * 24, '\0'), entries(all_rows);
    append(head, uint16_t{2}), append(head, uint16_t{2}), append(head, uint32_t{page});
    append(head, samples), append(head, table);
    head += descriptor({"image", 2, {}, ""}) + descriptor({"label", 1, {}, ""});
    // Eight writers take pages in turn and end one after the other.
    std::vector<uint64_t> order(static_cast<size_t>(samples));
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](uint64_t a, uint64_t b) { return a / in_page % 8 < b / in_page % 8; });
    for (size_t i = 0; i < order.size(); ++i) {
      put(all_rows, i * 24 + 1, uint16_t{500}), put(all_rows, i * 24 + 3, uint16_t{375});
      put(all_rows, i * 24 + 5, begin(i)), put(all_rows, i * 24 + 16, i);
      put(entries, i * 24, order[i]), put(entries, i * 24 + 8, begin(order[i]));
      put(entries, i * 24 + 16, 50'000 + order[i] % 5000);
    }
    std::ofstream out(path, std::ios::binary);
    out << head << all_rows;
    out.seekp(static_cast<std::streamoff>(table));
    out << entries;
    REQUIRE(out.good());
  }
  const auto start = std::chrono::steady_clock::now();
  const BetonFile file(path);
  const std::chrono::duration<double> opened = std::chrono::steady_clock::now() - start;
  int64_t wrong = 0;
  for (int64_t i = 0; i < samples; i += 7) {
    if (file.image(i, 0).bytes.size() != static_cast<size_t>(50'000 + i % 5000)) ++wrong;
    if (file.integer(i, 1) != i) ++wrong;
  }
  const std::chrono::duration<double> read = std::chrono::steady_clock::now() - start - opened;
  CHECK(wrong == 0);
  INFO("opened in " << opened.count() * 1e3 << " ms, " << read.count() / (samples / 7.0) * 1e9
                    << " ns a row");
  CHECK(opened.count() < 0.5);
}

TEST_CASE("FFCV's centre crop is a square of the shorter side", "[data]") {
  CHECK(ffcv_center_crop({375, 500}, 224.0 / 256) == Box{23, 86, 328, 328});
  CHECK(ffcv_center_crop({97, 33}, 1.0) == Box{32, 0, 33, 33});
  CHECK(ffcv_center_crop({1, 1}, 0.875) == Box{0, 0, 1, 1});
}

}  // namespace composer::beton_test
