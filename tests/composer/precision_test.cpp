#include "nn/network/precision.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "tests/composer/tiny_run.h"
#include "tests/ranks.h"

namespace composer::precision_test {

using Catch::Contains;
namespace fs = std::filesystem;

namespace {

at::ScalarType product_dtype() {
  return at::matmul(at::ones({2, 2}), at::ones({2, 2})).scalar_type();
}

/// Writes another value into a checkpoint's manifest.
void set_in_manifest(const fs::path& checkpoint, const std::string& key, const std::string& value) {
  const auto path = checkpoint / "manifest.json";
  auto manifest = nlohmann::ordered_json::parse(std::ifstream(path));
  REQUIRE(manifest.contains(key));
  manifest[key] = value;
  std::ofstream(path) << manifest;
}

TrainerParts amp_parts(const fs::path& run_dir) {
  auto parts = tiny_parts();
  parts.options.precision = "amp";
  parts.options.run_dir = run_dir;
  parts.options.run_name = "run";
  parts.options.max_duration = {1, TimeUnit::epoch};
  return parts;
}

Precision prepared_precision(TrainerParts parts) {
  Trainer trainer(std::move(parts));
  trainer.prepare();
  return trainer.state().precision;
}

}  // namespace

TEST_CASE("GPUs round the factors of float32 for tf32 alone", "[precision]") {
  const auto& context = at::globalContext();
  for (const auto precision :
       {Precision::tf32, Precision::fp32, Precision::amp_fp16, Precision::amp_bf16}) {
    set_float32_rounding(precision);
    CHECK(context.allowTF32CuDNN() == (precision == Precision::tf32));
    CHECK(context.allowTF32CuBLAS() == (precision == Precision::tf32));
  }
  CHECK(resolve_precision("tf32", at::kCUDA) == Precision::tf32);
  CHECK(resolve_precision("tf32", at::kCPU) == Precision::fp32);
  CHECK(name(Precision::tf32) == "tf32");
  const Autocast nothing(Precision::tf32, at::kCPU);
  CHECK(product_dtype() == at::kFloat);
}

TEST_CASE("autocast lasts as long as the object, also nested", "[precision]") {
  CHECK(product_dtype() == at::kFloat);
  {
    const Autocast outer(Precision::amp_bf16, at::kCPU);
    CHECK(product_dtype() == at::kBFloat16);
    {
      const Autocast inner(Precision::amp_fp16, at::kCPU);
      CHECK(product_dtype() == at::kHalf);
      const Autocast nothing(Precision::fp32, at::kCPU);
      CHECK(product_dtype() == at::kHalf);
    }
    CHECK(product_dtype() == at::kBFloat16);
  }
  CHECK(product_dtype() == at::kFloat);
  CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST_CASE("weights are cast afresh for each outermost autocast", "[precision]") {
  at::Tensor weight = at::ones({2, 2}).set_requires_grad(true);
  const auto sum = [&] {
    const Autocast autocast(Precision::amp_bf16, at::kCPU);
    {
      const Autocast inner(Precision::amp_bf16, at::kCPU);
      at::matmul(weight, weight);
    }
    return at::matmul(weight, at::ones({2, 2})).sum().item<float>();
  };
  CHECK(sum() == 8);
  weight.detach().fill_(2);
  CHECK(sum() == 16);
}

TEST_CASE("the words of the recipe's precision", "[precision]") {
  CHECK(resolve_precision("fp32", at::kCPU) == Precision::fp32);
  CHECK(resolve_precision("bf16", at::kCPU) == Precision::amp_bf16);
  CHECK(resolve_precision("amp_bf16", at::kCUDA) == Precision::amp_bf16);
  CHECK(resolve_precision("amp_fp16", at::kCUDA) == Precision::amp_fp16);
  CHECK(resolve_precision("amp", at::kCUDA) == Precision::amp_fp16);
  CHECK(resolve_precision("amp", at::kCPU) != Precision::amp_fp16);
  CHECK_THROWS_WITH(resolve_precision("fp8", at::kCPU), Contains("fp8"));
  for (const auto precision : {Precision::fp32, Precision::amp_fp16, Precision::amp_bf16})
    CHECK(resolve_precision(name(precision), at::kCPU) == precision);
}

TEST_CASE("the loss scaler unscales, backs off and grows", "[precision]") {
  GradScaler scaler(true, at::kCPU);
  CHECK(scaler.scale(at::ones({})).item<float>() == 65536);

  std::vector<at::Tensor> gradients{
      at::full({3}, 65536.0),
      at::full({2, 3, 4, 4}, 32768.0).contiguous(at::MemoryFormat::ChannelsLast),
      at::full({4, 6}, 65536.0).slice(1, 0, 6, 2), at::full({2}, 65536.0, at::kBFloat16)};
  scaler.unscale(gradients);
  CHECK(scaler.found_inf().item<float>() == 0);
  CHECK(gradients[0].equal(at::ones({3})));
  CHECK(gradients[1].equal(at::full({2, 3, 4, 4}, 0.5)));
  CHECK(gradients[2].equal(at::ones({4, 3})));
  CHECK(gradients[3].equal(at::ones({2}, at::kBFloat16)));
  scaler.update();
  CHECK(scaler.growth_tracker().item<int>() == 1);

  for (const double bad : {INFINITY, -INFINITY, NAN}) {
    const float before = scaler.scale_tensor().item<float>();
    gradients = {at::ones({3}), at::full({1}, bad)};
    scaler.unscale(gradients);
    CHECK(scaler.found_inf().item<float>() == 1);
    scaler.update();
    CHECK(scaler.scale_tensor().item<float>() == before / 2);
    CHECK(scaler.growth_tracker().item<int>() == 0);
  }

  scaler.load_state_dict(
      {{{"scale", at::full({}, 1024.0)}, {"growth_tracker", at::full({}, 1998, at::kInt)}}, {}});
  for (const float expected : {1024, 2048, 2048}) {
    gradients = {at::ones({3})};
    scaler.unscale(gradients);
    scaler.update();
    CHECK(scaler.scale_tensor().item<float>() == expected);
  }
}

TEST_CASE("a loss scaler that is off does nothing", "[precision]") {
  GradScaler scaler(false, at::kCPU);
  const at::Tensor loss = at::ones({});
  CHECK(scaler.scale(loss).is_same(loss));
  std::vector<at::Tensor> gradients{at::full({1}, INFINITY)};
  scaler.unscale(gradients);
  scaler.update();
  CHECK_FALSE(scaler.found_inf().defined());
}

TEST_CASE("amp on a CPU is bf16 where its instructions make that faster", "[precision]") {
  int probes = 0;
  const auto measured = [&](double speedup) {
    return [&probes, speedup] { return ++probes, speedup; };
  };
  const auto none = choose_bf16({}, measured(3));
  CHECK_FALSE(none.faster);
  CHECK_THAT(none.reason, Contains("no bf16 instructions"));
  const auto tiles = choose_bf16({"AMX", /*matrix=*/true}, measured(0.5));
  CHECK(tiles.faster);
  CHECK(tiles.reason == "AMX");
  CHECK(probes == 0);

  const auto vectors = choose_bf16({"AVX512-BF16"}, measured(1.62));
  CHECK(vectors.faster);
  CHECK(vectors.reason == "AVX512-BF16; bf16 is 1.6 times as fast in a probe");
  CHECK_FALSE(choose_bf16({"AVX512-BF16"}, measured(1.05)).faster);
  CHECK_FALSE(choose_bf16({"AVX512-BF16"}, measured(0.4)).faster);
  CHECK_FALSE(choose_bf16({"AMX", true, /*limited=*/true}, measured(0.2)).faster);
  CHECK(probes == 4);
}

TEST_CASE("the probe of bf16 is short, draws nothing and is made once", "[precision]") {
  at::manual_seed(5);
  const auto expected = at::rand({4});
  at::manual_seed(5);
  const double speedup = bf16_speedup();
  CHECK(speedup > 0);
  CHECK(std::isfinite(speedup));
  CHECK(at::equal(at::rand({4}), expected));
  const double begin = steady_seconds();
  CHECK(bf16_speedup() == speedup);
  CHECK(steady_seconds() - begin < 0.05);
}

TEST_CASE("all ranks compute in the first one's precision", "[precision]") {
  std::array<Precision, 2> precisions{};
  test::in_ranks(2, [&](const Ranks& ranks) {
    auto parts = tiny_parts();
    parts.ranks = ranks;
    parts.options.precision = ranks.first() ? "bf16" : "fp32";
    precisions[static_cast<size_t>(ranks.rank())] = prepared_precision(std::move(parts));
  });
  CHECK(precisions == std::array{Precision::amp_bf16, Precision::amp_bf16});
}

TEST_CASE("with amp a run goes on, and is evaluated, in the precision that it began with",
          "[precision]") {
  const TemporaryFolder folder;
  Trainer first(amp_parts(folder.path()));
  first.fit();
  const auto chosen = first.state().precision;
  const auto other = chosen == Precision::fp32 ? Precision::amp_bf16 : Precision::fp32;
  const auto checkpoint = fs::canonical(first.folder().checkpoints() / "latest");
  CHECK(nlohmann::json::parse(std::ifstream(checkpoint / "manifest.json"))["precision"] ==
        name(chosen));
  set_in_manifest(checkpoint, "precision", std::string(name(other)));

  auto resumed = amp_parts(folder.path());
  resumed.options.autoresume = true;
  resumed.options.max_duration = {2, TimeUnit::epoch};
  CHECK(prepared_precision(std::move(resumed)) == other);

  const auto load = [&](bool trains) {
    auto parts = amp_parts("");
    parts.options.load_path = checkpoint;
    parts.options.load_weights_only = trains;
    if (!trains) parts.optimizer = nullptr, parts.train_loader = nullptr;
    return parts;
  };
  CHECK(prepared_precision(load(false)) == other);
  CHECK(prepared_precision(load(true)) == chosen);

  auto explicitly = load(false);
  explicitly.options.precision = name(chosen);
  CHECK(prepared_precision(std::move(explicitly)) == chosen);
  set_in_manifest(checkpoint, "device", "cuda");
  CHECK(prepared_precision(load(false)) == chosen);
}

}  // namespace composer::precision_test
