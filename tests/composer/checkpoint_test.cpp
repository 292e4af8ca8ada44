#include "composer/checkpoint/checkpoint.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/weights.h"
#include "tests/composer/saved_checkpoint.h"
#include "tests/temporary_folder.h"

namespace composer::checkpoint_test {

using Catch::Contains;
namespace fs = std::filesystem;

namespace {

Checkpoint example(int64_t epoch, int64_t batch) {
  Checkpoint checkpoint;
  checkpoint.time = {.epoch = epoch,
                     .batch = batch,
                     .sample = batch * 8,
                     .batch_in_epoch = 1,
                     .sample_in_epoch = 8,
                     .seconds = 1.5};
  checkpoint.evaluated_batch = batch - 1;
  checkpoint.seed = 17;
  checkpoint.grad_accum = 2;
  checkpoint.recipe = "model: x\n";
  checkpoint.device = "cuda";
  checkpoint.model = {{"conv.weight", at::arange(24, at::kFloat).reshape({2, 3, 2, 2})},
                      {"bn.count", at::scalar_tensor(5, at::kLong)}};
  checkpoint.optimizer.tensors = {{"momentum_buffer.conv.weight", at::ones({2, 3, 2, 2})}};
  checkpoint.optimizer.values = {{"steps", int64_t{7}}};
  checkpoint.parts["algorithms.ema"].tensors = {{"conv.weight", at::zeros({2})}};
  checkpoint.parts["algorithms.ema"].values = {
      {"on", true}, {"rate", 0.5}, {"name", std::string("x")}};
  checkpoint.parts["algorithms.none"] = {};
  return checkpoint;
}

void damage(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x7f');
}

}  // namespace

TEST_CASE("a checkpoint comes back as it was", "[checkpoint]") {
  const TemporaryFolder folder;
  const auto saved = example(2, 9);
  const auto path = save_checkpoint(folder.path(), saved);
  CHECK(path.filename() == "ep2-ba9");
  CHECK(fs::read_symlink(folder.path() / "latest") == "ep2-ba9");

  const auto loaded = load_checkpoint(path);
  CHECK((loaded.time == saved.time));
  CHECK(loaded.evaluated_batch == 8);
  CHECK(loaded.seed == 17);
  CHECK(loaded.grad_accum == 2);
  CHECK(loaded.recipe == saved.recipe);
  CHECK(loaded.device == "cuda");
  CHECK(at::equal(loaded.model.at("conv.weight"), saved.model.at("conv.weight")));
  CHECK(loaded.model.at("bn.count").item<int64_t>() == 5);
  CHECK(at::equal(loaded.optimizer.tensors.at("momentum_buffer.conv.weight"),
                  at::ones({2, 3, 2, 2})));
  CHECK((loaded.optimizer.values == saved.optimizer.values));
  CHECK((loaded.parts.at("algorithms.ema").values == saved.parts.at("algorithms.ema").values));
  CHECK(loaded.parts.at("algorithms.ema").tensors.contains("conv.weight"));
  CHECK(loaded.parts.contains("algorithms.none"));
  CHECK(describe_checkpoint(path).find("conv.weight [2,3,2,2]") != std::string::npos);
}

TEST_CASE("a checkpoint from before devices were noted can be read", "[checkpoint]") {
  const TemporaryFolder folder;
  const auto path = save_checkpoint(folder.path(), example(2, 9)) / "manifest.json";
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  auto older = text.str();
  const std::string device = " \"device\": \"cuda\",\n";
  REQUIRE(older.find(device) != std::string::npos);
  older.erase(older.find(device), device.size());
  std::ofstream(path) << older;
  CHECK(load_checkpoint(path.parent_path()).device.empty());
}

TEST_CASE("values that are no finite numbers come back too", "[checkpoint]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const TemporaryFolder folder;
  auto saved = example(2, 9);
  saved.parts["algorithms.ema"].values = {
      {"lost", std::nan("")}, {"most", infinity}, {"least", -infinity}};
  const auto loaded = load_checkpoint(save_checkpoint(folder.path(), saved));
  const auto& state = loaded.parts.at("algorithms.ema");
  CHECK(std::isnan(*state.find<double>("lost")));
  CHECK(*state.find<double>("most") == infinity);
  CHECK(*state.find<double>("least") == -infinity);
  CHECK(state.find<bool>("lost") == nullptr);
  CHECK(state.find<double>("absent") == nullptr);
}

TEST_CASE("damage is found by checksum, and the newest whole checkpoint is taken", "[checkpoint]") {
  const TemporaryFolder folder;
  const auto first = save_checkpoint(folder.path(), example(0, 3));
  const auto second = save_checkpoint(folder.path(), example(1, 10));
  CHECK(newest_checkpoint(folder.path()) == second);
  damage(second / "model-00001-of-00001.safetensors");
  CHECK_THROWS_AS(load_checkpoint(second), UserError);
  CHECK_THROWS_WITH(read_weights(second), Contains("is damaged: its checksum differs"));
  CHECK(find_whole_checkpoint(folder.path()) == first);
  CHECK(fs::exists(second));
  CHECK(newest_checkpoint(folder.path()) == first);
  CHECK(fs::exists(folder.path() / "damaged-ep1-ba10"));
  damage(first / "optimizer-00001-of-00001.safetensors");
  CHECK_NOTHROW(read_weights(first));
  std::ofstream(first / "manifest.json") << "{\"format_version\": 1";
  CHECK_THROWS_AS(load_checkpoint(first), UserError);
  std::ofstream(first / "manifest.json") << "{\"format_version\": 99}";
  CHECK_THROWS_WITH(load_checkpoint(first), Contains("format version 99"));
  std::ofstream(first / "manifest.json")
      << "{\"format_version\": " << std::string(300'000, '[') << std::string(300'000, ']') << "}";
  CHECK_THROWS_WITH(load_checkpoint(first), Contains("manifest.json: is damaged"));
}

TEST_CASE("a checkpoint that cannot be used stops a resumption and stays as it is",
          "[checkpoint]") {
  const TemporaryFolder folder;
  const auto first = save_checkpoint(folder.path(), example(0, 3)),
             second = save_checkpoint(folder.path(), example(1, 10)),
             third = save_checkpoint(folder.path(), example(2, 17));
  damage(third / "model-00001-of-00001.safetensors");
  const auto refused = [&](const std::string& reason) {
    CHECK_THROWS_WITH(newest_checkpoint(folder.path()),
                      Contains("cannot be used") && Contains(second.string()) && Contains(reason) &&
                          Contains("--run_name"));
    for (const auto& path : {first, second, third}) CHECK(fs::exists(path));
  };
  const auto file = second / "optimizer-00001-of-00001.safetensors";
  fs::rename(file, second / "kept");
  fs::create_directory(file);  // open() and read() fail as they do on a bad disk
  refused("cannot be read: Is a directory");
  fs::remove(file);
  fs::rename(second / "kept", file);

  fs::rename(second / "manifest.json", second / "kept");
  std::ofstream(second / "manifest.json") << "{\"format_version\": 2}";
  refused("format version 2; this program reads 1");
  fs::rename(second / "kept", second / "manifest.json");

  CHECK(newest_checkpoint(folder.path()) == second);
  CHECK(fs::exists(folder.path() / "damaged-ep2-ba17"));
}

TEST_CASE("a run's folder in place of a checkpoint is told which is meant", "[checkpoint]") {
  const TemporaryFolder run;
  save_checkpoint(run / "checkpoints", example(0, 3));
  const auto meant =
      "is no checkpoint; did you mean " + (run / "checkpoints/latest").string() + "?";
  CHECK_THROWS_WITH(describe_checkpoint(run.path()), Contains(meant));
  CHECK_THROWS_WITH(load_checkpoint(run / "checkpoints"), Contains(meant));
}

TEST_CASE("where no checkpoint is whole a run neither resumes nor starts afresh", "[checkpoint]") {
  const TemporaryFolder folder;
  CHECK_FALSE(newest_checkpoint(folder / "none"));
  CHECK_FALSE(newest_checkpoint(folder.path()));
  const auto first = save_checkpoint(folder.path(), example(0, 3)),
             second = save_checkpoint(folder.path(), example(1, 10));
  fs::remove(first / "manifest.json");
  fs::remove(second / "state-00001-of-00001.safetensors");
  for (int round = 0; round < 2; ++round)
    CHECK_THROWS_WITH(newest_checkpoint(folder.path()),
                      Contains("no checkpoint in " + folder.path().string() + " is whole") &&
                          Contains(first.string() + ": is no checkpoint") &&
                          Contains("state-00001-of-00001.safetensors: is missing"));
  CHECK(fs::exists(first));
  CHECK(fs::exists(second));
  fs::rename(first, folder.path() / "damaged-ep0-ba3");
  fs::remove_all(second);
  CHECK_THROWS_WITH(newest_checkpoint(folder.path()), Contains("was set aside as damaged"));
  CHECK_THROWS_AS(newest_checkpoint(folder.write("file", "")), UserError);
}

TEST_CASE(
    "what a kill in the middle of saving left behind is not taken, and removed by the next save",
    "[checkpoint]") {
  const TemporaryFolder folder;
  const auto path = save_checkpoint(folder.path(), example(0, 3));
  const auto leftover = folder.path() / ".ep0-ba4.tmp";
  fs::create_directory(leftover);
  std::ofstream(leftover / "manifest.json") << "{";
  CHECK(newest_checkpoint(folder.path()) == path);
  save_checkpoint(folder.path(), example(0, 5));
  CHECK_FALSE(fs::exists(leftover));
}

TEST_CASE("the newest are kept, by batch and not by name", "[checkpoint]") {
  const TemporaryFolder folder;
  for (const int64_t batch : {9, 10, 100}) save_checkpoint(folder.path(), example(0, batch));
  keep_newest_checkpoints(folder.path(), 2);
  CHECK_FALSE(fs::exists(folder.path() / "ep0-ba9"));
  CHECK(fs::exists(folder.path() / "ep0-ba10"));
  CHECK(fs::exists(folder.path() / "ep0-ba100"));
  keep_newest_checkpoints(folder.path(), -1);
  CHECK(fs::exists(folder.path() / "ep0-ba10"));
}

TEST_CASE("the same state gives the same bytes", "[checkpoint]") {
  const TemporaryFolder a, b;
  const auto bytes = [](const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const auto first = save_checkpoint(a.path(), example(1, 2)),
             second = save_checkpoint(b.path(), example(1, 2));
  for (const char* file :
       {"model-00001-of-00001.safetensors", "optimizer-00001-of-00001.safetensors",
        "state-00001-of-00001.safetensors"})
    CHECK(bytes(first / file) == bytes(second / file));
}

}  // namespace composer::checkpoint_test
