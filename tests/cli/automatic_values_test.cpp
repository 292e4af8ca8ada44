// What the recipe finetune, and every key that is `auto`, comes to.
#include "composer/run/automatic_values.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/weights.h"
#include "composer/recipe/automatic.h"
#include "composer/recipe/recipe.h"
#include "composer/run/assemble.h"
#include "everything.h"
#include "look.h"
#include "tests/composer/stopped_run.h"
#include "tests/composer/terminal.h"
#include "tests/temporary_folder.h"

namespace composer::automatic_values_test {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

void write_images(const fs::path& folder, int count, int side = 64) {
  fs::create_directories(folder);
  for (int i = 0; i < count; ++i) {
    std::ofstream file(folder / (std::to_string(i) + ".ppm"), std::ios::binary);
    file << "P6 " << side + i % 3 << ' ' << side << " 255\n";
    for (int p = 0; p < (side + i % 3) * side; ++p)
      file << static_cast<char>(folder.filename().string()[0]) << static_cast<char>(p % 100 + i)
           << static_cast<char>(p / side);
  }
}

void write_pets(const fs::path& folder, int count = 20, int side = 64) {
  for (const char* name : {"cat", "dog"}) write_images(folder / name, count, side);
}

Recipe finetune(const fs::path& folder, Words words = {}) {
  words.insert(words.end(),
               {"--train_dataset.imagenet.datadir", folder.string(), "--dataloader.index_dir",
                (folder.parent_path() / "index").string(), "--device", "cpu"});
  return resolve(find_recipe("finetune"), words, everything());
}

ResolvedRecipe resolved(const fs::path& folder, Words words = {},
                        Purpose purpose = Purpose::training) {
  return resolve_automatic(finetune(folder, std::move(words)), {}, purpose, everything());
}

std::string value_of(const Recipe& recipe, const std::string& key) {
  auto root = tree(recipe);
  const auto* const value = find_path(root, key);
  return value == nullptr ? "nothing" : one_line(*value);
}

/// Those that differ from the expected ones.
void check_values(const Recipe& recipe,
                  const std::vector<std::pair<std::string, std::string>>& expected) {
  for (const auto& [key, value] : expected) {
    INFO(key);
    CHECK(value_of(recipe, key) == value);
  }
}

std::shared_ptr<Model> built(const std::string& model) {
  Problems problems;
  auto root = *parse_yaml(model, "model", problems);
  const auto& [name, origin, params] = root.entries.at(0);
  const auto component = everything().models.make(name);
  read_fields(params, component->fields(), "model", problems);
  REQUIRE(problems.empty());
  return component->build();
}

/// Weights of a network that the words name, as files have them, under the library's names.
void write_weights(const fs::path& file, const std::string& model,
                   const std::string& library = "torchvision") {
  const auto network = built(model);
  write_safetensors(file, in_names_of(*network->names_in(library), model_tensors(*network)));
}

/// As an export has them, with the names of the classes.
void write_weights(const fs::path& file, const std::string& model, const Words& classes) {
  write_safetensors(file, model_tensors(*built(model)),
                    to_metadata({.recipe = "", .network = {}, .class_names = classes}));
}

}  // namespace

TEST_CASE("labels of a list that are ids, or have gaps, are no classes", "[cli][automatic]") {
  const TemporaryFolder folder;
  write_images(folder / "images", 3);
  const auto listed = [&](const std::string& num_classes, const Words& labels) {
    std::string text = "path,label\n";
    for (size_t i = 0; i < labels.size(); ++i)
      text += "images/" + std::to_string(i) + ".ppm," + labels[i] + "\n";
    folder.write("list.csv", text);
    return resolve(
        {"r.yaml", "model: {resnet_cifar: {model_name: resnet_20, num_classes: " + num_classes +
                       "}}\ntrain_dataset: {image_list: {file: " + (folder / "list.csv").string() +
                       ", crop_size: 32}}\ntrain_batch_size: 2\nmax_duration: 1ep\n"},
        {"--dataloader.index_dir", (folder / "index").string()}, everything());
  };
  const auto said_of = [&](const Words& labels) {
    return standard_error_of([&] {
      const auto resolved =
          resolve_automatic(listed("auto", labels), {}, Purpose::training, everything());
      const auto classes = std::stoi(*std::ranges::max_element(labels)) + 1;
      CHECK(value_of(resolved.recipe, "model.resnet_cifar.num_classes") == std::to_string(classes));
    });
  };
  CHECK(said_of({"0", "1", "2"}) == "");
  CHECK_THAT(said_of({"0", "2", "5"}), Contains("go up to 5, and 3 of these 6 classes occur"));
  CHECK_THAT(said_of({"10000", "10985", "10000"}), Contains("2 of these 10986 classes occur"));
  for (const auto purpose : {Purpose::training, Purpose::plan})
    CHECK_THROWS_WITH(
        resolve_automatic(listed("auto", {"20000000", "7", "12345678"}), {}, purpose, everything()),
        Contains("model.resnet_cifar.num_classes: auto: the labels go up to 20000000, "
                 "and 3 of these 20000001 classes occur"));
  const auto given = listed("3", {"0", "2", "5"});
  CHECK_THROWS_WITH(check_targets(given, *build_model(given), /*training=*/true),
                    Contains("6 classes by their largest label, and use 3 of them"));
}

TEST_CASE("finetune needs a folder alone", "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets");
  const auto [recipe, choices, unread] = resolved(folder / "pets");
  CHECK(recipe.automatic.empty());
  CHECK(unread.empty());
  check_values(recipe, {{"model.resnet.num_classes", "2"},
                        {"split.val", "0.2"},
                        {"train_dataset.imagenet.crop_size", "64"},
                        {"train_batch_size", "8"},
                        {"max_duration", "200ep"},
                        {"optimizer.adamw.lr", "0.001"},
                        {"optimizer.adamw.layer_decay", "null"},
                        {"optimizer.adamw.groups", "[]"},
                        {"load_weights_only", "false"},
                        {"load_ignore", "[]"}});
  CHECK(choices.size() == 6);
  CHECK(std::ranges::count(choices, "train_batch_size: 8, for 32 images to train on") == 1);
  CHECK(std::ranges::count(choices,
                           "train_dataset.imagenet.crop_size: 64, as the shorter sides of 40 "
                           "images are about 64 pixels") == 1);
  const auto again = resolve({"hparams.yaml", dump(recipe)}, {}, everything());
  CHECK(dump(resolve_automatic(again, {}, Purpose::training, everything()).recipe) == dump(recipe));
}

namespace {

/// 20 images of cats and 10 of dogs, without their endings, which lie in photos/.
fs::path write_list(const TemporaryFolder& folder, const std::string& more = "") {
  write_images(folder / "photos", 30);
  std::string list = "id,breed\n";
  for (int i = 0; i < 30; ++i) list += std::to_string(i) + (i < 20 ? ",cat\n" : ",dog\n");
  return folder.write("labels.csv", list + more);
}

Recipe finetune_list(const fs::path& list, const std::string& words) {
  return resolve(find_recipe("finetune"),
                 split("--train_dataset image_list --image_list.path id --image_list.label breed "
                       "--device cpu --image_list.file " +
                       list.string() + " --dataloader.index_dir " +
                       (list.parent_path() / "index").string() + " " + words),
                 everything());
}

ResolvedRecipe resolved_list(const fs::path& list, const std::string& words) {
  return resolve_automatic(finetune_list(list, words), {}, Purpose::training, everything());
}

}  // namespace

TEST_CASE("finetune needs a list of labels alone, and the folder of its images",
          "[cli][automatic]") {
  const TemporaryFolder folder;
  const auto list = write_list(folder);
  const std::string images = "--images_dir " + (folder / "photos").string();
  const auto [recipe, choices, unread] = resolved_list(list, images);
  CHECK(recipe.automatic.empty());
  check_values(recipe, {{"model.resnet.num_classes", "2"},
                        {"split.val", "0.2"},
                        {"train_dataset.image_list.crop_size", "64"},
                        {"train_batch_size", "8"},
                        {"max_duration", "200ep"}});
  CHECK(std::ranges::count(choices, "train_batch_size: 8, for 24 images to train on") == 1);
  CHECK(std::ranges::count(
            choices, "split.val: 0.2, a fifth of each class, for no val_dataset is given") == 1);
  CHECK_THROWS_WITH(resolved_list(list, ""),
                    Contains("train_dataset.image_list: ") && Contains("labels.csv:2: ") &&
                        Contains("did you mean images_dir: " + (folder / "photos").string()));

  const auto mistyped = write_list(folder, "3,dgo\n");
  CHECK_THROWS_WITH(resolved_list(mistyped, images),
                    Contains("fewer than two images") && Contains("in class dgo"));
  check_values(resolved_list(mistyped, images + " --split.val 0.2").recipe,
               {{"model.resnet.num_classes", "3"}});
  CHECK_THROWS_WITH(resolved(list),
                    Contains("--train_dataset image_list --train_dataset.image_list."
                             "file " +
                             list.string()));
}

TEST_CASE("image_folder and a .beton file tell as much as class folders", "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets");
  const auto written = run(
      folder.path(), split("data write --format image_folder --source pets --output pets.beton"));
  INFO(written.errors);
  REQUIRE(written.status == 0);
  for (const std::string set : {"imagenet", "image_folder"})
    for (const std::string data : {"pets", "pets.beton"}) {
      INFO(set << ' ' << data);
      const auto recipe =
          resolve_automatic(resolve(find_recipe("finetune"),
                                    split("--train_dataset " + set + " --device cpu --datadir " +
                                          (folder / data).string() + " --dataloader.index_dir " +
                                          (folder / "index").string()),
                                    everything()),
                            {}, Purpose::training, everything())
              .recipe;
      check_values(recipe, {{"model.resnet.num_classes", "2"},
                            {"split.val", "0.2"},
                            {"train_dataset." + set + ".crop_size", "64"},
                            {"train_batch_size", "8"}});
    }
  const auto planned =
      run(folder.path(), split("train -f finetune --datadir pets.beton --device cpu --plan"));
  INFO(planned.errors);
  CHECK(planned.status == 0);
  CHECK_THAT(planned.output, Contains("evaluation: 8 samples"));
}

TEST_CASE("all that is wrong with data and weights is told at once", "[cli][automatic]") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(resolved(folder / "none", {"--load_path", "none.pth"}),
                    Contains("train_dataset.imagenet: datadir: there is no folder") &&
                        Contains("load_path: none.pth does not exist"));
}

TEST_CASE("class_weights are balanced, or given by names", "[cli][automatic]") {
  const TemporaryFolder folder;
  const auto list = write_list(folder);
  const std::string words = "--images_dir " + (folder / "photos").string() + " --class_weights ";
  const auto weights = [&](const std::string& given) {
    return value_of(resolved_list(list, words + given).recipe, "class_weights");
  };
  CHECK(weights("balanced") == "[0.75, 1.5]");  // of 16 and 8 images to train on
  CHECK(weights("balanced --split.val 0.5") == "[0.75, 1.5]");
  CHECK(weights("dog=3") == "[1.0, 3.0]");
  CHECK(weights("dog=3 cat=0.5") == "[0.5, 3.0]");
  CHECK(weights(R"({"dog":3})") == "[1.0, 3.0]");
  CHECK(weights("balanced --num_classes 3") == "[0.75, 1.5, 1.0]");
  CHECK_THROWS_WITH(weights("dgo=3"),
                    Contains("class_weights: there is no class 'dgo'; the classes "
                             "are cat, dog; did you mean 'dog'?"));
  CHECK_THROWS_WITH(weights("balanced --loss mse"),
                    Contains("are for classes, loss: mse has no weights"));
  CHECK_THROWS_WITH(weights("balance"), Contains("must be a number, not 'balance'; others are "
                                                 "balanced, NAME=NUMBER"));
  CHECK_THROWS_WITH(weights("dog=0"), Contains("class_weights.dog: must be above 0, not 0"));
  CHECK_THROWS_WITH(weights("1 dog=2"), Contains("numbers or weights by name, not both"));

  const auto of_file = [&](const std::string& text) {
    return value_of(resolve({"r.yaml", find_recipe("finetune").text + "class_weights: " + text}, {},
                            everything()),
                    "class_weights");
  };
  CHECK(of_file("{dog: 3}") == "{dog: 3.0}");
  CHECK(of_file("balanced") == "balanced");
  CHECK(of_file("[1, 2]") == "[1.0, 2.0]");

  const Begun begun{tree(resolved_list(list, words + "balanced").recipe), "hparams.yaml"};
  write_list(folder, "1,dog\n2,dog\n3,dog\n4,dog\n5,dog\n6,dog\n");
  CHECK(weights("balanced") != "[0.75, 1.5]");
  const auto resumed = resolve_as(finetune_list(list, words + "balanced"), begun, everything());
  CHECK(value_of(resumed.recipe, "class_weights") == "[0.75, 1.5]");
}

TEST_CASE("what is given is not chosen", "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets");
  const auto recipe =
      resolved(folder / "pets",
               split("--num_classes 5 --crop_size 96 --split.val 0.5 --train_batch_size 4 "
                     "--max_duration 3ep --adamw.lr 0.5 --layer_decay none --adamw.groups none"))
          .recipe;
  check_values(recipe, {{"model.resnet.num_classes", "5"},
                        {"train_dataset.imagenet.crop_size", "96"},
                        {"split.val", "0.5"},
                        {"train_batch_size", "4"},
                        {"max_duration", "3ep"},
                        {"optimizer.adamw.lr", "0.5"}});
  const auto half = resolved(folder / "pets", split("--split.val 0.5")).choices;
  CHECK(std::ranges::count(half, "train_batch_size: 8, for 20 images to train on") == 1);
}

TEST_CASE("crop_size, batch and length follow the images", "[cli][automatic]") {
  const TemporaryFolder folder;
  const auto [side, expected] = GENERATE(
      table<int, std::string>({{20, "64"}, {95, "64"}, {96, "96"}, {191, "160"}, {300, "224"}}));
  write_pets(folder / "pets", 3, side);
  CHECK(value_of(resolved(folder / "pets").recipe, "train_dataset.imagenet.crop_size") == expected);
  CHECK(value_of(resolved(folder / "pets").recipe, "train_batch_size") == "4");
}

TEST_CASE("a val/ of one's own is evaluated on", "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets/train");
  write_pets(folder / "pets/val", 2);
  const auto recipe = resolved(folder / "pets").recipe;
  check_values(recipe, {{"split.val", "0.0"},
                        {"train_batch_size", "8"},
                        {"val_dataset.imagenet.is_train", "false"},
                        {"val_dataset.imagenet.crop_size", "64"},
                        {"val_dataset.imagenet.resize_size", "73"}});
  CHECK(value_of(recipe, "val_dataset.imagenet.datadir") ==
        value_of(recipe, "train_dataset.imagenet.datadir"));
}

TEST_CASE("a folder beside train/ that is not val/ is told of", "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets/train");
  write_pets(folder / "pets/validation", 2);
  for (const char* other : {"pets/.git", "pets/@eaDir"}) fs::create_directory(folder / other);
  const auto outcome = run(folder.path(), split("train -f finetune --datadir pets --plan"));
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.errors,
             Contains("'pets' has validation/ beside train/, not read: images to evaluate on"));
}

TEST_CASE("folders that cannot be trained on are refused with the reason", "[cli][automatic]") {
  const TemporaryFolder folder;
  const auto pets = folder / "pets";
  const auto refusal = [&] {
    try {
      resolved(pets);
      return std::string("none");
    } catch (const UserError& error) {
      return std::string(error.what());
    }
  };
  CHECK_THAT(refusal(), Contains("train_dataset.imagenet: datadir"));
  fs::create_directories(pets);
  CHECK_THAT(refusal(), Contains("has no class folders"));
  write_images(pets / "cat", 3);
  CHECK_THAT(refusal(), Contains("has one class, 'cat'; to tell classes apart takes two or more"));
  write_images(pets / "dog", 1);
  CHECK_THAT(refusal(), Contains("fewer than two images") && Contains("in class dog"));
  fs::remove(pets / "dog/0.ppm");
  CHECK_THAT(refusal(), Contains("dog: a class folder without images"));
}

TEST_CASE("sizes and lengths want the data", "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets");
  const auto given = split("--num_classes 2 --crop_size 64 --split.val 0");
  CHECK_THROWS_WITH(resolved(folder / "pets", given + split("--use_ffcv true")),
                    Contains("train_dataset.imagenet: ffcv_dest: there is no file '"));
  const auto noise = resolved(folder / "pets", given + split("--use_synthetic true")).choices;
  CHECK(std::ranges::count(noise, "train_batch_size: 32, for 1281167 images to train on") == 1);
}

TEST_CASE("sizes and lengths are those of the rows, views and batches that take part",
          "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets");
  const auto with = [&](const std::string& words) {
    return resolved(folder / "pets", split(words));
  };
  const auto chosen = [&](const std::string& words, const std::string& choice) {
    INFO(words);
    CHECK(std::ranges::count(with(words).choices, choice) == 1);
  };
  const std::string rows = "--train_dataset.imagenet.rows 0-9,20-24 ";
  chosen(rows, "train_batch_size: 8, for 12 images to train on");
  chosen("--train_dataset.imagenet.rows 0-9", "train_batch_size: 8, for 8 images to train on");
  chosen(rows + "--train_dataset.imagenet.views 3",
         "train_batch_size: 6, for 36 images to train on");
  CHECK_THROWS_WITH(with("--train_dataset.imagenet.rows 0-9,20"),
                    Contains("fewer than two images") && Contains("in class dog"));
  CHECK_THROWS_WITH(with("--train_dataset.imagenet.rows 99"),
                    Contains("train_dataset.imagenet: rows: '99' is beyond the last row, 39"));
  CHECK(value_of(with("--train_batch_size 2").recipe, "max_duration") == "76ep");
  CHECK(value_of(with("--train_batch_size 2 --train_subset_num_batches 10").recipe,
                 "max_duration") == "120ep");
}

TEST_CASE("a recipe without an evaluation's batch size has that of training for a val/",
          "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets/train");
  write_pets(folder / "pets/val", 2);
  const auto none = split("--eval_batch_size none");
  const auto recipe = resolved(folder / "pets", none).recipe;
  check_values(recipe, {{"train_batch_size", "8"}, {"eval_batch_size", "8"}});
  const Begun begun{tree(recipe), "hparams.yaml"};
  const auto resumed = resolve_as(finetune(folder / "pets", none), begun, everything());
  check_values(resumed.recipe, {{"split.val", "0.0"}, {"eval_batch_size", "8"}});
  CHECK(std::ranges::count(resumed.choices, "train_batch_size: 8, as hparams.yaml has it") == 1);

  const auto moved = (folder / "moved").string();
  write_pets(folder / "moved/train");
  CHECK_THROWS_WITH(resolve_as(finetune(moved, none), begun, everything()),
                    Contains("moved' has no val/, which the run evaluates on by hparams.yaml"));
  write_pets(folder / "moved/val", 2);
  const std::string evaluated = "val_dataset.imagenet.datadir";
  CHECK(value_of(resumed.recipe, evaluated) == (folder / "pets").string());
  CHECK(value_of(resolve_as(finetune(moved, none), begun, everything()).recipe, evaluated) ==
        moved);
  const auto from_ffcv = resolve_as(
      finetune(folder / "pets", none + split("--use_ffcv true --ffcv_dir . --ffcv_dest t.beton")),
      begun, everything());
  CHECK(value_of(from_ffcv.recipe, "val_dataset.imagenet.use_ffcv") == "false");
  auto elsewhere = begun;
  set_path(elsewhere.recipe, evaluated, Value::string("/others"));
  CHECK(value_of(resolve_as(finetune(moved, none), elsewhere, everything()).recipe, evaluated) ==
        "/others");
}

TEST_CASE("a crop that is larger than the images is told as the least there is",
          "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets", 20, 32);
  const auto choices = resolved(folder / "pets").choices;
  CHECK(std::ranges::count(choices,
                           "train_dataset.imagenet.crop_size: 64, the least that is chosen, as the "
                           "shorter sides of 40 images are about 32 pixels") == 1);
}

TEST_CASE("an evaluation decides what it depends on alone", "[cli][automatic]") {
  const TemporaryFolder folder;
  const auto given = split("--num_classes 2 --crop_size 64 --split.val 0");
  CHECK(resolved(folder / "none", given, Purpose::evaluation).recipe.automatic.empty());
  CHECK_THROWS_WITH(resolved(folder / "none", split("--num_classes 2"), Purpose::evaluation),
                    Contains("train_dataset.imagenet: datadir"));
}

TEST_CASE("a run that began with weights goes on without them", "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets");
  const auto weights = (folder / "w.safetensors").string();
  write_weights(weights, "resnet: {model_name: resnet18}");
  const auto small = split("--model_name resnet18");
  const auto begun = resolved(folder / "pets", small + Words{"--load_path", weights}).recipe;
  const auto resumed =
      resolve_as(finetune(folder / "pets", small), {tree(begun), "hparams.yaml"}, everything());
  check_values(resolve_automatic(resumed.recipe, {}, Purpose::training, everything()).recipe,
               {{"load_weights_only", "false"},
                {"load_ignore", "[]"},
                {"max_duration", "50ep"},
                {"optimizer.adamw.lr", "3.0e-04"}});

  fs::create_directories(folder / "saved");
  folder.write("saved/manifest.json",
               nlohmann::json{{"format_version", 1},
                              {"recipe",
                               "max_duration: 7ep\noptimizer: {adamw: {lr: 0.5}}\n"
                               "load_ignore: [fc.weight]\n"}}
                   .dump());
  const auto goes_on =
      run(folder.path(),
          split("train -f finetune --datadir pets --model_name resnet18 --load_weights_only false "
                "--load_path saved --dump"));
  INFO(goes_on.errors);
  CHECK(goes_on.status == 0);
  CHECK_THAT(goes_on.output,
             Contains("load_ignore: []") && Contains("max_duration: 7ep") && Contains("lr: 0.5"));
  CHECK_THAT(goes_on.errors, Contains("auto: max_duration: 7ep, as saved has it"));
}

TEST_CASE("weights make learning rates small, and lose a last layer of another shape",
          "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets");
  const auto weights = (folder / "w.safetensors").string();
  const Words given{"--load_path", weights};
  const auto with = [&](const std::string& model) {
    return resolved(folder / "pets", split(model) + given).recipe;
  };
  write_weights(weights, "resnet: {model_name: resnet18}");
  auto recipe = with("--model_name resnet18");
  check_values(recipe, {{"load_ignore", "[fc.weight, fc.bias]"},
                        {"load_weights_only", "true"},
                        {"max_duration", "50ep"},
                        {"optimizer.adamw.lr", "3.0e-04"},
                        {"optimizer.adamw.layer_decay", "0.8"}});
  CHECK_THAT(value_of(recipe, "optimizer.adamw.groups"), Contains("pattern: head"));

  write_weights(weights, "resnet: {model_name: resnet18, num_classes: 2}");
  CHECK(value_of(with("--model_name resnet18"), "load_ignore") == "[]");

  write_weights(weights, "resnet: {model_name: resnet18, num_classes: 3}");
  recipe = with("--model_name resnet18 --load_weights_only false");
  CHECK(value_of(recipe, "load_ignore") == "[fc.weight, fc.bias]");
  fs::create_directories(folder / "run");
  folder.write("run/manifest.json", R"({"format_version": 1})");  // gone on with
  recipe = resolved(folder / "pets", split("--load_weights_only false --load_path") +
                                         Words{(folder / "run").string()})
               .recipe;
  CHECK(value_of(recipe, "load_ignore") == "[]");

  write_weights(weights, "mobilenet_v3: {model_name: mobilenet_v3_small}");
  recipe = with("--model mobilenet_v3 --mobilenet_v3.model_name mobilenet_v3_small");
  check_values(recipe, {{"load_ignore", "[classifier.3.weight, classifier.3.bias]"},
                        {"model.mobilenet_v3.num_classes", "2"}});

  write_weights(weights, "mobilenet_v3: {model_name: mobilenet_v3_small}", "timm");
  recipe = with("--model mobilenet_v3 --mobilenet_v3.model_name mobilenet_v3_small");
  CHECK(value_of(recipe, "load_ignore") == "[classifier.3.weight, classifier.3.bias]");

  recipe =
      with("--model mobilenet_v3 --mobilenet_v3.model_name mobilenet_v3_small --optimizer sgd");
  CHECK(value_of(recipe, "optimizer.sgd.lr") == "0.01");
  CHECK_THROWS_WITH(with("--optimizer lamb --lamb.lr auto"),
                    Contains("optimizer.lamb.lr: auto: is known of adam"));
}

TEST_CASE("without data a plan and a dump say what is not chosen yet", "[cli][automatic]") {
  const TemporaryFolder folder;
  const auto [recipe, choices, unread] = resolved(folder / "none", {}, Purpose::plan);
  CHECK_THAT(unread.at(0), Contains("train_dataset.imagenet: datadir: there is no folder"));
  CHECK_THAT(choices.at(0), Contains("not read: train_dataset.imagenet: "));
  CHECK_THAT(dump(recipe), Contains("num_classes: auto") && Contains("train_batch_size: auto") &&
                               Contains("lr: 0.001"));
  CHECK(recipe.options.train_batch_size == 32);
  CHECK(dump(resolve({"dump", dump(recipe)}, {}, everything())) == dump(recipe));
}

TEST_CASE("a last layer for other classes starts afresh, of as many classes too",
          "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets");
  const auto weights = (folder / "w.safetensors").string();
  const auto ignored = [&](const Words& classes, Words words) {
    write_weights(weights, "resnet: {model_name: resnet18, num_classes: 2}", classes);
    words.insert(words.end(), {"--model_name", "resnet18", "--load_path", weights});
    return resolved(folder / "pets", words);
  };
  const auto head = [](const ResolvedRecipe& resolved) {
    return value_of(resolved.recipe, "load_ignore");
  };
  const auto others = ignored({"car", "ship"}, {});
  CHECK(head(others) == "[fc.weight, fc.bias]");
  CHECK_THAT(others.choices.back(),
             Contains("it is for other classes or another order, car, ship"));
  check_values(others.recipe, {{"optimizer.adamw.lr", "0.001"},
                               {"optimizer.adamw.layer_decay", "null"},
                               {"max_duration", "50ep"}});
  CHECK_THAT(value_of(others.recipe, "optimizer.adamw.groups"), Contains("pattern: head"));
  CHECK(value_of(ignored({"car", "ship"}, split("--optimizer sgd --sgd.lr auto")).recipe,
                 "optimizer.sgd.lr") == "0.01");
  CHECK(head(ignored({"dog", "cat"}, {})) == "[fc.weight, fc.bias]");
  CHECK(head(ignored({"cat", "dog"}, {})) == "[]");
  CHECK(head(ignored({"car", "ship"},
                     split("--num_classes 2 --crop_size 64 --split.val 0.2 --train_batch_size 8 "
                           "--max_duration 1ep"))) == "[fc.weight, fc.bias]");
}

TEST_CASE("a last layer's norm is no part of what is for other classes", "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets");
  const auto weights = (folder / "w.safetensors").string();
  const auto with = [&](const std::string& model, const std::string& classifier) {
    const auto words = split("--model " + model + " --load_path") + Words{weights};
    write_weights(weights, model + ": {num_classes: 2}", Words{"car", "ship"});
    const auto few = resolved(folder / "pets", words).recipe;
    check_values(few, {{"load_ignore", "[" + classifier + ".weight, " + classifier + ".bias]"},
                       {"optimizer.adamw.lr", "0.001"}});
    write_weights(weights, model + ": {num_classes: 100}", Words{});
    CHECK(value_of(resolved(folder / "pets", words).recipe, "optimizer.adamw.lr") == "3.0e-04");
  };
  with("wide_resnet", "fc");
  with("convnext", "classifier.2");
}

TEST_CASE("a dump leaves open what weights that are not there decide", "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets");
  const auto dumped =
      run(folder.path(), split("train -f finetune --datadir pets --load_path none.pth --dump"));
  INFO(dumped.errors);
  REQUIRE(dumped.status == 0);
  for (const std::string key : {"lr", "layer_decay", "load_ignore"})
    CHECK_THAT(dumped.output, Contains(key + ": auto"));
}

TEST_CASE("a plan writes no data", "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets/train");
  write_pets(folder / "pets/val", 2);
  const auto planned = run(
      folder.path(),
      split(
          "train -f resnet18 --train_dataset.imagenet.datadir pets --val_dataset.imagenet.datadir "
          "pets --num_classes 3 --val_dataset.imagenet.use_ffcv true "
          "--val_dataset.imagenet.ffcv_write_dataset true --val_dataset.imagenet.ffcv_dir . "
          "--val_dataset.imagenet.ffcv_dest val.beton --train_batch_size 8 --plan"));
  INFO(planned.errors);
  CHECK(planned.status == 0);
  CHECK_THAT(planned.output, Contains("val.beton is yet to be written by training"));
  CHECK_THAT(planned.errors, Contains("val_dataset.imagenet: the data were not read"));
  CHECK_THAT(planned.errors, Contains("the data have 2 classes, the model 3 outputs; the extra "
                                      "ones are never right"));
  CHECK(!fs::exists(folder / "val.beton"));
}

TEST_CASE("a .beton file that was written from other images is told of", "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets/train");
  write_pets(folder / "pets/val", 2);
  const auto train = [&](const std::string& more) {
    const auto outcome = run(
        folder.path(),
        split("train -f resnet18 --train_dataset.imagenet.datadir pets --num_classes 2 "
              "--val_dataset.imagenet.datadir pets "
              "--train_dataset.imagenet.use_ffcv true --train_dataset.imagenet.ffcv_dir . "
              "--train_dataset.imagenet.ffcv_write_dataset true --eval_interval 0ep "
              "--train_dataset.imagenet.ffcv_dest p.beton --train_dataset.imagenet.crop_size 32 "
              "--train_batch_size 2 --max_duration 1ba --loggers none " +
              more));
    INFO(outcome.errors);
    CHECK(outcome.status == 0);
    return outcome.errors;
  };
  train("");
  CHECK_THAT(train("--plan"), Contains("is there and read as it is") && !Contains("now"));
  fs::rename(folder / "pets/train/cat/9.ppm", folder / "pets/train/dog/20.ppm");
  CHECK_THAT(train("--plan"), Contains("p.beton has other classes than there are now, first of its "
                                       "sample 19, and its samples count"));
  fs::remove(folder / "pets/train/dog/20.ppm");
  CHECK_THAT(train("--plan"), Contains("p.beton has 40 samples, and there are 39 now") &&
                                  Contains("delete it, so that it is written anew"));
}

TEST_CASE("a plan wants the folder and the weights that it was given", "[cli][automatic][slow]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets");
  const auto outcome = [&](const std::string& words) {
    return look(folder.path(), split("train -f finetune " + words));
  };
  const auto refused = [&](const std::string& words, const std::string& message) {
    const bool named = words.find("--model_name") != std::string::npos;
    const auto plan = outcome(words + (named ? " --plan" : " --plan --model_name resnet18"));
    INFO(words << '\n' << plan.errors << plan.output);
    CHECK(plan.status == 2);
    CHECK_THAT(plan.errors, Contains(message));
  };
  refused("--datadir pet", "train_dataset.imagenet: datadir: there is no folder 'pet'");
  refused("--datadir pets --load_path none.pth", "load_path: none.pth does not exist");
  refused("--datadir pets --load_path none.pth --load_ignore 'fc.*'", "none.pth does not exist");
  refused("--datadir pets --num_classes 1", "the data have 2 classes, the model 1");
  write_weights(folder / "w.safetensors", "resnet: {model_name: resnet50, num_classes: 2}");
  refused("--datadir pets --load_path w.safetensors --load_ignore none",
          "do model_name and the algorithms fit the file?");
  refused("--datadir pets --load_path w.safetensors --model_name resnet50 --load_ignore head.*",
          "load_ignore: 'head.*' fits no tensor");
  CHECK(outcome("--datadir pets --load_path w.safetensors --model_name resnet50 --plan").status ==
        0);
  refused(
      "--datadir pets --load_path w.safetensors --load_ignore 'fc.*' --load_weights_only true "
      "--loss mse",
      "loss: mse needs");
  CHECK(outcome("--load_path w.safetensors --model_name resnet18 --plan").status == 0);  // no data
  refused("--datadir pets --loss mse", "the targets are classes, and loss: mse needs");
  CHECK(outcome("--model_name resnet18 --plan").status == 0);
  CHECK(outcome("--model_name resnet18 --datadir pet --dump").status == 0);
  CHECK_THAT(outcome("--model_name resnet18 --datadir pets --plan").output,
             Contains("evaluation: 8 samples, 64 x 64\n"));
}

TEST_CASE("another set to evaluate on leaves all images to train on", "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets");
  write_pets(folder / "others", 2);
  const auto recipe =
      resolved(folder / "pets", {"--val_dataset", "imagenet", "--val_dataset.imagenet.datadir",
                                 (folder / "others").string()})
          .recipe;
  check_values(recipe, {{"split.val", "0.0"}});
  CHECK(value_of(recipe, "val_dataset.imagenet.datadir") == (folder / "others").string());
}

TEST_CASE("a last layer that is frozen has no learning rate of its own", "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets");
  const auto weights = folder / "w.safetensors";
  write_weights(weights, "resnet: {model_name: resnet50, num_classes: 2}");
  const auto words = [&](const std::string& frozen) {
    return Words{"--load_path", weights.string(), "--freeze", frozen};
  };
  CHECK(value_of(resolved(folder / "pets", words("fc.*")).recipe, "optimizer.adamw.groups") ==
        "[]");
  CHECK(value_of(resolved(folder / "pets", words("conv1.*")).recipe, "optimizer.adamw.groups") !=
        "[]");
}

TEST_CASE("images are predicted by a recipe that leaves nothing open", "[cli][automatic]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets", 2);
  const auto weights = folder / "w.safetensors";
  write_weights(weights, "resnet: {model_name: resnet50, num_classes: 2}");
  const auto outcome =
      run(folder.path(), split("predict -f finetune --load_path w.safetensors --source pets/cat"));
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.errors, Contains("model.resnet.num_classes: is auto"));
}

TEST_CASE("a plan and a dump show what a run that goes on has", "[cli][automatic][slow]") {
  const TemporaryFolder folder;
  const auto small = split("-f finetune --datadir pets --model_name resnet18 --device cpu");
  const auto shown = [&](const std::string& words) {
    auto outcome = look(folder.path(), split("train " + words) + small);
    INFO(outcome.errors);
    REQUIRE(outcome.status == 0);
    return outcome;
  };
  write_pets(folder / "pets");
  const auto dumped = shown("--dump --run_name run");
  CHECK_THAT(dumped.output, Contains("train_batch_size: 8") && !Contains(": auto\ntrain"));
  CHECK_THAT(dumped.errors, Contains("auto: train_batch_size: 8, for 32 images"));
  fs::create_directories(folder / "runs/run/checkpoints/ep1-ba4");  // `latest` is lost
  folder.write("runs/run/hparams.yaml", dumped.output);
  write_pets(folder / "pets", 140);
  CHECK_THAT(shown("--dump").output, Contains("train_batch_size: 16"));
  const std::string again = "--run_name run --autoresume true ";
  CHECK_THAT(shown(again + "--dump").output, Contains("train_batch_size: 8"));
  const auto none_whole = look(folder.path(), split("train --plan " + again) + small);
  CHECK(none_whole.status == 2);
  CHECK_THAT(none_whole.errors, Contains("autoresume: no checkpoint in") && Contains("is whole"));
  const auto taken = look(folder.path(), split("train --plan --run_name run") + small);
  CHECK(taken.status == 0);
  CHECK_THAT(taken.errors, Contains("training would be refused: run_name: the run folder runs/run "
                                    "exists already"));
}

TEST_CASE("a plan without data counts both sides of a split, and warns once", "[cli][automatic]") {
  const TemporaryFolder folder;
  const auto planned = run(folder.path(), split("train -f finetune --model_name resnet18 --plan"));
  INFO(planned.errors);
  REQUIRE(planned.status == 0);
  CHECK_THAT(planned.output, Contains("train_dataset: imagenet, 1024928 samples an epoch") &&
                                 Contains("evaluation: 256233 samples"));
  const std::string warning = "the data were not read; the set's";
  const auto first = planned.errors.find(warning);
  CHECK(first != std::string::npos);
  CHECK(planned.errors.find(warning, first + 1) == std::string::npos);
}

TEST_CASE("a plan and predictions know the further set that a stopper watches",
          "[cli][automatic][evaluators]") {
  const TemporaryFolder folder;
  write_pets(folder / "pets", 2);
  write_weights(folder / "w.safetensors", "resnet: {model_name: resnet18, num_classes: 2}");
  const auto words = split(
      "-f finetune --train_dataset.imagenet.datadir pets --train_dataset.imagenet.crop_size 64 "
      "--model_name resnet18 --num_classes 2 --device cpu --evaluators.v2.dataset imagenet "
      "--evaluators.v2.dataset.imagenet.datadir pets --callbacks early_stopper threshold_stopper "
      "--early_stopper.monitor metrics/v2/Accuracy --threshold_stopper.threshold 0.9");
  const auto outcome_of = [&](const std::string& command, const std::string& watched) {
    return run(folder.path(),
               split(command) + words + Words{"--threshold_stopper.monitor", watched});
  };
  const auto planned = outcome_of("train --plan", "metrics/v2/Accuracy");
  INFO(planned.errors);
  CHECK(planned.status == 0);
  const auto wrong = outcome_of("train --plan", "metrics/v3/Accuracy");
  CHECK(wrong.status == 2);
  CHECK_THAT(wrong.errors, Contains("threshold_stopper.monitor: there is no metrics/v3/Accuracy; "
                                    "the evaluation gives metrics/eval/Accuracy"));
  const auto predicted =
      outcome_of("predict --source pets/cat --load_path w.safetensors", "metrics/v2/Accuracy");
  INFO(predicted.errors);
  CHECK(predicted.status == 0);
}

TEST_CASE("auto is a word of some keys alone", "[cli][automatic]") {
  for (const auto& key : automatic_keys()) {
    INFO(key.key);
    CHECK(find_automatic(key.key) == &key);
  }
  CHECK(find_automatic("model.resnet.num_classes") != nullptr);
  CHECK(find_automatic("num_classes") == nullptr);
  CHECK(find_automatic("val_dataset.imagenet.crop_size") == nullptr);
  CHECK_THROWS_WITH(resolve(find_recipe("resnet50"), {"--seed", "auto"}, everything()),
                    Contains("--seed: must be a whole number, not 'auto'"));
}

namespace {

/// Pets, and trainings of a small network on them.
class Pets {
 public:
  Pets() { write_pets(folder / "pets"); }
  Outcome train(const std::string& words) const {
    auto outcome = run(folder.path(), split("train " + words) + small);
    INFO(outcome.errors);
    REQUIRE(outcome.status == 0);
    return outcome;
  }
  std::string hparams_of(const std::string& name) const {
    std::ifstream file(folder / ("runs/" + name + "/hparams.yaml"));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const TemporaryFolder folder;

 private:
  const std::vector<std::string> small = split(
      "--model_name resnet18 --precision fp32 --dataloader.num_workers 1 --progress_bar false");
};

}  // namespace

TEST_CASE("training writes what it chose, from which the run can be repeated",
          "[cli][automatic][slow]") {
  const Pets pets;
  const auto& folder = pets.folder;
  const auto train = [&](const std::string& words) { return pets.train(words); };
  const auto first =
      train("-f finetune --datadir pets --max_duration 2ba --run_name a --device cpu");
  CHECK_THAT(first.errors, Contains("auto: model.resnet.num_classes: 2, as many as the data"));
  CHECK_THAT(pets.hparams_of("a"), Contains("num_classes: 2") && Contains("crop_size: 64") &&
                                       !Contains("num_classes: auto") && !Contains("val: auto"));
  const auto second = train("-f runs/a/hparams.yaml --run_name b");
  CHECK_THAT(second.errors, !Contains("auto: "));
  check_equal(read_weights(folder / "runs/a/checkpoints/latest"),
              read_weights(folder / "runs/b/checkpoints/latest"));
}

TEST_CASE("a run that goes on has the values that it chose", "[cli][automatic][long]") {
  const Pets pets;
  const auto& folder = pets.folder;
  const auto train = [&](const std::string& words) { return pets.train(words); };
  const auto kept_by = [&](const std::string& name) { return pets.hparams_of(name); };
  train("-f finetune --datadir pets --max_duration 2ba --run_name a --device cpu");
  train("-f finetune --datadir pets --max_duration 2ba --run_name b --device cpu");
  const std::string on =
      "-f finetune --datadir pets --max_duration 3ba --run_name a --device cpu --autoresume true";
  CHECK_THAT(train("--plan " + on).output,
             Contains("auto: train_batch_size: 8, as runs/a/hparams.yaml has it") &&
                 Contains("resumes from: runs/a/checkpoints/ep0-ba2, after epoch 0, batch 2; 1 of "
                          "3 batches are left"));
  for (const char* plan : {"", " --plan"}) {
    const auto other =
        run(folder.path(), split("train " + on) +
                               split("--model_name resnet34 --precision fp32" + std::string(plan)));
    CHECK(other.status == 2);
    CHECK_THAT(other.errors, Contains("runs/a/checkpoints/ep0-ba2: is of another network") &&
                                 Contains("model.resnet.model_name: the checkpoint's was resnet18, "
                                          "this run's is resnet34"));
  }
  train(on);
  CHECK_THAT(train("--plan " + on).output, Contains("nothing is left to train"));
  train("-f finetune --datadir pets --max_duration 1ep --run_name c --device cpu");
  const auto trained_by = kept_by("a");
  const auto over = train(
      "-f finetune --datadir pets --max_duration 3ba --run_name a --device cpu "
      "--autoresume true --seed 5 --load_path runs/b/checkpoints/latest");
  CHECK_THAT(over.errors, Contains("nothing is left to train") &&
                              Contains("load_path: not loaded, for the run goes on from runs/a"));
  CHECK(kept_by("a") == trained_by);
  train(
      "-f finetune --datadir pets --max_duration 3ba --run_name d --device cpu "
      "--load_path runs/a/checkpoints/latest --load_ignore none --load_weights_only false");
  CHECK(kept_by("d") != "");
  const auto weights = "load_path: " + fs::canonical(folder / "runs/b/checkpoints/latest").string();
  const std::string begins = "-f finetune --datadir pets --run_name e --device cpu ";
  train(begins + "--max_duration 1ba --load_path " +
        fs::canonical(folder / "runs/b/checkpoints/latest").string());
  for (const char* more : {"2ba", "3ba --load_path runs/a/checkpoints/latest"}) {
    train(begins + "--autoresume true --max_duration " + more);
    CHECK_THAT(kept_by("e"), Contains(weights) && Contains("load_weights_only: true"));
  }
  write_pets(folder / "pets", 140);
  const auto grown =
      train("-f finetune --datadir pets --max_duration 2ep --run_name c --autoresume true");
  CHECK_THAT(grown.errors, Contains("auto: train_batch_size: 8, as runs/c/hparams.yaml has it") &&
                               Contains("resumed from"));
  const auto planned = run(folder.path(), split("train -f finetune --datadir pets --plan"));
  CHECK_THAT(planned.output, Contains("auto: train_batch_size: 16, for 224 images to train on"));
}

}  // namespace composer::automatic_values_test
