
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "base/error.h"
#include "data/datasets/cifar10.h"
#include "data/datasets/image_folder.h"
#include "data/datasets/mnist.h"
#include "data/datasets/shapes.h"
#include "data/datasets/synthetic.h"
#include "data/samples/memory_source.h"
#include "data/samples/order.h"
#include "tests/data/errors.h"
#include "tests/data/make_jpeg.h"
#include "tests/data/plain_batch.h"
#include "tests/files.h"

namespace composer::rows_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

/// A source with nothing but labels.
MemorySource labelled(const std::vector<int32_t>& labels) {
  return {"labels", {1, 1},
          1,        std::vector<uint8_t>(labels.size()),
          labels,   static_cast<int64_t>(labels.size())};
}

/// Four samples, of which the label of the third was lost.
class LostLabel final : public Source {
 public:
  int64_t size() const override { return 4; }
  int64_t channels() const override { return 1; }
  int64_t label(int64_t index) const override {
    if (index == 2) throw RunError("the file was cut off");
    return 0;
  }
  std::string name(int64_t index) const override {
    return "x.beton, sample " + std::to_string(index);
  }
  StoredImage open(int64_t, ReadScratch&) const override { return {}; }
};

LoaderOptions side(bool evaluation, double val = 0.1, uint64_t seed = 1) {
  LoaderOptions options;
  options.split = Split{.val = val, .seed = seed, .evaluation = evaluation};
  return options;
}

std::vector<int64_t> rows(const Source& source, bool evaluation, double val = 0.1,
                          uint64_t seed = 1, const std::string& text = "") {
  return chosen_rows(source, text, !evaluation, side(evaluation, val, seed));
}

std::map<int64_t, int64_t> counts(const Source& source, const std::vector<int64_t>& chosen) {
  std::map<int64_t, int64_t> counts;
  for (const int64_t row : chosen) ++counts[source.label(row)];
  return counts;
}

/// What an epoch of one side holds, as the bytes of its images.
std::multiset<std::string> images(const Dataset& set, LoaderOptions options, int64_t batch_size) {
  options.batch_size = batch_size;
  const auto loader = set.open(options);
  loader->start(0, 0);
  std::multiset<std::string> all;
  for (const auto& batch : rest_of_epoch(*loader)) {
    const size_t each = batch.pixels.size() / batch.classes.size();
    for (size_t i = 0; i < batch.classes.size(); ++i)
      all.insert(batch.pixels.substr(i * each, each));
  }
  return all;
}

}  // namespace

TEST_CASE("a split gives each sample to one side, and each class its share", "[data]") {
  std::vector<int32_t> labels;
  for (int i = 0; i < 1000; ++i) labels.push_back(i % 7 == 0 ? 3 : i % 10);
  for (const int32_t few : {20, 20, 21}) labels.push_back(few);
  const auto source = labelled(labels);
  const auto train = rows(source, false), val = rows(source, true);
  std::vector<int64_t> both;
  std::ranges::merge(train, val, std::back_inserter(both));
  REQUIRE(std::ssize(both) == source.size());
  for (int64_t i = 0; i < source.size(); ++i) CHECK(both[static_cast<size_t>(i)] == i);

  auto of_train = counts(source, train), of_val = counts(source, val);
  for (int64_t label = 0; label < 10; ++label)
    CHECK(of_val[label] ==
          std::llround(0.1 * static_cast<double>(of_val[label] + of_train[label])));
  CHECK(of_val[20] == 1);
  CHECK(of_train[20] == 1);
  CHECK(of_val[21] == 0);
  CHECK(of_train[21] == 1);

  CHECK(rows(source, true) == val);
  CHECK(rows(source, true, 0.1, 2) != val);
  CHECK(counts(source, rows(source, false, 0.9))[20] == 1);
}

TEST_CASE("a split of rows stays within them, and no repeated row is on both sides", "[data]") {
  const auto source = labelled({0, 0, 0, 0, 1, 1, 1, 1});
  const std::string text = "0-3,0-3,5-6";
  const auto train = rows(source, false, 0.5, 1, text), val = rows(source, true, 0.5, 1, text);
  CHECK(train.size() + val.size() == 10);
  for (const int64_t row : val) {
    CHECK(std::ranges::find(train, row) == train.end());
    CHECK((row < 4 || row == 5 || row == 6));
  }
  CHECK(counts(source, val) == std::map<int64_t, int64_t>{{0, 4}, {1, 1}});
}

TEST_CASE("a split that leaves nothing to evaluate on is refused", "[data]") {
  CHECK_THROWS_WITH(rows(labelled({0, 1, 2}), true), Contains("no class has two samples"));
  CHECK(rows(labelled({0, 1, 2}), false).size() == 3);
}

TEST_CASE("a lost label is told of with the sample's name", "[data]") {
  const std::string expected = "x.beton, sample 2: the file was cut off";
  CHECK_THROWS_WITH(rows(LostLabel(), true), expected);
  CHECK_THROWS_WITH(chosen_rows(LostLabel(), "0-1", true, {}), expected);
  CHECK_THROWS_WITH(Sampler(LostLabel(), {.kind = OrderKind::class_balanced, .subset = {}}),
                    expected);
  CHECK(label_of(LostLabel(), 3) == 0);
}

TEST_CASE("the digest of data is of their number and labels in order", "[data]") {
  const auto digest = digest_of(labelled({0, 1, 1}));
  CHECK(digest.size() == 16);
  CHECK(digest == digest_of(labelled({0, 1, 1})));
  CHECK(digest != digest_of(labelled({1, 0, 1})));
  CHECK(digest != digest_of(labelled({0, 1})));
  std::vector<int32_t> many(10000, 1);
  const auto of_many = digest_of(labelled(many));
  many[9999] = 2;
  CHECK(of_many != digest_of(labelled(many)));
  CHECK(digest_of(LostLabel()).empty());
  CHECK_NOTHROW(chosen_rows(LostLabel(), "", true, {}));
}

TEST_CASE("samples to train on that are all of one class are told of", "[data]") {
  const TemporaryFolder folder;
  const auto told = [&](const std::vector<int32_t>& labels, const std::string& rows,
                        bool training = true) {
    LoaderOptions options;
    options.class_names = {"cat", "photos"};
    Errors errors(folder / "errors");
    chosen_rows(labelled(labels), rows, training, options);
    return errors.text();
  };
  const std::string one = "all samples to train on are of one class, photos: ";
  CHECK_THAT(told({1, 1, 1}, ""), Catch::Contains(one));
  CHECK_THAT(told({0, 1, 1}, "1-2"), Catch::Contains(one));
  CHECK_THAT(told({0, 1, 1}, ""), !Catch::Contains(one));
  CHECK_THAT(told({1}, ""), !Catch::Contains(one));
  CHECK_THAT(told({1, 1}, "", false), !Catch::Contains(one));
}

TEST_CASE("without a split the rows are those that are named", "[data]") {
  const auto source = labelled({0, 0, 1, 1});
  CHECK(chosen_rows(source, "", true, {}).empty());
  CHECK(chosen_rows(source, "3,0-1", true, {}) == std::vector<int64_t>{3, 0, 1});
}

TEST_CASE("both sides of a set come from its training part, whatever the batches", "[data]") {
  ShapesDataset::Params whole;
  whole.samples = 60, whole.shuffle = false, whole.drop_last = false, whole.size = 16;
  auto evaluated = whole;
  evaluated.is_train = false;
  const auto open = [&](int64_t batch_size, int64_t workers) {
    auto options = side(true, 0.2);
    options.num_workers = workers;
    return images(ShapesDataset(evaluated), options, batch_size);
  };
  const auto val = open(7, 0);
  CHECK(val.size() == 10);  // six of each class: one of each
  CHECK(open(4, 3) == val);
  const auto train = ShapesDataset(whole).open(side(false, 0.2));
  CHECK(train->samples_per_epoch() == 50);

  const auto part = [&](const char* rows) {
    SyntheticDataset::Params params;
    params.height = params.width = 8, params.samples = 90, params.num_classes = 3;
    params.is_train = false, params.shuffle = params.drop_last = false, params.rows = rows;
    return SyntheticDataset(params);
  };
  const auto all = images(part(""), {}, 8);
  const auto trained = images(part(""), side(false, 0.3), 8),
             held_out = images(part(""), side(true, 0.3), 5);
  CHECK(trained.size() + held_out.size() == all.size());
  for (const auto& image : held_out) CHECK_FALSE(trained.contains(image));
}

TEST_CASE("a split takes train/ of a folder, and evaluates on resized middles", "[data]") {
  const TemporaryFolder folder;
  for (const char* part : {"train", "val"})
    for (int i = 0; i < 12; ++i) {
      const auto jpeg = make_jpeg(make_picture(40 + i, 40));
      write_file(folder / part / (i % 2 ? "cat" : "dog") / (std::to_string(i) + ".jpg"),
                 std::string(jpeg.begin(), jpeg.end()));
    }
  for (int i = 0; i < 8; ++i) fs::remove(folder / "val" / "cat" / (std::to_string(i) + ".jpg"));
  FolderParams params;
  params.datadir = folder.path(), params.crop_size = 14, params.drop_last = false;
  const ImageFolderDataset trained(params);
  params.is_train = false, params.shuffle = false;
  const ImageFolderDataset evaluated(params);
  CHECK(trained.open(side(false, 0.34))->samples_per_epoch() == 8);
  CHECK(evaluated.open(side(true, 0.34))->samples_per_epoch() == 4);
  auto resized = params;
  resized.resize_size = 16;
  CHECK(images(evaluated, side(true, 0.34), 4) ==
        images(ImageFolderDataset(resized), side(true, 0.34), 4));
  CHECK(images(evaluated, {}, 4) != images(ImageFolderDataset(resized), {}, 4));
}

TEST_CASE("all sets of the program can be split, others say that they cannot", "[data]") {
  CHECK(ShapesDataset({}).can_split());
  CHECK(SyntheticDataset({}).can_split());
  CHECK(Cifar10Dataset({}).can_split());
  CHECK(MnistDataset({}).can_split());
  CHECK(ImagenetDataset({}).can_split());
  CHECK(ImageFolderDataset({}).can_split());
  for (const bool evaluation : {false, true}) {
    Cifar10Dataset::Params cifar;
    cifar.use_synthetic = true, cifar.is_train = !evaluation, cifar.drop_last = false;
    CHECK(Cifar10Dataset(cifar).open(side(evaluation))->samples_per_epoch() > 0);
    const auto train = Cifar10Dataset(cifar).open(side(false));
    const auto val = Cifar10Dataset(cifar).open(side(true));
    CHECK(train->samples_per_epoch() + val->samples_per_epoch() == 50000);
  }
}

}  // namespace composer::rows_test
