// composer data info, hash and verify.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../data/beton_bytes.h"
#include "data/beton/beton.h"
#include "data/files/digest.h"
#include "data/jpeg/jpeg.h"
#include "mds_set.h"
#include "program.h"
#include "tests/files.h"

namespace composer::data_commands_test {

using namespace composer::test;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

using Words = std::vector<std::string>;

fs::path shared() { return fs::path(SOURCE_DIR) / ".." / "shared"; }

std::string jpeg_bytes(uint16_t width, uint16_t height) {
  std::vector<uint8_t> pixels(size_t{width} * height * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i / 97 + i);
  const auto bytes = encode_jpeg({pixels.data(), height, width, 3, width * 3}, 90);
  return {bytes.begin(), bytes.end()};
}

/// 40 images of two sizes, every other one a JPEG.
TestBeton mixed() {
  TestBeton spec;
  spec.page_size = 1 << 16;
  spec.fields = {{"weight", 0, {}, ""}, {"image", 2, {}, ""}, {"label", 1, {}, ""}};
  for (int i = 0; i < 40; ++i) {
    TestImage image = raw_image(20, 10, i);
    if (i % 2 == 1) image = {0, 37, 21, jpeg_bytes(37, 21)};
    spec.rows.push_back({0.5, image, int64_t{i % 3 - 1}});
  }
  return spec;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

}  // namespace

TEST_CASE("data info shows fields, sizes and labels", "[cli]") {
  const TemporaryFolder folder;
  write_file(folder.path() / "f.beton", beton_bytes(mixed()).file);
  const auto text = run(folder.path(), {"data", "info", "f.beton"});
  CHECK(text.status == 0);
  CHECK_THAT(text.output, Contains("40 samples") && Contains("20 JPEG, 20 raw") &&
                              Contains("width 20..37 (mean 28.5)") && Contains("RGBImage"));
  const auto told = run(folder.path(), {"data", "info", "f.beton", "--json"});
  REQUIRE(told.status == 0);
  const auto info = json::parse(told.output);
  CHECK(info["samples"] == 40);
  CHECK(info["page_size"] == 1 << 16);
  CHECK(info["fields"][1]["name"] == "image");
  const auto& images = info["fields"][1]["images"];
  CHECK(images["jpeg"] == 20);
  CHECK(images["height"] == json{{"min", 10}, {"mean", 15.5}, {"max", 21}});
  CHECK(images["bytes"]["min"] == 600);
  CHECK(images["damaged"] == 0);
  CHECK(info["labels"]["field"] == "label");
  CHECK(info["labels"]["histogram"] == json{{"-1", 14}, {"0", 13}, {"1", 13}});
}

TEST_CASE("data info and data hash take the integer field called label", "[cli]") {
  const TemporaryFolder folder;
  auto spec = mixed();
  spec.fields.insert(spec.fields.begin(), TestField{"id", 1, {}, ""});
  for (size_t i = 0; i < spec.rows.size(); ++i)
    spec.rows[i].insert(spec.rows[i].begin(), TestValue(static_cast<int64_t>(100 + i)));
  write_file(folder.path() / "f.beton", beton_bytes(spec).file);
  const auto told = run(folder.path(), {"data", "info", "f.beton", "--json"});
  REQUIRE(told.status == 0);
  CHECK(json::parse(told.output)["labels"]["field"] == "label");
  const auto hashes = run(folder.path(), {"data", "hash", "f.beton"});
  CHECK_THAT(hashes.output, Catch::StartsWith("0 -1 20 10 "));
  CHECK_THAT(hashes.errors, !Contains("is taken for the label"));

  spec.fields.back().name = "age";
  write_file(folder.path() / "f.beton", beton_bytes(spec).file);
  const auto first = run(folder.path(), {"data", "hash", "f.beton"});
  CHECK_THAT(first.output, Catch::StartsWith("0 100 20 10 "));
  CHECK_THAT(first.errors, Contains("f.beton: 'id' is taken for the label: the first of its "
                                    "integer fields, id, age, none of which is called label"));
}

TEST_CASE("data info names the classes of lists and folders, and marks those of one sample",
          "[cli]") {
  const TemporaryFolder folder;
  for (const char* name : {"set/train/cat/1.jpg", "set/train/cat/2.jpg", "set/train/dgo/3.jpg"})
    write_file(folder.path() / name, jpeg_bytes(8, 8));
  folder.write("names.csv", "id,label\n1,cat\n2,cat\n3,dgo\n");
  folder.write("numbers.csv", "id,label\n1,0\n2,0\n3,7\n");
  const auto info = [&](Words words) {
    words.insert(words.begin(), {"data", "info"});
    const auto outcome = run(folder.path(), words);
    INFO(outcome.errors);
    CHECK(outcome.status == 0);
    return outcome.output;
  };
  for (const Words& set : {Words{"names.csv", "--image", "id"}, Words{"set"}}) {
    const auto text = info(set);
    CHECK_THAT(text, Contains("3 samples") && Contains("2 classes") && Contains("  2  cat\n") &&
                         Contains("  1  dgo  <- one sample\n") &&
                         Contains("one sample, perhaps mistyped labels: dgo\n"));
    const auto labels = json::parse(info(set + Words{"--json"}))["labels"];
    CHECK(labels["names"] == json{"cat", "dgo"});
    CHECK(labels["single"] == json{"dgo"});
    CHECK(labels["histogram"] == json{{"0", 2}, {"1", 1}});
  }
  CHECK_THAT(info({"numbers.csv", "--image", "id"}), Contains("2 values") &&
                                                         Contains("7  1  <- one sample\n") &&
                                                         Contains("mistyped labels: 7\n"));
}

TEST_CASE("data commands say what is wrong with their input", "[cli][slow]") {
  const TemporaryFolder folder;
  write_file(folder.path() / "a.jpg", jpeg_bytes(8, 8));
  fs::create_directory(folder.path() / "empty");
  folder.write("a.json", "[]");
  folder.write("a.tar.gz", "x");
  write_file(folder.path() / "shards/shard.00000.mds", "x");
  write_file(folder.path() / "packed/train/shard.00000.mds.zstd", "x");
  write_file(folder.path() / "tars/a.tar.gz", "x");
  folder.write("two.csv", "a.jpg,cat\nempty\\b.jpg,dog\n");
  folder.write("ids.csv", "id,breed\n0a1,pug\n0a2,pug\n");
  struct Case {
    Words words;
    const char* reason;
  };
  const std::vector<Case> cases{
      {{"info", "a.jpg"}, "a.jpg: no .beton file of version 2"},
      {{"info", "none.beton"}, "none.beton: no such file"},
      {{"info", "empty"}, "empty: is a folder without tar files"},
      {{"info", "a.json"}, "a.json: a list of JSON objects is .jsonl"},
      {{"info", "a.tar.gz"}, "a.tar.gz: is compressed; unpack it"},
      {{"info", "shards"},
       "has MDS shards such as shard.00000.mds and no "
       "index.json"},
      {{"verify", "shards"}, "shards: has MDS shards such as"},
      {{"hash", "packed"}, "packed/train: has MDS shards such as"},
      {{"info", "tars"}, "; a.tar.gz is compressed: unpack it"},
      {{"info", "two.csv"}, "two.csv:2: there is no 'empty\\b.jpg'"},
      {{"info", "ids.csv"}, "ids.csv:1: 'id, breed' is unlike all lines below it"},
      {{"verify", "a\\b"}, "folders are parted by /, not by \\"},
      {{"verify", std::string(300, 'x')}, "x: is longer than a path, or a name in it, may be"},
      {{"write", "--format", "mnist", "--source", "empty", "--output", std::string(300, 'x')},
       "--output: its name is longer than a file's may be (255 bytes)"},
      {{"info", "a.jpg", "--images_dir", "empty"}, "is no list of images"},
      {{"info"}, "file is required"},
      {{"hash", "none.beton"}, "none.beton: no such file"},
      {{"verify", "none"}, "none: no such file or folder"},
      {{"verify", "empty"}, "empty: has no files"},
      {{"verify", "a.jpg", "--num_workers", "-1"}, "num_workers"},
      {{"inof", "a.jpg"}, "did you mean 'info'"},
      {{}, "which action?"}};
  for (const auto& one : cases) {
    const auto outcome = run(folder.path(), Words{"data"} + one.words);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.errors, Contains(one.reason));
    CHECK(outcome.output.empty());
  }
}

TEST_CASE("a .beton file without classes is indexed, and the loader measured on it", "[cli]") {
  const TemporaryFolder folder;
  auto spec = mixed();
  spec.fields[2].name = "age", spec.fields[2].type = 0;
  for (auto& row : spec.rows) row[2] = 0.25;
  write_file(folder.path() / "x.beton", beton_bytes(spec).file);
  const auto indexed = run(folder.path(), {"data", "index", "x.beton"});
  INFO(indexed.errors);
  CHECK(indexed.status == 0);
  CHECK_THAT(indexed.output, Contains("x.beton.index: ") && Contains("0 files cannot be read"));
  for (const char* order : {"random", "quasi_random"}) {
    const auto outcome =
        run(folder.path(),
            {"bench", "loader", "--source", "x.beton", "--batch_size", "8", "--resolution", "16",
             "--num_workers", "1", "--epochs", "1", "--crop_index", "off", "--order", order});
    INFO(outcome.errors);
    CHECK(outcome.status == 0);
    CHECK_THAT(outcome.output, Contains("images/s"));
  }
}

TEST_CASE("data hash names each sample's decoded pixels", "[cli]") {
  const TemporaryFolder folder;
  const auto spec = mixed();
  write_file(folder.path() / "f.beton", beton_bytes(spec).file);
  const auto one = run(folder.path(), {"data", "hash", "f.beton", "--num_workers", "1"});
  const auto five = run(folder.path(), {"data", "hash", "f.beton", "--num_workers", "5"});
  REQUIRE(one.status == 0);
  CHECK(one.output == five.output);
  const auto all = lines(one.output);
  REQUIRE(all.size() == 40);
  const BetonFile file(folder.path() / "f.beton");
  JpegDecoder decoder;
  for (size_t i = 0; i < 40; ++i) {
    const auto pixels = decode_whole(file.image(static_cast<int64_t>(i), 1), Dct::fast, decoder);
    const size_t bytes = static_cast<size_t>(pixels.height * pixels.stride);
    CHECK(all[i] == std::to_string(i) + ' ' + std::to_string(static_cast<int>(i % 3) - 1) +
                        (i % 2 == 1 ? " 37 21 " : " 20 10 ") + sha256_hex({pixels.pixels, bytes}));
  }
}

TEST_CASE("data hash goes on after a bad sample", "[cli]") {
  const TemporaryFolder folder;
  auto made = beton_bytes(mixed());
  made.file[made.rows + 2 * made.row_bytes + 8] = 5;  // the third image's mode
  write_file(folder.path() / "f.beton", made.file);
  const auto outcome = run(folder.path(), {"data", "hash", "f.beton"});
  CHECK(outcome.status == 1);
  CHECK(lines(outcome.output).size() == 39);
  CHECK_THAT(outcome.errors, Contains("f.beton: sample 2: its mode is 5"));
}

TEST_CASE("data hash of FFCV's files is what FFCV decodes", "[cli]") {
  const TemporaryFolder folder;
  for (const char* name : {"syn12_allfields", "syn12_jpg", "syn12_raw", "photos/fx16_allfields",
                           "photos/fx16_const_raw_96x64", "photos/fx16_jpg_m500_q90"}) {
    const auto path = shared() / "fixtures" / (std::string(name) + ".beton");
    if (!fs::exists(path)) {
      WARN("skipped: there is no " << path.string());
      continue;
    }
    std::ifstream stream(fs::path(path).replace_extension(".json"));
    const auto wanted = json::parse(stream);
    const auto outcome = run(folder.path(), {"data", "hash", fs::absolute(path)});
    CHECK(outcome.status == 0);
    std::string expected;
    for (size_t i = 0; i < wanted["samples"].size(); ++i) {
      const auto& sample = wanted["samples"][i];
      const auto& image = sample["image"];
      expected += std::to_string(i) + ' ' + sample["label"].dump() + ' ' + image["width"].dump() +
                  ' ' + image["height"].dump() + ' ' + image["sha_decoded"].get<std::string>() +
                  '\n';
    }
    CHECK(outcome.output == expected);
  }
}

TEST_CASE("data verify lists the bad samples of a .beton file", "[cli][slow]") {
  const TemporaryFolder folder;
  auto spec = mixed();
  auto& cut = std::get<TestImage>(spec.rows[3][1]);
  cut.bytes.resize(cut.bytes.size() / 2);
  std::get<TestImage>(spec.rows[5][1]).width = 36;
  std::get<TestImage>(spec.rows[6][1]).mode = 7;
  spec.fields.push_back({"info", 5, {}, ""});
  for (auto& row : spec.rows) row.push_back("{}");
  spec.rows[8].back() = "{\"a\": NaN}";
  write_file(folder.path() / "f.beton", beton_bytes(spec).file);
  const auto one = run(folder.path(), {"data", "verify", "f.beton", "--num_workers", "1"});
  const auto five = run(folder.path(), {"data", "verify", "f.beton", "--num_workers", "5"});
  CHECK(one.status == 1);
  CHECK(one.output == five.output);
  const auto all = lines(one.output);
  REQUIRE(all.size() == 5);
  CHECK_THAT(all[0], Catch::StartsWith("3: field 'image': "));
  CHECK(all[1] == "5: field 'image': the JPEG is 37 x 21, the file says 36 x 21");
  CHECK_THAT(all[2], Contains("6: field 'image': its mode is 7"));
  CHECK(all[3] == "8: warning: field 'info': is no JSON");
  CHECK(all[4] == "40 samples: 3 bad, 1 with warnings");

  write_file(folder.path() / "good.ffcv", beton_bytes(mixed()).file);
  const auto good = run(folder.path(), {"data", "verify", "good.ffcv", "--json"});
  CHECK(good.status == 0);
  CHECK(json::parse(good.output)["samples"] == 40);
  CHECK(json::parse(good.output)["bad"] == 0);

  const auto whole = beton_bytes(mixed());
  write_file(folder.path() / "cut.beton", whole.file.substr(0, whole.table - 1));
  const auto cut_off = run(folder.path(), {"data", "verify", "cut.beton"});
  CHECK(cut_off.status == 1);
  CHECK_THAT(cut_off.output, Catch::StartsWith("cut.beton: cut off: ") &&
                                 Contains("0 samples: 0 bad, 0 with warnings; 1 damaged file"));
  write_file(folder.path() / "other.beton", std::string(100, 'x'));
  const auto other = run(folder.path(), {"data", "verify", "other.beton"});
  CHECK(other.status == 2);
  CHECK_THAT(other.errors, Contains("other.beton: no .beton file of version 2"));
}

TEST_CASE("data verify decodes the files of a folder", "[cli][slow]") {
  const TemporaryFolder folder;
  const auto whole = jpeg_bytes(64, 48);
  for (int i = 0; i < 30; ++i) {
    const char* const classes[] = {"c0", "c1", "c2"};
    write_file(folder.path() / "set" / classes[i % 3] / std::to_string(i).append(".jpg"), whole);
  }
  write_file(folder.path() / "set/c1/half.jpg", whole.substr(0, whole.size() / 2));
  write_file(folder.path() / "set/c2/text.jpg", "no image");
  write_file(folder.path() / "set/.composer-index", "hidden");
  fs::create_directory_symlink("..", folder.path() / "set/c2/up");
  const auto one = run(folder.path(), {"data", "verify", "set", "--num_workers", "1"});
  const auto five = run(folder.path(), {"data", "verify", "set", "--num_workers", "5"});
  CHECK(one.status == 1);
  CHECK(one.output == five.output);
  const auto all = lines(one.output);
  REQUIRE(all.size() == 3);
  CHECK_THAT(all[0], Catch::StartsWith("set/c1/half.jpg: "));
  CHECK_THAT(all[1], Catch::StartsWith("set/c2/text.jpg: "));
  CHECK(all[2] == "32 samples: 2 bad, 0 with warnings");

  const auto told = run(folder.path(), {"data", "verify", "set", "--json"});
  CHECK(told.status == 1);
  const auto found = json::parse(told.output);
  CHECK(found["bad"] == 2);
  CHECK(found["bad_samples"][0]["sample"] == "set/c1/half.jpg");
  CHECK(found["left_out"] == 0);
  CHECK(run(folder.path(), {"data", "verify", "set/c0/0.jpg"}).status == 0);
  CHECK(run(folder.path(), {"data", "verify", "set/c1/half.jpg"}).status == 1);
}

TEST_CASE("data verify leaves out the files that training leaves out", "[cli]") {
  const TemporaryFolder folder;
  write_file(folder.path() / "set/cat/1.JPG", jpeg_bytes(64, 48));
  write_file(folder.path() / "set/README", "about");
  write_file(folder.path() / "set/cat/labels.csv", "1,2");
  const auto good = run(folder.path(), {"data", "verify", "set"});
  CHECK(good.status == 0);
  CHECK(good.output == "1 sample: 0 bad, 0 with warnings; 2 other files left out: no images\n");
  CHECK(json::parse(run(folder.path(), {"data", "verify", "set", "--json"}).output)["left_out"] ==
        2);
  CHECK(run(folder.path(), {"data", "verify", "set/README"}).status == 1);  // asked for by its name
  write_file(folder.path() / "set/cat/2.heic", "unreadable");
  const auto bad = run(folder.path(), {"data", "verify", "set"});
  CHECK(bad.status == 1);
  CHECK_THAT(bad.output, Catch::StartsWith("set/cat/2.heic: "));
  fs::remove(folder.path() / "set/cat/2.heic");
  write_file(folder.path() / "set/cat/.keep", "");
  write_file(folder.path() / "set/.old/1.jpg", "no class");
  write_file(folder.path() / "set/cat/.1.jpg", "an image to training");
  for (const char* file : {"cat/._1.JPG", "cat/@eaDir/1.JPG/thumb.jpg", "__MACOSX/cat/1.jpg"})
    write_file(folder.path() / "set" / file, "a system's");
  const auto hidden = run(folder.path(), {"data", "verify", "set"});
  CHECK(hidden.status == 1);
  CHECK_THAT(hidden.output, Catch::StartsWith("set/cat/.1.jpg: ") && Contains("2 samples: 1 bad"));
  write_file(folder.path() / "texts/a.txt", "about");
  const auto none = run(folder.path(), {"data", "verify", "texts"});
  CHECK(none.status == 2);
  CHECK_THAT(none.errors, Contains("texts: has no image files"));
}

TEST_CASE("an index.json of something else makes no set of shards", "[cli]") {
  const TemporaryFolder folder;
  write_file(folder.path() / "set/train/cat/a.jpg", jpeg_bytes(40, 30));
  write_file(folder.path() / "set/train/index.json", R"({"weight_map": {}})");
  const auto outcome = run(folder.path(), {"data", "verify", "set"});
  INFO(outcome.errors);
  CHECK(outcome.status == 0);
  CHECK(outcome.output == "1 sample: 0 bad, 0 with warnings; 1 other file left out: no images\n");
  write_file(folder.path() / "set/train/index.json", R"({"shards": [)");
  const auto damaged = run(folder.path(), {"data", "verify", "set"});
  CHECK(damaged.status == 2);
  CHECK_THAT(damaged.errors, Contains("set/train/index.json: is no index of MDS shards"));
}

TEST_CASE("data verify compares MDS shards with the hashes in their index", "[cli]") {
  const TemporaryFolder folder;
  std::string shard = mds_of_one(jpeg_bytes(40, 30));
  const auto hash = sha256_hex({reinterpret_cast<const uint8_t*>(shard.data()), shard.size()});
  auto entry = mds_entry("shard.00000.mds", shard.size());
  entry["hashes"] = {"sha256"};
  entry["raw_data"]["hashes"] = {{"sha256", hash}};
  write_file(folder.path() / "set/index.json", mds_index(json::array({entry})).dump());
  write_file(folder.path() / "set/shard.00000.mds", shard);
  const auto good = run(folder.path(), {"data", "verify", "set"});
  INFO(good.errors);
  CHECK(good.status == 0);
  CHECK(good.output == "1 sample: 0 bad, 0 with warnings\n");
  shard[shard.find("format")] = 'F';  // of what says how the shard was written
  write_file(folder.path() / "set/shard.00000.mds", shard);
  const auto bad = run(folder.path(), {"data", "verify", "set"});
  CHECK(bad.status == 1);
  CHECK(bad.output ==
        "set/shard.00000.mds: its sha256 is not the one in the index\n"
        "1 sample: 0 bad, 0 with warnings; 1 damaged file\n");
  const auto told = json::parse(run(folder.path(), {"data", "verify", "set", "--json"}).output);
  CHECK(told["bad"] == 0);
  CHECK(told["bad_files"][0]["sample"] == "set/shard.00000.mds");
}

TEST_CASE("data verify unpacks MDS shards where the recipe has them", "[cli]") {
  const TemporaryFolder folder;
  const std::string shard = mds_of_one(jpeg_bytes(40, 30));
  std::string packed = "\x28\xB5\x2F\xFD\xA0";  // a frame of zstd with one block as it is
  append(packed, static_cast<uint32_t>(shard.size()));
  append(packed, static_cast<uint32_t>(shard.size() << 3 | 1));
  packed.pop_back();
  packed += shard;
  auto entry = mds_entry("shard.mds", shard.size());
  entry["zip_data"] = {{"basename", "shard.mds.zstd"}, {"bytes", packed.size()}};
  entry["compression"] = "zstd:3";
  write_file(folder.path() / "set/index.json", mds_index(json::array({entry})).dump());
  write_file(folder.path() / "set/shard.mds.zstd", packed);
  const auto outcome = run(
      folder.path(), {"data", "verify", "set", "--local_dir", (folder.path() / "fast").string()});
  INFO(outcome.errors);
  CHECK(outcome.status == 0);
  int unpacked = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path() / "fast"))
    unpacked += entry.path().filename() == "shard.mds" ? 1 : 0;
  CHECK(unpacked == 1);
  write_file(folder.path() / "photos/a.jpg", jpeg_bytes(8, 8));
  const auto photos = run(folder.path(), {"data", "verify", "photos", "--local_dir", "fast"});
  CHECK(photos.status == 2);
  CHECK_THAT(photos.errors, Contains("--local_dir: 'photos' is no folder of MDS shards"));
  const auto stored =
      run(folder.path(), {"data", "verify", "s3://bucket/set", "--local_dir", "fast"});
  CHECK(stored.status == 2);
  CHECK_THAT(stored.errors, Contains("--local_dir: 's3://bucket/set' lies in a store"));
}

TEST_CASE("data verify goes on where MDS shards are missing or damaged", "[cli]") {
  const TemporaryFolder folder;
  json entries = json::array();
  for (int i = 0; i < 3; ++i) {
    const std::string name = "shard." + std::to_string(i) + ".mds",
                      shard = mds_of_one(jpeg_bytes(40, 30));
    auto entry = mds_entry(name, shard.size());
    entry["raw_data"]["hashes"] = {{"sha1", std::string(40, '0')}};
    entries.push_back(entry);
    if (i > 0) write_file(folder.path() / "set" / name, i == 1 ? shard : shard.substr(9));
  }
  write_file(folder.path() / "set/index.json", mds_index(entries).dump());
  const auto outcome = run(folder.path(), {"data", "verify", "set"});
  INFO(outcome.errors);
  CHECK(outcome.status == 1);
  CHECK(lines(outcome.output).size() == 4);
  CHECK_THAT(outcome.output, Contains("set/shard.0.mds: no such file\n") &&
                                 Contains("set/shard.1.mds: its sha1 is not the one") &&
                                 Contains("set/shard.2.mds: has not the ") &&
                                 Contains("1 sample: 0 bad, 0 with warnings; 3 damaged files"));
  fs::remove(folder.path() / "set/shard.1.mds");
  fs::remove(folder.path() / "set/shard.2.mds");
  CHECK_THAT(run(folder.path(), {"data", "verify", "set"}).output,
             Contains("0 samples: 0 bad, 0 with warnings; 3 damaged files"));
}

TEST_CASE("data verify tells MDS shards that are not read from damaged ones", "[cli]") {
  const TemporaryFolder folder;
  const std::string shard = mds_of_one(jpeg_bytes(40, 30));
  auto entry = mds_entry("shard.mds", shard.size());
  entry["zip_data"] = {{"basename", "shard.mds.br"}, {"bytes", 4}};
  entry["compression"] = "br";
  auto index = mds_index(json::array({entry}));
  const auto problem_of = [&] {
    write_file(folder.path() / "set/index.json", index.dump());
    const auto outcome = run(folder.path(), {"data", "verify", "set"});
    CHECK(outcome.status == 2);
    CHECK(outcome.output.empty());
    return outcome.errors;
  };
  write_file(folder.path() / "set/shard.mds.br", "four");
  CHECK_THAT(problem_of(), Contains("compressed by br, which is not read: only zstd"));
  write_file(folder.path() / "set/shard.mds", shard);
  index["shards"].push_back(index["shards"][0]);
  index["shards"][1]["column_encodings"][1] = "pkl";
  CHECK_THAT(problem_of(), Contains("the column label holds pkl, which is not read as a class"));
}

TEST_CASE("data verify refuses nothing that Pillow decodes", "[cli]") {
  const auto odd = shared() / "data" / "odd";
  if (!fs::exists(odd)) {
    WARN("skipped: there is no " << odd.string());
    return;
  }
  const TemporaryFolder folder;
  const auto outcome = run(folder.path(), {"data", "verify", odd.string(), "--json"});
  CHECK(outcome.status == 1);
  std::map<std::string, std::string> bad;
  const auto told = json::parse(outcome.output);
  for (const auto& one : told["bad_samples"])
    bad[fs::path(one["sample"].get<std::string>()).filename()] = one["reason"];
  std::ifstream index(odd / "INDEX.tsv");
  std::string line;
  std::getline(index, line);
  while (std::getline(index, line)) {
    std::istringstream columns(line);
    std::string name, bytes, status;
    std::getline(columns, name, '\t'), std::getline(columns, bytes, '\t');
    std::getline(columns, status, '\t');
    INFO(name << ": " << bad[name]);
    if (status == "ok") CHECK(bad[name].empty());
    if (status.find("truncated") != std::string::npos || name.starts_with("made_truncated"))
      CHECK_FALSE(bad[name].empty());
  }
}

}  // namespace composer::data_commands_test
