// `composer checkpoint`: what it shows, whether it is whole, and its tensors in other files.
#include "composer/checkpoint/checkpoint.h"

#include <catch2/catch.hpp>

#include "composer/checkpoint/dcp.h"
#include "composer/checkpoint/torch_file.h"
#include "program.h"
#include "tests/composer/saved_checkpoint.h"
#include "tests/python.h"
#include "tests/temporary_folder.h"

namespace composer::checkpoint_test {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

struct Saved : TemporaryFolder {
  Saved() {
    checkpoint.time = {.epoch = 1, .batch = 5};
    checkpoint.model = {{"fc.weight", at::arange(12, at::kFloat).view({4, 3})},
                        {"fc.bias", at::ones({4})}};
    checkpoint.optimizer.tensors = {{"momentum_buffer.fc.weight", at::full({4, 3}, 0.5)}};
    checkpoint.parts["algorithms.ema"].tensors = {{"fc.weight", at::zeros({4, 3})}};
    save_checkpoint(path(), checkpoint);
  }
  Outcome checkpoint_command(const std::string& words) const {
    return run(path(), split("checkpoint " + words));
  }

  Checkpoint checkpoint;
};

bool same(const TensorMap& a, const TensorMap& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.equal(y.second);
  });
}

}  // namespace

TEST_CASE("a checkpoint's weights become files of other kinds, and these each other",
          "[cli][checkpoint]") {
  const Saved saved;
  const auto good = [&](const std::string& words) {
    const auto outcome = saved.checkpoint_command(words);
    INFO(outcome.errors);
    CHECK(outcome.status == 0);
    return outcome.errors;
  };
  CHECK_THAT(good("consolidate ep1-ba5 --output a.safetensors"),
             Contains("wrote 2 tensors of 64 bytes of ep1-ba5 to a.safetensors") &&
                 Contains("composer export --weights ema"));
  CHECK(same(read_safetensors(saved / "a.safetensors"), saved.checkpoint.model));
  good("convert a.safetensors --to dcp --shards 3 --output shards");
  good("convert shards --to pth --output b.pth");
  CHECK(same(read_torch_file(saved / "b.pth"), saved.checkpoint.model));
  good("convert b.pth --to dcp --output one");
  good("consolidate one --output c.safetensors");
  CHECK(same(read_safetensors(saved / "c.safetensors"), saved.checkpoint.model));

  good("consolidate ep1-ba5 --everything --output all.safetensors");
  const auto all = read_safetensors(saved / "all.safetensors");
  CHECK(all.size() == 4);
  CHECK(all.at("momentum_buffer.fc.weight").equal(at::full({4, 3}, 0.5)));
  CHECK(all.contains("algorithms.ema/fc.weight"));
}

TEST_CASE("checkpoint verify says what is damaged", "[cli][checkpoint]") {
  const Saved saved;
  const auto whole = saved.checkpoint_command("verify ep1-ba5");
  CHECK(whole.status == 0);
  CHECK(whole.output == "ep1-ba5: whole: 4 tensors of 160 bytes\n");
  write_dcp(saved / "shards", saved.checkpoint.model, 2);
  const auto shards = saved.checkpoint_command("verify shards");
  CHECK(shards.status == 0);
  CHECK_THAT(shards.output, Contains("can be read, without checksums"));
  const auto one =
      saved.checkpoint_command("verify shards/shard-00001-model-00001-of-00001.safetensors");
  CHECK(one.status == 1);
  CHECK_THAT(one.output, Contains("is one shard"));

  const auto damage = [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) - 1); };
  damage(saved / "ep1-ba5/model-00001-of-00001.safetensors");
  const auto damaged = saved.checkpoint_command("verify ep1-ba5");
  CHECK(damaged.status == 1);
  CHECK_THAT(damaged.output, Contains("model-00001-of-00001.safetensors: is damaged"));
  fs::remove(saved / "shards/shard-00002-model-00001-of-00001.safetensors");
  const auto missing = saved.checkpoint_command("verify shards");
  CHECK(missing.status == 1);
  CHECK_THAT(missing.output, Contains("1 of 2 files are there"));
  CHECK(saved.checkpoint_command("verify nowhere").status == 2);
  fs::remove(saved / "ep1-ba5/manifest.json");  // as in a copy that was cut short
  const auto cut = saved.checkpoint_command("verify ep1-ba5");
  CHECK(cut.status == 1);
  CHECK_THAT(cut.output, Contains("it has no manifest.json"));
}

TEST_CASE("training and evaluation take the weights of shards", "[cli][checkpoint][train]") {
  const TemporaryFolder folder;
  folder.write("r.yaml", R"(
model: {mnist_classifier: }
train_dataset: {synthetic: {height: 28, width: 28, channels: 1, num_classes: 10, samples: 64}}
val_dataset: {synthetic: {height: 28, width: 28, channels: 1, num_classes: 10, samples: 64}}
optimizer: {sgd: {lr: 0.05}}
train_batch_size: 32
eval_batch_size: 32
max_duration: 1ep
dataloader: {num_workers: 1}
device: cpu
)");
  const auto output = [&](const std::string& words) {
    const auto outcome = run(folder.path(), split(words));
    INFO(outcome.errors);
    CHECK(outcome.status == 0);
    return outcome.output;
  };
  output("train -f r.yaml --run_name a");
  output("checkpoint convert runs/a/checkpoints/latest --to dcp --shards 3 --output shards");
  CHECK(output("eval -f r.yaml --load_path shards") ==
        output("eval -f r.yaml --load_path runs/a/checkpoints/latest"));
  output("train -f r.yaml --run_name b --load_path shards");
  const auto without = run(folder.path(), split("eval --load_path shards"));
  CHECK(without.status == 2);
  CHECK_THAT(without.errors, Contains("shards holds only weights"));
}

TEST_CASE("what four ranks of divided weights saved is checked, put together and read by PyTorch",
          "[cli][checkpoint][slow]") {
  const TemporaryFolder folder;
  folder.write("r.yaml", R"(
model: {resnet_cifar: {model_name: resnet_20}}
train_dataset: {synthetic: {height: 16, width: 16, num_classes: 10, samples: 32}}
optimizer: {sgd: {lr: 0.01, momentum: 0.9}}
train_batch_size: 16
max_duration: 2ba
dataloader: {num_workers: 1}
device: cpu
precision: fp32
)");
  const auto good = [&](const std::string& words) {
    const auto outcome = run(folder.path(), split(words));
    INFO(words << "\n" << outcome.errors);
    REQUIRE(outcome.status == 0);
    return outcome.output;
  };
  good("-n 4 train -f r.yaml --run_name a --parallelism fsdp");
  good("-n 4 train -f r.yaml --run_name b");
  const std::string saved = "runs/a/checkpoints/latest";
  CHECK_THAT(good("checkpoint verify " + saved), Contains("whole"));
  good("checkpoint consolidate " + saved + " --output a.safetensors");
  good("checkpoint consolidate runs/b/checkpoints/latest --output b.safetensors");
  const auto weights = read_safetensors(folder / "a.safetensors");
  CHECK(weights.size() > 100);
  for (const auto& [name, together] : read_safetensors(folder / "b.safetensors")) {
    CAPTURE(name);
    CHECK(at::allclose(weights.at(name), together, 1e-3, 1e-5));
  }
  for (const std::string kind : {"pth", "safetensors", "dcp"})
    good("checkpoint convert " + saved + " --to " + kind + " --output converted." + kind);
  CHECK(same(read_torch_file(folder / "converted.pth"), weights));
  CHECK(same(read_safetensors(folder / "converted.safetensors"), weights));
  CHECK(same(read_dcp(folder / "converted.dcp"), weights));
  if (!test::has_python()) {
    WARN("skipped: no Python's PyTorch (cmake/bootstrap test installs it)");
    return;
  }
  CHECK(test::run_python(R"(
import torch, torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
expected = load_file("a.safetensors")
found = {name: torch.zeros_like(tensor) for name, tensor in expected.items()}
found["momentum_buffer.conv1.weight"] = torch.zeros_like(expected["conv1.weight"])
dcp.load(found, storage_reader=dcp.HuggingFaceStorageReader("runs/a/checkpoints/latest"), no_dist=True)
assert found.pop("momentum_buffer.conv1.weight").abs().max() > 0
assert all(torch.equal(found[name], expected[name]) for name in expected)
)",
                         folder));
}

TEST_CASE("what checkpoint cannot do is refused with what would be right", "[cli][checkpoint]") {
  const Saved saved;
  const auto problem = [&](const std::string& words, const std::string& reason) {
    const auto outcome = saved.checkpoint_command(words);
    CAPTURE(words);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.errors, Contains(reason));
  };
  problem("verfy ep1-ba5", "did you mean 'verify'?");
  problem("convert ep1-ba5 --output x", "convert: needs --to: dcp or pth or safetensors");
  problem("convert ep1-ba5 --to onnx --output x", "--to: 'onnx' is none of safetensors, pth, dcp");
  problem("convert ep1-ba5 --to pth --output x.bin", "--output: x.bin must end in .pth");
  problem("convert ep1-ba5 --to pth", "--output: is missing");
  problem("convert ep1-ba5 --to pth --shards 2 --output x.pth", "--shards: is for --to dcp");
  problem("consolidate ep1-ba5 --to pth --output x.pth", "--to: is for convert");
  problem("info ep1-ba5 --output x", "--output: is for consolidate and convert");
  problem("convert . --to pth --output ../x.pth", "did you mean ./latest?");
  problem("convert ep1-ba5 --to dcp --output ep1-ba5", "is what is read");
  problem("consolidate latest --output ep1-ba5/model-00001-of-00001.safetensors", "lies in it");
  problem("convert ep1-ba5 --to dcp --output s3://bucket/x", "must be on this machine");
  problem("convert ep1-ba5 --to dcp --output none/x", "there is no folder");
  fs::create_directory(saved / "photos");
  saved.write("photos/a.jpg", "an image");
  problem("convert ep1-ba5 --to dcp --output photos", "photos is there already; name another");
  fs::create_directory(saved / "pickled");
  saved.write("pickled/.metadata", "");
  problem("convert pickled --to pth --output x.pth", "HuggingFaceStorageWriter");
  saved.write("a.txt", "no weights");
  problem("consolidate a.txt --output x.safetensors", "a.txt");
  CHECK(saved.checkpoint_command("consolidate ep1-ba5 --output a.safetensors").status == 0);
  problem("consolidate ep1-ba5 --output a.safetensors", "exists; --overwrite replaces it");
  problem("convert ep1-ba5 --to safetensors --output a.safetensors", "exists; --overwrite");
  CHECK(saved.checkpoint_command("consolidate ep1-ba5 --overwrite --output a.safetensors").status ==
        0);
  problem("convert ep1-ba5 --to dcp --overwrite --output new", "--overwrite: is for files");
  problem("info ep1-ba5 --overwrite", "--overwrite: is for consolidate and convert");
  problem("consolidate a.safetensors --output a.safetensors", "is what is read");
  problem("consolidate a.safetensors --everything --output b.safetensors", "is no checkpoint");
}

}  // namespace composer::checkpoint_test
