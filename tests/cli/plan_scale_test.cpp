// composer plan-scale.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "program.h"
#include "tests/composer/temporary_folder.h"

using namespace composer;
using nlohmann::json;

namespace {

json planned(const TemporaryFolder& folder, const std::string& words) {
  const auto shown = run(folder.path(), split("plan-scale --json " + words));
  INFO(words << '\n' << shown.errors);
  REQUIRE(shown.status == 0);
  CHECK(std::ranges::count(shown.output, '\n') == 1);
  return json::parse(shown.output);
}

std::string refused(const TemporaryFolder& folder, const std::string& words) {
  const auto shown = run(folder.path(), split("plan-scale " + words));
  INFO(words << '\n' << shown.output);
  CHECK(shown.status == 2);
  CHECK(shown.output.empty());
  return shown.errors;
}

}  // namespace

TEST_CASE("plan-scale says what a recipe comes to on so many GPUs", "[cli]") {
  const TemporaryFolder folder;
  const auto all = planned(folder,
                           "-f resnet50 --precision amp --gpus 8,64,1024 --gpu h200 --network "
                           "400g --price_per_hour 4");
  CHECK(all.at("parameters") == 25557032);
  CHECK(all.at("flops_step") == 24299077632);
  CHECK(all.at("precision") == "amp_fp16");
  CHECK_FALSE(all.at("sources").at("rate").get<std::string>().empty());
  const auto& plans = all.at("plans");
  REQUIRE(plans.size() == 3);
  double last = 0;
  for (const auto& plan : plans) {
    const double rate = plan.at("images_per_s");
    CHECK(rate > last);
    last = rate;
    CHECK(plan.at("batch_size") == 2048);
    CHECK(plan.at("steps") == 625 * 90);
    CHECK(plan.at("training_seconds").get<double>() == Approx(625 * 90 * 2048 / rate));
    CHECK(plan.at("cost").get<double>() ==
          Approx(plan.at("seconds").get<double>() / 3600 * 4 * plan.at("gpus").get<double>()));
    CHECK(plan.at("simulated").at("step_seconds").get<double>() ==
          Approx(plan.at("step_seconds").get<double>()).epsilon(1e-6));
    const double hidden = plan.at("communication").at("hidden_fraction");
    CHECK(hidden >= 0);
    CHECK(hidden <= 1);
    CHECK(plan.at("communication").at("bytes_per_gpu") == 4 * 25557032);
    CHECK(plan.at("loader").at("cores_per_gpu") > 0);
    CHECK(plan.at("storage_bytes_per_s").get<double>() == Approx(rate * 115400));
    CHECK(plan.at("checkpoint").at("bytes").get<double>() == Approx(2 * 4 * 25.56e6).epsilon(0.01));
    CHECK(plan.at("failures").at("per_day").get<double>() ==
          Approx(24 * plan.at("gpus").get<double>() / 50000));
    CHECK(plan.at("evaluation_seconds") > 0);
  }
  CHECK(plans[0].at("machines") == 1);
  CHECK(plans[2].at("machines") == 128);
  CHECK(plans[0].at("communication").at("machine_bytes_per_s") == 0);
  CHECK(plans[2].at("communication").at("machine_bytes_per_s") > 0);
}

TEST_CASE("plan-scale follows batch size, gradients' type, network and loader", "[cli]") {
  const TemporaryFolder folder;
  const std::string base = "-f resnet50 --precision amp --gpu a100 --gpus 64 --network ";
  const auto plain = planned(folder, base + "100g").at("plans")[0];
  const auto halved = planned(folder, base + "100g --grad_comm bf16").at("plans")[0];
  CHECK(halved.at("communication").at("bytes_per_gpu") == 2 * 25557032);
  CHECK(halved.at("communication").at("seconds") < plain.at("communication").at("seconds"));
  const auto slow = planned(folder, base + "10g --network_cards 1").at("plans")[0];
  CHECK(slow.at("communication").at("hidden_fraction") < 0.5);
  CHECK(slow.at("images_per_s") < plain.at("images_per_s"));
  const auto weak = planned(folder, base + "100g --batch_per_gpu 256").at("plans")[0];
  CHECK(weak.at("batch_size") == 64 * 256);
  CHECK(weak.at("images_per_s") > plain.at("images_per_s"));
  CHECK(weak.at("steps").get<double>() == Approx(90 * 1281167 / (64 * 256.0)).epsilon(0.01));
  const auto starved =
      planned(folder, base + "100g --cores_per_gpu 1 --images_per_s_per_core 500").at("plans")[0];
  CHECK(starved.at("images_per_s").get<double>() == Approx(64 * 500));
  CHECK(starved.at("loader").at("wait_seconds") > 0);
  CHECK(planned(folder, base + "100g --kernels mlperf").at("plans")[0].at("images_per_s") >
        plain.at("images_per_s"));
  const auto uneven =
      planned(folder, base + "100g --spread 0.1 --simulated_steps 100").at("plans")[0];
  CHECK(uneven.at("images_per_s") < plain.at("images_per_s"));
  CHECK(uneven.at("simulated").at("step_seconds").get<double>() ==
        Approx(uneven.at("step_seconds").get<double>()).epsilon(0.05));
  const auto frail =
      planned(folder, base + "100g --gpu_hours_per_failure 100 --restart_seconds 600")
          .at("plans")[0];
  CHECK(frail.at("failures").at("seconds") > plain.at("failures").at("seconds"));
  CHECK(frail.at("simulated").at("failure_seconds").get<double>() ==
        Approx(frail.at("failures").at("seconds").get<double>()).epsilon(0.5));
  const auto held_up = planned(folder, base + "100g --straggler 1.5").at("plans")[0];
  CHECK(held_up.at("simulated").at("step_seconds").get<double>() >
        1.3 * held_up.at("step_seconds").get<double>());
}

TEST_CASE("plan-scale follows the sizes that images have over a run", "[cli][slow]") {
  const TemporaryFolder folder;
  // On Amazon's p4d.24xlarge, whose 96 processors load 31,278 images/s by FFCV's own benchmark.
  const std::string machine =
      " --gpu a100_40gb --gpus 8 --price_per_hour 4.10 --simulated_steps 0 --cores_per_gpu 12 "
      "--images_per_s_per_core 325.8";
  struct Published {
    std::string recipe;
    double minutes, cost;
  };
  for (const auto& [recipe, minutes, cost] :
       std::vector<Published>{{"resnet50/mild", 27, 14.77},
                              {"ffcv/rn50_16_epochs", 14.9, 0},
                              {"ffcv/rn50_88_epochs", 77.2, 0}}) {
    const auto plan = planned(folder, "-f " + recipe + machine).at("plans")[0];
    const double found = plan.at("seconds").get<double>() / 60;
    INFO(recipe << ": " << found << " minutes, " << plan.at("cost"));
    CHECK(found == Approx(minutes).epsilon(0.25));
    if (cost > 0) CHECK(plan.at("cost").get<double>() == Approx(cost).epsilon(0.25));
  }
}

TEST_CASE("plan-scale takes the step of a run in place of published rates", "[cli]") {
  const TemporaryFolder folder;
  const std::string recipe =
      " -f resnet20_cifar10 --train_dataset synthetic --train_dataset.synthetic.height 32 "
      "--train_dataset.synthetic.width 32 --train_dataset.synthetic.num_classes 10 "
      "--train_dataset.synthetic.samples 256 --val_dataset none --eval_interval 0 "
      "--train_batch_size 16 --max_duration 14ba --precision fp32 --device cpu";
  const auto trained =
      run(folder.path(), split("train" + recipe + " --run_name one --progress_bar false"));
  INFO(trained.errors);
  REQUIRE(trained.status == 0);
  const auto all = planned(folder, recipe +
                                       " --from runs/one --gpu cpu --gpus 1,2 --link_gb_s 2 "
                                       "--link_us 50 --batch_per_gpu 16");
  std::ifstream file(folder.path() / "runs/one/summary.json");
  const auto summary = json::parse(file);
  const double step = 16 / summary.at("samples_per_second").get<double>();
  CHECK(all.at("plans")[0].at("step_seconds").get<double>() <= step * 1.001);
  CHECK(all.at("plans")[0].at("step_seconds").get<double>() > step / 2);
  const auto& two = all.at("plans")[1];
  CHECK(two.at("batch_size") == 32);
  CHECK(two.at("communication").at("hidden_fraction") < 1e-9);
  CHECK(two.at("communication").at("seconds").get<double>() >
        two.at("communication").at("bytes_per_gpu").get<double>() / 2e9);
  CHECK(refused(folder, recipe + " --from runs --gpu cpu --gpus 2").find("runs") !=
        std::string::npos);
}

TEST_CASE("plan-scale says what is wrong with its input", "[cli]") {
  const TemporaryFolder folder;
  const auto has = [](const std::string& text, const std::vector<std::string>& parts) {
    for (const auto& part : parts) {
      INFO(text << "\nlacks: " << part);
      CHECK(text.find(part) != std::string::npos);
    }
  };
  const std::string rest = " -f resnet50 --gpus 64 ";
  has(refused(folder, rest + "--gpu h300 --network 400g"),
      {"--gpu", "'h300'", "h200, h100, h100_pcie, a100"});
  has(refused(folder, rest + "--gpu h200 --network 401g"), {"--network", "'401g'", "10g, 25g"});
  has(refused(folder, rest + "--gpu h200"), {"--network", "more than one machine of 8 h200"});
  has(refused(folder, "-f resnet50 --gpus 12 --gpu h200 --network 400g"),
      {"--gpus: 12 GPUs do not fill machines of 8", "16"});
  has(refused(folder, "-f resnet50 --gpus 4096 --gpu h200 --network 400g"),
      {"--gpus: 4096", "2048", "--batch_per_gpu"});
  has(refused(folder, "-f resnet50 --gpus 8 --gpu cpu"), {"cpu", "--from"});
  has(refused(folder, "-f resnet50 --gpus 8 --gpu v100 --precision tf32"), {"v100", "tf32"});
  has(refused(folder, "-f resnet50 --gpus 8 --gpu v100 --kernels fast"), {"--kernels", "mlperf"});
  has(refused(folder, "-f resnet50 --gpus 8x --gpu v100"), {"--gpus"});
  has(refused(folder, "-f resnet50 --gpus 0 --gpu v100"), {"--gpus"});
  has(refused(folder, "-f resnet50 --gpus 8"), {"--gpu"});
  has(refused(folder, "--gpus 8 --gpu v100"), {"--file"});
  has(refused(folder, "-f resnet50 --gpus 8 --gpu v100 --max_duration 60sec"), {"max_duration"});
  has(refused(folder, "-f resnet50 --gpus 8 --gpu v100 --train_batch_sise 8"),
      {"train_batch_sise", "train_batch_size"});
  has(refused(folder, "-f resnet50 --gpus 8 --gpu v100 --from nowhere"), {"nowhere"});
  has(refused(folder, rest + "--gpu v100 --network 100g --gpu_hours_per_failure 0.01"),
      {"--gpu_hours_per_failure", "--save_interval"});
}

TEST_CASE("plan-scale's table has a column for each number of GPUs", "[cli]") {
  const TemporaryFolder folder;
  const auto large = run(folder.path(), split("plan-scale -f resnet50 --gpus 8,1 --gpu a100"));
  REQUIRE(large.status == 0);
  CHECK(large.errors.find("--gpus 1: a step needs some 88.5 GB of the 80.0 GB that a100 has") !=
        std::string::npos);
  CHECK(large.errors.find("--gpus 8:") == std::string::npos);
  const auto shown =
      run(folder.path(),
          split("plan-scale -f resnet50 --precision amp --gpus 8,64 --gpu h200 --network 400g"));
  INFO(shown.errors);
  REQUIRE(shown.status == 0);
  for (const char* text :
       {"resnet, 25.6 M parameters", "images/s", "sums of gradients", "of them hidden",
        "time to train", "loader cores a GPU", "checkpoint, written", "failures a day",
        "step, simulated", "MLPerf", "docs/scale.md"}) {
    INFO(shown.output << "\nlacks: " << text);
    CHECK(shown.output.find(text) != std::string::npos);
  }
}
