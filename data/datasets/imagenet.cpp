#include "data/datasets/imagenet.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "composer/error.h"
#include "composer/remote/remote_path.h"
#include "data/datasets/synthetic.h"
#include "data/order.h"

namespace composer {
namespace {

constexpr int64_t kLooks = 64;

/// The shorter sides of some of the images, sorted.
std::vector<int64_t> shorter_sides(const Source& source) {
  std::vector<int64_t> sides;
  ReadScratch scratch;
  const int64_t looks = std::min(kLooks, source.size());
  for (int64_t i = 0; i < looks; ++i) try {
      const auto size = source.open((2 * i + 1) * source.size() / (2 * looks), scratch).size;
      sides.push_back(std::min(size.height, size.width));
    } catch (const RunError&) {
      continue;  // training tells what is wrong with it
    }
  std::ranges::sort(sides);
  return sides;
}

}  // namespace

constexpr int64_t kSyntheticClasses = 1000;

std::unique_ptr<Loader> ImagenetDataset::open(const LoaderOptions& options) const {
  const auto part = with_part_to_open(params_, options);
  check_written_file(part, options);
  const SyntheticSpec noise{.size = image_size(),
                            .channels = 3,
                            .num_classes = kSyntheticClasses,
                            .samples = *ImagenetDataset(part).published_samples()};
  const auto source = open_published(
      part.ffcv, part, noise, [&] { return open_class_folders(params_, part, options); }, options);
  warn_of_transforms(part.is_train, params_.transforms != TransformParams{});
  const Transform transform = params_.use_synthetic
                                  ? Transform{.size = image_size()}
                                  : folder_transform(params_, params_.is_train, options);
  return open_loader(source, transform, params_.transforms, imagenet_normalization(), params_,
                     options);
}

std::optional<int64_t> ImagenetDataset::num_classes() const {
  if (params_.use_synthetic) return kSyntheticClasses;
  return class_count(params_);
}

std::optional<DataFacts> ImagenetDataset::facts(const LoaderOptions& options) const {
  if (params_.use_synthetic || params_.ffcv.use_ffcv || is_remote(params_.datadir)) return {};
  const auto source = open_class_folders(params_, options.on_bad_sample, options.index_dir);
  DataFacts facts;
  facts.samples.resize(folder_classes(params_.datadir).size());
  auto rows = parse_rows(params_.rows, source->size(), "rows");
  if (rows.empty()) {
    rows.resize(static_cast<size_t>(source->size()));
    std::iota(rows.begin(), rows.end(), 0);
  }
  for (const int64_t row : rows) ++facts.samples[static_cast<size_t>(source->label(row))];
  const auto sides = shorter_sides(*source);
  facts.looked_at = std::ssize(sides);
  if (!sides.empty()) facts.side = sides[sides.size() / 2];
  std::error_code error;
  facts.has_evaluation =
      std::filesystem::is_directory(std::filesystem::path(params_.datadir) / "val", error);
  return facts;
}

std::vector<std::string> ImagenetDataset::class_names() const {
  if (!params_.ffcv.targets.empty()) return params_.ffcv.value_names();
  return params_.use_synthetic ? std::vector<std::string>{} : folder_classes(params_.datadir);
}

}  // namespace composer
