#include "composer/logging/tensorboard.h"
#include "tests/analysis/run_files.h"
#include "tests/analysis/traces.h"
#include "tests/fuzz/seeds.h"

namespace composer::test {
namespace {

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<std::string> trace_seeds() {
  TraceText host, device;
  for (int step = 0; step < 3; ++step) {
    const auto at = [&](int offset) { return std::to_string(step * 100 + offset) + ".250"; };
    for (auto* trace : {&host, &device})
      trace->step(step, at(0), "100")
          .range("forward", at(5), "30")
          .range("backward", at(40), "30")
          .operation("aten::conv2d", at(6), "20", "[[8, 3, 32, 32], [16, 3, 3, 3]]")
          .operation("aten::add", at(50), "3.001", "", 2);
    device.work("void add<float>(float*)", at(51), at(60), "7")
        .work("Memcpy HtoD (Pinned -> Device)", at(2), at(4), "9", 8, bandwidth("11.5"))
        .work("ncclDevKernel_AllReduce", at(70), at(75), "12", 9);
  }
  const TraceFolder folder;
  return {host.array(), host.of_rank(0), device.of_rank(1),
          bytes_of(folder.write_gzip("packed.json.gz", device.of_rank(0)))};
}

std::vector<std::string> event_file_seeds() {
  const std::string file =
      event_record(first_event(1790857026.5)) +
      event_record(summary_event(1790857027, 1, {scalar_value("loss/train", 0.5)})) +
      event_record(summary_event(1790857028, 2,
                                 {scalar_value("loss/train", 0.25), text_value("recipe", "a: 1")}));
  return {file, file + file};
}

std::vector<std::string> run_seeds() {
  const TemporaryFolder folder;
  const RunFiles files(folder, "run");
  files.write_summary(0.75);
  std::vector<std::string> seeds;
  for (const std::string name : {"metrics.jsonl", "summary.json"})
    seeds.push_back(name + "\n" + bytes_of(files.path / name));
  seeds.push_back(
      "about.json\n"
      R"({"header": ["network: tiny", "device: cpu"],
"class_names": ["cat", "dog"], "surgery": [{"algorithm": "blurpool", "changes": ["conv1"]}],
"batches_per_epoch": 2, "total_batches": 6})");
  seeds.push_back(
      "evaluation.json\n"
      R"({"epoch": 3, "batch": 6, "samples": 6, "num_classes": 2,
"per_class": [0.5, null], "confusion": [[0, 0, 2], [0, 1, 2], [1, 1, 2]], "all_ranks": true,
"wrong": [{"image": "wrong/0.png", "class": 0, "loss": 1.5, "probability": 0.25,
"likely": [[1, 0.75], [0, 0.25]]}]})");
  seeds.push_back(
      "hparams.yaml\nmodel:\n  resnet_cifar:\n    model_name: resnet_20\nalgorithms:\n  ema:\n"
      "    half_life: 1ep\nmax_duration: 3ep\n");
  return seeds;
}

}  // namespace composer::test
