// Weights, checkpoints and data in stores, as a user has them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "../data/make_jpeg.h"
#include "data/beton/beton.h"
#include "program.h"
#include "tests/files.h"
#include "tests/remote/aws_environment.h"
#include "tests/remote/memory_store.h"
#include "tests/temporary_folder.h"

namespace composer::remote_test {

using namespace composer::test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

/// Two batches an epoch.
const std::string recipe = R"(model:
  resnet_cifar:
    model_name: resnet_20
train_dataset:
  shapes:
    samples: 16
val_dataset:
  shapes:
    is_train: false
    samples: 8
optimizer:
  decoupled_sgdw:
    lr: 0.1
    momentum: 0.9
schedulers:
  constant:
train_batch_size: 8
eval_batch_size: 8
eval_interval: 0ep
max_duration: 3ep
device: cpu
save_interval: 1ep
dataloader:
  num_workers: 1
)";

struct World {
  AwsEnvironment environment;
  MemoryStore store;
  TemporaryFolder folder;

  World() {
    environment.set_keys();
    environment.set("AWS_ENDPOINT_URL", store.url());
    environment.set("AWS_REGION", "us-east-1");
    folder.write("recipe.yaml", recipe);
  }

  std::vector<std::string> train(const std::string& more) const {
    return split("train -f recipe.yaml --save_remote s3://bucket/runs --run_name first " + more);
  }
  Outcome run_words(const std::string& words) const { return run(folder.path(), split(words)); }
};

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Of all processes, as ps shows them.
std::set<std::string> command_lines() {
  std::set<std::string> lines;
  std::error_code gone;
  for (fs::directory_iterator entry("/proc", gone), end; !gone && entry != end;
       entry.increment(gone))
    try {
      auto line = text_of(entry->path() / "cmdline");
      std::replace(line.begin(), line.end(), '\0', ' ');
      lines.insert(std::move(line));
    } catch (const std::exception&) {  // the process has just ended
    }
  return lines;
}

/// Without the lines of a run that say what it does.
std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  return text.substr(text.rfind('\n', end) + 1, end - text.rfind('\n', end));
}

const std::string weights = "model-00001-of-00001.safetensors";

}  // namespace

TEST_CASE("checkpoints go to a store, and a run goes on from there", "[cli][remote]") {
  World world;
  const auto whole =
      world.run_words("train -f recipe.yaml --run_dir whole --run_name first --save_interval 0ep");
  REQUIRE(whole.status == 0);
  const auto begun =
      run(world.folder.path(), world.train("--save_num_checkpoints_to_keep 2 --max_duration 3ep "
                                           "--train_subset_num_batches 2"));
  INFO(begun.errors);
  REQUIRE(begun.status == 0);
  std::vector<std::string> manifests;
  for (const auto& key : world.store.keys())
    if (key.ends_with("manifest.json")) manifests.push_back(key);
  CHECK(manifests == std::vector<std::string>{"runs/first/checkpoints/ep2-ba4/manifest.json",
                                              "runs/first/checkpoints/ep3-ba6/manifest.json"});
  const auto local = world.folder / "runs/first/checkpoints/ep3-ba6";
  for (const auto& entry : fs::directory_iterator(local)) {
    const auto name = entry.path().filename().string();
    CAPTURE(name);
    const bool same =
        world.store.get("runs/first/checkpoints/ep3-ba6/" + name) == text_of(entry.path());
    CHECK(same);
  }
  CHECK((text_of(local / weights) ==
         text_of(world.folder / ("whole/first/checkpoints/ep3-ba6/" + weights))));

  // On another machine, of a store whose newest is damaged.
  fs::remove_all(world.folder / "runs");
  world.store.put("runs/first/checkpoints/ep3-ba6/" + weights, "damaged");
  const auto resumed = run(world.folder.path(), world.train("--autoresume true"));
  INFO(resumed.errors);
  REQUIRE(resumed.status == 0);
  CHECK_THAT(resumed.errors, Contains("s3://bucket/runs/first/checkpoints/ep3-ba6 is left out") &&
                                 Contains("resumed from runs/first/checkpoints/ep2-ba4"));
  CHECK((text_of(local / weights) ==
         text_of(world.folder / ("whole/first/checkpoints/ep3-ba6/" + weights))));
  CHECK((world.store.get("runs/first/checkpoints/ep3-ba6/" + weights) == text_of(local / weights)));

  SECTION("weights and checkpoints are read from there") {
    const std::string path = "s3://bucket/runs/first/checkpoints/ep3-ba6";
    const auto info = world.run_words("checkpoint info " + path);
    CHECK(info.status == 0);
    CHECK_THAT(info.output, Contains("conv1.weight"));
    const auto here = world.run_words("eval --load_path " + local.string());
    REQUIRE(here.status == 0);
    const auto there = world.run_words("eval --load_path " + path);
    INFO(there.errors);
    CHECK(there.status == 0);
    CHECK(there.output == here.output);
    // By a web server.
    const auto web =
        world.run_words("eval --load_path " + world.store.url() + "/bucket" + path.substr(11));
    INFO(web.errors);
    CHECK(web.output == here.output);
    const auto exported =
        world.run_words("export " + path + " --format safetensors --output exported");
    INFO(exported.errors);
    CHECK(exported.status == 0);
    CHECK(fs::exists(world.folder / "exported/model.safetensors"));
    const auto trained = world.run_words(
        "train -f recipe.yaml --run_name second --load_weights_only true "
        "--load_path " +
        path);
    INFO(trained.errors);
    CHECK(trained.status == 0);
  }
}

TEST_CASE("a training that is killed in mid-upload goes on from the checkpoint before it",
          "[cli][remote]") {
  World world;
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false, released = false;
  world.store.set_interference([&](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.method != "PUT" || !request.path.ends_with("ep2-ba4/manifest.json"))
      return std::nullopt;
    std::unique_lock lock(mutex);
    reached = true;
    changed.notify_all();
    changed.wait(lock, [&] { return released; });
    return ServerReply{.no_answer = true};
  });
  {
    const Process process(world.folder.path(), world.train(""));
    std::unique_lock lock(mutex);
    const bool came = changed.wait_for(lock, std::chrono::seconds(60), [&] { return reached; });
    process.signal(SIGKILL);
    process.wait();
    CHECK(came);
    released = true;
    changed.notify_all();
  }
  world.store.set_interference(nullptr);
  CHECK(world.store.get("runs/first/checkpoints/ep2-ba4/" + weights));
  CHECK_FALSE(world.store.get("runs/first/checkpoints/ep2-ba4/manifest.json"));
  const bool local_too = GENERATE(false, true);
  if (!local_too) fs::remove_all(world.folder / "runs");
  const auto resumed = run(world.folder.path(), world.train("--autoresume true"));
  INFO(resumed.errors);
  CHECK(resumed.status == 0);
  if (!local_too) CHECK_THAT(resumed.errors, Contains("checkpoints/ep1-ba2"));
  // What was whole here only is there by now.
  if (local_too &&
      resumed.errors.find("resumed from runs/first/checkpoints/ep2-ba4") != std::string::npos)
    CHECK(world.store.get("runs/first/checkpoints/ep2-ba4/manifest.json"));
  CHECK(world.store.get("runs/first/checkpoints/ep3-ba6/manifest.json"));
}

TEST_CASE("a copy that fails ends the run, or a warning says so", "[cli][remote]") {
  World world;
  world.store.set_interference([](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.method != "PUT") return std::nullopt;
    return error_reply(403, "AccessDenied", "Access Denied");
  });
  const auto warned = run(world.folder.path(), world.train("--on_save_error warn"));
  CHECK(warned.status == 0);
  CHECK_THAT(warned.errors, Contains("is not in s3://bucket/runs/first/checkpoints/") &&
                                Contains("403 AccessDenied: Access Denied") &&
                                !Contains("secret-of-the-test"));
  CHECK(fs::exists(world.folder / "runs/first/checkpoints/ep3-ba6/manifest.json"));
  fs::remove_all(world.folder / "runs");
  const auto ended = run(world.folder.path(), world.train("--on_save_error error"));
  CHECK(ended.status == 1);
  CHECK_THAT(ended.errors, Contains("403 AccessDenied"));
}

TEST_CASE("what is wrong with a remote path is one line and exit status 2", "[cli][remote]") {
  World world;
  world.store.put("file", "");
  const auto refused = [&](const std::string& path) {
    const auto outcome = world.run_words("checkpoint info " + path);
    INFO(outcome.errors);
    CHECK(outcome.status == 2);
    CHECK(std::count(outcome.errors.begin(), outcome.errors.end(), '\n') == 1);
    CHECK_THAT(outcome.errors, !Contains("secret-of-the-test"));
    return outcome.errors;
  };
  CHECK_THAT(refused("s3://bucket/none"), Contains("s3://bucket/none: there is no such object"));
  CHECK_THAT(refused("s3://other/none"), Contains("there is no bucket 'other'"));
  CHECK_THAT(refused("gs://bucket/none"), Contains("gs:// is not known"));
  world.store.set_interference([](const ServerRequest&) -> std::optional<ServerReply> {
    return error_reply(403, "SignatureDoesNotMatch", "The signature is another.");
  });
  CHECK_THAT(refused("s3://bucket/file"), Contains("403 SignatureDoesNotMatch"));
  world.store.set_interference([](const ServerRequest&) -> std::optional<ServerReply> {
    return ServerReply{.status = 301, .headers = {{"x-amz-bucket-region", "eu-west-3"}}};
  });
  CHECK_THAT(refused("s3://bucket/file"), Contains("not in region us-east-1 but in eu-west-3"));
  world.environment.set("AWS_ENDPOINT_URL", "https://" + std::string(64, 'x') + ".invalid");
  CHECK_THAT(refused("s3://bucket/file"), Contains("there is no such host"));
  const auto train =
      world.run_words("train -f recipe.yaml --run_dir none --load_path s3://bucket/x");
  CHECK(train.status == 2);
  CHECK_THAT(last_line(train.errors), Contains("load_path: s3://bucket/x: there is no such host"));
  const auto keys = world.run_words("train -f recipe.yaml --save_remote https://host/x");
  CHECK(keys.status == 2);
  CHECK_THAT(keys.errors, Contains("save_remote: must be s3://bucket/prefix"));
}

TEST_CASE("ranks whose run a store refuses leave no folder behind", "[cli][remote]") {
  World world;
  world.store.put("runs/first/checkpoints/ep1-ba2/manifest.json", "{}");
  const auto refused =
      world.run_words("-n 2 train -f recipe.yaml --save_remote s3://bucket/runs --run_name first");
  INFO(refused.errors);
  CHECK(refused.status == 2);
  const auto place = refused.errors.find("run_name: s3://bucket/runs/first/checkpoints/ has");
  CHECK(place != std::string::npos);
  CHECK(place == refused.errors.rfind("run_name: s3://"));
  CHECK_FALSE(fs::exists(world.folder / "runs/first"));
}

TEST_CASE("data write makes an object", "[cli][remote]") {
  World world;
  for (int i = 0; i < 3; ++i) {
    const auto bytes = make_jpeg(make_picture(40 + i, 64));
    write_file(world.folder / ("photos/a/" + std::to_string(i) + ".jpg"),
               {bytes.begin(), bytes.end()});
  }
  const std::string write = "data write --format image_folder --source photos --output ";
  REQUIRE(world.run_words(write + "here.beton").status == 0);
  const auto written = world.run_words(write + "s3://bucket/data/there.beton");
  INFO(written.errors);
  REQUIRE(written.status == 0);
  CHECK_THAT(written.output, Contains("s3://bucket/data/there.beton: 3 rows"));
  CHECK((world.store.get("data/there.beton") == text_of(world.folder / "here.beton")));
  const auto again = world.run_words(write + "s3://bucket/data/there.beton");
  CHECK(again.status == 2);
  CHECK_THAT(again.errors, Contains("exists; --overwrite replaces it"));
  CHECK(world.run_words(write + "s3://bucket/data/there.beton --overwrite").status == 0);
  CHECK(world.run_words(write + "https://host/x.beton").status == 2);
}

TEST_CASE("secrets of addresses stand nowhere in a run", "[cli][remote]") {
  World world;
  REQUIRE(run(world.folder.path(), world.train("--max_duration 1ep")).status == 0);
  const std::string host = world.store.url().substr(std::string("http://").size());
  const std::string path =
      "http://me:hidden-word@" + host + "/bucket/runs/first/checkpoints/ep1-ba2?token=hidden-word";
  const auto trained = world.run_words(
      "train -f recipe.yaml --run_name second --max_duration 1ep --load_weights_only true "
      "--load_path " +
      path);
  INFO(trained.errors);
  REQUIRE(trained.status == 0);
  CHECK_THAT(trained.errors + trained.output, !Contains("hidden-word"));
  for (const auto& entry : fs::recursive_directory_iterator(world.folder.path())) {
    CAPTURE(entry.path());
    CHECK_THAT(entry.path().string(), !Contains("hidden-word"));
    if (entry.is_regular_file()) CHECK_THAT(text_of(entry.path()), !Contains("hidden-word"));
  }
  CHECK_THAT(text_of(world.folder / "runs/second/hparams.yaml"),
             Contains("http://***@" + host + "/bucket/runs/first/checkpoints/ep1-ba2?***"));
  const auto dump = world.run_words("train -f recipe.yaml --dump --load_path " + path);
  CHECK_THAT(dump.output, Contains("http://***@") && !Contains("hidden-word"));
  const auto again = world.run_words(
      "train -f runs/second/hparams.yaml --run_name third --load_weights_only true");
  CHECK(again.status == 2);
  CHECK_THAT(again.errors, Contains("load_path: ") && Contains("give the whole address anew"));
}

TEST_CASE("secrets of a recipe's addresses are in no command line and no file of a study",
          "[cli][remote][study]") {
  World world;
  REQUIRE(run(world.folder.path(), world.train("--max_duration 1ep")).status == 0);
  const std::string host = world.store.url().substr(std::string("http://").size());
  const auto given = world.folder.write(
      "secret.yaml", recipe + "load_weights_only: true\nload_path: 'http://me:unseen-word@" + host +
                         "/bucket/runs/first/checkpoints/ep1-ba2?token=unseen-word'\n");
  const Process process(world.folder.path(),
                        split("ablate -f secret.yaml --algorithms label_smoothing --seeds 1 "
                              "--max_duration 1ep"));
  std::set<std::string> lines;
  std::optional<Outcome> ended;
  while (!(ended = process.poll())) {
    lines.merge(command_lines());
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  INFO(ended->errors);
  REQUIRE(ended->status == 0);
  bool seen = false;
  for (const auto& line : lines) {
    seen |= line.find(" --run_name all-seed17 ") != std::string::npos;
    CHECK_THAT(line, !Contains("unseen-word"));
  }
  CHECK(seen);
  for (const auto& entry : fs::recursive_directory_iterator(world.folder.path())) {
    CAPTURE(entry.path());
    if (entry.is_regular_file() && entry.path() != given)
      CHECK_THAT(text_of(entry.path()), !Contains("unseen-word"));
  }
  CHECK_THAT(text_of(world.folder / "ablations/secret/recipes/all.yaml"),
             Contains("http://***@" + host));
}

}  // namespace composer::remote_test
