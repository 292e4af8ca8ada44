// ablate: what each algorithm pays, whatever happens on the way.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/files/mailbox.h"
#include "cli/study_runs.h"
#include "composer/run/rank_threads.h"
#include "look.h"
#include "study.h"

namespace composer::ablate_test {

using Catch::Contains;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// Eight batches in two epochs, saved after every second.
const std::string recipe =
    study_recipe(R"(algorithms: {label_smoothing: {smoothing: 0.1}, ema: {half_life: 2ba}}
train_batch_size: 16
max_duration: 2ep
save_interval: 2ba
log_interval: 1ba
loggers: none
)");

struct Folder : StudyFolderWith {
  Folder() : StudyFolderWith(recipe) {}
};

Outcome ablate(const TemporaryFolder& folder, const std::string& words) {
  return run(folder.path(), split("ablate -f recipe.yaml " + words));
}

std::vector<std::string> names_in(const json& study) {
  std::vector<std::string> names;
  for (const auto& variant : study.at("variants")) names.push_back(variant.at("name"));
  return names;
}

/// The whole table, but for what hangs on the clock and on how many processes a run had.
json without_times(json study) {
  const auto erase_times = [](json& figures) {
    for (const std::string key :
         {"seconds", "others_share", "images_per_s", "seconds_to_target", "peak_memory_bytes"})
      figures.erase(key);
  };
  for (auto& variant : study.at("variants")) {
    erase_times(variant);
    for (auto& run : variant.at("runs")) erase_times(run);
  }
  return study;
}

/// Files of this name below the folder. What vanishes meanwhile, as a checkpoint that is renamed
/// when it is complete, hides none of the others.
size_t count_below(const fs::path& folder, const std::string& name) {
  size_t count = 0;
  std::error_code gone;
  for (fs::directory_iterator entry(folder, gone), end; !gone && entry != end;
       entry.increment(gone)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) count += count_below(entry->path(), name);
    if (entry->path().filename() == name) ++count;
  }
  return count;
}

/// Runs in the folder that a process is at.
int trainings_in(const fs::path& runs) {
  int count = 0;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(runs, gone)) try {
      if (const auto owner = owner_of(entry.path()); owner && owner->pid != 0) ++count;
    } catch (const std::exception&) {  // it has just ended
    }
  return count;
}

template <class Condition>
bool comes_true(const Process& process, const Condition& condition, std::optional<Outcome>& ended,
                std::chrono::seconds within = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + within;
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    if (ended = process.poll(); ended) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

/// The ablation of the quickstart with two seeds, two trainings at a time. Once left alone, and
/// once killed three times, each time after as many checkpoints more and while two trainings run.
/// In fp32: without matrix instructions each training measures anew what amp is.
void check_killed_ablation(const std::string& more, size_t checkpoints, std::chrono::minutes most) {
  const Folder folder;
  const auto command = [&](const std::string& output) {
    return split(
        "ablate --seeds 2 --jobs 2 --device cpu --precision fp32 --target "
        "metrics/eval/Accuracy=0.15 "
        "--json --output " +
        output + " " + more);
  };
  const auto whole = run(folder.path(), command("whole"));
  INFO(whole.errors);
  REQUIRE(whole.status == 0);
  const auto table = json_in(whole);
  CHECK(names_in(table) == std::vector<std::string>{"all", "without channels_last",
                                                    "without blurpool", "without label_smoothing",
                                                    "without progressive_resizing"});
  for (const auto& variant : table.at("variants")) CHECK(variant.at("metric").at("count") == 2);

  const auto runs = folder / "killed/runs";
  size_t saved = 0;
  for (int kill = 1; kill <= 3; ++kill) {
    CAPTURE(kill);
    const Process process(folder.path(), command("killed"));
    std::optional<Outcome> ended;
    int most_at_a_time = 0;
    const auto is_time = [&] {
      const int running = trainings_in(runs);
      most_at_a_time = std::max(most_at_a_time, running);
      return running == 2 && count_below(runs, "manifest.json") >= saved + checkpoints;
    };
    const bool came_true = comes_true(process, is_time, ended, most);
    INFO((ended ? ended->errors : "not ended"));
    CAPTURE(saved, count_below(runs, "manifest.json"));
    REQUIRE(came_true);
    CHECK(most_at_a_time == 2);
    process.signal(SIGKILL);
    CHECK(process.wait().status == 128 + SIGKILL);
    saved = count_below(runs, "manifest.json");
  }
  const auto killed = run(folder.path(), command("killed"));
  INFO(killed.errors);
  REQUIRE(killed.status == 0);
  CHECK(without_times(json_in(killed)) == without_times(table));
}

}  // namespace

TEST_CASE("ablate trains the recipe with and without each algorithm", "[cli][study]") {
  const Folder folder;
  const auto outcome = ablate(folder, "--seeds 2 --target loss/train=100 --json");
  REQUIRE(outcome.status == 0);
  const auto study = json_in(outcome);
  CHECK(study.at("metric") == "metrics/eval/Accuracy");
  CHECK(names_in(study) ==
        std::vector<std::string>{"all", "without label_smoothing", "without ema"});
  for (const auto& variant : study.at("variants")) {
    CHECK(variant.at("metric").at("count") == 2);
    CHECK(variant.at("samples") == 128);
    CHECK(variant.at("met_target") == 2);
    CHECK(variant.at("samples_to_target") == 16);  // it was met by the first batch
    CHECK(variant.at("peak_memory_bytes") > 0);
  }
  CHECK(study.at("variants")[1].at("difference").contains("margin"));

  const auto made = folder / "ablations/recipe";
  CHECK(fs::exists(made / "plan.json"));
  CHECK(fs::exists(made / "report.html"));
  CHECK(fs::exists(made / "runs/without-ema-seed18/summary.json"));
  for (const char* seed : {"17", "18"}) {
    std::ifstream file(made / ("runs/all-seed" + std::string(seed)) / "hparams.yaml");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    CHECK_THAT(text, Contains("\nseed: " + std::string(seed)));
  }
  const auto whole = run(folder.path(), split("train -f ablations/recipe/recipes/all.yaml --dump"));
  CHECK_THAT(whole.output, Contains("label_smoothing:") && Contains("half_life: 2ba"));
  const auto without =
      run(folder.path(), split("train -f ablations/recipe/recipes/without-ema.yaml --dump"));
  CHECK_THAT(without.output, Contains("label_smoothing:") && !Contains("half_life"));

  // Nothing is trained again, and the table is for people.
  const auto again = ablate(folder, "--seeds 2");
  CHECK(again.status == 0);
  CHECK_THAT(again.output, Contains("without label_smoothing") && Contains("beyond noise"));
  CHECK_THAT(again.errors, Contains("of which 6 are done") && !Contains("[1/"));
}

TEST_CASE("ablate adds algorithms one by one, and leaves out pairs", "[cli][study]") {
  const Folder folder;
  const auto added = json_in(ablate(folder, "--add_one_in --seeds 1 --json --output added"));
  CHECK(names_in(added) == std::vector<std::string>{"none", "label_smoothing alone", "ema alone"});
  CHECK(added.at("variants")[1].at("difference").at("margin").is_null());
  const auto pairs = json_in(ablate(folder, "--pairs --seeds 1 --json --output pairs"));
  CHECK(names_in(pairs) == std::vector<std::string>{"all", "without label_smoothing", "without ema",
                                                    "without label_smoothing and ema"});
  CHECK(pairs.at("interactions")[0].at("name") == "label_smoothing and ema");
}

TEST_CASE("the quickstart's ablation, killed three times, gives the table of an undisturbed one",
          "[cli][study][long]") {
  check_killed_ablation(
      "--max_duration 2ep --train_dataset.shapes.samples 256 --train_dataset.shapes.size 16 "
      "--val_dataset.shapes.samples 128 --val_dataset.shapes.size 16 --train_batch_size 64 "
      "--eval_batch_size 128 --save_interval 1ba --loggers none",
      /*checkpoints=*/9, std::chrono::minutes(2));
}

TEST_CASE("the whole quickstart's ablation, killed three times, gives the same table",
          "[cli][study][.long]") {
  check_killed_ablation("", /*checkpoints=*/24, std::chrono::minutes(60));
}

TEST_CASE("a variant that fails is told, and the others are kept", "[cli][study]") {
  const Folder folder;
  const std::string words =
      "--algorithms label_smoothing blurpool --algorithms.blurpool.min_channels 1000 --add_one_in "
      "--seeds 1 --json";
  const auto outcome = ablate(folder, words);
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.errors, Contains("blurpool alone") && Contains("failed"));
  const auto study = json_in(outcome);
  CHECK(study.at("failed") == 1);
  const auto& failed = study.at("variants")[2].at("runs")[0];
  CHECK(failed.at("status") == "failed");
  CHECK_THAT(failed.at("message").get<std::string>(), Contains("blurpool"));
  for (const size_t i : {0, 1})
    CHECK(study.at("variants")[i].at("runs")[0].at("status") == "completed");
  CHECK(fs::file_size(folder / "ablations/recipe/logs/only-blurpool-seed17.log") > 0);

  const auto again = ablate(folder, words);
  CHECK(again.status == 1);
  CHECK_THAT(again.errors, Contains("of which 2 are done") && Contains("[1/1]"));
}

TEST_CASE("ablate runs as many at a time as it is asked for, and has its folder alone",
          "[cli][study]") {
  const Folder folder;
  const Process process(folder.path(),
                        split("ablate -f recipe.yaml --seeds 2 --jobs 2 --json --output here"));
  std::optional<Outcome> ended;
  CHECK(comes_true(
      process, [&] { return trainings_in(folder / "here/runs") == 2; }, ended));
  const auto second = ablate(folder, "--seeds 2 --output here");
  CHECK(second.status == 2);
  CHECK_THAT(second.errors, Contains("here is in use by process " + std::to_string(process.id())));
  const auto outcome = ended ? *ended : process.wait();
  INFO(outcome.errors);
  REQUIRE(outcome.status == 0);
  CHECK(json_in(outcome).at("failed") == 0);
}

TEST_CASE("trainings at a time share the processors", "[cli][study]") {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) {
    WARN("OMP_NUM_THREADS is set: nothing is divided");
    return;
  }
  TrainerOptions options;
  options.device = "cpu";
  options.dataloader.num_workers = 3;
  CHECK(MachineShares(1, false).of(0, options).environment.empty());
  const auto alone = share_cores(1, 3, false);
  const auto share = MachineShares(100'000, false).of(99'999, options);
  CHECK(share.environment.at("OMP_NUM_THREADS") == std::to_string(alone.compute));
  CHECK(share.words == Words{"--dataloader.num_workers", std::to_string(alone.loader)});
}

TEST_CASE("a run that is left gets the threads that it had among all", "[cli][study]") {
  const Folder folder;
  const std::string words = "--seeds 1 --jobs 2 --json --output here";
  REQUIRE(ablate(folder, words).status == 0);
  fs::remove_all(folder / "here/runs/without-ema-seed17");
  const auto study = json_in(ablate(folder, "--seeds 1 --jobs 2 --json --output here"));
  for (const auto& variant : study.at("variants")) CHECK(variant.at("runs")[0].at("jobs") == 2);

  // What is told of times does not hang on the last call.
  const auto alone = ablate(folder, "--seeds 1 --output here");
  CHECK_THAT(alone.output, Contains("with up to 2 trainings at a time"));
}

TEST_CASE("a run that another process stopped is not done", "[cli][study]") {
  const Folder folder;
  const std::string words =
      "--algorithms ema --add_one_in --seeds 1 --max_duration 40000ba --save_interval 0 --output s";
  const Process process(folder.path(), split("ablate -f recipe.yaml --json " + words));
  std::optional<Outcome> ended;
  for (const char* name : {"none-seed17", "only-ema-seed17"}) {
    const auto log = folder / ("s/runs/" + std::string(name) + "/metrics.jsonl");
    REQUIRE(comes_true(
        process, [&] { return fs::exists(log) && fs::file_size(log) > 0; }, ended));
    REQUIRE(run(folder.path(), split("request s/runs/" + std::string(name) + " stop")).status == 0);
  }
  const auto outcome = process.wait();
  INFO(outcome.errors);
  CHECK(outcome.status == 1);
  CHECK(json_in(outcome).at("failed") == 2);
  CHECK_THAT(outcome.output, Contains("another process asked for it"));
}

TEST_CASE("a signal ends ablate after what runs has saved", "[cli][study]") {
  const Folder folder;
  for (const auto& [signal, status] : {std::pair{SIGTERM, 143}, {SIGINT, 130}}) {
    const std::string output = "s" + std::to_string(signal);
    const auto command = split(
        "ablate -f recipe.yaml --seeds 1 --max_duration 400ep --json "
        "--save_interval 0 --output " +
        output);
    const Process process(folder.path(), command);
    std::optional<Outcome> ended;
    const auto log = folder / (output + "/runs/all-seed17/metrics.jsonl");
    REQUIRE(comes_true(
        process, [&] { return fs::exists(log) && fs::file_size(log) > 0; }, ended));
    process.signal(signal);
    const auto outcome = process.wait();
    CHECK(outcome.status == status);
    CHECK(outcome.output.empty());
    CHECK_THAT(outcome.errors, Contains("the same command goes on"));
    CHECK(fs::exists(folder / (output + "/runs/all-seed17/checkpoints/latest")));
    CHECK_FALSE(fs::exists(folder / (output + "/runs/without-ema-seed17")));
  }
}

TEST_CASE("ablate refuses what makes no sense before anything starts", "[cli][study][slow]") {
  const Folder folder;
  const auto refused = [&](const std::string& words, const std::string& part) {
    const auto outcome = look(folder.path(), split("ablate -f recipe.yaml " + words));
    INFO(words << "\n" << outcome.errors);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.errors, Contains(part));
    CHECK_FALSE(fs::exists(folder / "ablations"));
  };
  refused("--seeds 0", "--seeds: must be at least 1, not 0");
  refused("--jobs 0", "--jobs: must be at least 1, not 0");
  refused("--sedes 3", "did you mean 'seeds'?");
  refused("--max_durations 1ep", "did you mean 'max_duration'?");
  refused("--lr abc", "optimizer.sgd.lr");
  refused("--algorithms none", "has no algorithms");
  refused("--pairs --algorithms ema", "needs two algorithms");
  refused("--pairs --add_one_in", "give one of");
  refused("--target metrics/eval/Acuracy=0.9", "does not log metrics/eval/Acuracy");
  refused("--target 0.9", "is not METRIC=VALUE");
  refused("--target metrics/eval/Accuracy=90", "is a share, 1 at most, not 90");
  refused("--target loss/train=x", "is not METRIC=VALUE");
  refused("--val_dataset none --target metrics/eval/Accuracy=0.9", "evaluates nothing");
  refused("--metric loss/eval", "does not log loss/eval");
  refused("--metric metrics/more/MAE --evaluators.more.dataset mnist", "metrics/more/Accuracy");
  refused("--run_name mine", "--run_name: composer ablate sets it");
  refused("recipe.yaml", "'recipe.yaml' belongs to no option");
  refused("--output s3://bucket/study",
          "--output: must be a folder of this machine, not 's3://bucket/study'");
  refused("--output ~/study", "--output: '~/study': only a shell puts the home folder");
  CHECK_FALSE(fs::exists(folder / "s3:"));
  CHECK_FALSE(fs::exists(folder / "~"));
}

TEST_CASE("a folder of another study is refused, with what differs", "[cli][study]") {
  const Folder folder;
  REQUIRE(ablate(folder, "--seeds 1 --output here --max_duration 1ep").status == 0);
  const auto outcome = ablate(folder, "--seeds 2 --output here --max_duration 2ep --add_one_in");
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.errors,
             Contains("options.seeds: the study was begun with 1, now it is 2") &&
                 Contains("options.mode: the study was begun with leave_one_out") &&
                 Contains("recipe.max_duration: the study was begun with 1ep, now it is 2ep"));
  fs::create_directories(folder / "mine");
  folder.write("mine/notes.txt", "mine");
  const auto mine = ablate(folder, "--output mine");
  CHECK(mine.status == 2);
  CHECK_THAT(mine.errors, Contains("mine has files and no plan.json"));
}

}  // namespace composer::ablate_test
