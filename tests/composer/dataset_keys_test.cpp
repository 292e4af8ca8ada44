// What a recipe makes of the keys that sets share: what a set is for.
#include "composer/recipe/dataset_keys.h"

#include <catch2/catch.hpp>

#include "tests/composer/fake_components.h"

using namespace composer;
using namespace composer::test;

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

const Registry& with_photos() {
  static const Registry all = [] {
    Registry registry = known();
    registry.datasets.add<Photos>("photos");
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
