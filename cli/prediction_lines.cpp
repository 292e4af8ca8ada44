#include "cli/prediction_lines.h"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/number_text.h"
#include "base/params/value.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "data/beton/source.h"
#include "data/datasets/image_folder.h"

namespace composer {
namespace {

using nlohmann::ordered_json;

std::vector<double> numbers(const at::Tensor& row) {
  const auto values = row.to(at::kDouble).contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

}  // namespace

std::string text_of(const nlohmann::ordered_json& line) {
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string class_name(const std::vector<std::string>& names, int64_t index) {
  return index < std::ssize(names) ? names[static_cast<size_t>(index)] : std::to_string(index);
}

PredictionLines::PredictionLines(std::vector<std::string> files,
                                 std::vector<std::string> class_names, std::string weights,
                                 Options options, Labels labels)
    : files_(std::move(files)),
      class_names_(std::move(class_names)),
      weights_(std::move(weights)),
      options_(options),
      labels_(std::move(labels)),
      rows_(files_.size() == 1 && is_beton(files_[0])) {
  if (!options_.objective->takes_values()) find_classes();
}

/// Labels are names where one of them is the name of a class, else numbers.
void PredictionLines::find_classes() {
  const auto places = indices_of(labels_.texts, class_names_);
  const bool names = std::ranges::any_of(places, [](int32_t place) { return place >= 0; });
  const auto most =
      class_names_.empty() ? std::numeric_limits<int64_t>::max() : std::ssize(class_names_);
  for (size_t i = 0; i < labels_.texts.size(); ++i) {
    const auto& text = labels_.texts[i];
    int64_t label = -1;
    if (names) {
      label = places[i];
    } else {
      const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), label);
      if (wrong != std::errc{} || end != text.data() + text.size() || label >= most) label = -1;
    }
    if (label < 0 && !text.empty())
      throw UserError(
          labels_.list + ":" + std::to_string(labels_.lines.at(i)) + ": '" + text +
          "' is none of the classes of " + weights_ +
          (class_names_.empty() ? ", which are numbers" : ": " + first_few(class_names_)) +
          did_you_mean(text, class_names_));
    classes_.push_back(label);
  }
}

/// logits: [classes].
void PredictionLines::add_classes(ordered_json& line, const at::Tensor& logits) const {
  const int64_t shown = std::min(options_.top_k, logits.size(0));
  const auto [values, classes] = at::softmax(logits, 0).topk(shown, 0);
  auto indices = ordered_json::array(), names = ordered_json::array();
  for (const double c : numbers(classes)) {
    indices.push_back(static_cast<int64_t>(c));
    names.push_back(class_name(class_names_, static_cast<int64_t>(c)));
  }
  line["classes"] = std::move(indices);
  if (!class_names_.empty()) line["class_names"] = std::move(names);
  line["probabilities"] = numbers(values);
}

/// outputs: [K].
void PredictionLines::add_values(ordered_json& line, const at::Tensor& outputs) const {
  line["values"] = numbers(options_.objective->answers(outputs));
  if (!class_names_.empty()) line["value_names"] = class_names_;
}

void PredictionLines::print(const at::Tensor& logits, const at::Tensor& samples) {
  for (int64_t i = 0; i < logits.size(0); ++i) {
    const auto sample = samples.const_data_ptr<int64_t>()[i];
    const auto file = shown_path(files_.at(rows_ ? 0 : static_cast<size_t>(sample)));
    const auto name = rows_ ? file + ", sample " + std::to_string(sample) : file;
    if (!logits[i].isfinite().all().item<bool>())
      throw RunError(name + ": the network's answer is not finite: the weights of " + weights_ +
                     " are not, or they overflow on this image");
    ordered_json line;
    if (rows_)
      line["index"] = sample;
    else
      line["source"] = name;
    if (options_.objective->takes_values())
      add_values(line, logits[i]);
    else
      add_classes(line, logits[i]);
    if (const auto place = static_cast<size_t>(sample);
        place < classes_.size() && classes_[place] >= 0) {
      const bool right = logits[i].argmax().item<int64_t>() == classes_[place];
      line["label"] = labels_.texts[place];
      line["correct"] = right;
      ++labelled_, right_ += right ? 1 : 0;
    }
    if (options_.logits) line["logits"] = numbers(logits[i]);
    std::cout << text_of(line) << '\n';
  }
}

void PredictionLines::finish() const {
  std::cout.flush();
  if (labelled_ > 0)
    log::info("accuracy: " +
              number_text(static_cast<double>(right_) / static_cast<double>(labelled_), 4) + ", " +
              std::to_string(right_) + " of " + quantity(labelled_, "image"));
}

}  // namespace composer
