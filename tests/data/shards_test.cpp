#include <catch2/catch.hpp>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "data/datasets/mds.h"
#include "data/files/digest.h"
#include "data/samples/sample_table.h"
#include "data/shards/mds.h"
#include "data/shards/shard_files.h"
#include "data/shards/webdataset.h"
#include "tests/data/errors.h"
#include "tests/data/make_tar.h"
#include "tests/data/pack_zstd.h"
#include "tests/files.h"
#include "tests/remote/aws_environment.h"

namespace composer::shards_test {

using namespace composer::test;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

using Names = std::vector<std::string>;

/// "file name label content" of each sample.
Names samples_of(const SampleTable& table, const std::string& root) {
  Names all;
  for (int64_t i = 0; i < table.size(); ++i) {
    const std::string file(table.container(i));
    const std::string bytes = read_bytes(file.starts_with('/') ? file : root + file);
    all.push_back(fs::path(file).filename().string() + " " + std::string(table.name(i)) + " " +
                  std::to_string(table.label(i)) + " " +
                  bytes.substr(table.offset(i), table.length(i)));
  }
  return all;
}

/// The names of the numbers, then those of each sample.
Names values_of(const SampleTable& table) {
  Names all{joined(table.value_names(), " ")};
  std::vector<float> row(static_cast<size_t>(table.num_values()));
  for (int64_t i = 0; i < table.size(); ++i) {
    table.read_values(i, row);
    std::ostringstream text;
    for (const float value : row) text << (text.tellp() > 0 ? " " : "") << value;
    all.push_back(text.str());
  }
  return all;
}

struct Shards : TemporaryFolder {
  void write(const std::string& name, const std::string& bytes) { write_file(*this / name, bytes); }
  Names read(const WebDatasetFiles& files = {}) const {
    const auto shards = shards_in(path(), ".tar");
    return samples_of(SampleTable(webdataset_table(shards, files)), shards.root);
  }
};

std::string sample(const std::string& key, const std::string& image, const std::string& label) {
  return tar_member(key + ".jpg", image) + tar_member(key + ".cls", label);
}

/// An MDS set whose columns are image (jpeg) and label (int).
struct Mds : TemporaryFolder {
  std::string image_encoding = "jpeg", label_encoding = "int", compression;
  bool fixed = true;      ///< labels have one size
  std::string algorithm;  ///< of the hashes in the index; empty: none
  json index = {{"version", 2}, {"shards", json::array()}};

  std::string folder() const { return (*this / "set").string(); }
  std::string name(int number, bool packed = false) const {
    return "shard.0000" + std::to_string(number) + ".mds" + (packed ? ".zstd" : "");
  }

  void add(const std::vector<std::vector<std::string>>& samples, int written = 1) {
    const int number = static_cast<int>(index["shards"].size());
    const std::string bytes = mds_shard(samples, {false, fixed});
    json shard{{"format", "mds"},
               {"version", 2},
               {"column_names", {"image", "label"}},
               {"column_encodings", {image_encoding, label_encoding}},
               {"column_sizes", {nullptr, nullptr}},
               {"compression", nullptr},
               {"hashes", json::array()},
               {"samples", samples.size()},
               {"size_limit", 67108864},
               {"raw_data", about(name(number), bytes)},
               {"zip_data", nullptr}};
    if (fixed) shard["column_sizes"][1] = samples.at(0).at(1).size();
    if (compression.empty()) {
      if (written > 0) write_file(folder() + "/" + name(number), bytes);
    } else {
      const std::string packed = pack_zstd(bytes);
      shard["compression"] = compression;
      shard["zip_data"] = about(name(number, true), packed);
      write_file(folder() + "/" + name(number, true), packed);
    }
    index["shards"].push_back(shard);
    write_file(folder() + "/index.json", index.dump());
  }
  json about(const std::string& file, const std::string& bytes) const {
    json all{{"basename", file}, {"bytes", bytes.size()}, {"hashes", json::object()}};
    if (algorithm.empty()) return all;
    Digest digest(Digest::knows(algorithm) ? algorithm : "md5");
    digest.update({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    all["hashes"][algorithm] = digest.hex();
    return all;
  }
  MdsOptions options() const { return {.unpack_to = *this / "unpacked"}; }
  Names read(const MdsOptions& options) const {
    return samples_of(SampleTable(mds_table(folder(), options)), folder() + "/");
  }
  Names read() const { return read(options()); }
};

}  // namespace

TEST_CASE("WebDataset's samples are found in all shards, in order", "[data]") {
  Shards shards;
  for (int i = 0; i < 40; ++i) {
    const std::string number = std::to_string(100 + i);
    shards.write("s-" + number + ".tar",
                 sample("a/" + number, "image" + number, std::to_string(i)) + tar_end());
  }
  shards.write("s-050.tar", tar_member("__meta__/x.jpg", "no") + tar_member("readme", "no") +
                                tar_member("@eaDir/a.jpg", "no") + tar_member(".hidden.jpg", "no") +
                                tar_member("x/", "", '5') + sample("p/x.y/key", "one", " 7\n") +
                                sample("p/x.y/key2", "two", "8") + tar_end());
  shards.write("other.txt", "no");
  const auto all = shards.read();
  REQUIRE(all.size() == 42);
  CHECK(all[0] == "s-050.tar p/x.y/key.jpg 7 one");
  CHECK(all[1] == "s-050.tar p/x.y/key2.jpg 8 two");
  CHECK(all[2] == "s-100.tar a/100.jpg 0 image100");
  CHECK(all[41] == "s-139.tar a/139.jpg 39 image139");
}

TEST_CASE("a sample's image and class are found by the endings of its files", "[data]") {
  const std::string with_all = tar_member("k.JPG", "jpg") + tar_member("k.seg.png", "seg") +
                               tar_member("k.txt", "3") + tar_member("k.id", "4") +
                               tar_member("k.json", R"({"label": 5, "other": 6, "text": "x"})") +
                               tar_end();
  Shards shards;
  shards.write("a.tar", with_all);
  CHECK_THROWS_WITH(shards.read(), Contains("a.tar: the sample k has several images (.jpg, "
                                            ".seg.png): say which by image: ENDING"));
  CHECK(shards.read({.image = "jpg"}) == Names{"a.tar k.JPG 5 jpg"});
  CHECK(shards.read({.image = "seg.png", .label = "txt"}) == Names{"a.tar k.seg.png 3 seg"});
  CHECK(shards.read({.image = "jpg", .label = "id"}) == Names{"a.tar k.JPG 4 jpg"});
  CHECK(shards.read({.image = "jpg", .label = "json.other"}) == Names{"a.tar k.JPG 6 jpg"});
  for (const char* wrong : {"json.text", "json.none", "cls", "json.label.x"})
    CHECK_THROWS_AS(shards.read({.image = "jpg", .label = wrong}), UserError);
  CHECK_THROWS_WITH(shards.read({.image = "jpg", .label = "json.text"}),
                    Contains("no class number named text in its .json"));
  CHECK_THROWS_WITH(shards.read({.image = "webp"}), Contains("has no .webp, only .jpg, .seg.png"));
}

TEST_CASE("shards that are damaged and samples that lack something are named", "[data]") {
  Shards shards;
  shards.write("a.tar", sample("k", "x", "1") + tar_end());
  const auto problem = [&](const std::string& bytes) -> std::string {
    shards.write("b.tar", bytes);
    try {
      shards.read();
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(problem(tar_member("k.jpg", "x") + tar_end()),
             Contains("b.tar: the sample k has no .cls with its class, only .jpg"));
  CHECK_THAT(problem(sample("k", "x", "-1") + tar_end()), Contains("no class number in its .cls"));
  CHECK_THAT(problem(sample("k", "x", "one") + tar_end()), Contains("no class number in its .cls"));
  CHECK_THAT(problem(tar_member("k.cls", "1") + tar_end()), Contains("no image, only .cls"));
  CHECK_THROWS_WITH(shards.read({.label = "json"}), Contains("has no .json with its class"));
  shards.write("b.tar",
               tar_member("k.jpg", "") + tar_member("k.json", "{\"label\": \"\xE9\"}") + tar_end());
  CHECK_THROWS_WITH(shards.read({.label = "json"}),
                    Contains("b.tar: the sample k has a .json that is not UTF-8"));
  CHECK_THAT(problem(tar_member("k.jpg", "") + tar_member("k.jpg", "") + tar_end()),
             Contains("the sample k has two files .jpg"));
  CHECK_THAT(problem(sample("k", "x", "1").substr(0, 512)),
             Contains("b.tar: ") && Contains("cut off"));
  CHECK_THAT(problem(std::string(5000, 'x')), Contains("b.tar: no tar file"));
  CHECK(problem(tar_end()).empty());
  CHECK(shards.read().size() == 1);
  Errors errors(shards / "errors");
  CHECK(problem(sample("k", "x", "1")).empty());
  CHECK_THAT(errors.text(), Contains("no mark at the end of ") && Contains("b.tar"));
}

TEST_CASE("numbers of WebDataset's samples are read in place of classes", "[data]") {
  Shards shards;
  const auto with = [](const std::string& key, const std::string& txt, const std::string& json) {
    return tar_member(key + ".jpg", "x") + tar_member(key + ".txt", txt) +
           tar_member(key + ".json", json);
  };
  shards.write("a.tar", with("k", "0.5\n", R"({"area": 2, "box": [1, 2, 3]})") +
                            with("l", "1 ", R"({"box": [4, 5, 6], "area": -2.5})") + tar_end());
  shards.write("b.tar", with("m", "2", R"({"area": 7, "box": [7, 8, 9]})") + tar_end());
  const auto values = [&](const Names& targets) {
    const SampleTable table(
        webdataset_table(shards_in(shards.path(), ".tar"), {.targets = targets}));
    return values_of(table);
  };
  CHECK(values({"txt", "json.area"}) == Names{"txt json.area", "0.5 2", "1 -2.5", "2 7"});
  CHECK(values({"json.box"}) ==
        Names{"json.box[0] json.box[1] json.box[2]", "1 2 3", "4 5 6", "7 8 9"});
  CHECK_THROWS_WITH(values({"cls"}),
                    Contains("a.tar: the sample k has no .cls, only .jpg, .txt, .json"));
  CHECK_THROWS_WITH(
      values({"json.size"}),
      Contains("a.tar: the sample k has no numbers in its .json.size: there is no such name"));
  shards.write("b.tar", with("m", "two", R"({"area": 7, "box": [7, 8]})") + tar_end());
  CHECK_THROWS_WITH(values({"txt"}),
                    Contains("b.tar: the sample m has no numbers in its .txt: 'two' is no number"));
  CHECK_THROWS_WITH(values({"json.box"}),
                    Contains("b.tar: its samples have 2 numbers in json.box; the first sample "
                             "has 3"));
  shards.write("b.tar", with("m", "1", "{}") + with("n", "1 2", "{}") + tar_end());
  CHECK_THROWS_WITH(values({"txt"}),
                    Contains("b.tar: the sample n has 2 numbers in txt; the first sample has 1"));
}

TEST_CASE("braces stand for several names", "[data]") {
  CHECK(expanded_names("a.tar") == Names{"a.tar"});
  CHECK(expanded_names("a-{008..011}.tar") ==
        Names{"a-008.tar", "a-009.tar", "a-010.tar", "a-011.tar"});
  CHECK(expanded_names("{x,y}-{0..1}.tar::z.tar") ==
        Names{"x-0.tar", "x-1.tar", "y-0.tar", "y-1.tar", "z.tar"});
  CHECK(expanded_names("{a,}b") == Names{"ab", "b"});
  for (const char* wrong : {"{3..1}", "{a}", "{1..2", "{}", "{a..b}", "{0..99999999}", "{-1..2}"})
    CHECK_THROWS_AS(expanded_names(wrong), UserError);

  const TemporaryFolder folder;
  for (const char* name : {"a/x-0.tar", "a/x-1.tar", "b/y.tar"}) write_file(folder / name, "");
  const auto files = named_shards("a/x-{0..1}.tar::b/y.tar", folder.path(), "shards");
  CHECK(files.root == folder / "a/");
  CHECK(files.names == Names{"x-0.tar", "x-1.tar", folder / "b/y.tar"});
  CHECK(files.path(1) == folder / "a/x-1.tar");
  CHECK(files.path(2) == folder / "b/y.tar");
  CHECK_THROWS_WITH(named_shards("a/x-{0..3}.tar", folder.path(), "shards"),
                    Contains("shards: there are no files ") && Contains("a/x-2.tar, "));
}

TEST_CASE("MDS shards are read as their index says", "[data]") {
  Mds set;
  set.add({{"one", mds_number(int64_t{3})}, {"twotwo", mds_number(int64_t{0})}});
  set.add({{"", mds_number(int64_t{7})}});
  CHECK(set.read() == Names{"shard.00000.mds sample 0 3 one", "shard.00000.mds sample 1 0 twotwo",
                            "shard.00001.mds sample 0 7 "});
  for (const auto& [encoding, bytes] :
       std::vector<std::pair<std::string, std::string>>{{"uint8", mds_number(uint8_t{200})},
                                                        {"int16", mds_number(int16_t{200})},
                                                        {"uint32", mds_number(uint32_t{200})},
                                                        {"str_int", "200"}}) {
    Mds other;
    other.label_encoding = encoding, other.fixed = encoding != "str_int";
    other.add({{"x", bytes}});
    CHECK(other.read() == Names{"shard.00000.mds sample 0 200 x"});
  }
}

TEST_CASE("columns of numbers of MDS shards are read in place of classes", "[data]") {
  const auto values = [](const std::string& encoding, const Names& numbers, bool fixed = false,
                         const Names& targets = {"label"}) {
    Mds set;
    set.label_encoding = encoding;
    set.fixed = fixed;
    for (const auto& number : numbers) set.add({{"x", number}});
    MdsOptions options = set.options();
    options.targets = targets;
    return values_of(SampleTable(mds_table(set.folder(), options)));
  };
  CHECK(values("float32", {mds_number(1.5F), mds_number(-2.F)}, true) ==
        Names{"label", "1.5", "-2"});
  CHECK(values("float64", {mds_number(0.25)}, true) == Names{"label", "0.25"});
  CHECK(values("float16", {mds_number(uint16_t{0xC500}), mds_number(uint16_t{0x0001})}, true) ==
        Names{"label", "-5", "5.96046e-08"});
  CHECK(values("int", {mds_number(int64_t{-7})}, true) == Names{"label", "-7"});
  CHECK(values("uint8", {mds_number(uint8_t{200})}, true) == Names{"label", "200"});
  CHECK(values("str_float", {"2.5"}) == Names{"label", "2.5"});
  const std::string pair = mds_number(1.F) + mds_number(2.F);
  CHECK(values("ndarray:float32:2", {pair}, true) == Names{"label[0] label[1]", "1 2"});
  CHECK(values("ndarray:float32", {"\x04\x02" + pair}) == Names{"label[0] label[1]", "1 2"});
  CHECK(values("ndarray", {"\x22\x05" + mds_number(uint16_t{2}) + pair}) ==
        Names{"label[0] label[1]", "1 2"});
  CHECK(values("ndarray", {"\x08\x08\x01\x03"
                           "abc"}) == Names{"label[0] label[1] label[2]", "97 98 99"});

  CHECK_THROWS_WITH(values("float32", {mds_number(NAN)}, true),
                    Contains("shard.00000.mds: sample 0: column label: 'nan' is no number"));
  CHECK_THROWS_WITH(values("str_float", {"x"}), Contains("column label: 'x' is no number"));
  CHECK_THROWS_WITH(values("ndarray", {"\x07\x04\x01x"}), Contains("an array of no known type"));
  CHECK_THROWS_WITH(values("ndarray:float32", {"\x04\x02"
                                               "abc"}),
                    Contains("has 3 bytes, not a multiple of the size of float32"));
  CHECK_THROWS_WITH(values("ndarray:float32", {"\xFC\x02"}), Contains("cut off or damaged"));
  CHECK_THROWS_WITH(values("ndarray:complex64", {pair}), Contains("complex64 is no type"));
  CHECK_THROWS_WITH(values("ndarray:uint8", {"\x04\x02"
                                             "ab",
                                             "\x04\x03"
                                             "abc"}),
                    Contains("shard.00001.mds: its samples have 3 numbers in label; the first "
                             "sample has 2"));
  CHECK_THROWS_WITH(values("str", {"1"}), Contains("holds str, which is not read as numbers"));
  CHECK_THROWS_WITH(values("int", {mds_number(int64_t{1})}, true, {"size"}),
                    Contains("targets: there is no column 'size'; the columns are image (jpeg), "
                             "label (int)"));
}

TEST_CASE("MDS shards that are compressed are unpacked once", "[data]") {
  Mds set;
  set.compression = "zstd:7";
  set.add({{std::string(300'000, 'i'), mds_number(int64_t{3})}});
  set.add({{"two", mds_number(int64_t{4})}});
  const Names expected{"shard.00000.mds sample 0 3 " + std::string(300'000, 'i'),
                       "shard.00001.mds sample 0 4 two"};
  CHECK(set.read() == expected);
  const auto unpacked = set / "unpacked/shard.00000.mds";
  const auto time = fs::last_write_time(unpacked);
  CHECK(set.read() == expected);
  CHECK(fs::last_write_time(unpacked) == time);
  fs::resize_file(unpacked, 100);
  CHECK(set.read() == expected);
  CHECK_THROWS_WITH(set.read({}), Contains("local_dir names one"));

  const std::string packed = set.folder() + "/" + set.name(1, true), whole = read_bytes(packed);
  fs::remove(set / "unpacked/shard.00001.mds");
  write_file(packed, whole.substr(0, whole.size() - 1) + "x");
  CHECK_THROWS_AS(set.read(), UserError);
  fs::remove(set / "unpacked/shard.00001.mds");
  write_file(packed, whole.substr(0, whole.size() - 3));
  CHECK_THROWS_WITH(set.read(), Contains("has not the ") && Contains("bytes that the index says"));
  CHECK_FALSE(fs::exists(set / "unpacked/shard.00001.mds"));
  set.compression = "br";
  set.add({{"three", mds_number(int64_t{5})}});
  CHECK_THROWS_WITH(set.read(), Contains("compressed by br, which is not read: only zstd"));
}

TEST_CASE("MDS shards are compared with their hashes when they are unpacked", "[data]") {
  Mds set;
  set.compression = "zstd:7", set.algorithm = "sha1";
  set.add({{std::string(300'000, 'i'), mds_number(int64_t{3})}});
  const Names expected{"shard.00000.mds sample 0 3 " + std::string(300'000, 'i')};
  const auto unpacked = (set / "unpacked/shard.00000.mds").string();
  CHECK(set.read() == expected);

  std::string damaged = read_bytes(unpacked);
  damaged[1000] = 'x';
  write_file(unpacked, damaged);
  {
    Errors errors(set / "errors");
    CHECK(set.read() == expected);
    CHECK_THAT(errors.text(), Contains("unpacked/shard.00000.mds: damaged: its sha1 is not the "
                                       "one in the index; it is unpacked again"));
  }
  CHECK(wrong_mds_hashes(set.folder(), set / "unpacked").empty());
  write_file(unpacked, damaged);
  const auto wrong = wrong_mds_hashes(set.folder(), set / "unpacked");
  REQUIRE(wrong.size() == 1);
  CHECK(wrong[0].first == unpacked);

  const auto with_hash = [&](const char* file, const std::string& hash) {
    fs::remove(unpacked);
    json index = set.index;
    index["shards"][0][file]["hashes"]["sha1"] = hash;
    write_file(set.folder() + "/index.json", index.dump());
  };
  const std::string right = set.index["shards"][0]["raw_data"]["hashes"]["sha1"];
  std::string capital = right;
  for (char& c : capital) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  with_hash("raw_data", capital);
  CHECK(set.read() == expected);
  with_hash("raw_data", std::string(40, '0'));
  CHECK_THROWS_WITH(set.read(), Contains("shard.00000.mds.zstd: does not hold what the index says: "
                                         "its sha1 is not the one in the index"));
  CHECK_FALSE(fs::exists(unpacked));
  with_hash("zip_data", std::string(40, '0'));
  CHECK_THROWS_WITH(set.read(), Contains("shard.00000.mds.zstd: damaged: its sha1 is not"));
}

TEST_CASE("hashes of raw MDS shards are checked where that is asked for", "[data]") {
  Mds set;
  set.algorithm = "sha256";
  set.add({{"one", mds_number(int64_t{3})}});
  set.add({{"two", mds_number(int64_t{3})}});
  CHECK(wrong_mds_hashes(set.folder(), {}).empty());
  const std::string shard = set.folder() + "/" + set.name(1);
  std::string bytes = read_bytes(shard);
  bytes.back() ^= 1;
  write_file(shard, bytes);
  const auto wrong = wrong_mds_hashes(set.folder(), {});
  REQUIRE(wrong.size() == 1);
  CHECK(wrong[0].first == shard);
  CHECK(wrong[0].second == "its sha256 is not the one in the index");

  Mds other;
  other.algorithm = "xxh3_64";
  other.add({{"one", mds_number(int64_t{3})}});
  Errors errors(set / "errors");
  CHECK(wrong_mds_hashes(other.folder(), {}).empty());
  CHECK_THAT(errors.text(), Contains("hashes of xxh3_64 are not checked"));
  json index = other.index;
  index["shards"][0]["raw_data"]["hashes"]["sha1"] = 5;
  write_file(other.folder() + "/index.json", index.dump());
  CHECK_THROWS_WITH(other.read(), Contains("is no index of MDS shards"));
}

TEST_CASE("a file that cannot be read is one of those with a wrong hash", "[data]") {
  Mds set;
  set.algorithm = "sha256";
  set.add({{"one", mds_number(int64_t{3})}});
  set.add({{"two", mds_number(int64_t{3})}});
  const std::string first = set.folder() + "/" + set.name(0),
                    second = set.folder() + "/" + set.name(1);
  fs::remove(first);
  fs::create_directory(first);
  write_file(second, read_bytes(second) + "x");
  const auto wrong = wrong_mds_hashes(set.folder(), {});
  REQUIRE(wrong.size() == 2);
  CHECK(wrong[0] == std::pair(first, std::string("not a file")));
  CHECK(wrong[1].first == second);
}

TEST_CASE("a file without a hash that can be checked is not read", "[data]") {
  CHECK(hash_problem("/none", {{"xxh3_64", "0"}}).empty());
  CHECK_THROWS_AS(hash_problem("/none", {{"sha1", "0"}}), UserError);
}

TEST_CASE("compressed MDS shards are unpacked once, wherever the indices are kept", "[data]") {
  AwsEnvironment environment;
  Mds set;
  environment.set("XDG_CACHE_HOME", (set / "cache").string());
  set.compression = "zstd:7";
  set.add({{"one", mds_number(int64_t{3})}});
  MdsParams params;
  params.datadir = set.folder();
  CHECK(MdsDataset(params).num_classes() == 4);
  CHECK(params.open((set / "indices").string()).source->size() == 1);
  int unpacked = 0;
  for (const auto& entry : fs::recursive_directory_iterator(set.path()))
    unpacked += entry.path().filename() == set.name(0) ? 1 : 0;
  CHECK(unpacked == 1);
}

TEST_CASE("what an MDS set lacks is named", "[data]") {
  Mds set;
  set.add({{"one", mds_number(int64_t{3})}});
  const json good = set.index;
  const auto problem = [&](const std::function<void(json&)>& change,
                           const MdsOptions& options = {}) -> std::string {
    json index = good;
    change(index);
    write_file(set.folder() + "/index.json", index.dump());
    try {
      set.read(options);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  const auto shard = [](json& index) -> json& { return index["shards"][0]; };
  CHECK(problem([](json&) {}).empty());
  CHECK_THAT(problem([](json& index) { index["version"] = 1; }), Contains("only 2 is read"));
  CHECK_THAT(problem([](json& index) { index["shards"] = json::array(); }), Contains("no shards"));
  CHECK_THAT(problem([&](json& index) { shard(index).erase("samples"); }),
             Contains("index.json: is no index of MDS shards: ") && Contains("samples"));
  CHECK_THAT(problem([&](json& index) { shard(index)["format"] = "json"; }), Contains("only mds"));
  CHECK_THAT(problem([&](json& index) { shard(index)["samples"] = 2; }),
             Contains("shard.00000.mds: holds 1 samples; the index says 2"));
  CHECK_THAT(problem([&](json& index) { shard(index)["raw_data"]["bytes"] = 5; }),
             Contains("has not the 5 bytes"));
  CHECK_THAT(problem([&](json& index) { shard(index)["raw_data"]["basename"] = "../x"; }),
             Contains("outside the folder"));
  for (const char* elsewhere : {"/x", "a/../../x", "s3://bucket/x", "https://host/x"})
    CHECK_THAT(problem([&](json& index) { shard(index)["raw_data"]["basename"] = elsewhere; }),
               Contains("outside the folder: " + std::string(elsewhere)));
  CHECK_THAT(problem([&](json& index) { shard(index)["raw_data"]["basename"] = "none"; }),
             Contains("none: no such file"));
  CHECK_THAT(problem([&](json& index) { shard(index)["column_sizes"][1] = 800; }),
             Contains("shard.00000.mds: sample 0: "));
  CHECK_THAT(problem([&](json& index) { shard(index)["column_encodings"][0] = "pkl"; }),
             Contains("image: no column can be it; the columns are image (pkl), label (int)"));
  CHECK_THAT(problem([&](json& index) { shard(index)["column_encodings"][0] = "pkl"; },
                     {.image = "image"}),
             Contains("holds pkl, which is not read as an image"));
  CHECK_THAT(problem([](json&) {}, {.image = "x"}), Contains("image: there is no column 'x'"));
  CHECK_THAT(problem([](json&) {}, {.label = "lable"}),
             Contains("label: there is no column 'lable'") && Contains("did you mean 'label'?"));
  CHECK_THAT(problem([](json&) {}, {.label = "image"}), Contains("not read as a class"));
  CHECK_THAT(problem([&](json& index) {
               shard(index)["column_encodings"] = {"jpeg", "str"};
             }),
             Contains("label: no column can be it"));
  CHECK_THAT(problem([](json& index) { index = "x"; }), Contains("is no index of MDS shards"));
  write_file(set.folder() + "/index.json", "{");
  CHECK_THROWS_AS(set.read(), UserError);
  write_file(set.folder() + "/index.json",
             "{\"version\": " + std::string(300'000, '[') + std::string(300'000, ']') + "}");
  CHECK_THROWS_WITH(set.read(), Contains("index.json: is of version an array; only 2 is read"));

  Mds negative;
  negative.label_encoding = "int16";
  negative.add({{"x", mds_number(int16_t{-1})}});
  CHECK_THROWS_WITH(negative.read(), Contains("its class is negative or too large"));
}

TEST_CASE("what WebDataset and MosaicML's streaming write is read", "[data][peer]") {
  const char* const python = std::getenv("COMPOSER_SHARDS_PYTHON");
  if (python == nullptr) {
    WARN("skipped: COMPOSER_SHARDS_PYTHON names no Python with webdataset and mosaicml-streaming");
    return;
  }
  const TemporaryFolder folder;
  write_file(folder / "write.py", R"(
import json
import numpy as np
import webdataset
from PIL import Image
from streaming import MDSWriter

expected = []
with webdataset.ShardWriter('tar-%03d.tar', maxcount=7) as tar:
    for i in range(20):
        image = bytes([255, 216, 255]) + bytes(range(i + 1)) * 40
        tar.write({'__key__': f'{"long" * 40 if i == 5 else "k"}/{i:04d}', 'jpg': image, 'cls': i % 6, 'json': {'label': i}})
        expected.append((i % 6, image.hex()))
json.dump(expected, open('tar.json', 'w'))

for name, compression, columns in (('raw', None, {'y': 'int', 'x': 'bytes', 'note': 'str'}),
                                   ('packed', 'zstd:7', {'label': 'uint16', 'image': 'bytes', 'a': 'ndarray'}),
                                   ('pil', None, {'class': 'str_int', 'img': 'pil', 'other': 'pkl'})):
    expected = []
    with MDSWriter(out=name, columns=columns, compression=compression, size_limit=1 << 14, progress_bar=False) as out:
        for i in range(40):
            image = Image.fromarray(np.full((i + 1, 7, 3), i, np.uint8))
            data = bytes([255, 216, 255]) + bytes([i]) * (100 * i)
            values = {'y': i % 9, 'label': i % 9, 'class': i % 9, 'x': data, 'image': data, 'img': image, 'note': 'n' * i,
                      'a': np.zeros(i + 1), 'other': {'i': i}}
            out.write({column: values[column] for column in columns})
            expected.append((i % 9, image.tobytes().hex() if name == 'pil' else data.hex()))
    json.dump(expected, open(name + '.json', 'w'))
)");
  REQUIRE(std::system(
              ("cd " + folder.path().string() + " && " + python + " write.py >&2").c_str()) == 0);
  const auto check = [&](const SampleTable& table, const std::string& root,
                         const std::string& name) {
    const auto expected = json::parse(read_bytes(folder / (name + ".json")));
    REQUIRE(table.size() == std::ssize(expected));
    for (int64_t i = 0; i < table.size(); ++i) {
      const std::string file(table.container(i));
      std::string bytes = read_bytes(file.starts_with('/') ? file : root + file)
                              .substr(table.offset(i), table.length(i));
      if (table.coding() == SampleCoding::pil) bytes = bytes.substr(12 + 3);
      std::string digits;
      for (const char byte : bytes) {
        char two[3];
        std::snprintf(two, sizeof two, "%02x", static_cast<uint8_t>(byte));
        digits += two;
      }
      CHECK(table.label(i) == expected[static_cast<size_t>(i)][0]);
      CHECK(digits == expected[static_cast<size_t>(i)][1]);
    }
    CHECK(table.containers() > 1);
  };
  const auto shards = shards_in(folder.path(), ".tar");
  check(SampleTable(webdataset_table(shards, {})), shards.root, "tar");
  MdsOptions options{.unpack_to = folder / "unpacked"};
  for (const auto& [name, image] : std::vector<std::pair<std::string, std::string>>{
           {"raw", "x"}, {"packed", "image"}, {"pil", "auto"}}) {
    options.image = image;
    check(SampleTable(mds_table(folder / name, options)), folder / (name + "/"), name);
  }
}

}  // namespace composer::shards_test
