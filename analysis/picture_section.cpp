#include "analysis/picture_section.h"

#include <cmath>
#include <fstream>
#include <sstream>

#include "analysis/figure_text.h"
#include "analysis/markup.h"
#include "base/text.h"

namespace composer {
namespace {

constexpr size_t most_training_pictures = 48, most_likely_classes = 3;

constexpr uint32_t widest_of_dots = 96;

/// Pictures of few pixels are shown pixel by pixel.
bool is_small(const std::string& png) {
  constexpr size_t width_at = 16;
  if (png.size() < width_at + 4) return false;
  uint32_t width = 0;
  for (size_t i = 0; i < 4; ++i) width = width << 8 | static_cast<unsigned char>(png[width_at + i]);
  return width <= widest_of_dots;
}

/// An <img> that holds the PNG file; a remark where it cannot be read.
std::string picture(const std::filesystem::path& file, const std::string& description) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream bytes;
  if (in) bytes << in.rdbuf();
  if (bytes.str().empty()) return element("div", {{"class", "lost"}}, "cannot be read");
  return element("img", {{"class", is_small(bytes.str()) ? "small" : "large"},
                         {"src", "data:image/png;base64," + base64(bytes.str())},
                         {"alt", description}});
}

std::string likely_class(const Run& run, int64_t index, double probability, int64_t label) {
  const double drawn = std::isfinite(probability) ? probability : 0;
  return element(
      "li", {{"class", index == label ? "right" : "wrong"}},
      element("span", {{"class", "name"}, {"title", run.class_name(index)}},
              escaped(run.class_name(index))) +
          element("span", {{"class", "meter"}},
                  element("span", {{"style", "width:" + length_text(drawn * 100) + "%"}}, "")) +
          element("span", {{"class", "number"}}, percent_figure(probability)));
}

/// Which sample of its set it is; empty where that is not known.
std::string sample_line(const EvaluationRecord::Wrong& wrong) {
  const auto text = wrong.sample ? sample_text(wrong.path, *wrong.sample) : wrong.path;
  return text.empty() ? "" : element("small", {{"class", "faded"}}, escaped(text));
}

std::string wrong_picture(const Run& run, const EvaluationRecord::Wrong& wrong) {
  std::string likely;
  bool named = false;
  for (size_t i = 0; i < std::min(wrong.likely.size(), most_likely_classes); ++i) {
    const auto& [index, probability] = wrong.likely[i];
    named = named || index == wrong.label;
    likely += likely_class(run, index, probability, wrong.label);
  }
  if (!named) likely += likely_class(run, wrong.label, wrong.probability, wrong.label);
  const auto name = run.class_name(wrong.label);
  return element("figure", {},
                 picture(run.folder / wrong.image, name) +
                     element("figcaption", {},
                             element("div", {},
                                     element("b", {{"title", name}}, escaped(name)) +
                                         element("small", {}, "loss " + figure(wrong.loss, 3))) +
                                 element("ol", {}, likely) + sample_line(wrong)));
}

}  // namespace

std::string base64(std::string_view bytes) {
  static constexpr char letters[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k)
      three = three << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? letters[three >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::string training_pictures(const Run& run) {
  std::string grid;
  for (size_t i = 0; i < std::min(run.training_images.size(), most_training_pictures); ++i) {
    const auto& image = run.training_images[i];
    const auto caption =
        image.caption.empty() ? "" : element("figcaption", {}, escaped(image.caption));
    grid += element("figure", {}, picture(run.folder / image.file, image.caption) + caption);
  }
  return grid.empty() ? "" : element("div", {{"class", "pictures"}}, grid);
}

std::string evaluation_note(const EvaluationRecord& record) {
  return element("p", {{"class", "faded"}},
                 "After epoch " + count_figure(record.epoch) + ", step " +
                     count_figure(record.batch) +
                     (record.all_ranks ? "." : "; of what the first rank evaluated."));
}

std::string wrong_pictures(const Run& run) {
  if (!run.evaluation || run.evaluation->wrong.empty()) return "";
  std::string grid;
  for (const auto& wrong : run.evaluation->wrong) grid += wrong_picture(run, wrong);
  return evaluation_note(*run.evaluation) + element("div", {{"class", "pictures wrongs"}}, grid);
}

}  // namespace composer
