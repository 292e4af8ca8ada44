// The examples of components: each has the effect that it says it has.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "base/files/checksum.h"
#include "example.h"
#include "tests/data/photos.h"

namespace composer::components_test {

using Catch::Matchers::Contains;

namespace {

/// What numpy.save writes for an array of these bytes.
std::string npy(const std::string& type, const std::string& shape, const std::string& bytes) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
         bytes;
}

constexpr int classes = 3, side = 16;

/// Class 0 is red, 1 green, 2 blue, in many shades.
std::string colours(int count) {
  std::string pixels;
  for (int i = 0; i < count; ++i)
    for (int p = 0; p < side * side; ++p)
      for (int c = 0; c < 3; ++c)
        pixels += static_cast<char>(c == i % classes ? 130 + i % 100 : (7 * p + i) % 60);
  return pixels;
}

void write_colours(const TemporaryFolder& folder, const std::string& name, int count) {
  std::filesystem::create_directory(folder / name);
  std::string labels;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t label = i % classes;
    labels.append(reinterpret_cast<const char*>(&label), sizeof label);
  }
  const auto n = std::to_string(count);
  folder.write(name + "/images.npy", npy("|u1", n + ", 16, 16, 3", colours(count)));
  folder.write(name + "/labels.npy", npy("<i8", n + ",", labels));
}

const std::string colour_recipe = R"(model:
  resnet_cifar: {model_name: resnet_20, num_classes: 3}
train_dataset:
  npy: {datadir: train, size: 16}
val_dataset:
  npy: {datadir: val, size: 16, is_train: false, shuffle: false, drop_last: false}
optimizer:
  sgd: {lr: 0.05, momentum: 0.9}
train_batch_size: 16
eval_batch_size: 16
max_duration: 6ep
eval_interval: 6ep
device: cpu
run_name: colours
dataloader: {num_workers: 1}
)";

std::string little_endian(std::initializer_list<std::pair<uint64_t, int>> numbers) {
  std::string bytes;
  for (const auto& [number, count] : numbers)
    for (int i = 0; i < count; ++i) bytes += static_cast<char>(number >> 8 * i);
  return bytes;
}

/// What `zip -0 -r` writes of the folder's files (method 8: as if they were compressed).
std::string zip_of(const std::filesystem::path& folder, uint64_t method = 0) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) names.push_back(entry.path().lexically_relative(folder).string());
  std::sort(names.begin(), names.end());
  std::string files, directory;
  for (const auto& name : names) {
    const std::string bytes = text_of(folder / name), extra = "UT";
    Checksum sum;
    sum.add({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    const auto about = little_endian({{10, 2},
                                      {0, 2},
                                      {method, 2},
                                      {0, 4},
                                      {sum.crc32(), 4},
                                      {bytes.size(), 4},
                                      {bytes.size(), 4},
                                      {name.size(), 2}});
    const uint64_t begin = files.size();
    files += "PK\3\4" + about + little_endian({{extra.size(), 2}}) + name + extra + bytes;
    directory += "PK\1\2" + little_endian({{20, 2}}) + about +
                 little_endian({{0, 2}, {0, 2}, {0, 2}, {0, 2}, {0, 4}, {begin, 4}}) + name;
  }
  return files + directory + "PK\5\6" +
         little_endian({{0, 4},
                        {names.size(), 2},
                        {names.size(), 2},
                        {directory.size(), 4},
                        {files.size(), 4},
                        {0, 2}});
}

const std::string photo_recipe = R"(model:
  resnet_cifar: {model_name: resnet_20, num_classes: 4}
train_dataset:
  SET: {PLACE, crop_size: 16}
val_dataset:
  SET: {PLACE, crop_size: 16, is_train: false}
optimizer:
  sgd: {lr: 0.05}
train_batch_size: 8
eval_batch_size: 8
max_duration: 2ep
device: cpu
progress_bar: false
dataloader: {num_workers: 1}
)";

std::string photo_recipe_of(const std::string& set, const std::string& place) {
  std::string recipe = photo_recipe;
  for (const auto& [word, meaning] : {std::pair{"SET", set}, std::pair{"PLACE", place}})
    for (size_t at; (at = recipe.find(word)) != recipe.npos;)
      recipe.replace(at, std::strlen(word), meaning);
  return recipe;
}

}  // namespace

TEST_CASE("custom_model: surgery finds its slots, weights have their names", "[examples][slow]") {
  const TemporaryFolder folder;
  const auto train = [&](const std::string& words) {
    const auto outcome = run_example(
        "tiny_net", folder,
        split(short_training + words + " --model tiny_net --max_duration 1ep --callbacks none"));
    INFO(outcome.errors);
    REQUIRE(outcome.status == 0);
    return outcome.output;
  };
  train("plain --algorithms none");
  train("blurred --algorithms blurpool");
  const auto loss = [&](const std::string& name) -> double {
    return json_of(folder / ("runs/" + name + "/summary.json"))["metrics"]["loss/train"];
  };
  CHECK(loss("blurred") != loss("plain"));
  CHECK_THAT(train("planned --plan --algorithms blurpool"),
             Contains("down: Conv2d(16, 32, 3x3, stride 2"));

  const auto info = run(folder.path(), split("checkpoint info runs/plain/checkpoints/latest"));
  CHECK_THAT(info.output, Contains("down.weight [32,16,3,3]"));
  CHECK_THAT(info.output, Contains("head.weight [10,32]"));
}

TEST_CASE("custom_dataset: NumPy's arrays are learnt, and files classified", "[examples][slow]") {
  const TemporaryFolder folder;
  write_colours(folder, "train", 96);
  write_colours(folder, "val", 30);
  folder.write("colours.yaml", colour_recipe);
  const auto trained =
      run_example("npy", folder, split("train -f colours.yaml --progress_bar false"));
  INFO(trained.errors);
  REQUIRE(trained.status == 0);
  CHECK(json_of(folder / "runs/colours/summary.json")["metrics"]["metrics/eval/Accuracy"] > 0.9);

  folder.write("blue.ppm", "P6 16 16 255\n" + colours(3).substr(2 * side * side * 3));
  const auto predicted = run_example(
      "npy", folder,
      split("predict -f colours.yaml --load_path runs/colours/checkpoints/latest --source "
            "blue.ppm --top_k 1"));
  INFO(predicted.errors);
  REQUIRE(predicted.status == 0);
  CHECK_THAT(predicted.output, Contains("\"classes\":[2]"));
}

TEST_CASE("custom_dataset: files that do not fit are named", "[examples][slow]") {
  const TemporaryFolder folder;
  write_colours(folder, "train", 96);
  write_colours(folder, "val", 30);
  folder.write("colours.yaml", colour_recipe);
  const auto complaint = [&](const std::string& overrides = "") {
    const auto outcome = run_example("npy", folder, split("train -f colours.yaml " + overrides));
    CHECK(outcome.status == 2);
    return outcome.errors;
  };
  CHECK_THAT(complaint("--val_dataset.npy.datadir nowhere"), Contains("nowhere"));
  CHECK_THAT(complaint("--train_dataset.npy.size 32"),
             Contains("train/images.npy: has the shape [96, 16, 16, 3]"));
  folder.write("val/labels.npy", npy("<i4", "1,", std::string(4, '\0')));
  CHECK_THAT(complaint(), Contains("val/labels.npy: has the type <i4; expected <i8"));
  folder.write("val/labels.npy", npy("<i8", "2,", std::string(8, '\0')));
  CHECK_THAT(complaint(), Contains("val/labels.npy: does not end where its header says"));
}

TEST_CASE("custom_dataset: photographs in an archive train as those in folders do",
          "[examples][slow]") {
  const TemporaryFolder folder;
  test::draw_photos(folder / "photos/train", 24, [](int i) { return 30 + i % 5; });
  test::draw_photos(folder / "photos/val", 8, [](int i) { return 31 + i % 3; });
  folder.write("photos.zip", zip_of(folder / "photos"));
  folder.write("zip.yaml", photo_recipe_of("zip", "archive: photos.zip"));
  folder.write("folders.yaml", photo_recipe_of("image_folder", "datadir: photos"));
  const auto weights = [&](const std::string& name, const std::string& words,
                           const std::string& ranks = "") {
    const auto done =
        run_example("zip_photos", folder,
                    split(ranks + " train --run_dir runs --run_name " + name + " -f " + words));
    INFO(done.errors);
    REQUIRE(done.status == 0);
    return text_of(folder /
                   ("runs/" + name + "/checkpoints/latest/model-00001-of-00001.safetensors"));
  };
  const auto accuracy = [&](const std::string& name) {
    return json_of(folder / ("runs/" + name + "/summary.json"))["metrics"];
  };
  const auto expected = weights("folders", "folders.yaml");
  CHECK(weights("zip", "zip.yaml") == expected);
  CHECK(accuracy("zip")["metrics/eval/CrossEntropy"] ==
        accuracy("folders")["metrics/eval/CrossEntropy"]);
  CHECK(weights("several", "zip.yaml --num_workers 3") == expected);
  CHECK(weights("begun", "zip.yaml --max_duration 4ba") != expected);
  CHECK(weights("begun", "zip.yaml --autoresume true") == expected);
  CHECK(weights("zip2", "zip.yaml", "-n 2") == weights("folders2", "folders.yaml", "-n 2"));
}

TEST_CASE("custom_dataset: what is wrong with an archive is named", "[examples][slow]") {
  const TemporaryFolder folder;
  test::draw_photos(folder / "photos/train", 16, [](int) { return 30; });
  const std::string zip = zip_of(folder / "photos");
  folder.write("zip.yaml", photo_recipe_of("zip", "archive: photos.zip"));
  const auto train = [&](const std::string& bytes, int status, const std::string& words = "") {
    folder.write("photos.zip", bytes);
    const auto outcome =
        run_example("zip_photos", folder,
                    split("train -f zip.yaml --val_dataset none --max_duration 1ep " + words));
    CHECK(outcome.status == status);
    return outcome.errors;
  };
  CHECK_THAT(train("PK", 2), Contains("archive: photos.zip: no ZIP archive, or cut off"));
  CHECK_THAT(train(zip.substr(0, 100) + zip.substr(zip.size() - 22), 2),
             Contains("archive: photos.zip: cut off or damaged"));
  CHECK_THAT(train(zip_of(folder / "photos", 8), 2),
             Contains("archive: photos.zip: train/0/0.jpg is compressed; zip -0"));
  std::string broken = zip;
  broken.replace(broken.find("train/1/13.jpg") + 16, 8, "no image");
  CHECK_THAT(train(broken, 1), Contains("photos.zip: train/1/13.jpg: no image"));
  CHECK_THAT(train(broken, 0, "--on_bad_sample skip"), Contains("train/1/13.jpg: no image"));
}

TEST_CASE("custom_callback: logs the worst class, and ends the run", "[examples][slow]") {
  const TemporaryFolder folder;
  const auto train = [&](const std::string& name, const std::string& enough) {
    const auto outcome =
        run_example("worst_class", folder,
                    split(short_training + name +
                          " --max_duration 2ep --algorithms none --callbacks worst_class "
                          "--callbacks.worst_class.enough " +
                          enough));
    INFO(outcome.errors);
    REQUIRE(outcome.status == 0);
    return json_of(folder / ("runs/" + name + "/summary.json"));
  };
  CHECK(train("ended", "0")["epochs"] == 1);
  const auto whole = train("whole", "1");
  CHECK(whole["epochs"] == 2);
  const auto& metrics = whole["metrics"];
  CHECK(metrics["metrics/eval/WorstClassAccuracy"] <= metrics["metrics/eval/Accuracy"]);
}

TEST_CASE("custom_logger: the table holds what metrics.jsonl does, resumptions too",
          "[examples][slow]") {
  const TemporaryFolder folder;
  const auto train = [&](const std::string& words) {
    const auto outcome = run_example(
        "csv", folder, split(short_training + words + " --algorithms none --loggers long_table"));
    INFO(outcome.errors);
    REQUIRE(outcome.status == 0);
  };
  const auto table = folder / "runs/first/table.csv";
  const std::string first =
      "first --loggers.long_table.file table.csv --autoresume true --max_duration ";
  train(first + "5ba");
  // What a killed process had logged beyond its last checkpoint.
  std::ofstream(table, std::ios::app) << "batch,1,7,loss/train,77\n";
  train(first + "2ep");

  using Entry = std::pair<std::string, double>;
  std::vector<Entry> expected, found;
  for (const auto& record : records_of(folder / "runs/first"))
    for (const auto& [name, value] : record.items())
      if (name.find('/') != std::string::npos || name == "lr")
        expected.push_back({record["event"].get<std::string>() + "," + record["epoch"].dump() +
                                "," + record["batch"].dump() + "," + name,
                            value});
  const auto lines = lines_of(text_of(table));
  REQUIRE(lines.at(0) == "event,epoch,batch,name,value");
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto comma = lines[i].rfind(',');
    found.push_back({lines[i].substr(0, comma), std::stod(lines[i].substr(comma + 1))});
  }
  std::sort(expected.begin(), expected.end());
  std::sort(found.begin(), found.end());
  CHECK(expected.size() > 8);
  CHECK(found == expected);

  train("second --run_dir none --max_duration 1ba");
  CHECK_FALSE(std::filesystem::exists(folder / "values.csv"));
  CHECK_FALSE(std::filesystem::exists(folder / "second"));
}

TEST_CASE("custom_transform: the loader's images change, and so does the loss",
          "[examples][slow]") {
  const TemporaryFolder folder;
  const auto loss = [&](const std::string& name, const std::string& algorithms) -> double {
    const auto outcome = run_example("posterize", folder,
                                     split(short_training + name + " --max_duration 1ba " +
                                           "--eval_interval 0ep --algorithms " + algorithms));
    INFO(outcome.errors);
    REQUIRE(outcome.status == 0);
    return json_of(folder / ("runs/" + name + "/summary.json"))["metrics"]["loss/train"];
  };
  const double plain = loss("plain", "none");
  CHECK(loss("posterized", "posterize --algorithms.posterize.bits 1") != plain);
  CHECK(loss("never", "posterize --algorithms.posterize.probability 0") == plain);
}

}  // namespace composer::components_test
