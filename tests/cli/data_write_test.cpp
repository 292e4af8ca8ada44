// composer data write.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "../data/make_jpeg.h"
#include "data/beton/beton.h"
#include "program.h"
#include "tests/data/small_images.h"
#include "tests/temporary_folder.h"

namespace composer::data_write_test {

using namespace composer::test;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

using Words = std::vector<std::string>;

/// Two classes of three photographs; the last is cut if wanted.
void make_photos(const fs::path& folder, bool cut) {
  for (int i = 0; i < 6; ++i) {
    auto bytes = make_jpeg(make_picture(40 + i, 64));
    if (cut && i == 5) bytes.resize(bytes.size() / 2);
    const fs::path file = folder / ("class" + std::to_string(i / 3)) / (std::to_string(i) + ".jpg");
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
}

Words write_words(Words more) {
  Words words{"data",     "write",  "--format", "image_folder",
              "--source", "photos", "--output", "f.beton"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("data write says what became of the images", "[cli][slow]") {
  const TemporaryFolder folder;
  make_photos(folder.path() / "photos", false);
  const auto done = Process(folder.path(), write_words({"--json", "--num_workers", "2"})).wait();
  INFO(done.errors);
  REQUIRE(done.status == 0);
  const auto json = nlohmann::json::parse(done.output);
  CHECK(json["items"] == 6);
  CHECK(json["passed_through"] == 6);
  CHECK(json["bytes"] == fs::file_size(folder.path() / "f.beton"));
  CHECK(fs::exists(folder.path() / "f.beton.index"));

  const auto again = Process(folder.path(), write_words({})).wait();
  CHECK(again.status == 2);
  CHECK_THAT(again.errors, Contains("--overwrite"));

  const auto names =
      Process(folder.path(), {"data", "write", "--dataset", "imagenet", "--datadir", "photos",
                              "--write_path", "g.beton", "--chunk_size", "100", "--write_mode",
                              "raw", "--subset", "4", "--max_resolution", "32"})
          .wait();
  INFO(names.errors);
  REQUIRE(names.status == 0);
  CHECK_THAT(names.output, Contains("4 rows") && Contains("4 raw") && Contains("4 resized"));
  CHECK_FALSE(fs::exists(folder.path() / "g.beton.index"));
  const BetonFile file(folder.path() / "g.beton");
  CHECK(file.image(0, 0).size == ImageSize{20, 32});
  CHECK(file.integer(3, 1) == 1);

  const auto rows = Process(folder.path(), {"data", "write", "--format", "beton", "--source",
                                            "g.beton", "--output", "h.beton", "--rows", "3,0-1"})
                        .wait();
  INFO(rows.errors);
  REQUIRE(rows.status == 0);
  CHECK(BetonFile(folder.path() / "h.beton").integer(0, 1) == 1);
}

TEST_CASE("data write tells of options without effect, and leaves no stale side file", "[cli]") {
  const TemporaryFolder folder;
  make_photos(folder.path() / "photos", false);
  REQUIRE(Process(folder.path(), write_words({})).wait().status == 0);
  const auto done =
      Process(folder.path(), write_words({"--overwrite", "--write_mode", "raw", "--smart_threshold",
                                          "9", "--seed", "3", "--compress_probability", "0.3"}))
          .wait();
  REQUIRE(done.status == 0);
  for (const char* option : {"--smart_threshold", "--seed", "--compress_probability"}) {
    CHECK_THAT(done.errors, Contains(std::string(option) + " has no effect"));
  }
  CHECK_FALSE(fs::exists(folder.path() / "f.beton.index"));
}

TEST_CASE("data index makes a folder's side file, links in circles or not", "[cli]") {
  const TemporaryFolder folder;
  make_photos(folder.path() / "photos", true);
  fs::create_directory_symlink("..", folder.path() / "photos/class0/up");
  const auto made = Process(folder.path(), {"data", "index", "photos"}).wait();
  INFO(made.errors);
  CHECK(made.status == 0);
  CHECK_THAT(made.output, Contains("6 indices made, 0 kept") || Contains("5 indices made, 0 kept"));
  const auto again = Process(folder.path(), {"data", "index", "photos", "--json"}).wait();
  CHECK(nlohmann::json::parse(again.output)["made"] == 0);
}

TEST_CASE("data index passes over files that are no images", "[cli]") {
  const TemporaryFolder folder;
  make_photos(folder.path() / "photos", false);
  std::ofstream(folder.path() / "photos/README.md") << "six photos\n";
  const auto made = Process(folder.path(), {"data", "index", "photos", "--json"}).wait();
  REQUIRE(made.status == 0);
  CHECK(nlohmann::json::parse(made.output)["bad"] == 0);
  fs::create_directory(folder.path() / "texts");
  std::ofstream(folder.path() / "texts/README.md") << "no photo\n";
  const auto refused = Process(folder.path(), {"data", "index", "texts"}).wait();
  CHECK(refused.status == 2);
  CHECK_THAT(refused.errors, Contains("texts: has no image files"));
}

TEST_CASE("bench loader names a bad sample, and goes on where it is told so", "[cli]") {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "photos/a");
  std::ofstream(folder.path() / "photos/a/1.jpg") << "no image";
  const auto failed = Process(folder.path(), {"bench", "loader", "--source", "photos",
                                              "--batch_size", "1", "--epochs", "1"})
                          .wait();
  CHECK(failed.status == 1);
  CHECK_THAT(failed.errors,
             Contains("photos/a/1.jpg") && Contains("--on_bad_sample skip leaves such"));
  std::ofstream(folder.path() / "photos/a/2.ppm") << "P6 32 32 255\n" << std::string(3072, 'x');
  for (const std::string way : {"skip", "replace"}) {
    const auto measured = Process(folder.path(), {"bench", "loader", "--source", "photos",
                                                  "--batch_size", "2", "--on_bad_sample", way})
                              .wait();
    INFO(measured.errors);
    CHECK(measured.status == 0);
    CHECK_THAT(measured.errors, Contains("photos/a/1.jpg"));
  }
}

TEST_CASE("data write names a bad sample, and what it did about it", "[cli]") {
  const TemporaryFolder folder;
  make_photos(folder.path() / "photos", true);
  const auto failed = Process(folder.path(), write_words({})).wait();
  CHECK(failed.status == 1);
  CHECK_THAT(failed.errors, Contains("photos/class1/5.jpg") && Contains("end too early"));
  CHECK_FALSE(fs::exists(folder.path() / "f.beton"));
  const auto skipped = Process(folder.path(), write_words({"--on_bad_sample", "skip"})).wait();
  CHECK(skipped.status == 0);
  CHECK_THAT(skipped.errors, Contains("skipped: photos/class1/5.jpg"));
  CHECK_THAT(skipped.output, Contains("5 rows") && Contains("1 skipped"));
}

TEST_CASE("data write reads a BMP, and skips what it cannot read where that is asked for",
          "[cli][slow]") {
  const TemporaryFolder folder;
  make_photos(folder.path() / "photos", false);
  const std::string head = from_hexadecimal(
      "424d3a0000000000000036000000280000000100000001000000010018000000000004000000"
      "00000000000000000000000000000000");
  std::ofstream(folder.path() / "photos/class0/a.bmp", std::ios::binary) << head << "abc" << '\0';
  const auto all = Process(folder.path(), write_words({})).wait();
  INFO(all.errors);
  CHECK(all.status == 0);
  CHECK_THAT(all.output, Contains("7 rows"));
  std::ofstream(folder.path() / "photos/class1/b.psd") << "8BPS";
  const auto refused = Process(folder.path(), write_words({"--overwrite"})).wait();
  CHECK(refused.status == 2);
  CHECK_THAT(refused.errors, Contains("photos/class1/b.psd") && Contains("BMP, TIFF") &&
                                 Contains("--on_bad_sample skip"));
  const auto skipped =
      Process(folder.path(), write_words({"--overwrite", "--on_bad_sample", "skip"})).wait();
  CHECK(skipped.status == 0);
  CHECK_THAT(skipped.errors, Contains("skipped: photos/class1/b.psd: a Photoshop image"));
  CHECK_THAT(skipped.output, Contains("7 rows") && Contains("1 skipped"));
}

TEST_CASE("data write keeps a list's numbers, which training finds under the same names",
          "[cli][train][slow]") {
  const TemporaryFolder folder;
  make_photos(folder.path() / "photos", false);
  std::string list = "path,area,box\n";
  for (int i = 0; i < 6; ++i)
    list += "photos/class" + std::to_string(i / 3) + "/" + std::to_string(i) + ".jpg," +
            std::to_string(i) + ".5," + std::to_string(i) + " 1\n";
  folder.write("list.csv", list);
  const auto done = [&](const std::string& words) {
    const auto outcome = run(folder.path(), split(words));
    INFO(outcome.errors);
    REQUIRE(outcome.status == 0);
    return outcome.output;
  };
  const std::string targets = " --targets area box";
  const auto info = nlohmann::json::parse(done("data info list.csv --json" + targets));
  CHECK(info["values"]["area"] == nlohmann::json{{"min", 0.5}, {"mean", 3}, {"max", 5.5}});
  CHECK(info["values"].size() == 3);
  CHECK_THAT(done("data info list.csv" + targets), Contains("area: 0.5..5.5 (mean 3)"));
  CHECK_THAT(done("data hash list.csv" + targets), Catch::StartsWith("0 - 64 40 "));
  CHECK_THAT(done("data verify list.csv" + targets), Contains("6 samples: 0 bad"));
  folder.write("breeds.csv",
               "image,breed,age\nphotos/class0/0.jpg,cat,1\nphotos/class1/3.jpg,dog,2\n");
  for (const std::string command : {"info", "verify", "hash"}) {
    const auto refused = run(folder.path(), split("data " + command + " breeds.csv"));
    CHECK(refused.status == 2);
    CHECK_THAT(refused.errors, Contains("label says which one it is"));
    done("data " + command + " breeds.csv --image image --label breed");
  }
  CHECK_THAT(run(folder.path(), split("data info photos --label breed")).errors,
             Contains("--label: 'photos' is neither shards nor a list"));
  done("data write --format csv --source list.csv --output f.beton" + targets);
  CHECK_THAT(done("data info f.beton"),
             Contains("area") && Contains("box[0]") && Contains("box[1]") && !Contains("labels"));
  done("data write --format beton --source f.beton --output g.beton" + targets);
  std::ranges::replace(list, ',', '\t');
  folder.write("list.tsv", list);
  done("data write --format tsv --source list.tsv --output from_tsv.beton" + targets);
  CHECK(done("data hash from_tsv.beton") == done("data hash f.beton"));

  const std::string common =
      "train --loss mse --device cpu --progress_bar false --max_duration 2ep --train_batch_size 2 "
      "--eval_interval 0ep --num_workers 1 --model resnet_cifar --model_name resnet_20 "
      "--num_classes 3 --optimizer sgd --lr 0.05 --val_dataset none --schedulers none --algorithms "
      "none --precision fp32 ";
  const auto loss = [&](const std::string& name, const std::string& set,
                        const std::string& words) -> double {
    done(common + "--run_dir runs --run_name " + name + " --train_dataset " + set +
         " --train_dataset." + set + ".crop_size 16 " + words + " --train_dataset." + set +
         ".targets area box");
    std::ifstream file(folder.path() / ("runs/" + name + "/summary.json"));
    return nlohmann::json::parse(file)["metrics"]["loss/train"];
  };
  const double expected = loss("list", "image_list", "--train_dataset.image_list.file list.csv");
  CHECK(loss("beton", "image_folder",
             "--train_dataset.image_folder.use_ffcv true --train_dataset.image_folder.ffcv_dir . "
             "--train_dataset.image_folder.ffcv_dest g.beton") == expected);

  const auto refused = [&](const std::string& words) {
    const auto outcome = run(folder.path(), split(words));
    CHECK(outcome.status == 2);
    return outcome.errors;
  };
  CHECK_THAT(refused("data write --format image_folder --source photos --output x.beton" + targets),
             Contains("--targets: needs --format webdataset, mds, csv or beton"));
  CHECK_THAT(
      refused("data write --format csv --source list.csv --output x.beton --label box" + targets),
      Contains("--label: has no meaning with targets"));
  CHECK_THAT(refused("data verify photos" + targets),
             Contains("--targets: 'photos' is neither shards nor a list"));
}

TEST_CASE("data write refuses what cannot be before it writes", "[cli][slow]") {
  const TemporaryFolder folder;
  make_photos(folder.path() / "photos", false);
  const std::vector<std::pair<Words, std::string>> wrong{
      {{"--output", "none/f.beton"}, "--output"},
      {{"--write_mode", "png"}, "--write_mode"},
      {{"--write_mode", "smart"}, "--smart_threshold"},
      {{"--page_size", "3"}, "page_size"},
      {{"--rows", "6"}, "rows"},
      {{"--jpeg_quality", "0"}, "--jpeg_quality"},
      {{"--max_resolution", "0"}, "--max_resolution"},
      {{"--split", "test"}, "--split"}};
  for (const auto& [more, named] : wrong) {
    Words words = write_words({});
    if (more[0] == "--output") words.resize(words.size() - 2);
    words.insert(words.end(), more.begin(), more.end());
    const auto refused = Process(folder.path(), words).wait();
    INFO(named << ": " << refused.errors);
    CHECK(refused.status == 2);
    CHECK_THAT(refused.errors, Contains(named));
  }
  CHECK_FALSE(fs::exists(folder.path() / "f.beton"));
}

}  // namespace composer::data_write_test
