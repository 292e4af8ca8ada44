// One folder of photographs as two sets, and what is said when sets do not fit each other.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/safetensors.h"
#include "composer/run/assemble.h"
#include "data/datasets/shapes.h"
#include "data/jpeg/jpeg.h"
#include "everything.h"
#include "program.h"
#include "tests/data/errors.h"
#include "tests/data/make_tar.h"
#include "tests/temporary_folder.h"

namespace composer::split_test {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

void draw(const fs::path& file, int number) {
  const auto bytes = encode_jpeg(draw_shape(true, number, 40).view(), 90);
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

/// Ten photographs in each of the class folders.
void draw_photos(const fs::path& folder, const std::vector<std::string>& classes) {
  int number = 0;
  for (const auto& name : classes)
    for (int i = 0; i < 10; ++i, ++number)
      draw(folder / name / (std::to_string(i) + ".jpg"), number);
}

const std::string recipe = R"(
model: {resnet_cifar: {model_name: resnet_20, num_classes: 4}}
train_dataset: {image_folder: {datadir: photos, crop_size: 16}}
optimizer: {sgd: {lr: 0.05}}
train_batch_size: 8
max_duration: 1ep
dataloader: {num_workers: 1}
progress_bar: false
device: cpu
)";

nlohmann::json json_of(const fs::path& file) {
  std::ifstream in(file);
  return nlohmann::json::parse(in);
}

}  // namespace

TEST_CASE("training on a split folder evaluates on what it left out, and eval does too",
          "[cli][train][slow]") {
  const TemporaryFolder folder;
  draw_photos(folder / "photos", {"cat", "dog", "fox"});
  draw(folder / "photos" / "owl" / "0.jpg", 99);
  folder.write("r.yaml", recipe);
  const auto trained = run(folder.path(), split("train -f r.yaml --run_name a --split.val 0.2"));
  INFO(trained.errors);
  REQUIRE(trained.status == 0);
  CHECK_THAT(trained.errors, Contains("split: 25 samples to train on, 6 to evaluate on") &&
                                 Contains("classes with one sample, which is trained on: owl"));
  const auto metrics = json_of(folder / "runs" / "a" / "summary.json").at("metrics");

  fs::create_directories(folder / "elsewhere");
  const auto evaluated =
      run(folder / "elsewhere",
          split("eval -f ../runs/a/hparams.yaml --load_path ../runs/a/checkpoints/latest"));
  INFO(evaluated.errors);
  REQUIRE(evaluated.status == 0);
  CHECK(nlohmann::json::parse(evaluated.output).at("metrics/eval/CrossEntropy") ==
        metrics.at("metrics/eval/CrossEntropy"));

  const auto dumped = run(folder.path(), split("train -f runs/a/hparams.yaml --dump"));
  CHECK_THAT(dumped.output,
             Contains("split:\n  val: 0.2\n  seed: 1\n") && !Contains("val_dataset"));
  const auto planned = run(folder.path(), split("train -f r.yaml --plan --split.val 0.2"));
  CHECK_THAT(planned.output, Contains("image_folder, 24 samples an epoch"));
  const auto predicted = run(folder.path(), split("predict -f r.yaml --split.val 0.2 --source "
                                                  "photos --load_path runs/a/checkpoints/latest"));
  INFO(predicted.errors);
  CHECK(std::ranges::count(predicted.output, '\n') == 31);

  const auto other =
      run(folder.path(), split("train -f r.yaml --run_name a --split.val 0.2 "
                               "--split.seed 2 --autoresume true --max_duration 2ep"));
  CHECK(other.status == 2);
  CHECK_THAT(other.errors, Contains("split: the checkpoint's was {val: 0.2, seed: 1}"));
}

TEST_CASE("sets whose classes differ are refused with the names", "[cli]") {
  const TemporaryFolder folder;
  draw_photos(folder / "photos", {"cat", "dog", "fox", "owl"});
  draw_photos(folder / "others", {"cat", "emu", "fox"});
  folder.write("r.yaml", recipe +
                             "eval_batch_size: 8\n"
                             "val_dataset: {image_folder: {datadir: others, crop_size: 16}}\n");
  const auto refused = run(folder.path(), split("train -f r.yaml"));
  CHECK(refused.status == 2);
  CHECK_THAT(refused.errors,
             Contains("val_dataset.image_folder: its classes are not those of "
                      "train_dataset (missing: dog, owl; not in train_dataset: emu)"));
  CHECK_FALSE(fs::exists(folder / "runs"));
  const auto same = run(folder.path(), split("train -f r.yaml --max_duration 1ba "
                                             "--val_dataset.image_folder.datadir photos"));
  INFO(same.errors);
  CHECK(same.status == 0);
}

TEST_CASE("an evaluation's classes are found by the names of the training", "[cli]") {
  const TemporaryFolder folder;
  draw_photos(folder / "photos", {"cat", "dog", "owl"});
  draw_photos(folder / "test", {"cat", "owl"});
  fs::create_directories(folder / "test/dog");
  folder.write("list.csv", "test/owl/0.jpg,owl\ntest/owl/1.jpg,owl\n");
  const std::string in = folder.path().string();
  const std::string sets =
      "eval_batch_size: 40\nval_dataset: {image_folder: {crop_size: 16, datadir: " + in +
      "/test}}\nevaluators: {listed: {dataset: {image_list: {crop_size: 16, file: " + in +
      "/list.csv}}}}\n";
  const auto given = [&](const std::string& more) {
    return resolve({"r.yaml",
                    "model: {resnet_cifar: {model_name: resnet_20, num_classes: 3}}\n"
                    "train_dataset: {image_folder: {crop_size: 16, datadir: " +
                        in +
                        "/photos}}\n"
                        "optimizer: {sgd: {lr: 0.05}}\ntrain_batch_size: 8\nmax_duration: 1ep\n"
                        "dataloader: {num_workers: 0}\nprogress_bar: false\ndevice: cpu\n"
                        "run_dir: none\n" +
                        sets + more},
                   {}, everything());
  };
  const auto labels_of = [](Loader& loader) {
    loader.start(0, 0);
    const auto labels = loader.next()->target.classes;
    return std::vector<int64_t>(labels.const_data_ptr<int64_t>(),
                                labels.const_data_ptr<int64_t>() + labels.numel());
  };
  using Names = std::vector<std::string>;
  const auto check = [&](TrainerParts parts, int64_t cat, int64_t owl) {
    std::vector<int64_t> expected(10, cat);
    expected.resize(20, owl);
    CHECK(labels_of(*parts.eval_loader) == expected);
    REQUIRE(parts.evaluators.size() == 1);
    CHECK(labels_of(*parts.evaluators[0].loader) == std::vector<int64_t>{owl, owl});
  };
  check(assemble_training(given("")), 0, 2);
  const auto weights = folder / "weights.safetensors";
  write_safetensors(
      weights, {},
      to_metadata({.recipe = "", .network = {}, .class_names = Names{"owl", "dog", "cat"}}));
  check(assemble_evaluation(given("load_path: " + weights.string() + "\n")), 2, 0);
  fs::rename(folder / "test/cat", folder / "test/emu");
  CHECK_THROWS_WITH(assemble_training(given("")),
                    Contains("(missing: cat; not in train_dataset: emu)"));
}

TEST_CASE("an evaluation on the images that are trained on is told of", "[cli]") {
  const TemporaryFolder folder;
  draw_photos(folder / "flat", {"cat", "dog"});
  draw_photos(folder / "parts" / "train", {"cat", "dog"});
  draw_photos(folder / "parts" / "val", {"cat", "dog"});
  const std::string in = folder.path().string();
  const auto told = [&](const std::string& trained, const std::string& evaluated) {
    const auto set = [&](const std::string& keys) {
      return "{image_folder: {crop_size: 16, " + keys + "}}\n";
    };
    test::Errors errors(folder / "errors");
    assemble_training(
        resolve({"r.yaml",
                 "model: {resnet_cifar: {model_name: resnet_20, num_classes: 2}}\n"
                 "train_dataset: " +
                     set(trained) + (evaluated.empty() ? "" : "val_dataset: " + set(evaluated)) +
                     (evaluated.empty() ? "split: {val: 0.2}\n" : "eval_batch_size: 8\n") +
                     "optimizer: {sgd: {lr: 0.05}}\ntrain_batch_size: 8\nmax_duration: 1ep\n"
                     "dataloader: {num_workers: 1}\nprogress_bar: false\ndevice: cpu\n"
                     "run_dir: " +
                     in + "/runs\n"},
                {}, everything()));
    return errors.text();
  };
  const std::string same = "as train_dataset does: the evaluation uses training images";
  const std::string flat = "datadir: " + in + "/flat", parts = "datadir: " + in + "/parts";
  CHECK_THAT(told(flat, flat),
             Contains("val_dataset.image_folder: reads " + in + "/flat, " + same));
  CHECK_THAT(told(flat, flat + "/"), Contains(same));
  CHECK_THAT(told(flat + ", rows: 0-9", flat), Contains(same));
  CHECK_THAT(told(flat + ", rows: 0-9", flat + ", rows: 10-19"), !Contains(same));
  CHECK_THAT(told(flat, parts), !Contains(same));
  CHECK_THAT(told(parts, parts), !Contains(same));
  CHECK_THAT(told(flat, ""), !Contains(same));
  const std::string beton =
      ", use_ffcv: true, ffcv_write_dataset: true, ffcv_dir: " + in + ", ffcv_dest: ";
  CHECK_THAT(told(parts + beton + "x.beton", parts + beton + "x.beton"),
             Contains("reads " + in + "/x.beton, " + same));
  CHECK_THAT(told(parts + beton + "x.beton", parts + beton + "y.beton"), !Contains(same));
}

TEST_CASE("a training tells of classes that look like one, and names those that are too many",
          "[cli]") {
  const TemporaryFolder folder;
  draw_photos(folder / "photos", {"Cat", "cat", "dog"});
  folder.write("r.yaml", recipe);
  const auto alike = run(folder.path(), split("train -f r.yaml --max_duration 1ba"));
  CHECK(alike.status == 0);
  CHECK_THAT(alike.errors, Contains("train_dataset.image_folder: has classes whose names differ") &&
                               Contains("Unicode form: Cat, cat; are they meant to be one?"));
  const auto many = run(folder.path(), split("train -f r.yaml --num_classes 2"));
  CHECK(many.status == 2);
  CHECK_THAT(many.errors, Contains("the data have 3 classes, the model 2; the data's are Cat, cat, "
                                   "dog; set model.resnet_cifar.num_classes"));
}

TEST_CASE("rows that leave out whole classes of the training set are told", "[cli]") {
  const TemporaryFolder folder;
  draw_photos(folder / "photos", {"cat", "dog", "fox", "owl"});
  folder.write("r.yaml", recipe);
  const auto some = run(folder.path(), split("train -f r.yaml --max_duration 1ba --rows 0-19"));
  CHECK(some.status == 0);
  CHECK_THAT(some.errors,
             Contains("rows: training has samples of only 2 of 4 classes; missing: fox, owl"));
  const auto all =
      run(folder.path(), split("train -f r.yaml --max_duration 1ba --rows 0-4,10-14,20-24,30-34"));
  CHECK_THAT(all.errors, !Contains("rows:"));
}

TEST_CASE("classes that the evaluation has no samples of are told", "[cli]") {
  const TemporaryFolder folder;
  const std::vector<std::string> classes{"cat", "dog", "fox", "owl"};
  draw_photos(folder / "photos/train", classes);
  draw_photos(folder / "photos/val", {"cat", "fox"});
  folder.write("r.yaml", recipe);
  const auto told = [&](const std::string& words) {
    const auto outcome = run(
        folder.path(),
        split("train -f r.yaml --max_duration 1ba --eval_batch_size 8 --val_dataset image_folder "
              "--val_dataset.image_folder.datadir photos "
              "--val_dataset.image_folder.crop_size 16 " +
              words));
    INFO(outcome.errors);
    CHECK(outcome.status == 0);
    return outcome.errors;
  };
  const std::string lacks = "the evaluation has no samples of";
  CHECK_THAT(told(""), Contains(lacks + " 2 of the 4 classes: dog, owl"));
  draw_photos(folder / "photos/val", classes);
  CHECK_THAT(told(""), !Contains(lacks));
  CHECK_THAT(told("--val_dataset.image_folder.rows 0-29"),
             Contains(lacks + " 1 of the 4 classes: owl"));
}

TEST_CASE("a list's missing image is named with its row, and labels that count from 1 are told",
          "[cli]") {
  const TemporaryFolder folder;
  draw_photos(folder / "photos", {"cat", "dog"});
  folder.write("r.yaml", recipe);
  std::string rows;
  for (int i = 0; i < 8; ++i)
    rows +=
        "photos/cat/" + std::to_string(i) + ".jpg,1\nphotos/dog/" + std::to_string(i) + ".jpg,2\n";
  folder.write("from_one.csv", rows);
  folder.write("gap.csv", rows + "photos/cat/none.jpg,0\n");
  const auto train = [&](const std::string& list) {
    return run(folder.path(),
               split("train -f r.yaml --max_duration 1ep --train_dataset image_list --val_dataset "
                     "none --train_dataset.image_list.crop_size 16 --train_batch_size 1 "
                     "--train_dataset.image_list.file " +
                     list));
  };
  const std::string question = "do these count from 1?";
  const auto from_one = train("from_one.csv");
  INFO(from_one.errors);
  CHECK(from_one.status == 0);
  CHECK_THAT(from_one.errors, Contains("no sample to train on has label 0") && Contains(question));
  const auto gap = train("gap.csv");
  CHECK(gap.status == 2);
  CHECK_THAT(gap.errors, !Contains(question) && Contains("gap.csv:17: there is no file '") &&
                             Contains("photos/cat/none.jpg'"));
  const auto replaced = train("gap.csv --dataloader.on_bad_sample replace");
  INFO(replaced.errors);
  CHECK(replaced.status == 0);
  CHECK_THAT(replaced.errors, Contains("photos/cat/none.jpg: cannot open the file") &&
                                  Contains("(row 16, from 0, of ") && Contains("gap.csv)"));
}

TEST_CASE("data that are others than a checkpoint's are told, or refused", "[cli][train]") {
  const TemporaryFolder folder;
  draw_photos(folder / "photos", {"cat", "dog", "fox", "owl"});
  folder.write("r.yaml", recipe + "split: {val: 0.2}\nrun_name: a\neval_batch_size: 8\n");
  const auto of = [&](const std::string& words) { return run(folder.path(), split(words)); };
  const auto told = [&](const std::string& words) {
    const auto outcome = of(words);
    INFO(outcome.errors);
    CHECK(outcome.status == 0);
    return outcome.errors;
  };
  const std::string changed = "the data are not those that it was trained on",
                    eval = "eval --load_path runs/a/checkpoints/latest ",
                    on = " -f r.yaml --max_duration 2ep --autoresume true ";
  told("train -f r.yaml");
  CHECK_THAT(told(eval), Contains("evaluation: 8 samples of 16x16") && !Contains(changed));
  CHECK_THAT(told("train" + on + "--plan"), !Contains(changed));

  const auto refused = [&](const std::string& words, const std::string& reason) {
    for (const char* plan : {"", "--plan"}) {
      const auto outcome = of("train" + on + words + plan);
      CAPTURE(words, plan);
      CHECK(outcome.status == 2);
      CHECK_THAT(outcome.errors, Contains(reason) && Contains("load_weights_only true"));
    }
  };
  refused("--optimizer adamw ", "optimizer: the checkpoint's was sgd, the recipe's is adamw");
  draw_photos(folder / "renamed", {"ant", "dog", "fox", "owl"});
  refused("--datadir renamed ", "was trained on the classes cat, dog, fox, owl; the data have ant");

  draw(folder / "photos/cat/a.jpg", 99);
  CHECK_THAT(told(eval), Contains(changed) && Contains("--split.val 1 evaluates all of them"));
  CHECK_THAT(told(eval + "--split.val 1"), Contains("evaluation: 41 samples of 16x16"));
  CHECK_THAT(told(eval + "--split.val 0 --val_dataset image_folder "
                         "--val_dataset.image_folder.datadir photos"),
             Contains("evaluates images of 224 pixels, train_dataset has 16: are crop_size"));
  CHECK_THAT(told("train" + on + "--plan"), Contains(changed));
  const auto all_trained = of("train -f r.yaml --split.val 1 --run_name c");
  CHECK(all_trained.status == 2);
  CHECK_THAT(all_trained.errors, Contains("split.val: must be at most 0.9"));
  CHECK_THAT(told("train" + on),
             Contains(changed) && Contains("images that were trained on may be evaluated on"));

  fs::create_directories(folder / "both");
  draw_photos(folder / "both/train", {"cat", "dog", "fox", "owl"});
  draw_photos(folder / "both/val", {"cat", "dog", "fox", "owl"});
  CHECK_THAT(told("train -f r.yaml --datadir both --run_name b --max_duration 1ba"),
             Contains("'both' has val/, which is not read: a part of train/ is evaluated on"));
}

TEST_CASE("a recipe's data are found beside it from another folder", "[cli]") {
  const TemporaryFolder folder;
  draw_photos(folder / "conf" / "photos", {"cat", "dog"});
  std::ofstream(folder / "conf" / "r.yaml") << recipe;
  const auto trained =
      run(folder.path(), split("train -f conf/r.yaml --max_duration 1ba --run_name a"));
  INFO(trained.errors);
  CHECK(trained.status == 0);
  CHECK_THAT(trained.errors, Contains("conf/r.yaml:3:41: train_dataset.image_folder.datadir: "
                                      "'photos' is not in the working directory; taking "
                                      "'conf/photos', beside the recipe"));
  std::ifstream kept(folder / "runs" / "a" / "hparams.yaml");
  const std::string text(std::istreambuf_iterator<char>(kept), {});
  CHECK_THAT(text, Contains((fs::canonical(folder.path()) / "conf" / "photos").string()));
}

namespace {

/// A training of numbers on this set.
TrainerParts assembled(const TemporaryFolder& folder, const std::string& set) {
  return assemble_training(
      resolve({"r.yaml",
               "model: {resnet_cifar: {model_name: resnet_20, num_classes: 1}}\nloss: mse\n"
               "train_dataset: {" +
                   set +
                   "}\n"
                   "optimizer: {sgd: {lr: 0.05}}\ntrain_batch_size: 2\nmax_duration: 1ep\n"
                   "dataloader: {num_workers: 1}\nprogress_bar: false\ndevice: cpu\n"
                   "run_dir: " +
                   (folder / "runs").string() + "\n"},
              {}, everything()));
}

}  // namespace

TEST_CASE("a training ends with what is wrong in the numbers of a list", "[cli]") {
  const TemporaryFolder folder;
  draw(folder / "0.jpg", 0);
  folder.write("x.csv", "path,x\n0.jpg,0.5\n0.jpg,many\n");
  const std::string set =
      "image_list: {file: " + (folder / "x.csv").string() + ", targets: [x], crop_size: 16}";
  CHECK_THROWS_WITH(assembled(folder, set), Contains("x.csv:3: column x: 'many' is no number") &&
                                                !Contains("targets are classes"));
}

TEST_CASE("shards of numbers that have only train/ are split", "[cli]") {
  const TemporaryFolder folder;
  draw(folder / "0.jpg", 0);
  std::ifstream in(folder / "0.jpg", std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(in), {}};
  std::string tar;
  for (const std::string key : {"a", "b", "c", "d", "e", "f", "g", "h"})
    tar += test::tar_member(key + ".jpg", image) + test::tar_member(key + ".txt", "0.5");
  fs::create_directories(folder / "set/train");
  folder.write("set/train/a.tar", tar + test::tar_end());
  const auto parts = assembled(folder, "webdataset: {datadir: " + (folder / "set").string() +
                                           ", targets: [txt], crop_size: 16}}\nsplit: {val: 0.25");
  CHECK(parts.train_loader);
  CHECK(parts.eval_loader);
}

}  // namespace composer::split_test
