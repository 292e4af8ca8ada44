// Batches of several views of each sample, and of samples that have values for a target.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/files/byte_reader.h"
#include "data/batches/image_loader.h"
#include "data/beton/source.h"
#include "data/beton/write.h"
#include "data/datasets/cifar10.h"
#include "data/datasets/image_folder.h"
#include "data/datasets/image_list.h"
#include "data/datasets/mds.h"
#include "data/datasets/mnist.h"
#include "data/datasets/webdataset.h"
#include "data/samples/target_rows.h"
#include "nn/network/batch.h"
#include "tests/data/beton_bytes.h"
#include "tests/data/make_jpeg.h"
#include "tests/data/make_tar.h"
#include "tests/files.h"

namespace composer::targets_test {

using namespace composer::test;
using Catch::Matchers::Contains;
using Catch::Matchers::VectorContains;

namespace {

/// Streams or pixels in memory; each sample's values are its index and the half of that.
class Pictures final : public Source {
 public:
  Pictures(int64_t samples, bool jpeg, bool with_values = false, int64_t broken = -1)
      : jpeg_(jpeg), with_values_(with_values), broken_(broken) {
    for (int64_t i = 0; i < samples; ++i) pictures_.push_back(make_picture(40 + i, 48));
    for (const auto& picture : pictures_) streams_.push_back(make_jpeg(picture));
  }

  int64_t size() const override { return std::ssize(pictures_); }
  int64_t channels() const override { return 3; }
  int64_t label(int64_t index) const override { return with_values_ ? 0 : index; }
  int64_t num_values() const override { return with_values_ ? 2 : 0; }
  std::vector<std::string> value_names() const override {
    return with_values_ ? std::vector<std::string>{"place", "half"} : std::vector<std::string>{};
  }
  void read_values(int64_t index, std::span<float> values) const override {
    if (!with_values_) return;
    values[0] = static_cast<float>(index);
    values[1] = static_cast<float>(index) / 2;
  }
  std::string name(int64_t index) const override { return "picture " + std::to_string(index); }
  StoredImage open(int64_t index, ReadScratch&) const override {
    ++opened;
    if (index == broken_) throw RunError("it is broken");
    const auto place = static_cast<size_t>(index);
    const ImageSize size{40 + index, 48};
    if (jpeg_) return {.jpeg = true, .bytes = streams_[place], .size = size};
    return {.bytes = pictures_[place].pixels, .size = size};
  }

  std::shared_ptr<void> follow(Forecast told) const override {
    forecast = std::move(told);
    return nullptr;
  }

  mutable std::atomic<int> opened = 0;
  mutable Forecast forecast;

 private:
  bool jpeg_, with_values_;
  int64_t broken_;
  std::vector<Image> pictures_;
  std::vector<std::vector<uint8_t>> streams_;
};

struct Setup {
  int64_t views = 1, batch = 8, workers = 2;
  int64_t rank = 0, world_size = 1;
  OnBadSample on_bad_sample = OnBadSample::error;
  OrderKind order = OrderKind::random;
  std::string rows{};
};

std::unique_ptr<Loader> make(std::shared_ptr<Source> source, const Setup& s) {
  return make_image_loader(
      std::move(source),
      {.transform = {.kind = Transform::Kind::random_resized_crop, .size = {16, 16}},
       .normalization = {{0, 0, 0}, {1, 1, 1}},
       .order = s.order,
       .rows = s.rows,
       .views = s.views,
       .training = true},
      {.batch_size = s.batch,
       .seed = 17,
       .num_workers = s.workers,
       .on_bad_sample = s.on_bad_sample,
       .rank = s.rank,
       .world_size = s.world_size});
}

std::vector<RawBatch> epoch_of(Loader& loader) {
  std::vector<RawBatch> batches;
  while (auto batch = loader.next()) batches.push_back(std::move(*batch));
  return batches;
}

at::Tensor images_of(const std::vector<RawBatch>& batches) {
  std::vector<at::Tensor> images;
  for (const auto& batch : batches) images.push_back(batch.images);
  return at::cat(images);
}

at::Tensor classes_of(const std::vector<RawBatch>& batches) {
  std::vector<at::Tensor> classes;
  for (const auto& batch : batches) classes.push_back(batch.target.classes);
  return at::cat(classes);
}

}  // namespace

TEST_CASE("views are several crops of each sample, which is read once", "[data]") {
  const bool jpeg = GENERATE(false, true);
  const auto source = std::make_shared<Pictures>(12, jpeg);
  const auto loader = make(source, {.views = 2});
  CHECK(loader->batches_per_epoch() == 3);
  CHECK(loader->samples_per_epoch() == 24);
  const auto batches = epoch_of(*loader);
  REQUIRE(batches.size() == 3);
  CHECK(batches[0].samples() == 8);
  const auto classes = classes_of(batches).view({12, 2});
  CHECK(at::equal(classes.select(1, 0), classes.select(1, 1)));
  CHECK(at::equal(std::get<0>(classes.select(1, 0).sort()), at::arange(12)));
  const auto images = images_of(batches).view({12, 2, -1});
  for (int64_t i = 0; i < 12; ++i) CHECK(!at::equal(images[i][0], images[i][1]));
  CHECK(make(source, {.views = 2})->image_size() == ImageSize{16, 16});

  SECTION("whatever the threads") {
    CHECK(at::equal(images_of(epoch_of(*make(source, {.views = 2, .workers = 0}))),
                    images_of(batches)));
  }
  SECTION("the first is the one of a loader without views") {
    const auto single = images_of(epoch_of(*make(source, {.batch = 4})));
    if (!jpeg) CHECK(at::equal(single.view({12, -1}), images.select(1, 0)));
  }
  SECTION("ranks have slices") {
    std::vector<at::Tensor> parts;
    std::vector<std::vector<RawBatch>> of_ranks;
    for (const int64_t rank : {0, 1})
      of_ranks.push_back(epoch_of(*make(source, {.views = 2, .rank = rank, .world_size = 2})));
    for (size_t i = 0; i < 3; ++i)
      for (const auto& batches_of_rank : of_ranks) parts.push_back(batches_of_rank[i].images);
    CHECK(at::equal(at::cat(parts), images_of(batches)));
  }
}

TEST_CASE("the views of a row that is named twice are all different", "[data]") {
  const auto loader = make(std::make_shared<Pictures>(12, false),
                           {.views = 2, .order = OrderKind::sequential, .rows = "0-11,0-11"});
  const auto images = images_of(epoch_of(*loader)).view({2, 12, 2, -1});
  for (int64_t i = 0; i < 12; ++i) CHECK(!at::equal(images[0][i][1], images[1][i][0]));
}

TEST_CASE("a loader of several views foretells each sample once", "[data]") {
  const auto source = std::make_shared<Pictures>(12, true);
  const auto loader = make(source, {.views = 2, .workers = 0});
  REQUIRE(static_cast<bool>(source->forecast));
  for (int batch = 0; batch < 2; ++batch) {
    std::vector<int64_t> samples;
    source->forecast([&](int64_t sample) { samples.push_back(sample); });
    CHECK(samples.size() == 12);
    CHECK(std::all_of(samples.begin(), samples.end(),
                      [](int64_t sample) { return sample >= 0 && sample < 12; }));
    CHECK(loader->next().has_value());
  }
}

TEST_CASE("a sample that is left out takes all its views along", "[data]") {
  const auto source = std::make_shared<Pictures>(8, true, false, 3);
  const auto loader = make(source, {.views = 4, .batch = 16, .on_bad_sample = OnBadSample::skip});
  const auto batches = epoch_of(*loader);
  CHECK(images_of(batches).size(0) == 28);
  CHECK(classes_of(batches).eq(3).sum().item<int64_t>() == 0);
}

TEST_CASE("a batch that is no whole number of samples is refused", "[data]") {
  CHECK_THROWS_WITH(make(std::make_shared<Pictures>(8, true), {.views = 3}),
                    Contains("views: a batch of 8 images"));
}

TEST_CASE("values take the place of classes", "[data]") {
  const int64_t views = GENERATE(1, 2);
  const auto source = std::make_shared<Pictures>(12, true, true);
  std::vector<at::Tensor> values;
  for (const auto& batch : epoch_of(*make(source, {.views = views}))) {
    CHECK(!batch.target.classes.defined());
    values.push_back(batch.target.values);
  }
  const auto all = at::cat(values);
  CHECK(all.scalar_type() == at::kFloat);
  CHECK(all.size(0) == 12 * views);
  CHECK(at::equal(all.select(1, 0) / 2, all.select(1, 1)));
  const auto numbers = std::get<0>(all.select(1, 0).view({12, views}).select(1, 0).sort());
  CHECK(at::equal(numbers, at::arange(12).to(at::kFloat)));
  CHECK_THROWS_WITH(make(source, {.order = OrderKind::class_balanced}),
                    Contains("class_balanced needs classes"));
}

TEST_CASE("values are written to a .beton file and read from it", "[data][beton]") {
  const TemporaryFolder folder;
  const auto path = folder / "set.beton";
  WriteOptions options;
  options.on_bad_sample = OnBadSample::replace;
  write_beton(Pictures(12, true, true, 5), path, options);
  const BetonSource all(path, 3, {"half", "place"});
  CHECK(all.num_values() == 2);
  CHECK(all.value_names() == std::vector<std::string>{"half", "place"});
  ReadScratch scratch;
  for (int64_t i = 0; i < all.size(); ++i) {
    std::vector<float> values(2);
    all.read_values(i, values);
    const auto of = static_cast<float>(i == 5 ? 4 : i);  // the bad one has become its neighbour
    CHECK(values == std::vector<float>{of / 2, of});
    CHECK(all.open(i, scratch).size == ImageSize{40 + (i == 5 ? 4 : i), 48});
  }
  SECTION("by name, and refused without one that is there") {
    CHECK_THROWS_WITH(BetonSource(path, 3, {"halves"}),
                      Contains("no field of numbers 'halves'") && Contains("place, half"));
    CHECK_THROWS_WITH(BetonSource(path, 3, {"places"}), Contains("did you mean 'place'?"));
    CHECK_THROWS_WITH(BetonSource(path, 3),
                      Contains("integer field") && Contains("fields of numbers: place, half"));
  }
  SECTION("and its images are there without any") {
    const auto batch =
        ImageFolderDataset({})
            .open_files({path}, {.batch_size = 12, .num_workers = 1, .crop_index = "off"})
            ->next();
    CHECK(at::equal(batch->target.classes, at::arange(12)));
  }
  SECTION("as a data set's key") {
    FolderParams params;
    params.is_train = false, params.shuffle = false, params.drop_last = false;
    params.crop_size = 16;
    params.ffcv.use_ffcv = true;
    params.ffcv.ffcv_dir = folder.path().string();
    params.ffcv.ffcv_dest = "set.beton";
    params.ffcv.targets = {"place"};
    const ImageFolderDataset set(params);
    CHECK(set.num_values() == 1);
    CHECK(set.number_names() == std::vector<std::string>{"place", "half"});
    CHECK(set.class_names() == std::vector<std::string>{"place"});
    Cifar10Dataset::Params cifar;
    MnistDataset::Params mnist;
    cifar.ffcv = mnist.ffcv = params.ffcv;
    CHECK(Cifar10Dataset(cifar).class_names() == set.class_names());
    CHECK(MnistDataset(mnist).class_names() == set.class_names());
    const auto batch = set.open({.batch_size = 12, .num_workers = 1, .crop_index = "off"})->next();
    CHECK(batch->target.values.sizes() == c10::IntArrayRef{12, 1});
    CHECK(batch->target.values[11].item<float>() == 11);
    params.ffcv.use_ffcv = false;
    CHECK_THAT(params.check(), Contains("targets: needs use_ffcv: true"));
  }
}

TEST_CASE("names that FFCV's format cannot hold are refused before anything is written",
          "[data][beton]") {
  class Named final : public FileSource {
   public:
    explicit Named(std::vector<std::string> names)
        : FileSource(table_of_files({}), "", 3), names_(std::move(names)) {}
    int64_t num_values() const override { return std::ssize(names_); }
    std::vector<std::string> value_names() const override { return names_; }

   private:
    std::vector<std::string> names_;
  };
  const TemporaryFolder folder;
  const auto path = folder / "set.beton";
  CHECK_THROWS_WITH(write_beton(Named({"a name of 17 long"}), path, {}), Contains("1 to 16"));
  CHECK_THROWS_WITH(write_beton(Named({"image"}), path, {}), Contains("two fields 'image'"));
  CHECK_THROWS_WITH(write_beton(Named({"x", "x"}), path, {}), Contains("two fields 'x'"));
  CHECK(!fs::exists(path));
}

TEST_CASE("arrays and integers of FFCV's files are values too", "[data][beton]") {
  const TemporaryFolder folder;
  const auto path = folder / "set.beton";
  std::string array;
  for (const float value : {1.5F, -2.0F, 0.25F}) append(array, value);
  TestBeton spec{.fields = {{"image", 2, {}, {}},
                            {"label", 1, {}, {}},
                            {"vector", 4, {3}, R"([["", "<f4"]])"},
                            {"blob", 3, {}, {}}},
                 .rows = {}};
  spec.rows.push_back({TestImage{1, 2, 2, std::string(12, 'x')}, int64_t{7}, array, "text"});
  write_file(path, beton_bytes(spec).file);
  const BetonSource source(path, 3, {"vector", "label"});
  CHECK(source.value_names() ==
        std::vector<std::string>{"vector[0]", "vector[1]", "vector[2]", "label"});
  std::vector<float> values(4);
  source.read_values(0, values);
  CHECK(values == std::vector<float>{1.5F, -2, 0.25F, 7});
  CHECK_THROWS_WITH(BetonSource(path, 3, {"blob"}), Contains("no field of numbers 'blob'"));
}

TEST_CASE("the label of a .beton file is the integer field of that name", "[data][beton]") {
  const TemporaryFolder folder;
  const auto path = folder / "set.beton";
  const auto label = [&](const std::vector<std::string>& names) {
    TestBeton spec;
    spec.fields.push_back({"image", 2, {}, {}});
    std::vector<TestValue> row{TestImage{1, 2, 2, std::string(12, 'x')}};
    for (const auto& name : names) {
      spec.fields.push_back({name, 1, {}, {}});
      row.emplace_back(static_cast<int64_t>(row.size()));
    }
    spec.rows.push_back(row);
    write_file(path, beton_bytes(spec).file);
    return BetonSource(path, 3).label(0);
  };
  CHECK(label({"id", "label"}) == 2);
  CHECK(label({"class", "id", "target", "labels"}) == 4);
  CHECK(label({"id", "class", "target"}) == 3);
  CHECK(label({"id"}) == 1);
  CHECK(label({"id", "age"}) == 1);
}

namespace {

/// The same photographs with the same numbers in a list, tar files and MDS shards.
struct NumberSets : TemporaryFolder {
  static constexpr int kCount = 14;

  NumberSets() {
    std::string list = "path,area,x,y\n", tar;
    std::vector<std::vector<std::string>> samples;
    for (int i = 0; i < kCount; ++i) {
      const auto stream = make_jpeg(make_picture(40 + i, 48));
      const std::string bytes(stream.begin(), stream.end()), name = std::to_string(100 + i);
      const float area = static_cast<float>(i) / 2, x = static_cast<float>(i), y = 1 - x;
      write_file(*this / (name + ".jpg"), bytes);
      std::ostringstream line;
      line << name << ".jpg," << area << "," << x << "," << y << "\n";
      list += line.str();
      tar += tar_member(name + ".jpg", bytes) + tar_member(name + ".area", std::to_string(area)) +
             tar_member(name + ".json",
                        R"({"x": )" + std::to_string(x) + R"(, "y": )" + std::to_string(y) + "}");
      samples.push_back({bytes, mds_number(area), mds_number(x) + mds_number(y)});
    }
    write_file(*this / "list.csv", list);
    write_file(*this / "tar/a.tar", tar + tar_end());
    const auto shard = mds_shard(samples, {false, true, true});
    write_file(*this / "mds/shard.00000.mds", shard);
    const nlohmann::json index{
        {"version", 2},
        {"shards",
         {{{"format", "mds"},
           {"version", 2},
           {"column_names", {"image", "area", "xy"}},
           {"column_encodings", {"jpeg", "float32", "ndarray:float32:2"}},
           {"column_sizes", {nullptr, 4, 8}},
           {"samples", samples.size()},
           {"raw_data", {{"basename", "shard.00000.mds"}, {"bytes", shard.size()}}},
           {"compression", nullptr}}}}};
    write_file(*this / "mds/index.json", index.dump());
  }

  template <class Change>
  std::vector<std::unique_ptr<Dataset>> all(const Change& change) const {
    std::vector<std::unique_ptr<Dataset>> sets;
    const auto add = [&]<class Set>(typename Set::Params params,
                                    const std::vector<std::string>& targets) {
      params.crop_size = 16, params.drop_last = false, params.ffcv.targets = targets;
      change(params);
      CHECK(params.check().empty());
      sets.push_back(std::make_unique<Set>(params));
    };
    ImageListParams list;
    list.file = *this / "list.csv";
    add.template operator()<ImageListDataset>(list, {"area", "x", "y"});
    WebDatasetParams tar;
    tar.datadir = *this / "tar";
    add.template operator()<WebDataset>(tar, {"area", "json.x", "json.y"});
    MdsParams mds;
    mds.datadir = *this / "mds";
    add.template operator()<MdsDataset>(mds, {"area", "xy"});
    return sets;
  }
};

struct NumberEpoch {
  at::Tensor images, values;
};

NumberEpoch numbers_from(const Dataset& set, const LoaderOptions& options, int64_t batch = 0) {
  const auto loader = set.open(options);
  loader->start(1, batch);
  const auto batches = epoch_of(*loader);
  std::vector<at::Tensor> values;
  for (const auto& one : batches) values.push_back(one.target.values);
  return {images_of(batches), at::cat(values)};
}

}  // namespace

TEST_CASE("lists and shards give their numbers as targets", "[data]") {
  const NumberSets sets;
  const int64_t views = GENERATE(1, 2);
  const auto all = sets.all([&](auto& params) { params.views = views; });
  const LoaderOptions options{.batch_size = 4, .seed = 3, .num_workers = 2};
  const auto expected = numbers_from(*all[0], options);
  REQUIRE(expected.values.sizes() == c10::IntArrayRef{NumberSets::kCount * views, 3});
  CHECK(at::equal(expected.values.select(1, 0) * 2, expected.values.select(1, 1)));
  CHECK(at::equal(1 - expected.values.select(1, 1), expected.values.select(1, 2)));
  for (const auto& set : all) {
    CHECK(set->num_values() == 3);
    CHECK_FALSE(set->num_classes());
    const auto same = [](const NumberEpoch& a, const NumberEpoch& b) {
      return at::equal(a.images, b.images) && at::equal(a.values, b.values);
    };
    CHECK(same(numbers_from(*set, options), expected));
    auto here = options;
    here.num_workers = 0;
    CHECK(same(numbers_from(*set, here), expected));
    CHECK(same(numbers_from(*set, options, 2),
               {expected.images.slice(0, 8), expected.values.slice(0, 8)}));
    std::vector<at::Tensor> images, values;
    for (const int64_t rank : {0, 1}) {
      auto shared = options;
      shared.batch_size = NumberSets::kCount, shared.rank = rank, shared.world_size = 2;
      const auto part = numbers_from(*set, shared);
      images.push_back(part.images), values.push_back(part.values);
    }
    auto whole = options;
    whole.batch_size = NumberSets::kCount;
    if (views == 1) CHECK(same({at::cat(images), at::cat(values)}, numbers_from(*set, whole)));
  }
  CHECK_THAT(all[0]->number_names(), VectorContains(std::string("area")));
  CHECK(all[1]->number_names().empty());
  CHECK_THAT(all[2]->number_names(), VectorContains(std::string("xy")));
  CHECK(all[0]->class_names() == std::vector<std::string>{"area", "x", "y"});
  CHECK(all[1]->class_names() == std::vector<std::string>{"area", "json.x", "json.y"});
  CHECK(all[2]->class_names() == std::vector<std::string>{"area", "xy[0]", "xy[1]"});
}

TEST_CASE("numbers of lists and shards are kept in the .beton file that is made of them",
          "[data][beton]") {
  const NumberSets sets;
  const LoaderOptions options{.batch_size = 4, .num_workers = 1};
  const auto original = sets.all([](auto&) {});
  int number = 0;
  const auto written = sets.all([&](auto& params) {
    params.ffcv.use_ffcv = params.ffcv.ffcv_write_dataset = true;
    params.ffcv.ffcv_dir = sets.path().string();
    params.ffcv.ffcv_dest = std::to_string(++number) + ".beton";
  });
  for (size_t i = 0; i < original.size(); ++i) {
    INFO(i);
    CHECK(written[i]->num_values() == 3);  // before the file is there, and then
    const auto expected = numbers_from(*original[i], options);
    for (int again = 0; again < 2; ++again) {
      const auto found = numbers_from(*written[i], options);
      CHECK(at::equal(found.images, expected.images));
      CHECK(at::equal(found.values, expected.values));
    }
    CHECK(written[i]->num_values() == 3);
    CHECK(written[i]->class_names() == original[i]->class_names());
  }
}

TEST_CASE("targets that contradict other keys are refused", "[data]") {
  ImageListParams list;
  list.ffcv.targets = {"x"}, list.label = "y", list.classes = "z";
  CHECK_THAT(list.check(), Contains("label: has no meaning with targets") &&
                               Contains("classes: has no meaning with targets"));
  WebDatasetParams tar;
  tar.ffcv.targets = {"x"}, tar.label = "cls";
  CHECK_THAT(tar.check(), Contains("label: has no meaning with targets"));
  MdsParams mds;
  mds.ffcv.targets = {"x"};
  CHECK(mds.check().empty());
}

TEST_CASE("a value that is no number is told, however deep it is", "[data]") {
  const auto told = [](const std::string& text) -> std::string {
    try {
      numbers_in(nlohmann::json::parse(text));
    } catch (const FormatError& error) {
      return error.what();
    }
    return "";
  };
  constexpr size_t kDepth = 300'000;
  CHECK(told(std::string(kDepth, '[') + std::string(kDepth, ']')) == "an array is no number");
  CHECK(told(R"([1, {"x": 2}])") == "an object is no number");
  CHECK(told(R"("much")") == R"("much" is no number)");
}

}  // namespace composer::targets_test
