#include "composer/callbacks/evaluation_recorder.h"

#include <ATen/core/grad_mode.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files/atomic_file.h"
#include "base/json_number.h"
#include "base/log.h"
#include "base/url_secrets.h"
#include "composer/logging/png.h"
#include "composer/loop/state.h"
#include "nn/network/normalize.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr int64_t widest_picture = 192;
constexpr int64_t most_likely = 5;

/// cells: ConfusionMatrix::cells().
void add_counts(ordered_json& json, const at::Tensor& cells, int64_t num_classes) {
  std::vector<int64_t> samples(static_cast<size_t>(num_classes)), hits(samples.size());
  auto confusion = ordered_json::array();
  const auto cell = cells.accessor<int64_t, 2>();
  for (int64_t i = 0; i < cells.size(0); ++i) {
    const int64_t label = cell[i][0], taken_for = cell[i][1], count = cell[i][2];
    confusion.push_back({label, taken_for, count});
    samples.at(static_cast<size_t>(label)) += count;
    if (label == taken_for) hits.at(static_cast<size_t>(label)) = count;
  }
  auto& per_class = json["per_class"] = ordered_json::array();
  for (size_t label = 0; label < samples.size(); ++label)
    per_class.push_back(samples[label] == 0 ? ordered_json()
                                            : ordered_json(static_cast<double>(hits[label]) /
                                                           static_cast<double>(samples[label])));
  json["confusion"] = std::move(confusion);
}

/// True if the evaluation in `file` ran after `batches` batches or fewer.
bool is_of_before(const fs::path& file, int64_t batches) {
  std::ifstream in(file);
  const auto json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  const auto batch = json.is_object() ? json.find("batch") : json.end();
  return batch != json.end() && batch->is_number_integer() && batch->get<int64_t>() <= batches;
}

/// The JSON of one sample. logits: float32 [num_classes] on the CPU.
ordered_json opinion(const at::Tensor& logits, int64_t label, double loss) {
  const auto probabilities = logits.softmax(0).to(at::kDouble);
  const auto [values, classes] = probabilities.topk(std::min(most_likely, logits.size(0)));
  auto likely = ordered_json::array();
  for (int64_t i = 0; i < values.size(0); ++i)
    likely.push_back({classes[i].item<int64_t>(), json_number(values[i].item<double>())});
  return {{"class", label},
          {"loss", json_number(loss)},
          {"probability", json_number(probabilities[label].item<double>())},
          {"likely", likely}};
}

std::string png_of(const at::Tensor& pixels) {
  return png(pixels.size(0), pixels.size(1), pixels.size(2),
             {pixels.const_data_ptr<uint8_t>(), static_cast<size_t>(pixels.numel())});
}

/// Removes the images of earlier evaluations.
void remove_others(const fs::path& folder, const std::string& prefix) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (!entry.path().filename().string().starts_with(prefix)) fs::remove(entry.path(), ignored);
}

}  // namespace

void WrongImages::add(const at::Tensor& input, const at::Tensor& logits, const at::Tensor& classes,
                      const at::Tensor& indices) {
  const at::NoGradGuard no_grad;
  const auto numbers = logits.to(at::kFloat);
  const auto losses = at::cross_entropy_loss(numbers, classes, /*weight=*/{}, at::Reduction::None);
  const bool full = losses_.defined() && losses_.size(0) == most_;
  if (full && losses.is_cpu() && losses.max().item<float>() <= losses_[-1].item<float>()) return;
  const auto worst = std::get<1>(losses.topk(std::min(most_, losses.size(0))));
  const auto put = [&](at::Tensor& kept, const at::Tensor& all) {
    const auto chosen = all.index_select(0, worst);
    kept = kept.defined() ? at::cat({kept, chosen}) : chosen;
  };
  put(losses_, losses), put(images_, input), put(logits_, numbers), put(classes_, classes);
  if (indices.defined()) put(indices_, indices.to(classes.device()));
  const auto order = std::get<1>(losses_.topk(std::min(most_, losses_.size(0))));
  for (auto* kept : {&losses_, &images_, &logits_, &classes_, &indices_})
    if (kept->defined()) *kept = kept->index_select(0, order);
}

void EvaluationRecorder::fit_start(const State& state, Logger&, RunControl&) {
  std::error_code ignored;
  if (!state.ranks.first() || !fs::is_regular_file(file(), ignored)) return;
  if (!is_of_before(file(), state.time.batch)) fs::remove(file(), ignored);
}

void EvaluationRecorder::eval_start(const State& state, Logger&, RunControl&) {
  records_ = state.evaluation_set == main_evaluation && !state.model->objective().takes_values();
  if (!records_) return;
  confusion_ = ConfusionMatrix(state.model->num_classes());
  wrong_.reset();
}

void EvaluationRecorder::eval_batch_end(const State& state, Logger&, RunControl&) {
  if (!records_) return;
  const auto& classes = state.batch.target.classes;
  confusion_.add(state.outputs, classes);
  if (state.ranks.first()) wrong_.add(state.batch.input, state.outputs, classes, state.indices);
}

void EvaluationRecorder::eval_end(const State& state, Logger&, RunControl&) {
  if (!records_ || state.eval_metrics.empty()) return;  // a signal ended the evaluation
  confusion_.sum(state.ranks.of_samples(), state.device);
  if (state.ranks.first()) try {
      write(state);
    } catch (const std::exception& problem) {
      log::warn(std::string("the details of the evaluation are not kept: ") + problem.what());
    }
  confusion_ = ConfusionMatrix(0);
  wrong_.reset();
}

at::Tensor EvaluationRecorder::pictures() const {
  auto images = pixel_values(wrong_.images().cpu(), normalization_).contiguous();
  const int64_t height = images.size(2), width = images.size(3);
  if (const int64_t longer = std::max(height, width); longer > widest_picture)
    images = at::_upsample_bilinear2d_aa(
        images, {height * widest_picture / longer, width * widest_picture / longer},
        /*align_corners=*/false);
  return to_bytes(images);
}

void EvaluationRecorder::write(const State& state) const {
  const auto cells = confusion_.cells();
  const int64_t num_classes = state.model->num_classes();
  ordered_json json{{"epoch", state.time.epoch},
                    {"batch", state.time.batch},
                    {"samples", cells.select(1, 2).sum().item<int64_t>()},
                    {"num_classes", num_classes},
                    {"all_ranks", state.ranks.of_samples().alone()}};
  add_counts(json, cells, num_classes);
  auto& wrong = json["wrong"] = ordered_json::array();
  const auto place = fs::path("images") / "wrong";
  const auto prefix = "ba" + std::to_string(state.time.batch) + "-";
  const int64_t channels = wrong_.images().defined() ? wrong_.images().size(1) : 0;
  if (channels == 1 || channels == 3) {
    fs::create_directories(folder_ / place);
    const auto images = pictures(), losses = wrong_.losses().cpu(), logits = wrong_.logits().cpu(),
               classes = wrong_.classes().cpu();
    const auto indices = wrong_.indices().defined() ? wrong_.indices().cpu() : at::Tensor();
    for (int64_t i = 0; i < images.size(0); ++i) {
      const auto name = prefix + (i < 10 ? "0" : "") + std::to_string(i) + ".png";
      write_png(folder_ / place / name, png_of(images[i]));
      auto one = opinion(logits[i], classes[i].item<int64_t>(), losses[i].item<float>());
      one["image"] = (place / name).string();
      if (indices.defined()) {
        const auto sample = indices[i].item<int64_t>();
        one["sample"] = sample;
        one["path"] = without_secrets(state.loader->sample_name(sample));
      }
      wrong.push_back(std::move(one));
    }
  }
  write_whole(file(), json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  if (channels > 0) remove_others(folder_ / place, prefix);
}

}  // namespace composer
