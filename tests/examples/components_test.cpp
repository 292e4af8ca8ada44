// The examples of components: each has the effect that it says it has.
#include <catch2/catch.hpp>
#include <cstring>

#include "example.h"

using namespace composer;
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
