// docs/scale.md's table of published figures: what the formulas give for each, and their error.
#include <catch2/catch.hpp>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "models/resnet.h"
#include "nn/network/cost.h"
#include "nn/network/graph.h"
#include "scale/plan.h"

namespace composer::published_test {

namespace {

constexpr double imagenet = 1281167, evaluation = 50000;

/// A training of ResNet-50 whose rate, or time, is published.
struct Published {
  std::string name;
  double figure;
  bool fitted;  ///< the table of rates is made from it
  int64_t gpus;
  double images_per_gpu;
  std::string gpu, network;
  Precision precision = Precision::amp_fp16;
  Kernels kernels = Kernels::pytorch;
  int64_t size = 224;
  double epochs = 0;  ///< above 0: the figure is in minutes
  double evaluations = 0;
};

constexpr auto pytorch = Kernels::pytorch, mlperf = Kernels::mlperf;
constexpr auto fp16 = Precision::amp_fp16, tf32 = Precision::tf32, fp32 = Precision::fp32;

const std::vector<Published> all{
    {"DeepLearningExamples, A100, AMP, images/s", 16621, true, 8, 256, "a100", ""},
    {"DeepLearningExamples, A100, TF32, images/s", 7248, true, 8, 256, "a100", "", tf32},
    {"DeepLearningExamples, V100, AMP, images/s", 8322, true, 8, 256, "v100", ""},
    {"DeepLearningExamples, V100, FP32, images/s", 2855, true, 8, 128, "v100", "", fp32},
    {"MLPerf v4.0, H200, images/s", 63600, true, 8, 400, "h200", "", fp16, mlperf},
    {"MLPerf v4.0, H100, images/s", 57300, true, 8, 400, "h100", "", fp16, mlperf},
    {"MLPerf v2.0, A100, minutes", 28.7, true, 8, 400, "a100", "", fp16, mlperf, 224, 35, 9},
    {"DeepLearningExamples, A100, AMP, images/s", 2470, false, 1, 256, "a100", ""},
    {"DeepLearningExamples, A100, TF32, images/s", 938, false, 1, 256, "a100", "", tf32},
    {"DeepLearningExamples, V100, AMP, images/s", 1200, false, 1, 256, "v100", ""},
    {"DeepLearningExamples, V100, FP32, images/s", 367, false, 1, 128, "v100", "", fp32},
    {"timm, A100, AMP, synthetic images, images/s", 2600, false, 1, 512, "a100", ""},
    {"Paddle's benchmark of PyTorch, A100, fp16, images/s", 2035, false, 1, 256, "a100", ""},
    {"MosaicML's baseline, A100, AMP, images/s", 16200, false, 8, 256, "a100_40gb", ""},
    {"FFCV, A100, AMP, 192 px, images/s", 20800, false, 8, 512, "a100_40gb", "", fp16, pytorch,
     192},
    {"FFCV, A100, AMP, 160 px, images/s", 28200, false, 8, 512, "a100_40gb", "", fp16, pytorch,
     160},
    {"MLPerf v4.0, H200, minutes", 12.03, true, 8, 400, "h200", "", fp16, mlperf, 224, 35, 9},
    {"MLPerf v4.0, H100, minutes", 13.25, true, 8, 400, "h100", "", fp16, mlperf, 224, 35, 9},
    {"MLPerf v3.0, H100, minutes", 13.466, false, 8, 400, "h100", "", fp16, mlperf, 224, 35, 9},
    {"MLPerf v4.0, Dell's H100, images/s", 57100, false, 8, 400, "h100", "", fp16, mlperf},
    {"MLPerf v4.0, H100, images/s", 314000, false, 64, 50, "h100", "400g", fp16, mlperf},
    {"MLPerf v4.0, H100, minutes", 2.505, false, 64, 50, "h100", "400g", fp16, mlperf, 224, 35, 9},
    {"MLPerf v3.0, H100, minutes", 2.664, false, 64, 50, "h100", "400g", fp16, mlperf, 224, 35, 9},
    {"MLPerf v3.0, H100, minutes", 0.509, false, 512, 40, "h100", "400g", fp16, mlperf, 224, 50,
     13},
    {"MLPerf v3.0, H100, minutes", 0.369, false, 768, 42, "h100", "400g", fp16, mlperf, 224, 56,
     14},
    {"MLPerf v4.0, H100, images/s", 6.88e6, false, 2528, 16, "h100", "400g", fp16, mlperf},
    {"MLPerf v4.0, H100, minutes", 0.232, false, 2528, 16, "h100", "400g", fp16, mlperf, 224, 70,
     18},
    {"MLPerf v3.0, H100, minutes", 0.183, false, 3584, 16, "h100", "400g", fp16, mlperf, 224, 77,
     20},
    {"MLPerf v4.0, H100, images/s", 10.1e6, false, 3584, 16, "h100", "400g", fp16, mlperf},
    {"MLPerf v4.0, H100, minutes", 0.183, false, 3584, 16, "h100", "400g", fp16, mlperf, 224, 77,
     20},
};

ImageWork resnet50(int64_t size) {
  ResNet::Params params;
  params.model_name = "resnet50";
  ResNet model(params);
  const auto graph = record(model, at::zeros({1, 3, size, size}));
  return work_of(graph, cost_of(graph, model), {size, size});
}

double by_formulas(const Published& one) {
  static const std::map<int64_t, ImageWork> works{
      {224, resnet50(224)}, {192, resnet50(192)}, {160, resnet50(160)}};
  Training training;
  training.batch_size = static_cast<int64_t>(one.images_per_gpu) * one.gpus;
  const double epochs = std::max(1.0, one.epochs);
  training.parts = {
      {works.at(one.size), epochs * imagenet / static_cast<double>(training.batch_size)}};
  training.evaluated_images = one.evaluations * evaluation;
  training.precision = one.precision;
  const bool half = one.precision == Precision::amp_fp16;
  training.gradient_bytes = half && one.kernels == Kernels::mlperf ? 2 : 4;
  // Horovod's fusion threshold in the configurations, of what is sent.
  if (one.kernels == Kernels::mlperf)
    training.bucket_bytes = 4.0 / static_cast<double>(training.gradient_bytes) * (64 << 20);
  Assumptions assumptions;
  assumptions.kernels = one.kernels;
  assumptions.gpu_hours_per_failure = 0;
  // "Default is no NCCL and BWD overlap" (the configurations' words).
  assumptions.overlap = one.kernels == Kernels::pytorch;
  const auto plan = plan_scale(training, find_gpu("", one.gpu),
                               find_network("", one.network.empty() ? "200g" : one.network),
                               one.gpus, assumptions, "");
  return one.epochs > 0 ? plan.seconds() / 60 : plan.images_per_s;
}

std::string number(double value) {
  std::ostringstream text;
  if (value < 100)
    text << std::setprecision(4) << value;
  else
    text << std::fixed << std::setprecision(0) << value;
  auto digits = text.str();
  if (value >= 1000)
    for (int64_t at = std::ssize(digits) - 3; at > 0; at -= 3)
      digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::string row_of(const Published& one, double found) {
  std::ostringstream text;
  const double error = (found / one.figure - 1) * 100;
  text << "| " << one.name << " | " << one.gpus << " | " << one.images_per_gpu << " | "
       << number(one.figure) << " | " << number(found) << " | "
       << (error < -0.5   ? "-"
           : error >= 0.5 ? "+"
                          : "")
       << std::fixed << std::setprecision(0) << std::abs(error) << " % | "
       << (one.fitted ? "made from it" : "") << " |";
  return text.str();
}

std::string page() {
  std::ifstream file(std::string(SOURCE_DIR) + "/docs/scale.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("docs/scale.md states the errors against what is published", "[scale]") {
  const auto text = page();
  for (const auto& one : all) {
    const auto row = row_of(one, by_formulas(one));
    INFO("docs/scale.md lacks the line\n" << row);
    CHECK(text.find(row) != std::string::npos);
  }
}

TEST_CASE("formulas are near what is published", "[scale]") {
  for (const auto& one : all) {
    const double found = by_formulas(one);
    INFO(one.name << ", " << one.gpus << " GPUs: " << found << " against " << one.figure);
    CHECK(found == Approx(one.figure).epsilon(one.fitted ? 0.015 : 0.25));
    if (one.kernels == Kernels::mlperf) CHECK(found == Approx(one.figure).epsilon(0.15));
  }
}

}  // namespace composer::published_test
