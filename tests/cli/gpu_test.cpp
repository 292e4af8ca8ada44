// The way of a GPU through the program, on a stand-in for the driver and for LibTorch's CUDA
// library (tests/stand_in). It shows the order of questions, where the host waits and tensors of
// different devices; what CUDA's own kernels do it does not.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "program.h"
#include "tests/temporary_folder.h"

namespace composer::gpu_test {

namespace fs = std::filesystem;

namespace {

/// Environment variables for the programs started while it lives.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) {
      const char* before = std::getenv(name.c_str());
      before_[name] = before == nullptr ? std::nullopt : std::optional<std::string>(before);
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_)
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

/// The program on a machine with the stand-in for a GPU.
class WithStandIn {
 public:
  explicit WithStandIn(std::map<std::string, std::string> more = {}) {
    more["LD_LIBRARY_PATH"] = STAND_IN;
    more["STAND_IN_LOG"] = log_file();
    environment_.emplace(more);
  }

  Outcome run(const std::string& line, const std::string& program = PROGRAM) {
    fs::remove(log_file());
    auto outcome = composer::run(folder_.path(), split(line), program);
    INFO(line << "\n" << outcome.errors);
    return outcome;
  }
  const fs::path& folder() const { return folder_.path(); }

  /// A copy of the program that takes the stand-in for libcomposer_cuda.so, from lib/ beside its
  /// folder.
  std::string with_library() const {
    fs::create_symlink(STAND_IN, folder() / "lib");
    return copy_of_program();
  }
  /// One for which a file that is none lies there.
  std::string with_broken_library() const {
    fs::create_directories(folder() / "lib");
    folder_.write("lib/libcomposer_cuda.so", "text");
    return copy_of_program();
  }

  /// What the last run noted, by how often.
  std::map<std::string, int> notes() const {
    std::map<std::string, int> counts;
    std::ifstream file(log_file());
    for (std::string line; std::getline(file, line);) ++counts[line];
    return counts;
  }
  /// How often the last run's host waited for the GPU.
  int waits() const {
    int sum = 0;
    for (const auto& [line, count] : notes())
      if (line.starts_with("wait")) sum += count;
    return sum;
  }

 private:
  std::string log_file() const { return (folder_.path() / "stand_in.log").string(); }
  std::string copy_of_program() const {
    const auto program = folder() / "bin/composer";
    fs::create_directories(program.parent_path());
    fs::copy(PROGRAM, program);
    return program.string();
  }

  TemporaryFolder folder_;
  std::optional<Environment> environment_;
};

const std::string small =
    "train --model.resnet_cifar.model_name resnet_20 "
    "--train_batch_size 8 --eval_batch_size 8 --train_dataset.shapes.samples 80 --seed 3 "
    "--val_dataset.shapes.samples 16 --dataloader.num_workers 1 --progress_bar false ";

/// For fp16, which a CPU computes slowly.
const std::string smaller = " --train_dataset.shapes.size 16 --val_dataset.shapes.size 16 ";

nlohmann::json summary_of(const fs::path& run) {
  std::ifstream file(run / "summary.json");
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("what asks LibTorch about CUDA too early is told so", "[cli][stand_in][slow]") {
  WithStandIn machine;
  for (const char* question : {"nothing", "seed_generator"})
    CHECK(machine.run(question, FIRST_QUESTION).output == "cuda:0\n");
  for (const char* question : {"manual_seed", "hasCUDA", "is_pinned"})
    CHECK(
        machine.run(question, FIRST_QUESTION).output ==
        "device: gpu: LibTorch was asked about CUDA before its CUDA library was opened; use cpu or "
        "auto\n");
}

TEST_CASE("ranks have a GPU each, and sum gradients between these", "[cli][stand_in][slow]") {
  WithStandIn machine(std::map<std::string, std::string>{{"STAND_IN_GPUS", "2"}});
  const auto program = machine.with_library();
  const auto train = [&](const std::string& batches) {
    const auto two = machine.run("-n 2 " + small + "--precision fp32 --algorithms channels_last " +
                                     "--grad_comm bf16 --eval_interval 0 --run_name " + batches +
                                     " --max_duration " + batches,
                                 program);
    INFO(two.errors);
    REQUIRE(two.status == 0);
    CHECK(machine.notes()["nccl"] == 2);
    CHECK(machine.notes()["nccl: shutdown"] == 2);
    const auto summary = summary_of(machine.folder() / "runs" / batches);
    CHECK(summary["device"] == "cuda:0");
    CHECK(summary["world_size"] == 2);
    return machine.waits();
  };
  const int waits = train("3ba");
  INFO("steps that follow do not wait for the GPU");
  CHECK(train("8ba") == waits);
}

TEST_CASE("train, eval and predict use a GPU that is there", "[cli][stand_in][slow]") {
  WithStandIn machine;
  const auto trained = machine.run(
      small + "--run_name a --max_duration 3ba --precision fp32 --algorithms channels_last");
  REQUIRE(trained.status == 0);
  const auto summary = summary_of(machine.folder() / "runs/a");
  CHECK(summary["device"] == "cuda:0");
  CHECK(summary["peak_memory_bytes"] < 100'000'000);  // the GPU's, not the process's
  CHECK(machine.notes()["opened"] == 1);

  REQUIRE(machine
              .run(small + "--run_name b --max_duration 3ba --precision fp32 --algorithms "
                           "channels_last --device cpu")
              .status == 0);
  CHECK(machine.notes().empty());
  const auto on_cpu = summary_of(machine.folder() / "runs/b")["metrics"];
  for (const char* metric : {"loss/train", "metrics/eval/CrossEntropy"})
    CHECK(summary["metrics"][metric].get<double>() ==
          Approx(on_cpu[metric].get<double>()).epsilon(1e-3));

  const std::string use =
      "--load_path runs/a/checkpoints/latest --model.resnet_cifar.model_name "
      "resnet_20 --dataloader.num_workers 1 ";
  const std::string drawn = "--val_dataset.shapes.samples 16 --val_dataset.shapes.ffcv_dir drawn ";
  REQUIRE(machine.run("eval " + drawn + use).status == 0);
  CHECK(machine.notes()["opened"] == 1);

  std::string images;
  for (const auto& entry : fs::directory_iterator(machine.folder() / "drawn"))
    if (entry.path().extension() == ".beton") images = entry.path().string();
  const auto predicted = machine.run("predict --source " + images + " " + drawn + use);
  REQUIRE(predicted.status == 0);
  CHECK(std::ranges::count(predicted.output, '\n') == 16);
  constexpr int64_t batch_bytes = 16 * 32 * 32 * 3;
  CHECK(machine.notes().count("wait: upload of " + std::to_string(batch_bytes) +
                              " bytes, not pinned") == 0);
}

TEST_CASE("what needs no GPU does not open CUDA", "[cli][stand_in][slow]") {
  WithStandIn machine;
  for (const char* line : {"--help", "train --help", "train --dump", "train --plan",
                           "list algorithms", "bench step --help"}) {
    CAPTURE(line);
    CHECK(machine.run(line).status == 0);
    CHECK(machine.notes().empty());
  }
}

TEST_CASE("a driver without a GPU is a warning under auto and one error under gpu",
          "[cli][stand_in][slow]") {
  const auto count = [](const std::string& text, const std::string& part) {
    int found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  };
  const auto [variables, reason] =
      GENERATE(std::pair<std::map<std::string, std::string>, std::string>(
                   {{"STAND_IN_GPUS", "0"}, {"STAND_IN_CUINIT", "100"}},
                   "the NVIDIA driver says: no CUDA-capable device is detected"),
               std::pair<std::map<std::string, std::string>, std::string>(
                   {{"STAND_IN_GPUS", "0"}, {"STAND_IN_DRIVER", "12040"}},
                   "the NVIDIA driver is made for CUDA 12.4, LibTorch needs 13.0"));
  WithStandIn machine(variables);
  const auto automatic = machine.run(small + "--run_dir none --max_duration 1ba");
  CHECK(automatic.status == 0);
  CHECK(count(automatic.errors, "device: auto: the CPU computes: " + reason) == 1);
  const auto forced = machine.run(small + "--run_dir none --max_duration 1ba --device gpu");
  CHECK(forced.status == 2);
  CHECK(count(forced.errors, reason) == 1);
  CHECK(forced.errors.find("train_dataset.shapes: device") == std::string::npos);
}

namespace {

/// Trains with `algorithms`, and counts how often the host waits for the GPU.
void check_steps_do_not_wait(const std::string& algorithms) {
  CAPTURE(algorithms);
  WithStandIn machine;
  const auto waits = [&](int batches) {
    const auto outcome = machine.run(
        small +
        "--run_dir none --eval_interval 0ep --device gpu --log_interval 100ba --algorithms " +
        algorithms + " --max_duration " + std::to_string(batches) + "ba");
    INFO(outcome.errors);
    REQUIRE(outcome.status == 0);
    return machine.waits();
  };
  const int few = waits(4);
  const int many = waits(8);
  for (const auto& [line, count] : machine.notes()) UNSCOPED_INFO(count << " x " << line);
  CHECK(many == few);
  INFO("what is copied ahead is waited for, and keeps its memory until it has been used");
  auto notes = machine.notes();
  CHECK(notes["stream 0 waits"] >= 2 * 8);
  CHECK(notes["memory used on stream 0"] == notes["stream 0 waits"]);
}

}  // namespace

TEST_CASE("training steps do not wait for the GPU", "[cli][stand_in][slow]") {
  check_steps_do_not_wait(
      "channels_last blurpool label_smoothing progressive_resizing mixup --precision amp_fp16" +
      smaller);
}

TEST_CASE("steps with more algorithms do not wait for the GPU", "[cli][stand_in][long]") {
  check_steps_do_not_wait("channels_last --precision fp32");
  check_steps_do_not_wait(
      "cutmix colout stochastic_depth squeeze_excite ema sam --precision fp32 "
      "--algorithms.squeeze_excite.min_channels 16 "
      "--algorithms.stochastic_depth.stochastic_method sample");
  check_steps_do_not_wait(
      "randaugment random_erasing cutout --precision amp_fp16 --deterministic_mode true "
      "--algorithms.randaugment.where device --algorithms.random_erasing.where device" +
      smaller);
  check_steps_do_not_wait(
      "augmix selective_backprop ghost_batchnorm --precision amp_fp16 "
      "--algorithms.augmix.where device" +
      smaller);
}

namespace {

/// All tensors of a checkpoint.
std::string bytes_of(const fs::path& folder) {
  std::map<fs::path, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    files[entry.path()] = {std::istreambuf_iterator<char>(in), {}};
  }
  std::string all;
  for (const auto& [path, bytes] : files) all += bytes;
  return all;
}

/// Trains 12 batches with `words` by steps that run and by replayed ones, whole and with a
/// resumption in between. `shapes`: how many shapes of batches there are, each recorded once;
/// `updates`: of the weights.
void check_replayed_steps(const std::string& words, int shapes, int updates) {
  CAPTURE(words);
  WithStandIn machine;
  const auto program = machine.with_library();
  const auto train = [&](const std::string& name, const std::string& more) {
    const auto outcome = machine.run(
        small + "--device gpu --eval_interval 0ep --run_name " + name + " " + words + " " + more,
        program);
    INFO(outcome.errors);
    REQUIRE(outcome.status == 0);
    return bytes_of(machine.folder() / "runs" / name / "checkpoints/latest");
  };
  const auto plain = train("plain", "--max_duration 12ba --cuda_graph false");
  CHECK(machine.notes().count("recorded") == 0);
  const int waits = machine.waits();
  CHECK(plain == train("replayed", "--max_duration 12ba --cuda_graph true"));
  CHECK(machine.notes()["recorded"] == shapes);
  CHECK(machine.notes()["replayed"] == updates - 3 * shapes);
  CHECK(machine.waits() == waits);

  INFO("a resumption in between");
  const auto resumed = [&](const std::string& word) {
    train("resumed_" + word, "--max_duration 5ba --cuda_graph " + word);
    return train("resumed_" + word, "--max_duration 12ba --autoresume true --cuda_graph " + word);
  };
  CHECK(resumed("false") == resumed("true"));
}

}  // namespace

TEST_CASE("replayed steps give the bytes that steps give which run", "[cli][stand_in][slow]") {
  check_replayed_steps(
      "--algorithms progressive_resizing cutmix lookahead whitening --precision fp32 "
      "--algorithms.progressive_resizing.size_increment 16 --optimizer adamw",
      2, 12);
}

TEST_CASE("replayed steps with more algorithms give the same bytes", "[cli][stand_in][long]") {
  check_replayed_steps("--algorithms channels_last label_smoothing --precision fp32", 1, 12);
  check_replayed_steps(
      "--algorithms channels_last blurpool mixup ema squeeze_excite gradient_clipping "
      "--algorithms.squeeze_excite.min_channels 16 --precision amp_fp16 "
      "--algorithms.gradient_clipping.clipping_type norm "
      "--algorithms.gradient_clipping.clipping_threshold 0.5 --grad_accum 2" +
          smaller,
      1, 12);
}

TEST_CASE("a run says why its steps are not replayed", "[cli][stand_in][slow]") {
  WithStandIn machine;
  const auto program = machine.with_library();
  const auto errors = [&](const std::string& words) {
    return machine.run(small + "--device gpu --run_dir none --max_duration 2ba " + words, program)
        .errors;
  };
  CHECK(errors("--algorithms dropout")
            .find("cuda_graph: off: dropout: draws on the host in every forward pass") !=
        std::string::npos);
  CHECK(errors("--algorithms sam --cuda_graph true")
            .find("cuda_graph: true: steps cannot be replayed: sam:") != std::string::npos);
  CHECK(machine.run(small + "--plan --algorithms dropout")
            .output.find(
                "cuda_graph: auto, off: dropout: draws on the host in every forward pass\n") !=
        std::string::npos);
}

TEST_CASE("a plan names the fusions that are switched off", "[cli][stand_in][slow]") {
  const auto plan = [](const std::string& off) {
    return WithStandIn(std::map<std::string, std::string>{{"COMPOSER_UNFUSED", off}})
        .run(small + "--plan --device gpu");
  };
  CHECK(plan("").output.find("without") == std::string::npos);
  CHECK(plan("pool,marks").output.find("8 channels, without marks, without pool), ") !=
        std::string::npos);
  const auto unknown = plan("joins");
  CHECK(unknown.status == 2);
  CHECK(unknown.errors.find("COMPOSER_UNFUSED: 'joins' is none of join, marks, residual_norm, "
                            "pool") != std::string::npos);
}

TEST_CASE("batch norm trains a network as step by step, with and without each fusion",
          "[cli][stand_in][slow]") {
  const std::vector<std::string> fusions{"join", "marks", "residual_norm", "pool"};
  const auto off = GENERATE(as<std::string>{}, "", "join", "marks", "residual_norm", "pool");
  CAPTURE(off);
  WithStandIn machine({{"COMPOSER_UNFUSED", off}});
  std::ofstream(machine.folder() / "recipe.yaml")
      << "model: {resnet: {model_name: resnet18, num_classes: 10}}\n"
         "train_dataset: {shapes: {samples: 16, size: 64}}\n"
         "train_batch_size: 8\nmax_duration: 2ba\nseed: 3\nprecision: fp32\ndevice: gpu\n"
         "algorithms: {channels_last: {}}\n";
  const auto outcome =
      machine.run("check -f recipe.yaml --against unfused --steps 2", machine.with_library());
  INFO(outcome.output << outcome.errors);
  CHECK(outcome.status == 0);
  std::string used;
  for (const auto& [line, count] : machine.notes())
    if (line.starts_with("norm ")) used += line + "\n";
  for (const auto& fusion : fusions)
    CHECK((used.find("with " + fusion) != std::string::npos) == (fusion != off));
}

TEST_CASE("a library of another version, or none, is told of once", "[cli][stand_in][slow]") {
  const auto& [variables, library, reason] =
      GENERATE(std::tuple<std::map<std::string, std::string>, bool, std::string>(
                   {{"STAND_IN_OTHER_VERSION", "1"}}, true, "is of another version than this"),
               std::tuple<std::map<std::string, std::string>, bool, std::string>(
                   {}, false, "libcomposer_cuda.so, which cannot be opened"));
  WithStandIn machine(variables);
  const auto outcome =
      machine.run(small + "--device gpu --run_dir none --max_duration 1ba",
                  library ? machine.with_library() : machine.with_broken_library());
  INFO(outcome.errors);
  CHECK(outcome.status == 0);
  const std::string begin = "the GPU computes by LibTorch's operators alone, more slowly: ";
  const auto at = outcome.errors.find(begin);
  REQUIRE(at != std::string::npos);
  CHECK(outcome.errors.find(begin, at + 1) == std::string::npos);
  CHECK(outcome.errors.find(reason, at) != std::string::npos);
}

namespace {

/// Trains with `words` by LibTorch's operators and by the kernel: which types the images get, and
/// the same results.
void check_normalised_by_one_kernel(const std::string& words, const std::string& trained,
                                    const std::string& evaluated) {
  CAPTURE(words);
  WithStandIn machine(std::map<std::string, std::string>{{"STAND_IN_NORM", "0"}});
  const auto train = [&](const std::string& program, const std::string& name) {
    const auto outcome = machine.run(
        small + "--device gpu --max_duration 12ba --run_name " + name + " " + words, program);
    INFO(outcome.errors);
    REQUIRE(outcome.status == 0);
    std::string ending = bytes_of(machine.folder() / "runs" / name / "checkpoints/latest");
    const auto metrics = summary_of(machine.folder() / "runs" / name)["metrics"];
    for (const auto& [metric, value] : metrics.items())
      if (metric.starts_with("metrics/") || metric.starts_with("loss/"))
        ending += metric + value.dump();
    return ending;
  };
  const auto by_operators = train(PROGRAM, "operators");
  const int waits = machine.waits();
  const auto by_kernel = train(machine.with_library(), "kernel");
  CHECK(machine.waits() <= waits);  // those of the operators upload their constants
  std::map<std::string, int> expected;
  expected["normalised to " + trained] += 12;
  expected["normalised to " + evaluated] += 2 * 2;  // two evaluations of two batches
  auto found = machine.notes();
  std::erase_if(found, [](const auto& item) { return !item.first.starts_with("normalised"); });
  CHECK(found == expected);
  CHECK((by_kernel == by_operators));
}

}  // namespace

TEST_CASE("images are normalised by one kernel, in the type that the network computes in",
          "[cli][stand_in][slow]") {
  check_normalised_by_one_kernel(
      "--precision amp_fp16 --algorithms channels_last ema test_time_augmentation" + smaller,
      "Half", "Half");
}

TEST_CASE("images are normalised by one kernel, in other types too", "[cli][stand_in][long]") {
  check_normalised_by_one_kernel("--precision fp32", "Float", "Float");
  check_normalised_by_one_kernel("--precision amp_bf16 --algorithms channels_last mixup", "Float",
                                 "BFloat16");
}

TEST_CASE("check holds the GPU against the CPU", "[cli][stand_in][slow]") {
  const auto [words, precision] =
      GENERATE(std::pair<std::string, std::string>(
                   "--precision amp_bf16 --algorithms channels_last mixup", "amp_bf16"),
               std::pair<std::string, std::string>(
                   "--precision amp_fp16 --algorithms channels_last" + smaller, "fp32"));
  CAPTURE(words);
  WithStandIn machine;
  const std::string recipe = small.substr(small.find(' '));
  const auto outcome = machine.run(
      "check -f quickstart --against cpu --device gpu --steps 4 "
      "--free_steps 1 --json " +
          recipe + words,
      machine.with_library());
  INFO(outcome.errors << outcome.output);
  REQUIRE(outcome.status == 0);
  CHECK(machine.notes()["opened"] == 1);
  const auto result = nlohmann::json::parse(outcome.output);
  CHECK(result["within"] == true);
  CHECK(result["checked"]["device"] == "cuda:0");
  CHECK(result["reference"]["device"].get<std::string>().starts_with("cpu"));
  CHECK(result["reference"]["precision"] == precision);
  for (const auto& deviation : result["deviations"]) CHECK(deviation["by_step"].size() == 4);
}

}  // namespace composer::gpu_test
