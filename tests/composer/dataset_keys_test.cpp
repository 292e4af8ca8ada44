// What a recipe makes of the keys that sets share: what a set is for, splits, folders of data.
#include "composer/recipe/dataset_keys.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "composer/recipe/recipe.h"
#include "tests/composer/fake_components.h"
#include "tests/composer/tiny_run.h"
#include "tests/temporary_folder.h"

namespace composer::dataset_keys_test {

using namespace composer::test;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

/// A set with all the keys.
struct Photos : Pictures {
  struct Params {
    bool is_train = true, shuffle = true, drop_last = true;
    std::string order = "auto", datadir, ffcv_dir = "/tmp";
    void fields(auto&& f) {
      f("is_train", is_train, "which half");
      f("shuffle", shuffle, "a new order each epoch");
      f("drop_last", drop_last, "no incomplete batch");
      f("order", order, "with shuffle", one_of("auto", "class_balanced"));
      f("datadir", datadir, "folder");
      f("ffcv_dir", ffcv_dir, "folder");
    }
    std::string check() const {
      return shuffle || order == "auto" ? "" : "order: needs shuffle: true";
    }
  };
  explicit Photos(Params) : Pictures({}) {}
};

/// A set of files that lie anywhere.
struct Lists : Pictures {
  struct Params {
    std::string datadir, file, classes, images_dir, shards, ffcv_local_dir;
    void fields(auto&& f) {
      f("datadir", datadir, "folder");
      f("file", file, "list");
      f("classes", classes, "list");
      f("images_dir", images_dir, "folder");
      f("shards", shards, "files");
      f("ffcv_local_dir", ffcv_local_dir, "folder");
    }
  };
  explicit Lists(Params) : Pictures({}) {}
};

const Registry& with_photos() {
  static const Registry all = [] {
    Registry registry = known();
    registry.datasets.add<Photos>("photos");
    registry.datasets.add<Lists>("lists");
    return registry;
  }();
  return all;
}

/// A recipe whose sets have these parameters; empty val: no val_dataset.
std::string recipe(const std::string& train, const std::string& val, const std::string& more = "") {
  return "model: net\ntrain_dataset:\n  photos: {" + train + "}\n" +
         (val.empty() ? "" : "val_dataset:\n  photos: " + val + "\n") +
         "train_batch_size: 8\neval_batch_size: 8\nmax_duration: 1ep\n" + more;
}

Recipe read(const std::string& text, const Words& words = {}, const std::string& name = "r.yaml") {
  return resolve({name, text}, words, with_photos());
}

Lines refusals(const std::string& text, const Words& words = {}) {
  try {
    read(text, words);
  } catch (const UserError& error) {
    return error.problems();
  }
  return {};
}

std::string value(const std::shared_ptr<ComponentOf<Dataset>>& set, const char* key) {
  return write_fields(set->fields()).find(key)->text;
}

std::string uses(const std::shared_ptr<ComponentOf<Dataset>>& set) {
  return value(set, "is_train") + " " + value(set, "shuffle") + " " + value(set, "drop_last");
}

}  // namespace

TEST_CASE("what a set is for follows from its key") {
  const auto plain = read(recipe("", "{}"));
  CHECK(uses(plain.train_dataset) == "true true true");
  CHECK(uses(plain.val_dataset) == "false false false");
  CHECK(uses(read(recipe("is_train: true, drop_last: false", "{is_train: no}")).train_dataset) ==
        "true true false");
  CHECK(uses(read(recipe("", "{shuffle: true}")).val_dataset) == "false true false");
  CHECK(uses(read(recipe("", ""), {"--val_dataset", "photos"}).val_dataset) == "false false false");
  const auto again = read(dump(plain));
  CHECK(uses(again.val_dataset) == "false false false");
  CHECK(dump(again) == dump(plain));
}

TEST_CASE("a set that is told to be the other one is refused where that stands") {
  CHECK(refusals(recipe("is_train: false", "{is_train: true}")) ==
        Lines{"r.yaml:3:22: train_dataset.photos.is_train: must be true: what stands under "
              "train_dataset is trained on; leave the key out",
              "r.yaml:5:22: val_dataset.photos.is_train: must be false: what stands under "
              "val_dataset is evaluated on; leave the key out"});
  CHECK(refusals(recipe("", "{}"), {"--val_dataset.photos.is_train"}) ==
        Lines{"--val_dataset.photos.is_train: must be false: what stands under val_dataset is "
              "evaluated on; leave the key out"});
}

TEST_CASE("for evaluation an ending that fits both sets means the evaluation's") {
  const auto evaluated = [](const std::string& text, const Words& words) {
    return resolve({"r.yaml", text}, words, with_photos(), {.evaluation = true, .options = {}});
  };
  const auto both = evaluated(recipe("datadir: /t", "{datadir: /v}"), {"--datadir", "/x"});
  CHECK(value(both.train_dataset, "datadir") == "/t");
  CHECK(value(both.val_dataset, "datadir") == "/x");
  CHECK(value(evaluated(recipe("", ""), {"--datadir", "/x"}).train_dataset, "datadir") == "/x");
  const auto parts = evaluated(recipe("", "", "split: {val: 0.25}\n"), {"--datadir", "/x"});
  CHECK(value(parts.val_dataset, "datadir") == "/x");
  CHECK(refusals(recipe("", "{}"), {"--datadir", "/x"}) ==
        Lines{"--datadir: ambiguous: one of --train_dataset.photos.datadir, "
              "--val_dataset.photos.datadir"});
}

TEST_CASE("a split gives val_dataset the training set's parameters, for evaluation") {
  const auto one = recipe("datadir: /d, order: class_balanced", "", "split: {val: 0.25}\n");
  const auto made = read(one);
  CHECK(made.options.split.val == 0.25);
  CHECK(made.options.split.seed == 1);
  CHECK(uses(made.train_dataset) == "true true true");
  REQUIRE(made.val_dataset);
  CHECK(made.val_dataset->name() == "photos");
  CHECK(uses(made.val_dataset) == "false false false");
  CHECK(value(made.val_dataset, "datadir") == "/d");

  const auto dumped = dump(made);
  CHECK_THAT(dumped, !Contains("val_dataset"));
  CHECK(dump(read(dumped)) == dumped);
  CHECK(split_of(dumped) == made.options.split);
  CHECK(split_of(dump(read(recipe("", "")))).val == 0);

  CHECK(read(recipe("", "{}"), {"--val_dataset", "none", "--split.val", "0.1"}).val_dataset);
  CHECK_FALSE(read(recipe("", "")).val_dataset);
}

TEST_CASE("a split beside a val_dataset, or of everything, is refused") {
  CHECK(refusals(recipe("", "{}", "split: {val: 0.1}\n")) ==
        Lines{"r.yaml:5:3: val_dataset: must be left out (--val_dataset none) with split, which "
              "evaluates on a part of train_dataset"});
  CHECK(refusals(recipe("", ""), {"--split.val", "1"}).size() == 1);
  CHECK(refusals(recipe("", "{}", "split: {val: 0}\n")).empty());
}

TEST_CASE("a folder of data may be beside the recipe") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "photos");
  const auto file = (folder / "r.yaml").string();
  const auto there = read(recipe("datadir: photos, ffcv_dir: nowhere", ""), {}, file);
  CHECK(value(there.train_dataset, "datadir") == (folder / "photos").string());
  CHECK(value(there.train_dataset, "ffcv_dir") == "nowhere");
  const auto typed =
      read(recipe("", ""), {"--train_dataset.photos.datadir", "photos"}, file).train_dataset;
  CHECK(value(typed, "datadir") == "photos");
}

TEST_CASE("a run's own recipe names existing folders of data by absolute paths") {
  const auto made = read(recipe("datadir: ., ffcv_dir: nowhere", "{datadir: /elsewhere}"));
  const auto kept = dump_with_absolute_paths(made);
  const auto again = read(kept);
  CHECK(value(again.train_dataset, "datadir") == fs::absolute(".").string());
  CHECK(value(again.train_dataset, "ffcv_dir") == "nowhere");
  CHECK(value(again.val_dataset, "datadir") == "/elsewhere");
  CHECK(value(read(dump(made)).train_dataset, "datadir") == ".");
}

TEST_CASE("a folder that a recipe cannot name stays relative") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "k\xE4t/data");
  const auto before = fs::current_path();
  fs::current_path(folder / "k\xE4t");
  const auto kept = dump_with_absolute_paths(read(recipe("datadir: data", "")));
  const auto lists = dump_with_absolute_paths(
      read("model: net\ntrain_dataset:\n  lists: {shards: data}\ntrain_batch_size: 8\n"
           "max_duration: 1ep\n"));
  fs::current_path(before);
  CHECK(value(read(kept).train_dataset, "datadir") == "data");
  CHECK(value(read(lists).train_dataset, "shards") == "data");
}

TEST_CASE("a run's own recipe names files of data and places of copies by absolute paths too") {
  const TemporaryFolder folder;
  for (const char* name : {"list.csv", "names.txt", "b.tar"}) folder.write(name, "");
  const fs::path there = fs::relative(folder.path());
  REQUIRE(there.is_relative());
  const auto kept = [](const std::string& params) {
    const auto made = read("model: net\ntrain_dataset:\n  lists: {" + params +
                           "}\ntrain_batch_size: 8\nmax_duration: 1ep\n");
    return read(dump_with_absolute_paths(made)).train_dataset;
  };
  const auto absolute = [](const fs::path& path) { return fs::absolute(path).string(); };

  const auto set =
      kept("file: " + (there / "list.csv").string() + ", images_dir: " + there.string() +
           ", classes: " + (there / "names.txt").string() + ", shards: \"" +
           (there / "a-{0..1}.tar").string() + "::" + (there / "b.tar").string() +
           "::/c.tar\", ffcv_local_dir: to/come");
  CHECK(value(set, "file") == absolute(there / "list.csv"));
  CHECK(value(set, "images_dir") == absolute(there));
  CHECK(value(set, "classes") == absolute(there / "names.txt"));
  CHECK(value(set, "shards") ==
        absolute(there / "a-{0..1}.tar") + "::" + absolute(there / "b.tar") + "::/c.tar");
  CHECK(value(set, "ffcv_local_dir") == absolute("to/come"));

  const auto below = kept("datadir: " + there.string() + ", file: list.csv, shards: b.tar");
  CHECK(value(below, "datadir") == absolute(there));
  CHECK(value(below, "file") == "list.csv");
  CHECK(value(below, "shards") == "b.tar");

  const std::string remote = "s3://bucket/a-{0..1}.tar::s3://bucket/b.tar";
  const auto elsewhere = kept("file: nowhere.csv, shards: \"" + remote + "\"");
  CHECK(value(elsewhere, "file") == "nowhere.csv");
  CHECK(value(elsewhere, "shards") == remote);
  CHECK(value(kept("shards: 8"), "shards") == "8");
  CHECK(value(kept("shards: \"/c.tar::" + (there / "b.tar").string() + "\""), "shards") ==
        "/c.tar::" + absolute(there / "b.tar"));
}

TEST_CASE("a run is not resumed with another split of its data") {
  const TemporaryFolder folder;
  const auto parts = [&](const std::string& split) {
    auto parts = tiny_parts();
    parts.options.run_dir = folder.path().string();
    parts.options.run_name = "run";
    const auto split_recipe = read(recipe("", "", "split: {" + split + "}\n"));
    parts.recipe = dump(split_recipe);
    parts.options.split = split_recipe.options.split;
    return parts;
  };
  Trainer(parts("val: 0.1")).fit();
  const auto resume = [&](const std::string& split) {
    auto more = parts(split);
    more.options.autoresume = true;
    more.options.max_duration = {3, TimeUnit::epoch};
    Trainer(std::move(more)).fit();
  };
  CHECK_THROWS_WITH(resume("val: 0.1, seed: 2"), Contains("split: the checkpoint's was") &&
                                                     Contains("seed: 2") &&
                                                     Contains("load_weights_only"));
  CHECK_THROWS_AS(resume("val: 0"), UserError);
  CHECK_NOTHROW(resume("val: 0.1"));
}

}  // namespace composer::dataset_keys_test
