// Training from .beton files, from damaged files, and with images that the loader makes small.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "program.h"
#include "tests/data/photos.h"
#include "tests/temporary_folder.h"

namespace composer::data_training_test {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

constexpr int kImages = 48;

void draw_photos(const fs::path& folder) {
  test::draw_photos(folder, kImages, [](int i) { return 90 + i % 5; });
}

constexpr const char* recipe = R"(
model: {resnet_cifar: {model_name: resnet_20, num_classes: 4}}
train_dataset: {image_folder: {datadir: photos, crop_size: 32}}
optimizer: {sgd: {lr: 0.05}}
train_batch_size: 16
max_duration: 2ep
eval_interval: 0ep
dataloader: {num_workers: 2}
progress_bar: false
run_dir: runs
device: cpu
)";

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Trains and returns the bytes of the weights.
std::string weights(const fs::path& folder, const std::string& name, const std::string& more) {
  const auto done = run(folder, split("train -f r.yaml --run_name " + name + " ") + split(more));
  INFO(done.errors);
  REQUIRE(done.status == 0);
  return bytes_of(folder / "runs" / name / "checkpoints/latest/model-00001-of-00001.safetensors");
}

constexpr const char* from_beton =
    "--train_dataset.image_folder.use_ffcv true --train_dataset.image_folder.ffcv_dir . "
    "--train_dataset.image_folder.ffcv_dest photos.beton ";

}  // namespace

TEST_CASE("training from a .beton file gives the bytes of training from the photographs",
          "[cli][train][slow]") {
  const TemporaryFolder folder;
  draw_photos(folder.path() / "photos");
  std::ofstream(folder.path() / "r.yaml") << recipe;
  const std::string beside = "--dataloader.crop_index beside ";
  const auto from_files = weights(folder.path(), "files", beside);
  CHECK(fs::exists(folder.path() / "photos/.composer-index"));
  CHECK(weights(folder.path(), "indexed", beside) == from_files);

  REQUIRE(run(folder.path(),
              split("data write --format image_folder --source photos --output photos.beton"))
              .status == 0);
  CHECK(weights(folder.path(), "beton", from_beton) == from_files);
  fs::remove(folder.path() / "photos.beton.index");
  CHECK(weights(folder.path(), "recording", from_beton + beside) == from_files);
  CHECK(fs::exists(folder.path() / "photos.beton.index"));
  CHECK(weights(folder.path(), "several", std::string(from_beton) + "--num_workers 5") ==
        from_files);
}

TEST_CASE("training writes the crop index where it is told", "[cli][slow]") {
  const TemporaryFolder folder;
  draw_photos(folder.path() / "photos");
  std::ofstream(folder.path() / "r.yaml") << recipe;
  const auto time = fs::last_write_time(folder.path() / "photos");
  const auto cached = weights(folder.path(), "cached", "--index_dir indices");
  REQUIRE(fs::exists(folder.path() / "indices"));
  const auto has_ending = [](const char* ending) {
    return [ending](const auto& entry) { return entry.path().extension() == ending; };
  };
  const fs::directory_iterator indices(folder.path() / "indices");
  CHECK(std::count_if(indices, {}, has_ending(".index")) == 1);
  const fs::directory_iterator again(folder.path() / "indices");
  CHECK(std::all_of(again, {}, [&](const auto& entry) {
    return has_ending(".index")(entry) || has_ending(".table")(entry);  // the list of the files
  }));
  fs::remove_all(folder.path() / "indices");
  CHECK(weights(folder.path(), "off", "--crop_index off") == cached);
  CHECK_FALSE(fs::exists(folder.path() / "indices"));
  CHECK(fs::last_write_time(folder.path() / "photos") == time);

  const auto refused =
      run(folder.path(), split("train -f r.yaml --index_dir indices --crop_index beside"));
  CHECK(refused.status == 2);
  CHECK_THAT(refused.errors, Contains("dataloader.index_dir: needs crop_index: cache"));

  const auto measured =
      run(folder.path(), split("bench loader --source photos --batch_size 8 --resolution 32 "
                               "--epochs 2 --json --crop_index beside"));
  CHECK(measured.status == 0);
  CHECK(fs::exists(folder.path() / "photos/.composer-index"));
}

TEST_CASE("FFCV's filter and arithmetic, orders and transforms change the run",
          "[cli][train][slow]") {
  const TemporaryFolder folder;
  draw_photos(folder.path() / "photos");
  std::ofstream(folder.path() / "r.yaml") << recipe;
  const auto plain = weights(folder.path(), "plain", "");
  int number = 0;
  for (const char* more : {"--resize_filter area", "--ffcv_exact true", "--order class_balanced",
                           "--rows 0-31", "--train_dataset.image_folder.transforms.cutout 8",
                           "--train_dataset.image_folder.transforms.flip 0"}) {
    CHECK(weights(folder.path(), "other" + std::to_string(++number), more) != plain);
  }
}

TEST_CASE("the loader gives images the size that progressive resizing wants",
          "[cli][train][slow]") {
  const TemporaryFolder folder;
  draw_photos(folder.path() / "photos");
  std::ofstream(folder.path() / "r.yaml") << recipe;
  const std::string growing =
      "--algorithms progressive_resizing --delay_fraction 0.3 --finetune_fraction 0.3 ";
  const auto loader = weights(folder.path(), "loader", growing + "--where loader");
  CHECK(weights(folder.path(), "auto", growing) == loader);
  CHECK(weights(folder.path(), "device", growing + "--where device") != loader);
  const auto logged = bytes_of(folder.path() / "runs/loader/metrics.jsonl");
  const auto on_device = bytes_of(folder.path() / "runs/device/metrics.jsonl");
  for (const char* width :
       {"\"progressive_resizing/width\":16", "\"progressive_resizing/width\":32"}) {
    CHECK_THAT(logged, Contains(width));
    CHECK_THAT(on_device, Contains(width));
  }
  // Stopped in mid-epoch and gone on: the plan goes on too.
  const std::string resumed = growing + "--where loader --run_dir others ";
  run(folder.path(),
      split("train -f r.yaml --run_name loader --max_duration 4ba ") + split(resumed));
  const auto outcome =
      run(folder.path(),
          split("train -f r.yaml --run_name loader --autoresume true ") + split(resumed));
  INFO(outcome.errors);
  CHECK(outcome.status == 0);
}

TEST_CASE("a photograph that is cut off ends training, is skipped or is replaced",
          "[cli][train][slow]") {
  const TemporaryFolder folder;
  draw_photos(folder.path() / "photos");
  std::ofstream(folder.path() / "r.yaml") << recipe;
  fs::resize_file(folder.path() / "photos/2/10.jpg", 700);
  const auto stopped = run(folder.path(), split("train -f r.yaml --run_name error"));
  CHECK(stopped.status == 1);
  CHECK_THAT(stopped.errors, Contains("photos/2/10.jpg: "));
  for (const std::string what : {"skip", "replace"}) {
    const auto done = run(folder.path(), split("train -f r.yaml --run_name " + what +
                                               " --dataloader.on_bad_sample " + what));
    INFO(done.errors);
    CHECK(done.status == 0);
    CHECK_THAT(done.errors, Contains("photos/2/10.jpg: "));
  }
}

}  // namespace composer::data_training_test
