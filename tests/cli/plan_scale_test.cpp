// composer plan-scale.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "look.h"
#include "tests/temporary_folder.h"

namespace composer::plan_scale_test {

using nlohmann::json;

namespace {

json planned(const TemporaryFolder& folder, const std::string& words) {
  const auto shown = look(folder.path(), split("plan-scale --json " + words));
  INFO(words << '\n' << shown.errors);
  REQUIRE(shown.status == 0);
  CHECK(std::ranges::count(shown.output, '\n') == 1);
  return json::parse(shown.output);
}

std::string refused(const TemporaryFolder& folder, const std::string& words) {
  const auto shown = look(folder.path(), split("plan-scale " + words));
  INFO(words << '\n' << shown.output);
  CHECK(shown.status == 2);
  CHECK(shown.output.empty());
  return shown.errors;
}

/// What a plan that is made says on standard error.
std::string warned(const TemporaryFolder& folder, const std::string& words) {
  const auto shown = look(folder.path(), split("plan-scale " + words));
  INFO(words << '\n' << shown.errors);
  CHECK(shown.status == 0);
  return shown.errors;
}

}  // namespace

TEST_CASE("plan-scale says what a recipe comes to on so many GPUs", "[cli][slow]") {
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

TEST_CASE("plan-scale follows batch size, gradients' type, network and loader", "[cli][slow]") {
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
    double minutes, cost = 0;
  };
  std::ifstream file(std::string(SOURCE_DIR) + "/docs/scale.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const auto check = [&](const std::string& what, double published, double found) {
    std::ostringstream row;
    row << "| `" << what << " | " << published << " | " << std::setprecision(3) << found << " | "
        << std::showpos << std::llround((found / published - 1) * 100) << " % |";
    INFO("docs/scale.md should have the line\n" << row.str());
    CHECK(page.find(row.str()) != std::string::npos);
    CHECK(found == Approx(published).epsilon(0.25));
  };
  for (const auto& [recipe, minutes, cost] :
       std::vector<Published>{{"resnet50/mild", 27, 14.77},
                              {"ffcv/rn50_16_epochs", 14.9},
                              {"ffcv/rn50_24_epochs", 21.7},
                              {"ffcv/rn50_32_epochs", 28.7},
                              {"ffcv/rn50_40_epochs", 35.6},
                              {"ffcv/rn50_56_epochs", 49.4},
                              {"ffcv/rn50_88_epochs", 77.2}}) {
    const auto plan = planned(folder, "-f " + recipe + machine).at("plans")[0];
    check(recipe + "`, minutes", minutes, plan.at("seconds").get<double>() / 60);
    if (cost > 0) check(recipe + "`, dollars", cost, plan.at("cost"));
  }
}

TEST_CASE("plan-scale takes the step of a run in place of published rates", "[cli][slow]") {
  const TemporaryFolder folder;
  // Without threads of the loader nothing is left out of a step.
  const std::string recipe =
      " -f resnet20_cifar10 --dataloader.num_workers 0 --train_dataset synthetic "
      "--train_dataset.synthetic.height 32 "
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
  CHECK(all.at("plans")[0].at("step_seconds").get<double>() == Approx(step));
  const auto& two = all.at("plans")[1];
  CHECK(two.at("batch_size") == 32);
  CHECK(two.at("communication").at("hidden_fraction") < 1e-9);
  CHECK(two.at("communication").at("seconds").get<double>() >
        two.at("communication").at("bytes_per_gpu").get<double>() / 2e9);
  CHECK(refused(folder, recipe + " --from runs --gpu cpu --gpus 2").find("runs") !=
        std::string::npos);
  CHECK_THAT(refused(folder, recipe + " --from runs/one --gpu h200 --gpus 2"),
             Catch::Contains("was trained on cpu") && Catch::Contains("not on --gpu h200"));
  CHECK_THAT(refused(folder, recipe + " --from runs/one --gpu cpu --gpus 2 "
                                      "--model.resnet_cifar.model_name resnet_56"),
             Catch::Contains("another network: model.resnet_cifar.model_name"));
  CHECK_THAT(
      warned(folder,
             recipe +
                 " --from runs/one --gpu cpu --gpus 2 --grad_accum 2 --algorithms label_smoothing"),
      Catch::Contains("other settings") && Catch::Contains("grad_accum") &&
          Catch::Contains("algorithms.label_smoothing"));
  CHECK_THAT(refused(folder, recipe + " --from runs/one --gpu cpu --gpus 2 --kernels mlperf"),
             Catch::Contains("--kernels, --from"));
}

TEST_CASE("plan-scale says what is wrong with its input", "[cli][slow]") {
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
  has(refused(folder, rest + "--gpu v100 --network 100g --gpu_hours_per_failure 0.01 "
                             "--restart_seconds 0"),
      {"--gpu_hours_per_failure", "--save_interval"});
  const std::string eight = "-f resnet50 --gpus 8 --gpu v100 ";
  has(refused(folder, eight + "--precision amp_bf16"), {"v100", "amp_bf16"});
  has(refused(folder, eight + "--freeze nosuch*"), {"freeze", "nosuch*"});
  has(refused(folder, eight + "--price_per_hour inf"), {"--price_per_hour", "inf"});
  has(refused(folder, eight + "--write_gb_s inf"), {"--write_gb_s", "inf"});
  for (const char* option : {"mfu", "spread", "straggler"})
    has(refused(folder, eight + "--" + option + " nan"), {option, "nan"});
  has(refused(folder, eight + "--mfu 0.3 --kernels mlperf"), {"--kernels, --mfu"});
  const std::string small = "-f resnet20_cifar10 --gpu h200 --network 400g ";
  has(refused(folder, small + "--gpus 8 --max_duration 9007199254740992ep"),
      {"max_duration: 9007199254740992ep", "2^53"});
  has(refused(folder, small + "--gpus 64 --batch_per_gpu 1024"),
      {"--batch_per_gpu: 1024 on 64 GPUs", "65536", "50000"});
}

TEST_CASE("plan-scale counts evaluations and checkpoints as a run has them", "[cli][slow]") {
  const TemporaryFolder folder;
  const std::string base = "-f resnet50 --gpu h200 --network 400g --simulated_steps 0 --gpus ";
  const auto plan = [&](const std::string& words) {
    return planned(folder, base + words).at("plans")[0];
  };
  const std::string intervals =
      " --max_duration 10ep --eval_interval 1000ba --save_interval 1000ba";
  const auto whole = plan("64 --train_batch_size 16384" + intervals),
             shared = plan("64 --batch_per_gpu 256" + intervals);
  CHECK(whole.at("steps") == 780);
  for (const char* key : {"steps", "evaluated_images", "checkpoint"})
    CHECK(whole.at(key) == shared.at(key));
  CHECK(whole.at("evaluated_images") == 50000);  // at the end alone

  const auto often = plan("8 --max_duration 1500ba --eval_interval 1000ba --save_interval 1sp");
  CHECK(often.at("evaluated_images") == 2 * 50000);
  CHECK(often.at("checkpoint").at("number") == 1500);
  const auto never = plan("8 --max_duration 1500ba --eval_interval 0 --save_interval 0");
  CHECK(never.at("evaluated_images") == 0);
  CHECK(never.at("checkpoint").at("number") == 1);
  const auto some = plan("8 --max_duration 10ba --eval_subset_num_batches 3");
  CHECK(some.at("evaluated_images") == 3 * 2048);
  const std::string waits = "8 --max_duration 10ba --eval_subset_num_batches 3 --write_gb_s 0.01";
  CHECK(plan(waits + " --save_async false").at("checkpoint").at("stall_seconds") >
        plan(waits).at("checkpoint").at("stall_seconds"));

  const auto views = plan("8 --max_duration 10ba --algorithms test_time_augmentation");
  CHECK(
      views.at("evaluation_seconds").get<double>() ==
      Approx(
          2 *
          plan("8 --max_duration 10ba --algorithms none").at("evaluation_seconds").get<double>()));
  const std::string none = base +
                           "8 --max_duration 10ba --val_dataset image_folder "
                           "--val_dataset.image_folder.datadir missing";
  CHECK_THAT(warned(folder, none), Catch::Contains("evaluations are not counted: val_dataset"));
}

TEST_CASE("plan-scale follows freeze, grad_accum and bucket_mb", "[cli][slow]") {
  const TemporaryFolder folder;
  const auto all = [&](const std::string& words) {
    return planned(folder, "-f resnet50 --gpu a100 --gpus 8 " + words);
  };
  const auto plain = all("");
  const auto step = [](const json& one) {
    return one.at("plans")[0].at("step_seconds").get<double>();
  };
  const auto frozen = all("--freeze conv1* layer1*");
  CHECK(frozen.at("flops_step") < plain.at("flops_step"));
  CHECK(step(frozen) < step(plain));
  CHECK(frozen.at("plans")[0].at("communication").at("bytes_per_gpu") < 4 * 25557032);
  const auto parts = all("--grad_accum 4").at("plans")[0];
  CHECK(parts.at("activation_bytes").get<double>() ==
        Approx(plain.at("plans")[0].at("activation_bytes").get<double>() / 4));
  CHECK(all("--bucket_mb 200").at("plans")[0].at("communication").at("exposed_seconds") >
        plain.at("plans")[0].at("communication").at("exposed_seconds"));
}

TEST_CASE("plan-scale tells of options that change nothing, and where figures are from",
          "[cli][slow]") {
  const TemporaryFolder folder;
  const std::string one = "-f resnet20_cifar10 --gpu a100 --gpus 8 ";
  const std::string nothing = ": has no effect";
  for (const std::string words :
       {"--network 100g", "--network_cards 2", "--straggler 2 --simulated_steps 0",
        "--restart_seconds 9 --gpu_hours_per_failure 0"})
    CHECK_THAT(warned(folder, one + words),
               Catch::Contains(words.substr(0, words.find(' ')) + nothing));
  CHECK_THAT(warned(folder, "-f resnet20_cifar10 --gpu a100 --gpus 1 --link_us 3"),
             Catch::Contains("--link_us" + nothing));
  const std::string made = one + "--train_dataset synthetic --val_dataset none ";
  CHECK_THAT(warned(folder, made + "--cores_per_gpu 2"),
             Catch::Contains("--cores_per_gpu" + nothing));
  CHECK_THAT(
      warned(folder,
             "-f resnet20_cifar10 --gpu a100 --network 100g --gpus 16 --simulated_steps 100000"),
      Catch::Contains("--gpus 16: is not simulated"));

  const auto synthetic = planned(folder, made);
  CHECK(synthetic.at("plans")[0].at("storage_bytes_per_s") == 0);
  CHECK_FALSE(synthetic.contains("note"));
  const auto sized = planned(folder, one + "--bytes_per_image 100 --gpu_hours_per_failure 0");
  CHECK(sized.at("sources").at("storage") == "--bytes_per_image");
  CHECK_FALSE(sized.contains("network"));
  CHECK_FALSE(sized.at("sources").contains("network"));
  CHECK_FALSE(sized.at("plans")[0].at("checkpoint").contains("best_interval_seconds"));
  CHECK_THAT(sized.at("note").get<std::string>(), Catch::Contains("published 50000"));
  for (const auto& json : {synthetic, sized}) CHECK(json.dump().find("null") == std::string::npos);
}

TEST_CASE("plan-scale's table has a column for each number of GPUs", "[cli][slow]") {
  const TemporaryFolder folder;
  const auto large = look(folder.path(), split("plan-scale -f resnet50 --gpus 8,1 --gpu a100"));
  REQUIRE(large.status == 0);
  CHECK(large.errors.find("--gpus 1: a step needs some 88.5 GB of the 80.0 GB that a100 has") !=
        std::string::npos);
  CHECK(large.errors.find("--gpus 8:") == std::string::npos);
  const auto shown =
      look(folder.path(),
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

TEST_CASE("plan-scale counts what ranks divide", "[cli][slow]") {
  const TemporaryFolder folder;
  const auto plan = [&](const std::string& words) {
    const auto all = planned(folder, "-f resnet50 --precision amp --gpu h200 --gpus 8 " + words);
    const auto& one = all.at("plans")[0];
    CHECK(one.at("simulated").at("step_seconds").get<double>() ==
          Approx(one.at("step_seconds").get<double>()).epsilon(1e-6));
    return one;
  };
  const double parameters = 4 * 25557032.0;
  const int64_t head = 2048 * 1000 + 1000;
  const auto ddp = plan(""), zero1 = plan("--parallelism zero1"), fsdp = plan("--parallelism fsdp");
  const auto memory = [](const json& one, const std::string& what) {
    return one.at("memory").at(what).get<double>();
  };
  CHECK(memory(ddp, "gradients") == parameters);
  CHECK(memory(ddp, "optimizer_state") == parameters);
  CHECK(memory(ddp, "gathered") == 0);
  CHECK(memory(ddp, "half_precision_copies") == parameters / 2);
  CHECK(ddp.at("communication").at("weight_bytes_per_gpu") == 0);
  CHECK(memory(zero1, "parameters") == memory(ddp, "parameters"));
  CHECK(memory(zero1, "optimizer_state") == Approx(parameters / 8).epsilon(0.001));
  CHECK(zero1.at("communication").at("weight_bytes_per_gpu") == 4 * 25557032);
  for (const char* what : {"gradients", "optimizer_state"})
    CHECK(memory(fsdp, what) == Approx(parameters / 8).epsilon(0.001));
  CHECK(memory(fsdp, "parameters") < parameters / 8 * 1.02);  // with statistics of batch norms
  for (const char* what : {"activations", "half_precision_copies"})
    CHECK(memory(fsdp, what) == memory(ddp, what));
  CHECK(fsdp.at("communication").at("bytes_per_gpu") == 4 * 25557032);
  // Forward and back, where the last layer has its weights.
  CHECK(fsdp.at("communication").at("weight_bytes_per_gpu") == 4 * (2 * 25557032 - head));
  CHECK(fsdp.at("step_seconds") > ddp.at("step_seconds"));
  CHECK(plan("--parallelism fsdp --weight_comm bf16")
            .at("communication")
            .at("weight_bytes_per_gpu") == 2 * (2 * 25557032 - head));
  CHECK(plan("--optimizer lamb").at("checkpoint").at("bytes").get<double>() ==
        Approx(3 * parameters).epsilon(0.01));

  const auto rows = plan("--spatial_ranks 2 --parallelism zero1");
  CHECK(rows.at("images_per_gpu") == 512);
  CHECK(memory(rows, "activations") == Approx(memory(ddp, "activations")).epsilon(0.1));
  CHECK(memory(rows, "optimizer_state") == memory(zero1, "optimizer_state"));
  CHECK(rows.at("communication").at("row_bytes_per_gpu") > 0);
  CHECK(rows.at("step_seconds") > zero1.at("step_seconds"));
  const auto given = plan("--spatial_ranks 2 --batch_per_gpu 64");
  CHECK(given.at("images_per_gpu") == 64);
  CHECK(given.at("batch_size") == 4 * 64);

  CHECK_THAT(refused(folder, "-f resnet50 --gpu h200 --gpus 6 --spatial_ranks 4"),
             Catch::Contains("--gpus: 6 is no multiple of the 4 GPUs") && Catch::Contains("8"));
  CHECK_THAT(refused(folder, "-f efficientnet_b0 --gpu h200 --gpus 8 --spatial_ranks 2"),
             Catch::Contains("spatial_ranks: not made for rows of images"));
  CHECK_THAT(refused(folder,
                     "-f resnet50 --gpu h200 --gpus 8 --spatial_ranks 2 "
                     "--dataloader.on_bad_sample skip"),
             Catch::Contains("dataloader.on_bad_sample: skip cannot be with spatial_ranks"));
  const std::string effect = "has no effect: ";
  CHECK_THAT(warned(folder, "-f resnet20_cifar10 --gpu h200 --gpus 1 --parallelism fsdp"),
             Catch::Contains("parallelism: fsdp " + effect + "there is one GPU"));
  CHECK_THAT(warned(folder,
                    "-f resnet20_cifar10 --gpu h200 --gpus 8 --parallelism zero1 --optimizer sgd "
                    "--optimizer.sgd.lr 0.1"),
             Catch::Contains("parallelism: zero1 " + effect + "the optimizer keeps no state"));

  const auto shown =
      look(folder.path(), split("plan-scale -f resnet50 --gpus 8 --gpu h200 --parallelism fsdp"));
  REQUIRE(shown.status == 0);
  CHECK(shown.errors.find("parallelism") == std::string::npos);
  for (const char* text : {"parallelism fsdp", "weights from their owners", "memory of a GPU",
                           "of other GPUs, for a while", "half-precision copies"}) {
    INFO(shown.output << "\nlacks: " << text);
    CHECK(shown.output.find(text) != std::string::npos);
  }
}

}  // namespace composer::plan_scale_test
