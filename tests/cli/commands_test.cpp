// The commands of the contract, run as printed.
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "composer/recipe/recipe.h"
#include "look.h"
#include "tests/python.h"
#include "tests/temporary_folder.h"

namespace composer::commands_test {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

const Words article = split(
    "examples/run_composer_trainer -f composer/yamls/models/resnet50.yaml --max_duration 88ep "
    "--train_dataset.imagenet.use_ffcv true --val_dataset.imagenet.use_ffcv true "
    "--algorithms channels_last blurpool label_smoothing progressive_resizing "
    "--algorithms.progressive_resizing.size_increment 32 "
    "--algorithms.progressive_resizing.initial_scale 0.834 "
    "--algorithms.progressive_resizing.delay_fraction 0.727 "
    "--algorithms.progressive_resizing.finetune_fraction 0.136");

/// A run of seconds on synthetic images.
const std::string tiny_recipe = R"(model:
  resnet_cifar:
    model_name: resnet_20
train_dataset:
  shapes:
    samples: 64
val_dataset:
  shapes:
    is_train: false
    shuffle: false
    drop_last: false
    samples: 40
optimizer:
  decoupled_sgdw:
    lr: 0.1
    momentum: 0.9
algorithms: [channels_last]
train_batch_size: 16
eval_batch_size: 16
max_duration: 1ep
device: cpu
run_name: run
dataloader:
  num_workers: 1
)";

/// Of a processor, that programs which have ended took.
double seconds_of_children() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace

TEST_CASE("the article's command resolves, with and without FFCV, for any number of ranks",
          "[cli][slow]") {
  const TemporaryFolder folder;
  for (const auto& ranks : {Words{"-n", "8"}, Words{"-n", "1"}, Words{}}) {
    const auto dumped = run(folder.path(), ranks + article + Words{"--dump"});
    INFO(dumped.errors);
    REQUIRE(dumped.status == 0);
    for (const char* line :
         {"max_duration: 88ep", "use_ffcv: true", "size_increment: 32", "initial_scale: 0.834",
          "delay_fraction: 0.727", "finetune_fraction: 0.136", "blurpool:"})
      CHECK(dumped.output.find(line) != std::string::npos);
    folder.write("dumped.yaml", dumped.output);
    const auto again = run(folder.path(), {"train", "-f", "dumped.yaml", "--dump"});
    CHECK(again.output == dumped.output);
  }
  for (const char* ranks : {"1", "2"}) {
    const auto ffcv = run(folder.path(), Words{"-n", ranks} + article);
    CHECK(ffcv.status == 2);
    CHECK(ffcv.errors.find("/imagenet_train.ffcv") != std::string::npos);
  }
}

TEST_CASE("the other commands of the contract resolve", "[cli][slow]") {
  const TemporaryFolder folder;
  for (const char* rest : {"--precision amp", "--algorithms channels_last",
                           "--schedulers.cosine_decay_with_warmup.interval step",
                           "--size_increment 32 --algorithms progressive_resizing"}) {
    const auto dumped = run(folder.path(), split("train -f resnet50 --dump") + split(rest));
    INFO(rest << "\n" << dumped.errors);
    CHECK(dumped.status == 0);
  }
}

TEST_CASE("the plan of the article's command shows surgery, order, sizes and learning rates",
          "[cli][slow]") {
  const TemporaryFolder folder;
  const auto planned = run(folder.path(), article + Words{"--plan", "--use_ffcv", "false"});
  CHECK(planned.status == 2);  // use_ffcv is two keys
  const auto plan = run(folder.path(), article + Words{"--plan"});
  INFO(plan.errors);
  REQUIRE(plan.status == 0);
  for (const char* text : {"1281167", "published", "blurpool changes 7 layers", "layer2.0.conv2",
                           "before_loss: label_smoothing", "after_dataloader: progressive_resizing",
                           "/width 192", "/width 224"}) {
    INFO(text);
    CHECK(plan.output.find(text) != std::string::npos);
  }
}

TEST_CASE(
    "the plan names who changes images in the loader and as bytes, and what surgery makes of the "
    "size",
    "[cli]") {
  const TemporaryFolder folder;
  const auto plan = run(
      folder.path(), split("train -f resnet20_cifar10 --train_dataset.cifar10.use_synthetic "
                           "true --plan --algorithms randaugment alternating_flip trivialaugment "
                           "no_op_model --algorithms.trivialaugment.where loader"));
  INFO(plan.errors);
  REQUIRE(plan.status == 0);
  for (const char* text :
       {"in the loader, each image: alternating_flip trivialaugment", "  augment: randaugment\n",
        "no_op_model changes 1 layer:", "the model then has 1 parameters"}) {
    INFO(text);
    CHECK(plan.output.find(text) != std::string::npos);
  }
}

TEST_CASE("the plan says which norms are one operator with what follows them", "[cli]") {
  const TemporaryFolder folder;
  const auto planned = [&](const std::string& rest) {
    const auto plan =
        run(folder.path(), split("train -f resnet20_cifar10 --train_dataset.cifar10.use_synthetic "
                                 "true --plan --device cpu --precision ") +
                               split(rest));
    INFO(plan.errors);
    CHECK(plan.status == 0);
    return plan.output;
  };
  CHECK_THAT(planned("fp32"),
             Contains("\nnorm, addition and activation in one operator: BatchNorm2d "
                      "(CPU, fp32), 21 layers\n"));
  CHECK_THAT(planned("fp32 --algorithms ghost_batchnorm"),
             Contains("in one operator: GhostBatchNorm2d (CPU, fp32), 21 layers\n"));
  CHECK_THAT(planned("amp_bf16"), Contains("BatchNorm2d (CPU, bf16), 21 layers\n"));
  CHECK_THAT(planned("fp32 --model.resnet_cifar.norm group_norm"),
             Contains("one by one: GroupNorm (there is no operator for it), 21 layers\n"));
}

TEST_CASE("fp16 on a CPU is warned of", "[cli]") {
  const TemporaryFolder folder;
  const auto errors = [&](const std::string& precision) {
    const auto done = run(
        folder.path(),
        split(
            "train --device cpu --run_dir none --algorithms no_op_model --max_duration 1ba "
            "--eval_interval 0 --train_batch_size 8 --train_dataset.shapes.samples 8 --precision " +
            precision));
    INFO(done.errors);
    CHECK(done.status == 0);
    return done.errors;
  };
  const auto warned = errors("amp_fp16");
  const std::string start = "warning: precision amp_fp16: ";
  CHECK_THAT(warned,
             Contains(start + "the CPU computes in fp16 many times slower than in float32"));
  CHECK(warned.find(start) == warned.rfind(start));
  CHECK_THAT(errors("amp_bf16"), !Contains("slower"));
}

TEST_CASE("a program that is not installed has no CMake package", "[cli]") {
  const TemporaryFolder folder;
  const auto refused = run(folder.path(), {"--cmake-dir"});
  CHECK(refused.status == 2);
  CHECK(refused.output.empty());
  CHECK_THAT(refused.errors, Contains("--cmake-dir: ") && Contains("cmake --install"));
}

TEST_CASE("the launcher's options are taken in any order, with = or a blank", "[cli]") {
  const TemporaryFolder folder;
  folder.write("show", "#!/bin/sh\necho $MASTER_ADDR:$MASTER_PORT $*\n");
  fs::permissions(folder / "show", fs::perms::owner_exec, fs::perm_options::add);
  for (const char* options : {"--master_addr=host --master_port=29501 -n1 --node_rank=0",
                              "--master_addr host --node_rank=0 --nproc=1 --master_port 29501",
                              "-n 1 --world_size=1 --master_port=29501 --master_addr host"}) {
    const auto shown = run(folder.path(), split(options) + split("./show --master_addr=own"));
    INFO(options << "\n" << shown.errors);
    CHECK(shown.status == 0);
    CHECK(shown.output == "host:29501 --master_addr=own\n");
  }
}

TEST_CASE("two steps of the article's command on synthetic data, by the program and by a trainer",
          "[cli][train][slow]") {
  const TemporaryFolder folder;
  const auto common = split(
      "-f composer/yamls/models/resnet50.yaml --max_duration 2ba "
      "--train_dataset.imagenet.use_synthetic true "
      "--val_dataset.imagenet.use_synthetic true --eval_interval 0 --precision amp "
      "--algorithms channels_last blurpool label_smoothing progressive_resizing "
      "--algorithms.progressive_resizing.size_increment 32 "
      "--algorithms.progressive_resizing.initial_scale 0.834 "
      "--schedulers.cosine_decay_with_warmup.interval step --train_batch_size 2 --device cpu "
      "--train_dataset.imagenet.crop_size 64 --num_workers 1");
  for (const auto& start : {split("-n 1 train"), split("-n 1 examples/run_composer_trainer")}) {
    const auto trained = run(folder.path(), start + common);
    INFO(trained.errors);
    CHECK(trained.status == 0);
    CHECK(trained.errors.find("completed after 0 epochs, 2 batches") != std::string::npos);
  }
}

TEST_CASE("further sets are evaluated on in training and by eval", "[cli][train][evaluators]") {
  const TemporaryFolder folder;
  folder.write("tiny.yaml", tiny_recipe +
                                "eval_interval: 0.5dur\nsave_best: metrics/other/Accuracy\n"
                                "evaluators: {other: {dataset: {shapes: {samples: 24}}, "
                                "eval_interval: 3ba}}\n");
  const auto trained = run(folder.path(), split("train -f tiny.yaml"));
  INFO(trained.errors);
  REQUIRE(trained.status == 0);
  CHECK(trained.errors.find("evaluation other: 24 samples of 32x32") != std::string::npos);
  CHECK(trained.errors.find("other accuracy ") != std::string::npos);
  std::ifstream file(folder / "runs/run/summary.json");
  const auto summary = nlohmann::json::parse(file);
  CHECK(summary.at("best_metrics").contains("metrics/other/Accuracy"));
  const auto evaluated =
      run(folder.path(), split("eval --json --load_path runs/run/checkpoints/latest"));
  INFO(evaluated.errors);
  REQUIRE(evaluated.status == 0);
  const auto metrics = nlohmann::json::parse(evaluated.output);
  for (const char* name : {"metrics/eval/Accuracy", "metrics/other/Accuracy"})
    CHECK(metrics.at(name) == summary.at("metrics").at(name));
  CHECK(metrics.contains("confusion"));

  const auto planned = run(folder.path(), split("train -f tiny.yaml --plan"));
  CHECK(planned.output.find("evaluators.other: shapes, every 3ba") != std::string::npos);
  const auto refused = run(folder.path(), split("train -f tiny.yaml --run_name b "
                                                "--evaluators.other.dataset.shapes.sample 3"));
  CHECK(refused.status == 2);
  const auto wrong = run(folder.path(), split("train -f tiny.yaml --run_name b --num_classes 2"));
  CHECK(wrong.status == 2);
  CHECK(wrong.errors.find("evaluators.other.dataset.shapes: ") != std::string::npos);
}

TEST_CASE("train, evaluate, predict, look at the checkpoint", "[cli][train][slow]") {
  const TemporaryFolder folder;
  folder.write("tiny.yaml", tiny_recipe);
  const auto trained = run(folder.path(), split("train -f tiny.yaml"));
  INFO(trained.errors);
  REQUIRE(trained.status == 0);
  CHECK(trained.output.empty());
  CHECK(trained.errors.find("epoch 1/1") != std::string::npos);

  const auto evaluated =
      run(folder.path(), split("eval -f tiny.yaml --load_path runs/run/checkpoints/latest"));
  REQUIRE(evaluated.status == 0);
  std::ifstream file(folder / "runs/run/summary.json");
  const auto summary = nlohmann::json::parse(file);
  const auto metrics = nlohmann::json::parse(evaluated.output);
  CHECK(metrics.at("metrics/eval/Accuracy") == summary.at("metrics").at("metrics/eval/Accuracy"));
  CHECK(metrics.at("metrics/eval/CrossEntropy").get<double>() ==
        Approx(summary.at("metrics").at("metrics/eval/CrossEntropy").get<double>()).epsilon(1e-5));

  const auto by_weights =
      run(folder.path(), split("eval -f tiny.yaml --load_path "
                               "runs/run/checkpoints/latest/model-00001-of-00001.safetensors"));
  CHECK(by_weights.output == evaluated.output);

  // Pictures whose second is none: the others keep their names, or places in a .beton file.
  const fs::path photos = folder.path() / "photos/a";
  fs::create_directories(photos);
  for (const char* name : {"1.ppm", "3.ppm"})
    std::ofstream(photos / name) << "P6 1 1 255\n" << (name[0] == '1' ? "\x10\x20\x30" : "abc");
  std::ofstream(photos / "2.ppm") << "no image";
  const std::string predict = "predict -f tiny.yaml --load_path runs/run/checkpoints/latest ";
  const auto sources = [&](const std::string& words, const char* key) {
    const auto predicted = run(folder.path(), split(predict + words));
    INFO(predicted.errors);
    CHECK(predicted.status == 0);
    std::string all;
    std::istringstream lines(predicted.output);
    for (std::string line; std::getline(lines, line);)
      all += nlohmann::json::parse(line).at(key).dump() + ' ';
    return all;
  };
  CHECK(sources("--source photos --on_bad_sample skip", "source") ==
        "\"photos/a/1.ppm\" \"photos/a/3.ppm\" ");
  REQUIRE(run(folder.path(), split("data write --format image_folder --source photos --output "
                                   "f.beton --on_bad_sample skip"))
              .status == 0);
  CHECK(sources("--source f.beton", "index") == "0 1 ");

  const auto info = run(folder.path(), split("checkpoint info runs/run/checkpoints/latest"));
  CHECK(info.status == 0);
  CHECK(info.output.find("conv1.weight [16,3,3,3]") != std::string::npos);

  // The resolved recipe repeats the run.
  const auto again = run(folder.path(), split("train -f runs/run/hparams.yaml --run_name again"));
  REQUIRE(again.status == 0);
  std::ifstream second(folder / "runs/again/summary.json");
  CHECK(nlohmann::json::parse(second).at("metrics").at("loss/train") ==
        summary.at("metrics").at("loss/train"));

  const auto exists = run(folder.path(), split("train -f tiny.yaml"));
  CHECK(exists.status == 2);
  CHECK(exists.errors.find("exists already") != std::string::npos);
}

TEST_CASE("commands to go on with can be pasted into a shell", "[cli]") {
  const TemporaryFolder folder;
  const auto outcome =
      run(folder.path(), split("train --train_dataset.shapes.samples 16 "
                               "--val_dataset.shapes.samples 16 --train_batch_size 16 "
                               "--max_duration 1ba --precision fp32 --num_workers 1") +
                             Words{"--run_dir", "my runs", "--run_name", "it's"});
  INFO(outcome.errors);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.errors,
             Contains("composer eval --load_path 'my runs/it'\\''s/checkpoints/latest'\n"));
}

TEST_CASE("list and describe", "[cli][slow]") {
  const TemporaryFolder folder;
  const auto algorithms = run(folder.path(), {"list", "algorithms"});
  CHECK(algorithms.status == 0);
  for (const char* name : {"blurpool", "channels_last", "label_smoothing", "progressive_resizing"})
    CHECK(algorithms.output.find(std::string(name) + " ") != std::string::npos);
  for (const char* kind :
       {"models", "datasets", "optimizers", "schedulers", "callbacks", "loggers", "recipes"})
    CHECK(run(folder.path(), {"list", kind}).status == 0);
  const auto described = run(folder.path(), {"describe", "algorithm", "progressive_resizing"});
  CHECK(described.status == 0);
  for (const char* text : {"initial_scale", "0.5", "in [0, 1]", "resize or crop"})
    CHECK(described.output.find(text) != std::string::npos);
  CHECK(run(folder.path(), {"describe", "model", "resnet"}).output.find("num_classes") !=
        std::string::npos);
  CHECK(run(folder.path(), {"list", "callbacks"}).output.find("\nmfu ") != std::string::npos);
  CHECK(run(folder.path(), {"describe", "callback", "mfu"}).output.find("peak_flops") !=
        std::string::npos);
}

TEST_CASE("the wheel's package starts the program as a module, too", "[cli]") {
  if (!test::has_python()) {
    WARN("skipped: there is no Python of the tests");
    return;
  }
  const TemporaryFolder folder;
  fs::create_directories(folder / "composer_native/bin");
  for (const char* file : {"__init__.py", "__main__.py"})
    fs::copy_file(fs::path(SOURCE_DIR) / "packaging/composer_native" / file,
                  folder / "composer_native" / file);
  const auto program =
      folder.write("composer_native/bin/composer", "#!/bin/sh\necho \"$LIBTORCH $*\"\n");
  fs::permissions(program, fs::perms::owner_all);
  CHECK(
      test::run_python("import subprocess, sys\n"
                       "words = [sys.executable, '-m', 'composer_native', 'train', '--plan']\n"
                       "done = subprocess.run(words, env={'LIBTORCH': 'here'}, "
                       "capture_output=True, text=True)\n"
                       "assert done.stdout == 'here train --plan\\n', done\n",
                       folder));
}

TEST_CASE("commands that lack a word are answered with the whole one", "[cli][slow]") {
  const TemporaryFolder folder;
  const auto refused = [&](const char* line, const std::string& text) {
    INFO(line);
    const auto outcome = look(folder.path(), split(line));
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.errors, Contains(text));
  };
  refused("describe blurpool", "did you mean composer describe algorithm blurpool?");
  refused("describe algorithm", "`composer list algorithms`");
  refused("describe quickstart", "composer train -f quickstart --dump");
  refused("describe blurpol", "did you mean 'blurpool'?");
  refused("version", "did you mean '--version'?");
  refused("train --gpus 4", "did you mean composer -n 4 ...?");
  refused("--nproc_per_node 4 train", "did you mean composer -n 4 ...?");
  const auto help = look(folder.path(), {"help"});
  CHECK(help.status == 0);
  CHECK(help.output == look(folder.path(), {"--help"}).output);
  CHECK(look(folder.path(), split("help data info")).output ==
        look(folder.path(), split("data info --help")).output);

  folder.write("a.jpg", "");
  fs::create_directories(folder / "weights");
  folder.write("weights/manifest.json", "{}");
  refused("predict a.jpg", "did you mean composer predict --source a.jpg?");
  refused("predict weights a.jpg --top_k 2",
          "did you mean composer predict --load_path weights --source a.jpg --top_k 2?");
  refused("predict --load_path weights a.jpg", "did you mean composer predict --source a.jpg ...?");
  refused("predict --model weights a.jpg", "did you mean composer predict --source a.jpg ...?");
  refused("eval weights", "did you mean composer eval --load_path weights?");
  refused("eval w.pth --json", "did you mean composer eval --load_path w.pth --json?");
  refused("eval weights .", "did you mean composer eval --load_path weights --datadir .?");
}

TEST_CASE("every recipe of the program resolves, and its dump resolves to itself", "[cli][slow]") {
  const TemporaryFolder folder;
  for (const auto& recipe : list_recipes()) {
    INFO(recipe.name);
    const auto dumped = look(folder.path(), {"train", "-f", recipe.name, "--dump"});
    INFO(dumped.errors);
    REQUIRE(dumped.status == 0);
    folder.write("dumped.yaml", dumped.output);
    CHECK(look(folder.path(), {"train", "-f", "dumped.yaml", "--dump"}).output == dumped.output);
  }
}

TEST_CASE("help and list are quick", "[cli][slow]") {
  const TemporaryFolder folder;
  const auto least_seconds = [&](const std::string& word, const char* program) {
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      const double begin = seconds_of_children();
      CHECK(run(folder.path(), {word}, program).status == 0);
      best = std::min(best, seconds_of_children() - begin);
    }
    return best;
  };
  const double of_libtorch = least_seconds("neither", FIRST_QUESTION);  // that it be loaded
  for (const char* word : {"--help", "list"}) {
    INFO(word);
    CHECK(least_seconds(word, PROGRAM) < 2 * of_libtorch + 0.2);
  }
}

TEST_CASE("bench step times algorithms, with values too", "[cli][slow]") {
  const TemporaryFolder folder;
  auto words = split(
      "bench step --model resnet9 --batch_size 4 --resolution 32 --precision fp32 "
      "--device cpu --steps 1 --repeats 1 --json --algorithms ema");
  words.push_back("cutout: {length: 0.25}");
  const auto done = Process(folder.path(), words).wait();
  INFO(done.errors);
  REQUIRE(done.status == 0);
  const auto result = nlohmann::json::parse(done.output);
  CHECK(result["images_per_s"] > 0);
  CHECK(result["peak_memory_mb"] > 0);
  for (const char* name : {"channels_last", "label_smoothing", "ema", "cutout"})
    CHECK(result["hook_fractions"].contains(name));
}

TEST_CASE("bench step tells operators, ranges and conversions of further steps", "[cli][slow]") {
  const TemporaryFolder folder;
  const auto measure = [&](const std::string& more) {
    const auto done = run(folder.path(), split("bench step --model resnet20 --batch_size 4 "
                                               "--resolution 32 --device cpu --steps 2 "
                                               "--repeats 1 --operators " +
                                               more));
    INFO(done.errors);
    REQUIRE(done.status == 0);
    return done.output;
  };
  const auto result = nlohmann::json::parse(measure("--precision fp32 --json"));
  double shares = result["outside_operators"];
  CHECK(shares >= 0);
  CHECK(shares < 0.9);
  std::map<std::string, nlohmann::json> operators, ranges;
  for (const auto& one : result["operators"]) {
    operators[one["name"]] = one;
    shares += one["share"].get<double>();
  }
  CHECK(shares == Approx(1));
  CHECK(std::ranges::is_sorted(result["operators"], std::greater(), [](const auto& one) {
    return one["self_ms"].template get<double>();
  }));
  CHECK(operators.at("aten::conv2d")["calls"] == 21);
  CHECK(operators.at("composer::FusedBatchNorm backward")["calls"] == 21);
  for (const auto& [name, one] : operators) {
    INFO(name);
    CHECK(name.find("anonymous") == std::string::npos);
    CHECK(name.find('<') == std::string::npos);
  }
  CHECK(operators.at("aten::convolution_backward")["calls"] == 21);
  for (const auto& one : result["ranges"]) ranges[one["name"]] = one;
  double parts = 0;
  for (const char* name : {"forward", "backward", "optimizer"}) {
    CHECK(ranges.at(name)["calls"] == 1);
    CHECK(ranges.at(name)["ms"] > 0);
    parts += ranges.at(name)["share"].get<double>();
  }
  CHECK(parts > 0.5);
  CHECK(parts <= 1);
  CHECK(ranges.at("before_loss")["self_ms"] < ranges.at("before_loss")["ms"]);

  const auto mixed = nlohmann::json::parse(measure("--precision amp_bf16 --json"));
  // Images become bfloat16, logits and the linear layer's gradients float again.
  CHECK(mixed["conversions"].get<double>() >= 4);
  const auto table = measure("--precision fp32");
  for (const char* part : {"operator ", "aten::convolution_backward", "outside of operators",
                           "range ", "backward", "others", "conversions of type or layout"})
    CHECK_THAT(table, Contains(part));
}

TEST_CASE("bench augment times an algorithm on batches and in the loader", "[cli][slow]") {
  const TemporaryFolder folder;
  for (const std::string algorithm : {"augmix", "random_erasing", "randaugment"})
    for (const std::string where : {"device", "loader"}) {
      INFO(algorithm << " " << where);
      const auto done =
          Process(folder.path(), split("bench augment --batch_size 16 --resolution 32 "
                                       "--batches 1 --repeats 1 --json --algorithm " +
                                       algorithm + " --where " + where))
              .wait();
      REQUIRE(done.status == 0);
      const auto result = nlohmann::json::parse(done.output);
      CHECK(result["images_per_s"] > 0);
      CHECK(result["where"] == where);
    }
  const auto idle = Process(folder.path(), split("bench augment --batch_size 2 --resolution 32 "
                                                 "--algorithm random_erasing --probability 0"))
                        .wait();
  CHECK(idle.status == 2);
  CHECK(idle.errors.find("changed no image") != std::string::npos);
}

}  // namespace composer::commands_test
