// Commands on data sets of a store.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "mds_set.h"
#include "program.h"
#include "tests/data/make_tar.h"
#include "tests/data/photos.h"
#include "tests/ranks/rank_processes.h"
#include "tests/remote/aws_environment.h"
#include "tests/remote/memory_store.h"
#include "tests/temporary_folder.h"

namespace composer::remote_data_test {

using namespace composer::test;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Photographs in folders, as a .beton file, and both in a store; programs see it by their
/// environment.
struct Fixture {
  Fixture() {
    environment.set("AWS_ENDPOINT_URL", server.url());
    environment.set("AWS_REGION", "us-east-1");
    environment.set_keys();
    environment.set("XDG_CACHE_HOME", folder / "cache");
    draw_photos(folder / "photos/train", 48, [](int i) { return 40 + i % 9; });
    draw_photos(folder / "photos/val", 16, [](int) { return 40; });
    for (const char* part : {"train", "val"}) {
      const std::string name = part;
      REQUIRE(run(folder.path(), split("data write --source photos --format image_folder "
                                       "--index false --split " +
                                       name + " --output " + name + ".beton"))
                  .status == 0);
      server.put("set/" + name + ".beton", bytes_of(folder / (name + ".beton")));
    }
    for (const auto& entry : fs::recursive_directory_iterator(folder / "photos"))
      if (entry.is_regular_file())
        server.put(fs::relative(entry.path(), folder.path()).string(), bytes_of(entry.path()));
  }

  AwsEnvironment environment;
  TemporaryFolder folder;
  MemoryStore server;
};

/// The photographs of class folders as a shard of WebDataset's.
std::string tar_of(const fs::path& folder) {
  std::set<fs::path> photos;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) photos.insert(entry.path());
  std::string tar;
  for (const auto& photo : photos) {
    const std::string label = photo.parent_path().filename(), key = label + photo.stem().string();
    tar += tar_member(key + ".jpg", bytes_of(photo)) + tar_member(key + ".cls", label);
  }
  return tar + tar_end();
}

/// For sets in this folder.
std::string recipe(const std::string& ffcv_dir) {
  std::string text = R"(model:
  resnet_cifar:
    model_name: resnet_20
    num_classes: 4
train_dataset:
  image_folder:
    crop_size: 24
    use_ffcv: true
    ffcv_dir: DIR
    ffcv_dest: train.beton
val_dataset:
  image_folder:
    crop_size: 24
    resize_size: 24
    use_ffcv: true
    ffcv_dir: DIR
    ffcv_dest: val.beton
optimizer:
  decoupled_sgdw:
    lr: 0.1
train_batch_size: 16
eval_batch_size: 16
max_duration: 2ep
device: cpu
dataloader:
  num_workers: 2
)";
  for (size_t at; (at = text.find("DIR")) != text.npos;) text.replace(at, 3, ffcv_dir);
  return text;
}

}  // namespace

TEST_CASE("commands print of a remote set what they print of the local one", "[cli][remote]") {
  const Fixture f;
  const auto prints = [&](const std::string& words) {
    const auto outcome = run(f.folder.path(), split(words));
    INFO(words << "\n" << outcome.errors);
    CHECK(outcome.status == 0);
    return outcome.output;
  };
  CHECK(prints("data hash s3://bucket/set/train.beton") == prints("data hash train.beton"));
  CHECK(prints("data hash s3://bucket/photos/val") == prints("data hash photos/val"));
  CHECK(prints("data verify s3://bucket/set/val.beton") == prints("data verify val.beton"));
  CHECK(prints("data verify s3://bucket/photos/val") == prints("data verify photos/val"));
  CHECK_THAT(prints("data info s3://bucket/set/train.beton"),
             Contains("s3://bucket/set/train.beton: 48 samples"));
  prints("data write --source s3://bucket/photos --format image_folder --output again.beton");
  CHECK(bytes_of(f.folder / "again.beton") == bytes_of(f.folder / "train.beton"));
  f.folder.write("local.yaml", recipe(f.folder.path()));
  prints("train -f local.yaml --max_duration 1ba --run_name run");
  const auto quantized = [&](const std::string& name, const std::string& place) {
    prints("quantize runs/run/checkpoints/latest --output " + name + " --calibration " + place +
           "train.beton --evaluate " + place + "val.beton");
    auto report = json::parse(bytes_of(f.folder / name / "quantization.json"));
    for (const char* part : {"calibration", "evaluation"}) report.at(part).erase("data");
    return report;
  };
  CHECK(quantized("near", "") == quantized("far", "s3://bucket/set/"));
  CHECK_THAT(prints("bench loader --source s3://bucket/photos --batch_size 16 --resolution 24 "
                    "--num_workers 2 --epochs 2"),
             Contains("images/s"));
  const auto missing = run(f.folder.path(), split("data info s3://bucket/set/none.beton"));
  CHECK(missing.status == 2);
  CHECK_THAT(missing.errors, Contains("s3://bucket/set/none.beton: there is no such object"));
}

TEST_CASE("a training on a remote set, killed and resumed, ends as one on a disk does",
          "[cli][remote][slow]") {
  Fixture f;
  f.folder.write("local.yaml", recipe(f.folder.path()));
  f.folder.write("remote.yaml", recipe("s3://bucket/set"));
  REQUIRE(run(f.folder.path(), split("train -f local.yaml --run_name local")).status == 0);
  std::atomic<int> requests = 0;
  f.server.set_interference([&](const ServerRequest&) -> std::optional<ServerReply> {
    if (++requests % 7 == 5) return error_reply(503, "SlowDown", "please slow down");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return std::nullopt;
  });
  const auto train =
      split("train -f remote.yaml --save_interval 1ba --autoresume true --run_name remote");
  for (int batch = 1; batch <= 3; batch += 2) {
    const Process process(f.folder.path(), train);
    while (!process.poll() && killed::batches_saved(f.folder / "runs/remote") < batch)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    process.signal(SIGKILL);
    CHECK(process.wait().status == 128 + SIGKILL);
  }
  const auto outcome = run(f.folder.path(), train);
  INFO(outcome.errors);
  REQUIRE(outcome.status == 0);
  CHECK(killed::difference(f.folder / "runs/remote", f.folder / "runs/local") == "");
  const auto whole = run(f.folder.path(), split("-n 2 train -f remote.yaml --run_name two"));
  INFO(whole.errors);
  REQUIRE(whole.status == 0);
  REQUIRE(run(f.folder.path(), split("-n 2 train -f local.yaml --run_name local_two")).status == 0);
  CHECK(killed::difference(f.folder / "runs/two", f.folder / "runs/local_two") == "");
}

TEST_CASE("a recipe's remote is that of its data, checkpoints and weights", "[cli][remote]") {
  Fixture f;
  f.environment.set("AWS_ENDPOINT_URL", "");
  f.folder.write("recipe.yaml", recipe("s3://bucket/set") +
                                    "evaluators:\n  folders:\n    dataset:\n      image_folder:\n"
                                    "        datadir: s3://bucket/photos\n        crop_size: 24\n"
                                    "save_remote: s3://bucket/runs\nremote:\n  endpoint_url: " +
                                    f.server.url() + "\n  cache_dir: " + f.folder.path().string() +
                                    "/own\n");
  for (const std::string words :
       {"train --run_name one --max_duration 1ep --model.resnet_cifar.num_classes auto",
        "eval --load_path s3://bucket/runs/one/checkpoints/ep1-ba3",
        "predict --load_path s3://bucket/runs/one/checkpoints/ep1-ba3 --source photos/val"}) {
    const auto outcome = run(f.folder.path(), split(words + " -f recipe.yaml"));
    INFO(words << outcome.errors);
    CHECK(outcome.status == 0);
  }
  CHECK(fs::exists(f.folder / "own/objects"));
  CHECK(fs::exists(f.folder / "own/fetched"));
  for (const char* kept : {"objects", "fetched"})
    CHECK_FALSE(fs::exists(f.folder.path() / "cache/composer" / kept));
}

TEST_CASE("ranks that find other data end with what differs", "[cli][remote]") {
  Fixture f;
  std::string text = recipe("");
  text.replace(text.find("use_ffcv: true\n    ffcv_dir: \n    ffcv_dest: train.beton"), 56,
               "datadir: s3://bucket/photos");
  text.erase(text.find("val_dataset:"), text.find("optimizer:") - text.find("val_dataset:"));
  f.folder.write("recipe.yaml", text + "eval_interval: 0ep\n");
  const std::string port = std::to_string(test::free_port());
  const auto start = [&](const std::string& rank) {
    return split("-n 1 --world_size 2 --master_addr 127.0.0.1 --node_rank " + rank +
                 " --master_port " + port + " train -f recipe.yaml --run_name two" +
                 " --remote.cache_dir " + (f.folder / ("cache" + rank)).string());
  };
  const auto lists = [&] {
    const auto requests = f.server.server().requests();
    return std::ranges::count_if(
        requests, [](const ServerRequest& request) { return request.has_parameter("list-type"); });
  };
  const Process first(f.folder.path(), start("0"));
  for (int64_t before = -1; lists() == 0 || lists() > before;) {
    before = lists();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    REQUIRE_FALSE(first.poll());
  }
  f.server.put("photos/train/0/another.jpg", bytes_of(f.folder / "photos/train/0/0.jpg"));
  const Process second(f.folder.path(), start("1"));
  const auto outcome = second.wait();
  INFO(outcome.errors);
  CHECK(outcome.status == 2);
  CHECK(first.wait().status == 2);
  CHECK_THAT(outcome.errors, Contains("rank 1 finds another version of s3://bucket/photos/train/"));
}

TEST_CASE("a process that may have few files open reads a store with fewer requests",
          "[cli][remote]") {
  Fixture f;
  f.server.set_interference([](const ServerRequest&) -> std::optional<ServerReply> {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return std::nullopt;
  });
  const auto outcome =
      run(f.folder.path(),
          {"-c", "ulimit -n 96; exec " + std::string(PROGRAM) +
                     " bench loader --source s3://bucket/photos --batch_size 16 --resolution 24 "
                     "--num_workers 2 --epochs 1"},
          "/bin/sh");
  INFO(outcome.errors);
  CHECK(outcome.status == 0);
}

TEST_CASE("a store that fails while its shards are verified is no bad sample", "[cli][remote]") {
  Fixture f;
  f.server.put("tar/a.tar", tar_of(f.folder / "photos/val"));
  const auto verify = split("data verify s3://bucket/tar");
  const auto good = run(f.folder.path(), verify);
  INFO(good.errors);
  REQUIRE(good.status == 0);
  fs::remove_all(f.folder / "cache/composer/objects");
  f.server.set_interference([](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.method != "GET" || !request.path.ends_with(".tar")) return std::nullopt;
    return error_reply(412, "PreconditionFailed", "it is another one");
  });
  const auto failed = run(f.folder.path(), verify);
  CHECK(failed.status == 1);
  CHECK(failed.output.empty());
  CHECK_THAT(failed.errors, Contains("s3://bucket/tar/a.tar: ") && Contains("has changed"));
}

TEST_CASE("commands take shards of a store by their folder, their names and signed addresses",
          "[cli][remote]") {
  Fixture f;
  const std::string tar = tar_of(f.folder / "photos/train"), web = f.server.url() + "/bucket";
  fs::create_directories(f.folder / "tar");
  f.folder.write("tar/a.tar", tar);
  f.server.put("tar/a.tar", tar);
  const auto done = [&](const std::string& words) {
    const auto outcome = run(f.folder.path(), split(words));
    INFO(words << "\n" << outcome.errors);
    CHECK(outcome.status == 0);
    return outcome.output;
  };
  const std::string write = "data write --format webdataset --index false --source ";
  done(write + "tar --output local.beton");
  done(write + "s3://bucket/tar --output remote.beton");
  done(write + web + "/tar/a.tar?token=secret --output signed.beton");
  CHECK(bytes_of(f.folder / "local.beton") == bytes_of(f.folder / "remote.beton"));
  CHECK(bytes_of(f.folder / "local.beton") == bytes_of(f.folder / "signed.beton"));
  const auto info = done("data info " + web + "/tar/a.tar?token=secret");
  CHECK_THAT(info, Contains("/tar/a.tar: 48 samples") && !Contains("secret"));
  CHECK_THAT(done("data info " + web + "/set/val.beton?token=secret"),
             Contains("16 samples") && !Contains("secret"));
  const auto verified = done("data verify --json " + web + "/photos/val/0/0.jpg?token=secret");
  CHECK_THAT(verified, Contains("\"samples\":1") && !Contains("secret"));
  f.server.put("bad.jpg", "no image");
  const auto bad = run(f.folder.path(), split("data verify " + web + "/bad.jpg?token=secret"));
  CHECK(bad.status == 1);
  CHECK_THAT(bad.output, Contains("/bad.jpg: no image") && !Contains("secret"));
  CHECK_THAT(done("bench loader --source s3://bucket/photos/val/0/0.jpg --batch_size 1 "
                  "--resolution 24 --num_workers 1 --epochs 1"),
             Contains("images/s"));
  f.server.put("photos/val/all.txt", "0/0.jpg\nnotes.md\n");
  f.server.put("photos/val/notes.md", "no image");
  CHECK_THAT(
      done("data verify " + web + "/photos/val/all.txt?token=secret"),
      Contains("1 sample: 0 bad") && Contains("1 other file left out") && !Contains("secret"));
  f.server.put("photos/index.json", R"({"files": 64})");
  CHECK_THAT(done("data verify s3://bucket/photos"), Contains("64 samples: 0 bad"));
  const auto list = run(f.folder.path(), split("data info s3://bucket/list.csv"));
  CHECK(list.status == 2);
  CHECK_THAT(list.errors, Contains("'s3://bucket/list.csv' is remote; lists are read from a disk"));
}

TEST_CASE("data verify compares MDS shards of a store with the hashes in their index",
          "[cli][remote]") {
  Fixture f;
  const std::string image = bytes_of(f.folder / "photos/val/0/0.jpg");
  const std::string shard = mds_of_one(image);
  auto entry = mds_entry("shard.mds", shard.size());
  entry["raw_data"]["hashes"] = {{"sha1", std::string(40, '0')}};
  f.server.put("index.json", mds_index(json::array({entry})).dump());
  f.server.put("shard.mds", shard);
  for (const std::string& folder : {std::string("s3://bucket"), f.server.url() + "/bucket/"}) {
    const auto outcome = run(f.folder.path(), {"data", "verify", folder});
    INFO(outcome.errors);
    CHECK(outcome.status == 1);
    CHECK_THAT(outcome.output, Contains("/shard.mds: its sha1 is not the one in the index") &&
                                   Contains("1 sample: 0 bad, 0 with warnings; 1 damaged file"));
  }
  f.server.remove("shard.mds");
  const auto missing = run(f.folder.path(), split("data verify s3://bucket"));
  CHECK(missing.status == 1);
  CHECK_THAT(missing.output, Contains("s3://bucket/shard.mds: there is no such object") &&
                                 Contains("0 samples: 0 bad, 0 with warnings; 1 damaged file"));
}

}  // namespace composer::remote_data_test
