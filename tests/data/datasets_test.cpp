#include <sys/stat.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <set>

#include "base/error.h"
#include "data/beton/source.h"
#include "data/datasets/all.h"
#include "data/datasets/cifar10.h"
#include "data/datasets/image_folder.h"
#include "data/datasets/mnist.h"
#include "data/datasets/shapes.h"
#include "data/datasets/synthetic.h"
#include "data/index/index_file.h"
#include "data/jpeg/jpeg.h"
#include "nn/network/batch.h"
#include "tests/data/fake_sources.h"
#include "tests/data/plain_batch.h"
#include "tests/files.h"

namespace composer::datasets_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

std::string idx_images(uint32_t count) {
  std::string file = big_endian(0x803) + big_endian(count) + big_endian(28) + big_endian(28);
  for (uint32_t i = 0; i < count * 28 * 28; ++i) file += static_cast<char>(i % 251);
  return file;
}

std::string idx_labels(const std::string& labels) {
  return big_endian(0x801) + big_endian(static_cast<uint32_t>(labels.size())) + labels;
}

void write_gz(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

MnistDataset::Params mnist_at(const std::string& folder, bool is_train = true) {
  MnistDataset::Params params;
  params.is_train = is_train, params.shuffle = false, params.drop_last = false,
  params.datadir = folder;
  return params;
}

Cifar10Dataset::Params cifar_at(const std::string& folder, bool is_train) {
  Cifar10Dataset::Params params;
  params.is_train = is_train, params.shuffle = false, params.drop_last = false,
  params.datadir = folder;
  return params;
}

FolderParams folder_at(const std::string& folder, bool is_train) {
  FolderParams params;
  params.is_train = is_train, params.shuffle = false, params.drop_last = false,
  params.datadir = folder;
  params.crop_size = 16;
  return params;
}

/// One record: the label and the planes, whose pixel i is (i, 2 i, 3 i) modulo 256.
std::string cifar_record(int label) {
  std::string record(1, static_cast<char>(label));
  for (int c = 1; c <= 3; ++c) {
    for (int i = 0; i < 1024; ++i) record += static_cast<char>(c * i);
  }
  return record;
}

std::string gray_jpeg(uint8_t value) {
  Image image;
  image.resize(20, 24, 3);
  std::fill(image.pixels.begin(), image.pixels.end(), value);
  const auto bytes = encode_jpeg(image.view(), 90);
  return {bytes.begin(), bytes.end()};
}

std::vector<PlainBatch> first_epoch(const Dataset& set, int64_t batch_size = 4) {
  const auto loader = set.open({.batch_size = batch_size});
  loader->start(0, 0);
  return rest_of_epoch(*loader);
}

}  // namespace

TEST_CASE("mnist reads idx files, compressed or not, from either folder", "[data]") {
  const TemporaryFolder folder;
  write_gz(folder / "MNIST/raw/train-images-idx3-ubyte.gz", idx_images(5));
  write_file(folder / "MNIST/raw/train-labels-idx1-ubyte", idx_labels({3, 1, 4, 1, 5}));
  write_file(folder / "t10k-images-idx3-ubyte", idx_images(2));
  write_gz(folder / "t10k-labels-idx1-ubyte.gz", idx_labels({9, 0}));
  const auto train = first_epoch(MnistDataset(mnist_at(folder.path())));
  REQUIRE(train.size() == 2);
  CHECK(train[0].shape == std::vector<int64_t>{4, 28, 28, 1});
  CHECK(train[0].classes == std::vector<int64_t>{3, 1, 4, 1});
  CHECK(train[1].classes == std::vector<int64_t>{5});
  CHECK(train[0].pixels + train[1].pixels == idx_images(5).substr(16));
  CHECK(first_epoch(MnistDataset(mnist_at(folder.path(), false)))[0].classes ==
        std::vector<int64_t>{9, 0});
}

TEST_CASE("mnist reads files that were unpacked under other names", "[data]") {
  const TemporaryFolder folder;
  write_file(folder / "train-images.idx3-ubyte", idx_images(2));
  write_file(folder / "train-labels.idx1-ubyte", idx_labels({3, 1}));
  write_file(folder / "t10k-images-idx3-ubyte/t10k-images-idx3-ubyte", idx_images(1));
  write_file(folder / "t10k-labels-idx1-ubyte/t10k-labels-idx1-ubyte", idx_labels({7}));
  CHECK(has_mnist(folder.path(), true));
  CHECK(first_epoch(MnistDataset(mnist_at(folder.path())))[0].classes ==
        std::vector<int64_t>{3, 1});
  CHECK(first_epoch(MnistDataset(mnist_at(folder.path(), false)))[0].classes ==
        std::vector<int64_t>{7});
}

TEST_CASE("mnist refuses wrong files by name", "[data]") {
  const TemporaryFolder folder;
  const auto open = [&] { first_epoch(MnistDataset(mnist_at(folder.path()))); };
  const std::string images = folder / "train-images-idx3-ubyte",
                    labels = folder / "train-labels-idx1-ubyte";
  CHECK_THROWS_WITH(
      open(), Contains("datadir") && Contains("train-images-idx3-ubyte") && Contains("MNIST/raw"));
  CHECK_THROWS_WITH(first_epoch(MnistDataset(mnist_at(""))), Contains("datadir: missing"));
  CHECK_THROWS_WITH(
      first_epoch(MnistDataset(mnist_at("/no/such"))),
      Contains("no folder '/no/such'") && Contains("moved, datadir is to name their new place"));
  write_file(images, idx_images(3));
  CHECK_THROWS_WITH(open(), Contains("train-labels-idx1-ubyte"));
  write_file(labels, idx_labels({1, 2}));
  CHECK_THROWS_WITH(open(), Contains(labels) && Contains("2 labels") && Contains("3 images"));
  write_file(labels, idx_labels({1, 2, 10}));
  CHECK_THROWS_WITH(open(), Contains(labels) && Contains("label 10"));
  write_file(labels, idx_images(3));
  CHECK_THROWS_WITH(open(), Contains(labels) && Contains("no idx file of labels"));
  write_file(labels, idx_labels({1, 2, 3}));
  CHECK_NOTHROW(open());
  write_file(images, idx_images(3).substr(0, 2000));
  CHECK_THROWS_WITH(open(), Contains(images) && Contains("ends too early"));
  write_file(images, idx_images(3) + "x");
  CHECK_THROWS_WITH(open(), Contains(images) && Contains("longer"));
  write_file(images, "");
  CHECK_THROWS_AS(open(), UserError);
  fs::remove(images);
  write_gz(images + ".gz", idx_images(3));
  write_file(images + ".gz", read_bytes(images + ".gz").substr(0, 300));
  CHECK_THROWS_AS(open(), UserError);
}

TEST_CASE("cifar10 reads the binary version and interleaves its planes", "[data]") {
  const TemporaryFolder folder;
  const std::string test = folder / "cifar-10-batches-bin/test_batch.bin";
  write_file(test, cifar_record(7) + cifar_record(0));
  const auto batches = first_epoch(Cifar10Dataset(cifar_at(folder.path(), false)));
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].shape == std::vector<int64_t>{2, 32, 32, 3});
  CHECK(batches[0].classes == std::vector<int64_t>{7, 0});
  bool right = true;
  for (int i = 0; i < 2 * 3072; ++i) {
    const int pixel = i / 3 % 1024, channel = i % 3 + 1;
    right &= batches[0].pixels[static_cast<size_t>(i)] == static_cast<char>(channel * pixel);
  }
  CHECK(right);
  const Cifar10Dataset train(cifar_at(folder.path(), true));
  CHECK_THROWS_WITH(train.open({}), Contains("datadir") && Contains("data_batch_1.bin"));
  CHECK(train.class_names().at(9) == "truck");
  write_file(folder / "cifar-10-batches-bin/batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  CHECK(train.class_names().at(9) == "j");
  for (int i = 1; i <= 5; ++i) {
    write_file(folder / ("cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin"),
               cifar_record(i));
  }
  CHECK(first_epoch(train, 5).at(0).classes == std::vector<int64_t>{1, 2, 3, 4, 5});

  write_file(test, cifar_record(7) + "x");
  CHECK_THROWS_WITH(Cifar10Dataset(cifar_at(folder.path(), false)).open({}),
                    Contains(test) && Contains("3073"));
  write_file(test, cifar_record(10));
  CHECK_THROWS_WITH(Cifar10Dataset(cifar_at(folder.path(), false)).open({}),
                    Contains(test) && Contains("label 10"));
}

TEST_CASE("image folders: parts, sorted classes, links, names of broken files", "[data]") {
  const TemporaryFolder folder, elsewhere;
  write_file(folder / "train/cat/b.JPEG", gray_jpeg(10));
  write_file(folder / "train/cat/a.jpg", gray_jpeg(20));
  write_file(folder / "train/cat/notes.txt", "not an image");
  write_file(folder / "train/bird/deep/x.png", gray_jpeg(30));
  write_file(elsewhere / "dog/z.jpg", gray_jpeg(40));
  fs::create_directory_symlink(elsewhere.path() / "dog", folder.path() / "train" / "dog");
  write_file(folder / "val/dog/v.jpg", gray_jpeg(50));
  const ImageFolderDataset train(folder_at(folder.path(), true)),
      val(folder_at(folder.path(), false));

  CHECK(train.class_names() == std::vector<std::string>{"bird", "cat", "dog"});
  CHECK(train.num_classes() == 3);
  CHECK(val.num_classes() == 3);
  CHECK_FALSE(train.published_samples());
  const auto batches = first_epoch(train);
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].classes == std::vector<int64_t>{0, 1, 1, 2});
  std::vector<int> values;
  for (int i = 0; i < 4; ++i)
    values.push_back(static_cast<uint8_t>(batches[0].pixels[static_cast<size_t>(i) * 768]));
  CHECK(values == std::vector<int>{30, 20, 10, 40});
  CHECK(first_epoch(val)[0].classes == std::vector<int64_t>{2});
  CHECK(first_epoch(ImageFolderDataset(folder_at(folder / "train", true)))[0].classes.size() == 4);

  write_file(folder / "val/dog/w.jpg", gray_jpeg(50).substr(0, 300));
  CHECK_THROWS_WITH(first_epoch(val), Contains("val/dog/w.jpg: ") && Contains("JPEG"));
  write_file(folder / "val/dog/w.heic", std::string("\0\0\0\x18"
                                                    "ftypheic",
                                                    12));
  CHECK_THROWS_WITH(val.open({}), Contains("val/dog/w.heic") && Contains("TIFF"));
  const auto left = val.open({.batch_size = 8, .on_bad_sample = OnBadSample::skip});
  CHECK(left->samples_per_epoch() == 3);
  CHECK(left->next()->target.classes.numel() == 1);
  fs::remove(folder.path() / "val/dog/w.heic");
  write_file(folder / "val/fox/w.jpg", gray_jpeg(50));
  CHECK_THROWS_WITH(val.open({}), Contains("val/fox") && Contains("train/ has no class"));
  fs::create_directories(folder.path() / "train" / "empty");
  CHECK_THROWS_WITH(train.open({}), Contains("train/empty") && Contains("without images"));
  fs::remove_all(folder.path() / "val");
  CHECK_THROWS_WITH(val.open({}), Contains("datadir") && Contains("no val/"));
  CHECK_THROWS_WITH(ImageFolderDataset(folder_at(folder / "train/cat", true)).open({}),
                    Contains("no class folders") && Contains("loose image files"));
}

TEST_CASE("a link to a folder above does not loop", "[data]") {
  const TemporaryFolder folder;
  write_file(folder / "cat/a.jpg", gray_jpeg(20));
  fs::create_directory_symlink(folder.path() / "cat", folder.path() / "cat" / "loop");
  CHECK(first_epoch(ImageFolderDataset(folder_at(folder.path(), true)))[0].classes.size() == 1);
}

TEST_CASE("given files go through the evaluation transforms in order", "[data]") {
  const TemporaryFolder folder;
  write_file(folder / "b.jpg", gray_jpeg(200));
  write_file(folder / "a.jpg", gray_jpeg(100));
  const std::vector<std::string> files = {folder / "b.jpg", folder / "a.jpg"};
  const auto check = [&](const Dataset& set, std::vector<int64_t> shape) {
    const auto loader = set.open_files(files, {.batch_size = 8});
    loader->start(0, 0);
    const auto batches = rest_of_epoch(*loader);
    REQUIRE(batches.size() == 1);
    CHECK(batches[0].shape == shape);
    CHECK(batches[0].classes == std::vector<int64_t>{0, 1});
    CHECK(static_cast<uint8_t>(batches[0].pixels[batches[0].pixels.size() / 4]) == 200);
    CHECK(static_cast<uint8_t>(batches[0].pixels[batches[0].pixels.size() * 3 / 4]) == 100);
  };
  check(MnistDataset({}), {2, 28, 28, 1});
  check(Cifar10Dataset({}), {2, 32, 32, 3});
  check(ImageFolderDataset(folder_at("", true)), {2, 16, 16, 3});
  check(ShapesDataset({}), {2, 32, 32, 3});
  CHECK_THROWS_WITH(ShapesDataset({}).open_files({folder / "c.jpg"}, {}),
                    Contains("c.jpg: no such file"));
}

TEST_CASE("synthetic stand-ins have the real sets' lengths and sizes", "[data]") {
  ImagenetDataset::Params imagenet;
  imagenet.use_synthetic = true, imagenet.crop_size = 32, imagenet.drop_last = false;
  imagenet.synthetic_num_unique_samples = 7, imagenet.shuffle = false;
  CHECK(ImagenetDataset(imagenet).open({.batch_size = 1000})->batches_per_epoch() == 1282);
  imagenet.is_train = false;
  const auto loader = ImagenetDataset(imagenet).open({.batch_size = 14});
  loader->start(0, 0);
  const PlainBatch batch = plain(*loader->next());
  CHECK(batch.shape == std::vector<int64_t>{14, 32, 32, 3});
  CHECK(batch.pixels.substr(0, batch.pixels.size() / 2) ==
        batch.pixels.substr(batch.pixels.size() / 2));
  CHECK(std::set(batch.pixels.begin(), batch.pixels.end()).size() > 200);
  CHECK(ImagenetDataset(imagenet).published_samples() == 50000);

  Cifar10Dataset::Params cifar;
  cifar.use_synthetic = true;
  CHECK(Cifar10Dataset(cifar).open({.batch_size = 500})->samples_per_epoch() == 50000);
  MnistDataset::Params mnist;
  mnist.use_synthetic = true, mnist.is_train = false;
  CHECK(MnistDataset(mnist).open({.batch_size = 500})->samples_per_epoch() == 10000);
}

TEST_CASE("sets say how many class indices their data can have", "[data]") {
  CHECK(Cifar10Dataset({}).num_classes() == 10);
  CHECK(MnistDataset({}).num_classes() == 10);
  CHECK(ShapesDataset({}).num_classes() == 10);
  SyntheticDataset::Params synthetic;
  synthetic.num_classes = 17;
  CHECK(SyntheticDataset(synthetic).num_classes() == 17);
  ImagenetDataset::Params imagenet;
  imagenet.use_synthetic = true;
  CHECK(ImagenetDataset(imagenet).num_classes() == 1000);

  const TemporaryFolder folder;
  for (const char* name : {"b", "a", "c"}) fs::create_directories(folder.path() / "train" / name);
  fs::create_directories(folder.path() / "val" / "b");
  imagenet.use_synthetic = false, imagenet.datadir = folder.path(), imagenet.is_train = false;
  CHECK(ImagenetDataset(imagenet).num_classes() == 3);
  CHECK(ImageFolderDataset(folder_at(folder / "val", false)).num_classes() == 1);
  CHECK_FALSE(ImageFolderDataset(folder_at("", true)).num_classes());
  CHECK_FALSE(ImageFolderDataset(folder_at("/no/such", true)).num_classes());
}

TEST_CASE("use_ffcv says what to do when there is no file", "[data]") {
  ImagenetDataset::Params params;
  params.ffcv.use_ffcv = true;
  params.ffcv.ffcv_dir = "/no/such";
  CHECK_THROWS_WITH(ImagenetDataset(params).open({}),
                    Contains("composer data write") && Contains("/no/such/imagenet_train.ffcv"));
  CHECK_THROWS_AS(ImagenetDataset(params).open({}), UserError);
}

TEST_CASE("use_ffcv: a missing folder, bad images and too many classes are told of", "[data]") {
  const TemporaryFolder folder;
  write_file(folder / "images/a/1.jpg", gray_jpeg(90));
  write_file(folder / "images/b/2.jpg", gray_jpeg(160));
  write_file(folder / "images/c/3.jpg", "no image");
  FolderParams params = folder_at(folder / "images", false);
  params.ffcv = {.use_ffcv = true,
                 .ffcv_dir = folder / "none",
                 .ffcv_dest = "x.beton",
                 .ffcv_write_dataset = true};
  CHECK_THROWS_WITH(ImageFolderDataset(params).open({}), Contains("ffcv_dir: there is no folder"));
  CHECK(ImageFolderDataset(params).num_classes() == 3);  // of the folders, before it is written
  params.ffcv.ffcv_dir = folder.path().string();
  CHECK_THROWS_WITH(ImageFolderDataset(params).open({}), Contains("c/3.jpg"));
  CHECK(
      ImageFolderDataset(params).open({.on_bad_sample = OnBadSample::skip})->samples_per_epoch() ==
      2);
  CHECK(ImageFolderDataset(params).num_classes() == 2);

  FakePixels other(pictures(3));  // classes 0, -1, -2
  write_beton(other, folder / "other.beton", options_of(WriteMode::raw));
  MnistDataset::Params mnist;
  mnist.ffcv = {.use_ffcv = true, .ffcv_dir = folder.path().string(), .ffcv_dest = "other.beton"};
  CHECK_THROWS_WITH(MnistDataset(mnist).num_classes(), Contains("sample 1: has the class -1"));
  mnist.ffcv.ffcv_dest = "x.beton";
  CHECK(MnistDataset(mnist).num_classes() == 2);
}

TEST_CASE("sets say which file or folder has their samples", "[data]") {
  const FfcvParams ffcv{.use_ffcv = true, .ffcv_dir = "/d", .ffcv_dest = "x.beton"};
  Cifar10Dataset::Params cifar;
  MnistDataset::Params mnist;
  ImagenetDataset::Params imagenet;
  CHECK(Cifar10Dataset(cifar).location().path.empty());
  CHECK(MnistDataset(mnist).location().path.empty());
  imagenet.use_synthetic = true;
  CHECK(ImagenetDataset(imagenet).location().path.empty());
  imagenet.use_synthetic = false;
  cifar.ffcv = mnist.ffcv = imagenet.ffcv = ffcv;
  cifar.rows = "0-9";
  CHECK(Cifar10Dataset(cifar).location().path == "/d/x.beton");
  CHECK(Cifar10Dataset(cifar).location().rows == "0-9");
  CHECK(MnistDataset(mnist).location().path == "/d/x.beton");
  CHECK(ImagenetDataset(imagenet).location().path == "/d/x.beton");

  const TemporaryFolder folder;
  fs::create_directories(folder / "parts/train/a");
  fs::create_directories(folder / "parts/val/a");
  fs::create_directories(folder / "flat/a");
  for (const bool is_train : {true, false}) {
    const auto place = [&](const char* name) {
      return ImageFolderDataset(folder_at(folder / name, is_train)).location().path;
    };
    CHECK(place("flat") == folder / "flat");
    CHECK(place("parts") == folder / (is_train ? "parts/train" : "parts/val"));
  }
}

TEST_CASE("a .beton file that is there is not taken for other folders", "[data]") {
  const TemporaryFolder folder;
  for (const char* name :
       {"two/a/1.jpg", "two/b/2.jpg", "three/a/1.jpg", "three/b/2.jpg", "three/c/3.jpg"})
    write_file(folder / name, gray_jpeg(90));
  const auto open = [&](const std::string& datadir, bool is_train,
                        OnBadSample on_bad_sample = OnBadSample::error) {
    FolderParams params = folder_at(folder / datadir, is_train);
    params.ffcv = {.use_ffcv = true,
                   .ffcv_dir = folder.path().string(),
                   .ffcv_dest = "x.beton",
                   .ffcv_write_dataset = true};
    return ImageFolderDataset(params).open({.on_bad_sample = on_bad_sample})->samples_per_epoch();
  };
  CHECK(open("two", true) == 2);
  CHECK(open("two", true) == 2);
  CHECK(open("gone", true) == 2);
  CHECK_THROWS_WITH(open("three", true), Contains("ffcv_dest: '") &&
                                             Contains("x.beton' is there, with 2 classes, and ") &&
                                             Contains("three' has 3: it holds other data"));
  CHECK(open("three", false) == 2);
  CHECK(open("three", true, OnBadSample::skip) == 2);
  fs::remove(folder / "x.beton");
  CHECK(open("three", true) == 3);
  CHECK_THROWS_WITH(open("two", false), Contains("with 3 classes") && Contains("two' has 2"));
}

TEST_CASE("a .beton file goes through the evaluation transforms, numbered", "[data]") {
  const TemporaryFolder folder;
  FakePixels source(pictures(3));
  write_beton(source, folder / "x.beton", options_of(WriteMode::raw));
  for (const char* filter : {"triangle", "bicubic", "area"}) {
    const auto loader =
        ImageFolderDataset(folder_at("", true))
            .open_files({folder / "x.beton"}, {.batch_size = 8, .resize_filter = filter});
    const auto batches = rest_of_epoch(*loader);
    REQUIRE(batches.size() == 1);
    CHECK(batches[0].classes == std::vector<int64_t>{0, 1, 2});
    CHECK(batches[0].shape == std::vector<int64_t>{3, 16, 16, 3});
  }
  CHECK(MnistDataset({}).open_files({folder / "x.beton"}, {.batch_size = 8})->next()->samples() ==
        3);
}

TEST_CASE("sources say whether they are image files, and whether they have pages", "[data]") {
  const TemporaryFolder folder;
  const FakePixels pixels(pictures(3));
  write_beton(pixels, folder / "x.beton", options_of(WriteMode::raw));
  CHECK_FALSE(pixels.has_image_files());
  CHECK(pixels.paged_bytes() == 0);
  const BetonSource beton(folder / "x.beton", 3);
  CHECK_FALSE(beton.has_image_files());
  CHECK(beton.paged_bytes() == fs::file_size(folder / "x.beton"));
  const FileSource files(table_of_files({}), "", 3);
  CHECK(files.has_image_files());
  CHECK(files.paged_bytes() == 0);
}

TEST_CASE("a pipe among images is refused, not waited for", "[data]") {
  const TemporaryFolder folder;
  REQUIRE(mkfifo((folder / "x.jpg").c_str(), 0600) == 0);
  std::vector<uint8_t> bytes;
  CHECK_THROWS_WITH(read_file((folder / "x.jpg").c_str(), bytes), "not a regular file");
}

TEST_CASE("sets are written as .beton where asked, and read from there with the same images",
          "[data]") {
  const TemporaryFolder folder;
  write_file(folder / "test_batch.bin", cifar_record(3) + cifar_record(7) + cifar_record(0));
  Cifar10Dataset::Params params = cifar_at(folder.path(), false);
  const auto original = first_epoch(Cifar10Dataset(params));
  params.ffcv = {.use_ffcv = true,
                 .ffcv_dir = folder.path().string(),
                 .ffcv_dest = "x.beton",
                 .ffcv_write_dataset = true,
                 .ffcv_local_dir = folder / "local"};
  CHECK((first_epoch(Cifar10Dataset(params)) == original));
  CHECK(fs::exists(folder / "x.beton"));
  CHECK(fs::exists(folder / "local/x.beton"));
  fs::remove(folder / "test_batch.bin");
  params.ffcv.ffcv_write_dataset = false;
  CHECK((first_epoch(Cifar10Dataset(params)) == original));

  for (const char* name : {"a/1.jpg", "b/2.jpg"}) write_file(folder / name, gray_jpeg(90));
  ImagenetDataset::Params jpegs;
  static_cast<FolderParams&>(jpegs) = folder_at(folder.path(), false);
  const TemporaryFolder images;
  write_file(images / "a/1.jpg", gray_jpeg(90)), write_file(images / "b/2.jpg", gray_jpeg(160));
  jpegs.datadir = images.path();
  const auto from_files = first_epoch(ImagenetDataset(jpegs));
  jpegs.ffcv = {.use_ffcv = true,
                .ffcv_dir = folder.path().string(),
                .ffcv_dest = "jpegs.beton",
                .ffcv_write_dataset = true};
  CHECK((first_epoch(ImagenetDataset(jpegs)) == from_files));
  CHECK(ImagenetDataset(jpegs).num_classes() == 2);
  CHECK(fs::exists(folder / "jpegs.beton.index"));
}

TEST_CASE("a local copy has the file's time, and leaves an index that serves it alone", "[data]") {
  const TemporaryFolder folder;
  const std::string file = folder / "x.beton", local = folder / "local";
  const auto record = [](const std::string& index, uint64_t key, const FileStamp& stamp) {
    IndexWriter writer(index);
    writer.add(key, std::vector<uint8_t>{1, 2, 3});
    writer.finish(stamp);
  };
  write_file(file, "one");
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(100);
  fs::last_write_time(file, old);
  record(file + ".index", 1, stamp_of(file));
  CHECK(copy_to_folder(file, local, true) == local + "/x.beton");
  CHECK(fs::last_write_time(local + "/x.beton") == old);
  CHECK(read_bytes(local + "/x.beton.index") == read_bytes(file + ".index"));

  write_file(file, "newer");
  record(file + ".index", 2, stamp_of(file));
  copy_to_folder(file, local, true);
  CHECK(read_bytes(local + "/x.beton") == "newer");
  CHECK(fs::last_write_time(local + "/x.beton") == fs::last_write_time(file));
  CHECK(IndexTable(local + "/x.beton.index", stamp_of(local + "/x.beton")).find(2));

  fs::remove(local + "/x.beton");
  record(local + "/x.beton.index", 3, stamp_of(file));  // added to by another
  copy_to_folder(file, local, true);
  const IndexTable kept(local + "/x.beton.index", stamp_of(file));
  CHECK(kept.find(3));
  CHECK_FALSE(kept.find(2));
  CHECK(std::distance(fs::directory_iterator(local), fs::directory_iterator()) == 2);
}

TEST_CASE("transforms of the recipe change training images only", "[data]") {
  const TemporaryFolder folder;
  std::string records;
  for (int i = 0; i < 8; ++i) records += cifar_record(i);
  write_file(folder / "data_batch_1.bin", records), write_file(folder / "test_batch.bin", records);
  const auto images = [&](bool is_train, const auto& change) {
    auto params = cifar_at(folder.path(), is_train);
    change(params.transforms);
    return first_epoch(Cifar10Dataset(params))[0].pixels;
  };
  const auto nothing = [](auto&) {};
  for (const auto& change : std::vector<std::function<void(PaddedTransformParams&)>>{
           [](auto& t) { t.flip = 0; }, [](auto& t) { t.cutout = 8; },
           [](auto& t) { t.brightness = 0.5; }, [](auto& t) { t.contrast = 0.5; },
           [](auto& t) { t.saturation = 0.5; }, [](auto& t) { t.grayscale = 1; },
           [](auto& t) { t.random_erasing = 1; }, [](auto& t) { t.padding = 2; },
           [](auto& t) { t.border = "reflect"; },
           [](auto& t) {
             t.fill = {1, 2, 3};
           }}) {
    CHECK(images(true, change) != images(true, nothing));
    CHECK(images(false, change) == images(false, nothing));
  }
}

TEST_CASE("shapes are the same every time, balanced, and other ones for evaluation", "[data]") {
  ShapesDataset::Params params;
  params.shuffle = false, params.is_train = false;
  CHECK(ShapesDataset(params).published_samples() == 500);
  params.samples = 40;
  const auto once = first_epoch(ShapesDataset(params), 40),
             again = first_epoch(ShapesDataset(params), 40);
  CHECK((once == again));
  CHECK(once[0].shape == std::vector<int64_t>{40, 32, 32, 3});
  for (int64_t i = 0; i < 40; ++i) CHECK(once[0].classes[static_cast<size_t>(i)] == i % 10);
  CHECK(ShapesDataset(params).class_names().size() == 10);
  CHECK(draw_shape(true, 3, 32).pixels != draw_shape(false, 3, 32).pixels);
  CHECK(draw_shape(true, 3, 32).pixels == draw_shape(true, 3, 32).pixels);
}

TEST_CASE("all sets are registered and take the keys that recipes have", "[data]") {
  Registry registry;
  add_builtin_datasets(registry);
  CHECK(registry.datasets.names() ==
        std::vector<std::string>{"cifar10", "image_folder", "image_list", "imagenet", "mds",
                                 "mnist", "shapes", "synthetic", "webdataset"});
  std::set<std::string> keys;
  for (const Field& field : registry.datasets.make("imagenet")->fields().fields)
    keys.insert(field.name);
  CHECK(keys == std::set<std::string>{"is_train", "drop_last", "shuffle", "order", "rows",
                                      "targets", "views", "datadir", "resize_size", "crop_size",
                                      "transforms", "use_ffcv", "ffcv_dir", "ffcv_dest",
                                      "ffcv_write_dataset", "ffcv_local_dir", "use_synthetic",
                                      "synthetic_num_unique_samples"});
}

TEST_CASE("the real MNIST and CIFAR-10 files are read", "[data]") {
  const fs::path data = shared_data();
  if (!fs::exists(data / "mnist") || !fs::exists(data / "cifar10_exact")) {
    WARN("skipped: no ../shared/data");
    return;
  }
  const auto mnist =
      MnistDataset(mnist_at((data / "mnist").string(), false)).open({.batch_size = 10});
  mnist->start(0, 0);
  CHECK(mnist->samples_per_epoch() == 10000);
  CHECK(plain(*mnist->next()).classes == std::vector<int64_t>{7, 2, 1, 0, 4, 1, 4, 9, 5, 9});
  const TemporaryFolder folder;
  write_file(folder / "test_batch.bin",
             read_bytes((data / "cifar10_exact" / "data_batch_1_first4000.bin").string()));
  const auto cifar = Cifar10Dataset(cifar_at(folder.path(), false)).open({.batch_size = 6});
  cifar->start(0, 0);
  CHECK(cifar->samples_per_epoch() == 4000);
  CHECK(plain(*cifar->next()).classes == std::vector<int64_t>{6, 9, 9, 4, 1, 1});
}

}  // namespace composer::datasets_test
