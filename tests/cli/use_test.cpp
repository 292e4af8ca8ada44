// What a trained network is used with: eval, predict, export.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/number_text.h"
#include "base/text.h"
#include "composer/checkpoint/safetensors.h"
#include "on_terminal.h"
#include "program.h"
#include "tests/composer/terminal.h"
#include "tests/temporary_folder.h"

namespace composer::use_test {

using Catch::Matchers::Contains;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// Class folders of one-coloured pictures.
void write_pictures(const fs::path& folder, const std::vector<std::string>& classes, int count) {
  for (size_t c = 0; c < classes.size(); ++c) {
    fs::create_directories(folder / classes[c]);
    for (int i = 0; i < count; ++i) {
      std::ofstream file(folder / classes[c] / (std::to_string(i) + ".ppm"), std::ios::binary);
      file << "P6 32 32 255\n";
      for (int p = 0; p < 32 * 32; ++p)
        file << static_cast<char>(60 * c + static_cast<size_t>(p % 7)) << static_cast<char>(i * 9)
             << static_cast<char>(200 - 50 * c);
    }
  }
}

const std::string recipe = R"(model: {resnet_cifar: {model_name: resnet_20, num_classes: 3}}
train_dataset: {image_folder: {datadir: train, crop_size: 32}}
val_dataset: {image_folder: {datadir: val, is_train: false, shuffle: false, drop_last: false, crop_size: 32, resize_size: 32}}
train_batch_size: 4
eval_batch_size: 4
max_duration: 1ep
optimizer: {sgd: {lr: 0.01}}
algorithms: {blurpool: {}}
dataloader: {num_workers: 1}
device: cpu
run_name: run
)";

const std::string to_export =
    "export runs/run/checkpoints/latest --format safetensors --output net";

struct Trained {
  Trained() {
    write_pictures(folder / "train", {"ape", "bee", "cat"}, 4);
    write_pictures(folder / "val", {"ape", "bee", "cat"}, 2);
    folder.write("r.yaml", recipe);
    const auto trained = run(folder.path(), split("train -f r.yaml"));
    INFO(trained.errors);
    REQUIRE(trained.status == 0);
  }
  Outcome of(const std::string& words) const { return run(folder.path(), split(words)); }
  const std::string weights = "--load_path runs/run/checkpoints/latest ";
  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("eval and predict take the recipe inside the checkpoint", "[cli][use][train][slow]") {
  const Trained trained;
  const auto named = trained.of("eval -f r.yaml " + trained.weights);
  const auto own = trained.of("eval " + trained.weights);
  INFO(own.errors);
  REQUIRE(own.status == 0);
  CHECK(own.output == named.output);
  CHECK(trained.of("eval --eval_batch_size 2 " + trained.weights).status == 0);
  const auto smaller = trained.of("eval --crop_size 28 " + trained.weights);
  INFO(smaller.errors);
  CHECK(smaller.status == 0);
  CHECK(smaller.output != own.output);

  const auto predicted = trained.of("predict --source val --top_k 2 " + trained.weights);
  INFO(predicted.errors);
  REQUIRE(predicted.status == 0);
  const auto line = json::parse(predicted.output.substr(0, predicted.output.find('\n')));
  const std::vector<std::string> names{"ape", "bee", "cat"};
  REQUIRE(line.at("class_names").size() == 2);
  for (size_t i = 0; i < 2; ++i)
    CHECK(line.at("class_names")[i] == names.at(line.at("classes")[i].get<size_t>()));

  // Class names and recipe are the checkpoint's: its data need not be there.
  fs::remove_all(trained.folder / "train");
  CHECK(trained.of("predict --source val --top_k 2 " + trained.weights).output == predicted.output);

  REQUIRE(trained.of(to_export).status == 0);
  for (const std::string exported : {"net", "net/", "net/model.safetensors"})
    CHECK(trained.of("predict --source val --top_k 2 --load_path " + exported).output ==
          predicted.output);
}

TEST_CASE("weights of another network are refused unless asked for", "[cli][use][slow]") {
  const Trained trained;
  REQUIRE(trained.of(to_export).status == 0);
  for (const auto& weights : {trained.weights, std::string("--load_path net ")}) {
    const auto refused = trained.of("eval -f r.yaml --algorithms none " + weights);
    INFO(refused.errors);
    CHECK(refused.status == 2);
    CHECK_THAT(refused.errors, Contains("of another network") && Contains("BlurConv2d") &&
                                   Contains("--load_strict false"));
    CHECK(trained.of("eval -f r.yaml --algorithms none --load_strict false " + weights).status ==
          0);
  }
  // What rounds in training alone is no other network.
  const std::string aware = " --algorithms blurpool quantization_aware ";
  REQUIRE(trained.of("train -f r.yaml --run_name aware" + aware).status == 0);
  const std::string both_ways[] = {"--load_path runs/aware/checkpoints/latest",
                                   aware + trained.weights};
  for (const auto& words : both_ways) {
    const auto taken = trained.of("eval -f r.yaml " + words);
    INFO(taken.errors);
    CHECK(taken.status == 0);
    CHECK_THAT(taken.errors, Contains("layers differ only in what training does"));
  }
  const auto tuned =
      trained.of("train -f r.yaml --algorithms none --load_weights_only true --run_name tuned " +
                 trained.weights);
  CHECK(tuned.status == 0);
  CHECK_THAT(tuned.errors, Contains("of another network"));
  CHECK(trained.of("train -f r.yaml --run_name from_export --load_path net").status == 0);

  const auto plain = trained.of("eval --load_path runs/run/checkpoints");
  CHECK(plain.status == 2);
  CHECK_THAT(plain.errors, Contains("did you mean"));
  for (const std::string command :
       {"checkpoint info runs/run", "export runs/run/ --format safetensors --output x"}) {
    const auto folder = trained.of(command);
    CHECK(folder.status == 2);
    CHECK_THAT(folder.errors,
               Contains("is no checkpoint; did you mean runs/run/checkpoints/latest?"));
  }
}

TEST_CASE("how a training took its first weights is no matter of evaluation",
          "[cli][use][train][slow]") {
  const Trained trained;
  REQUIRE(trained
              .of("train -f r.yaml --load_weights_only true --run_name tuned --load_ignore fc.* " +
                  trained.weights)
              .status == 0);
  const std::string tuned = "--load_path runs/tuned/checkpoints/latest";
  const auto own = trained.of("eval " + tuned);
  INFO(own.errors);
  CHECK(own.status == 0);
  CHECK(own.output == trained.of("eval -f r.yaml " + tuned).output);
  CHECK(own.output == trained.of("eval -f runs/tuned/hparams.yaml " + tuned).output);
  CHECK(trained.of("eval --load_ignore fc.* " + tuned).status == 2);
}

TEST_CASE("eval --json gives accuracy by class and the confusion matrix", "[cli][use][train]") {
  const Trained trained;
  const auto evaluated = trained.of("eval --json " + trained.weights);
  INFO(evaluated.errors);
  REQUIRE(evaluated.status == 0);
  const auto line = json::parse(evaluated.output);
  const auto& confusion = line.at("confusion");
  REQUIRE(confusion.size() == 3);
  double hits = 0;
  for (size_t c = 0; c < 3; ++c) {
    int64_t row = 0;
    for (const auto& count : confusion[c]) row += count.get<int64_t>();
    CHECK(row == 2);
    hits += confusion[c][c].get<double>();
    const std::string name(c == 0 ? "ape" : c == 1 ? "bee" : "cat");
    CHECK(line.at("per_class").at(name) == confusion[c][c].get<double>() / 2);
  }
  CHECK(line.at("metrics/eval/Accuracy") == Approx(hits / 6));
}

TEST_CASE("a terminal gets a table of an evaluation, and no line breaks within a word",
          "[cli][use][train][slow]") {
  const Trained trained;
  const auto on_terminal = [&](const std::string& words) {
    OnTerminal program(trained.folder.path(), split(words), 60);
    auto lines = drawn_lines(program.until("nothing of the kind"));
    CHECK(program.wait() == 0);
    std::erase(lines, "");
    for (const auto& line : lines) {
      INFO(line);
      const bool one_word = line.find(' ', line.find_first_not_of(' ')) == line.npos;
      CHECK((columns_of(line) <= 60 || line.starts_with('{') || one_word));
    }
    return lines;
  };
  const auto accuracy = json::parse(trained.of("eval " + trained.weights).output)
                            .at("metrics/eval/Accuracy")
                            .get<double>();
  const auto table = on_terminal("eval " + trained.weights);
  CHECK(std::ranges::count(table, "eval  Accuracy      " + number_text(accuracy, 4)) == 1);
  const auto text = on_terminal("eval --json " + trained.weights);
  CHECK_THAT(text.back(), Contains("\"confusion\""));

  const auto run = on_terminal("train -f r.yaml --run_name one --max_duration 1ba --loggers none");
  CHECK_THAT(joined(run, "\n"), Contains("completed after 0 epochs, 1 batch"));
  CHECK(run.back() == "page: composer report runs/one --output runs/one/report.html");
  const auto page = on_terminal("train -f r.yaml --run_name two --max_duration 1ba");
  CHECK(page.back() == "page: runs/two/report.html");
  on_terminal("train -f r.yaml --plan");
  for (const char* words : {"--help", "train --help", "list", "describe algorithm blurpool"})
    on_terminal(words);
}

TEST_CASE("predict takes a list, and says what is right where it has labels", "[cli][use][slow]") {
  const Trained trained;
  REQUIRE(trained.of(to_export).status == 0);
  const auto predicted = [&](const std::string& list, const std::string& weights) {
    fs::create_directories(trained.folder / "lists");
    trained.folder.write("lists/l.csv", list);
    return trained.of("predict --source lists/l.csv " + weights);
  };
  const std::string labelled =
      "path,label\n../val/ape/0.ppm,ape\n../val/bee/1.ppm,bee\n../val/cat/0.ppm,bee\n";
  for (const std::string weights : {"--model net", "--load_path net"}) {
    const auto outcome = predicted(labelled, weights);
    INFO(outcome.errors);
    REQUIRE(outcome.status == 0);
    std::istringstream lines(outcome.output);
    std::vector<std::string> sources, labels;
    int right = 0;
    for (std::string text; std::getline(lines, text);) {
      const auto line = json::parse(text);
      sources.push_back(line.at("source"));
      labels.push_back(line.at("label"));
      CHECK(line.at("correct") == (line.at("class_names")[0] == line.at("label")));
      right += line.at("correct").get<bool>() ? 1 : 0;
    }
    CHECK(sources == std::vector<std::string>{"val/ape/0.ppm", "val/bee/1.ppm", "val/cat/0.ppm"});
    CHECK(labels == std::vector<std::string>{"ape", "bee", "bee"});
    CHECK_THAT(outcome.errors, Contains("accuracy: " + number_text(right / 3.0, 4) + ", " +
                                        std::to_string(right) + " of 3 images"));
    CHECK_THAT(predicted("../val/ape/0.ppm,2\n", weights).output, Contains("\"label\":\"2\""));
    const auto alone = predicted("file\n../val/ape/0.ppm\n", weights);
    CHECK(alone.status == 0);
    CHECK_THAT(alone.output + alone.errors, !Contains("\"label\"") && !Contains("accuracy: "));
    const auto wrong = predicted("../val/ape/0.ppm,bee\n../val/ape/1.ppm,apee\n", weights);
    CHECK(wrong.status == 2);
    CHECK_THAT(wrong.errors, Contains("lists/l.csv:2: 'apee' is none of the classes of ") &&
                                 Contains("did you mean 'ape'?"));
    CHECK(predicted("../val/ape/0.ppm,3\n", weights).status == 2);

    const std::string gap = "path,label\n../val/ape/9.ppm,ape\n../val/bee/1.ppm,bee\n";
    const auto stopped = predicted(gap, weights);
    CHECK(stopped.status == 2);
    CHECK(stopped.output.empty());
    CHECK_THAT(stopped.errors, Contains("val/ape/9.ppm: no such file"));
    for (const std::string way : {"skip", "replace"}) {
      if (way == "replace" && weights == "--model net") continue;  // has no such word
      const auto skipped = predicted(gap, weights + " --on_bad_sample " + way);
      INFO(skipped.errors);
      CHECK(skipped.status == 0);
      CHECK(std::ranges::count(skipped.output, '\n') == 1);
      CHECK_THAT(skipped.output, Contains("val/bee/1.ppm") && Contains("\"label\":\"bee\""));
      CHECK_THAT(skipped.errors, Contains("skipped: val/ape/9.ppm: "));
    }
  }
}

TEST_CASE("a prediction that is not finite is an error", "[cli][use]") {
  const Trained trained;
  auto tensors = read_safetensors(trained.folder /
                                  "runs/run/checkpoints/latest/model-00001-of-00001.safetensors");
  tensors.at("fc.bias").fill_(std::numeric_limits<float>::quiet_NaN());
  write_safetensors(trained.folder / "bad.safetensors", tensors);
  const auto predicted = trained.of("predict -f r.yaml --source val --load_path bad.safetensors");
  CHECK(predicted.status == 1);
  CHECK_THAT(predicted.errors, Contains("not finite") && Contains("val/ape/0.ppm"));
  CHECK(predicted.output.empty());
}

TEST_CASE("predict does without a val_dataset, and the help tells how to call it",
          "[cli][use][slow]") {
  const Trained trained;
  const auto predicted =
      trained.of("predict --val_dataset none --source val/ape/0.ppm " + trained.weights);
  INFO(predicted.errors);
  CHECK(predicted.status == 0);
  CHECK_THAT(predicted.errors, Contains("no val_dataset"));
  for (const char* command : {"eval", "predict"})
    CHECK_THAT(trained.of(std::string(command) + " --help").output, Contains("--load_path"));
  CHECK_THAT(trained.of("eval --load_path w.pth").errors, Contains("does not exist"));
  trained.folder.write("w.pth", "");
  const auto alone = trained.of("eval --load_path w.pth");
  CHECK(alone.status == 2);
  CHECK_THAT(alone.errors, Contains("-f: missing"));
}

}  // namespace composer::use_test
