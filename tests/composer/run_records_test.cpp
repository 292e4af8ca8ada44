// What a run leaves in its folder for those who look at it: about.json, evaluation.json, time/...,
// images.
#include <ATen/Functions.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/error.h"
#include "composer/callbacks/evaluation_recorder.h"
#include "composer/callbacks/monitors.h"
#include "composer/logging/sinks.h"
#include "tests/composer/tiny_run.h"
#include "tests/composer/unpacked_png.h"
#include "tests/ranks.h"

namespace composer::run_records_test {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

json json_in(const fs::path& file) { return json::parse(bytes_of(file)); }

std::vector<json> log_of(const fs::path& run) {
  std::vector<json> lines;
  std::ifstream in(run / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

TrainerParts parts_in(const TemporaryFolder& folder) {
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path().string();
  parts.options.run_name = "run";
  return parts;
}

/// Spends its time where a test can find it.
class Slow : public Algorithm {
 public:
  void batch_start(State&) override { rest(); }
  void eval_start(State&) override { rest(); }
  std::vector<std::string> report() const override { return {"conv -> slower conv"}; }

 private:
  static void rest() { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }
};

}  // namespace

TEST_CASE("the worst images are those of the highest loss, whatever the batches", "[run_records]") {
  at::manual_seed(4);
  const auto input = at::rand({50, 3, 4, 4}), logits = at::randn({50, 10});
  const auto classes = at::randint(10, {50}, at::kLong);
  const auto losses = at::cross_entropy_loss(logits, classes, {}, at::Reduction::None);
  const auto order = losses.argsort(/*stable=*/true, 0, /*descending=*/true).slice(0, 0, 8);
  for (const int64_t batch : {1, 7, 50}) {
    WrongImages worst(8);
    for (int64_t begin = 0; begin < 50; begin += batch) {
      const auto part = [&](const at::Tensor& all) { return all.slice(0, begin, begin + batch); };
      worst.add(part(input), part(logits), part(classes), part(at::arange(50)));
    }
    CAPTURE(batch);
    CHECK(at::allclose(worst.losses(), losses.index_select(0, order)));
    CHECK(at::equal(worst.images(), input.index_select(0, order)));
    CHECK(at::equal(worst.logits(), logits.index_select(0, order)));
    CHECK(at::equal(worst.classes(), classes.index_select(0, order)));
    CHECK(at::equal(worst.indices(), order));
  }
  WrongImages few(8);
  few.add(input.slice(0, 0, 3), logits.slice(0, 0, 3), classes.slice(0, 0, 3));
  CHECK(few.losses().size(0) == 3);
}

TEST_CASE("pictures are called what the loader calls their samples", "[run_records]") {
  struct Named : TinyLoader {
    Named(int64_t samples, bool wrong) : TinyLoader(samples, 8), wrong_(wrong) {}
    std::optional<RawBatch> next() override {
      auto batch = TinyLoader::next();
      if (batch && wrong_) batch->target.classes = 1 - batch->target.classes;
      if (batch) batch->indices = at::arange(first_, first_ + batch->samples()), first_ += 8;
      if (!batch) first_ = 0;
      return batch;
    }
    std::string sample_name(int64_t index) const override {
      return "set/\xff" + std::to_string(index) + ".jpg";
    }
    bool wrong_;
    int64_t first_ = 0;
  };
  const TemporaryFolder folder;
  auto parts = parts_in(folder);
  parts.train_loader = std::make_shared<Named>(32, false);
  parts.eval_loader = std::make_shared<Named>(16, true);
  parts.callbacks.push_back({"image_monitor",
                             std::make_shared<ImageMonitor>(ImageMonitor::Params{.num_images = 2}),
                             subscriptions<ImageMonitor>()});
  Trainer(std::move(parts)).fit();
  std::set<int64_t> samples;
  const auto evaluation = json_in(folder / "run/evaluation.json");
  for (const auto& one : evaluation.at("wrong")) {
    const auto sample = one.at("sample").get<int64_t>();
    samples.insert(sample);
    CHECK(one.at("class") == 1 - sample % 2);
    CHECK(one.at("path") == "set/\ufffd" + std::to_string(sample) + ".jpg");
  }
  CHECK(samples.size() == 16);
  const auto images = json_in(folder / "run/images/index.json").at("images");
  REQUIRE(images.size() == 2);
  CHECK(images[1].at("caption") == "1, set/?1.jpg, sample 1");
}

TEST_CASE("a run leaves its last evaluation's confusion and worst images", "[run_records]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder);
  auto again = std::make_shared<TinyLoader>(16, 8);
  Trainer trainer(std::move(parts));
  const auto summary = trainer.fit();
  const auto record = json_in(folder / "run/evaluation.json");
  CHECK(record.at("epoch") == 2);
  CHECK(record.at("batch") == 8);
  CHECK(record.at("samples") == 16);
  CHECK(record.at("num_classes") == 2);
  CHECK(record.at("all_ranks") == true);
  int64_t samples = 0, hits = 0;
  for (const auto& cell : record.at("confusion")) {
    samples += cell.at(2).get<int64_t>();
    if (cell.at(0) == cell.at(1)) hits += cell.at(2).get<int64_t>();
  }
  CHECK(samples == 16);
  CHECK(static_cast<double>(hits) / 16 == summary.metrics.at("metrics/eval/Accuracy"));
  CHECK(record.at("per_class").size() == 2);

  const auto& wrong = record.at("wrong");
  REQUIRE(wrong.size() == 16);  // fewer than it keeps
  double mean = 0;
  for (const auto& one : wrong) mean += one.at("loss").get<double>() / 16;
  CHECK(mean == Approx(summary.metrics.at("metrics/eval/CrossEntropy")));
  std::vector<at::Tensor> images;
  again->start(0, 0, {});
  while (const auto batch = again->next()) images.push_back(batch->images);
  const auto all = at::cat(images);
  for (size_t i = 0; i < wrong.size(); ++i) {
    const auto& one = wrong[i];
    if (i > 0) CHECK(one.at("loss") <= wrong[i - 1].at("loss"));
    CHECK(std::log(one.at("probability").get<double>()) ==
          Approx(-one.at("loss").get<double>()).epsilon(1e-4).margin(1e-6));
    const auto image = unpacked_png(bytes_of(folder / "run" / one.at("image").get<std::string>()));
    const auto pixels = at::tensor(std::vector<uint8_t>(image.pixels), at::kByte).view({8, 8, 3});
    CHECK(all.eq(pixels).flatten(1).all(1).sum().item<int64_t>() == 1);
  }
  // Those of the first epoch's evaluation are gone.
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder / "run/images/wrong")) {
    ++files;
    CHECK(entry.path().filename().string().starts_with("ba8-"));
  }
  CHECK(files == 16);
}

TEST_CASE("a matrix of many classes takes the room of its samples", "[run_records]") {
  constexpr int64_t classes = 200'000;  // 320 GB with a number for each pair of them
  ConfusionMatrix matrix(classes);
  const auto logits = at::zeros({3, classes});
  logits.select(1, classes - 1).fill_(1);
  matrix.add(logits, at::tensor({classes - 1, int64_t{7}, classes - 1}, at::kLong));
  const auto expected =
      at::tensor({int64_t{7}, classes - 1, int64_t{1}, classes - 1, classes - 1, int64_t{2}});
  CHECK(at::equal(matrix.cells(), expected.view({2, 3})));
  CHECK(ConfusionMatrix(3).cells().size(0) == 0);
  CHECK(at::equal(ConfusionMatrix(2).counts(), at::zeros({2, 2}, at::kLong)));
}

TEST_CASE("the ranks' matrices are one, though one rank saw more", "[run_records]") {
  std::mutex checking;
  test::in_ranks(3, [&](const Ranks& ranks) {
    ConfusionMatrix matrix(2);
    for (int64_t i = 0; i < ranks.rank(); ++i)
      matrix.add(at::tensor({1.0F, 0.0F}).view({1, 2}), at::tensor({ranks.rank() - 1}, at::kLong));
    matrix.sum(ranks, at::kCPU);
    const std::scoped_lock lock(checking);
    CHECK(at::equal(matrix.counts(), at::tensor({1, 0, 2, 0}, at::kLong).view({2, 2})));
  });
}

TEST_CASE("a run that goes on takes back what it is to do again", "[run_records]") {
  const TemporaryFolder folder;
  const auto parts = [&](double epochs) {
    auto all = parts_in(folder);
    all.options.autoresume = true;
    all.options.max_duration = {epochs, TimeUnit::epoch};
    return all;
  };
  const auto summary = folder / "run/summary.json", record = folder / "run/evaluation.json";
  Trainer(parts(1)).fit();
  const auto began = json_in(folder / "run/about.json").at("began");
  CHECK(json_in(summary).at("message") == "");
  Trainer(parts(1)).fit();  // nothing is left to train
  REQUIRE(fs::exists(summary));
  folder.write("run/evaluation.json", R"({"epoch": 2, "batch": 6})");
  folder.write("run/about.json", R"({"began": "2026-01-02 03:04:05"})");

  struct Look : Callback {
    Look(fs::path summary, fs::path record)
        : summary(std::move(summary)), record(std::move(record)) {}
    void batch_end(const State& state, Logger&, RunControl&) override {
      if (state.time.batch > 5) return;
      CHECK_FALSE(fs::exists(summary));
      CHECK_FALSE(fs::exists(record));
    }
    fs::path summary, record;
  };
  Trainer again(parts(2));
  again.add<Look>("look", summary, record);
  again.fit();
  CHECK(json_in(summary).at("batches") == 8);
  CHECK(json_in(record).at("batch") == 8);
  CHECK(json_in(folder / "run/about.json").at("began") == "2026-01-02 03:04:05");
  CHECK(began.get<std::string>().size() == 19);
}

TEST_CASE("details of an evaluation that cannot be written do not end the run", "[run_records]") {
  const TemporaryFolder folder;
  Trainer trainer(parts_in(folder));
  trainer.prepare();
  struct Block : Callback {
    explicit Block(fs::path file) : file(std::move(file)) {}
    void fit_start(const State&, Logger&, RunControl&) override { fs::create_directories(file); }
    fs::path file;
  };
  trainer.add<Block>("block", folder / "run/evaluation.json/in_the_way");
  CHECK(trainer.fit().status == "completed");
}

TEST_CASE("time/... adds up to the run's time, each part once", "[run_records]") {
  const TemporaryFolder folder;
  Trainer trainer(parts_in(folder));
  trainer.add<Slow>("slow");
  const auto summary = trainer.fit();
  std::map<std::string, double> sums;
  double all = 0, evaluated = 0;
  for (const auto& line : log_of(folder / "run")) {
    if (line.at("event") == "eval") evaluated = line.at("seconds");
    for (const auto& [name, value] : line.items()) {
      if (!name.starts_with("time/") || name == "time/wait_fraction") continue;
      sums[name] += value.get<double>();
      all += value.get<double>();
    }
  }
  for (const char* part : {"time/dataloader", "time/forward", "time/backward", "time/optimizer",
                           "time/evaluation", "time/other"})
    CHECK(sums[part] > 0);
  CHECK(sums["time/algorithms/slow"] >= 0.08);  // eight batches
  CHECK(all <= summary.time.seconds);
  for (const auto& line : log_of(folder / "run"))  // none besides those of epochs and evaluations
    CHECK((line.at("event") != "epoch" || line.contains("metrics/train/Accuracy")));
  CHECK(all > 0.8 * evaluated);
}

TEST_CASE("a run that is interrupted or fails says where its time went", "[run_records]") {
  struct At : Callback {
    explicit At(std::function<void()> act) : act(std::move(act)) {}
    void batch_end(const State& state, Logger&, RunControl&) override {
      if (state.time.batch == 2) act();
    }
    std::function<void()> act;
  };
  struct NotFinite : Algorithm {
    void before_backward(State& state) override {
      if (state.time.batch == 2) state.loss = state.loss * NAN;
    }
  };
  const TemporaryFolder folder;
  const auto last_line = [&] { return log_of(folder / "run").back(); };
  SECTION("by a signal") {
    Trainer trainer(parts_in(folder));
    trainer.add<At>("at", [] { std::raise(SIGTERM); });
    CHECK(trainer.fit().status == "interrupted");
    size_t lines = 0;
    for (const auto& line : log_of(folder / "run"))
      if (line.at("event") == "batch") {
        CHECK(line.at("batch") == ++lines);  // none twice
        CHECK(line.contains("time/forward") == (lines == 2));
      }
    CHECK(lines == 2);
  }
  SECTION("of a loss that is not finite") {
    Trainer trainer(parts_in(folder));
    trainer.add<NotFinite>("not_finite");
    CHECK_THROWS_AS(trainer.fit(), RunError);
    CHECK(last_line().at("batch") == 3);
    CHECK(last_line().at("time/forward") > 0);
    CHECK(last_line().at("time/other") > 0);
  }
}

TEST_CASE("input that is refused before the first batch leaves no folder", "[run_records]") {
  struct Refuses : Callback {
    void fit_start(const State&, Logger&, RunControl&) override { throw UserError("no"); }
  };
  struct Breaks : Callback {
    void fit_start(const State&, Logger&, RunControl&) override { throw RunError("broken"); }
  };
  const TemporaryFolder folder;
  Trainer refused(parts_in(folder));
  refused.add<Refuses>("refuses");
  CHECK_THROWS_AS(refused.fit(), UserError);
  CHECK_FALSE(fs::exists(folder / "run"));
  Trainer broken(parts_in(folder));
  broken.add<Breaks>("breaks");
  CHECK_THROWS_AS(broken.fit(), RunError);
  CHECK(fs::exists(folder / "run/summary.json"));
}

TEST_CASE("a run that trained no batch leaves its name to the next one", "[run_records]") {
  struct Breaks : Callback {
    explicit Breaks(int64_t batch) : at(batch) {}
    void batch_start(const State& state, Logger&, RunControl&) override {
      if (state.time.batch == at) throw RunError("broken");
    }
    int64_t at;
  };
  const TemporaryFolder folder;
  for (const int64_t at : {0, 0, 1}) {
    Trainer trainer(parts_in(folder));
    trainer.add<Breaks>("breaks", at);
    CHECK_THROWS_WITH(trainer.fit(), "callbacks.breaks at batch_start: broken");
    CHECK(fs::exists(folder / "run/summary.json"));
  }
  CHECK_THROWS_WITH(Trainer(parts_in(folder)), Catch::Contains("exists already"));
}

TEST_CASE("the summary's training metrics are means over whole epochs", "[run_records]") {
  SummarySink sink;
  const auto write = [&](const char* event, int64_t batch, double accuracy) {
    Record record{event, {}, {{"metrics/train/Accuracy", accuracy}}};
    record.time.batch = batch;
    sink.write(record);
    return sink.last().at("metrics/train/Accuracy");
  };
  CHECK(write("batch", 1, 0.5) == 0.5);
  CHECK(sink.best().empty());
  CHECK(write("epoch", 2, 0.25) == 0.25);
  CHECK(write("batch", 3, 0.75) == 0.25);
  CHECK(sink.best().at("metrics/train/Accuracy").value == 0.25);
}

TEST_CASE("a run says what it is", "[run_records]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder);
  parts.class_names = {"dark", "light \xff"};
  Trainer trainer(std::move(parts));
  trainer.add<Slow>("slow");
  trainer.fit();
  const auto about = json_in(folder / "run/about.json");
  CHECK(about.at("class_names").at(0) == "dark");
  CHECK(about.at("class_names").at(1).get<std::string>().starts_with("light "));
  CHECK(about.at("surgery").at(0).at("algorithm") == "slow");
  CHECK(about.at("surgery").at(0).at("changes").at(0) == "conv -> slower conv");
  CHECK(about.at("batches_per_epoch") == 4);
  CHECK(about.at("total_batches") == 8);
  CHECK(about.at("header").size() == 5);
}

TEST_CASE("logged images are kept in the run's folder, a resumption's once", "[run_records]") {
  const TemporaryFolder folder;
  const auto record_at = [](int64_t batch) {
    ImageRecord record{"images/train", {}, {{1, 2, 3, {1, 2, 3, 4, 5, 6}, "cat"}}};
    record.time.batch = batch;
    return record;
  };
  RunInfo info;
  info.folder = folder.path();
  ImageFolder first;
  first.open(info);
  first.write_images(record_at(0));
  first.write_images(record_at(10));
  CHECK(json_in(folder / "images/index.json").at("images").size() == 2);

  info.start.batch = 5;
  ImageFolder second;
  second.open(info);
  second.write_images(record_at(10));
  const auto images = json_in(folder / "images/index.json").at("images");
  REQUIRE(images.size() == 2);
  CHECK(images[1].at("file") == "images/images_train-ba10-0.png");
  CHECK(images[1].at("caption") == "cat");
  CHECK(unpacked_png(bytes_of(folder / images[1].at("file").get<std::string>())).pixels ==
        std::vector<uint8_t>{1, 2, 3, 4, 5, 6});
}

}  // namespace composer::run_records_test
