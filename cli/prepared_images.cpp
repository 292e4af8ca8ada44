#include "cli/prepared_images.h"

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "cli/sources.h"
#include "cli/wrapped_source.h"
#include "data/beton/source.h"
#include "data/datasets/dataset_params.h"
#include "data/datasets/image_folder.h"
#include "data/datasets/mnist.h"
#include "data/files/thread_count.h"
#include "data/shards/part_source.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBatch = 64;

/// Another source's samples with the channels that a network takes.
class ChannelSource final : public WrappedSource {
 public:
  ChannelSource(std::shared_ptr<Source> source, int64_t channels)
      : WrappedSource(std::move(source)), channels_(channels) {}

  int64_t channels() const override { return channels_; }

 private:
  int64_t channels_;
};

std::shared_ptr<Source> source_at(const ImageRequest& request,
                                  const std::vector<std::string>& class_names) {
  return !is_remote(request.path) && has_mnist(request.path, request.is_train)
             ? open_mnist(request.path, request.is_train)
             : open_source(request.path, request.is_train, request.on_bad_sample, class_names);
}

/// UserError when class folders have the other part, but not the requested one.
void check_part(const ImageRequest& request) {
  if (is_remote(request.path)) return;  // reported when it is opened
  const auto has = [&](const char* part) {
    std::error_code error;
    return fs::is_directory(fs::path(request.path) / part, error);
  };
  const char* const wanted = request.is_train ? "train" : "val";
  const char* const other = request.is_train ? "val" : "train";
  if (has(other) && !has(wanted))
    throw UserError(request.path + " has " + other + "/ but no " + wanted +
                    "/, whose images it means; name " + (fs::path(request.path) / other).string() +
                    " to take those");
}

/// `count` row numbers below `size`, in the format of --rows. Any first part of them is spread
/// evenly: steps of the golden section (Weyl 1916) visit each number once.
std::string spread_rows(int64_t count, int64_t size) {
  auto step = std::max<int64_t>(1, std::llround(0.618034 * static_cast<double>(count)));
  while (std::gcd(step, count) != 1) ++step;
  std::string rows;
  for (int64_t i = 0, at = 0; i < count; ++i, at = (at + step) % count)
    rows += (rows.empty() ? "" : ",") + std::to_string(at * size / count);
  return rows;
}

/// UserError when class folders have other names than the classes of the network.
void check_names(const std::string& path, const TrainedNetwork& network) {
  const auto folders = folder_classes(path);
  if (network.class_names.empty() || are_among(folders, network.class_names)) return;
  throw UserError(path + " has the classes " + first_few(folders) +
                  "; the network was trained on " + first_few(network.class_names) +
                  ": the same label would mean two things; give the data class folders of these "
                  "names; some may be missing");
}

PreparedImages open_images(const ImageRequest& request, const TrainedNetwork& network) {
  check_part(request);
  const auto& preparation = network.preparation;
  const auto& [option, path, is_train, on_bad_sample, most] = request;
  const auto images = source_at(request, network.class_names);
  const auto* const beton = dynamic_cast<const BetonSource*>(images.get());
  const auto source = std::make_shared<ChannelSource>(images, preparation.channels);
  const bool shards = dynamic_cast<const PartSource*>(images.get()) != nullptr;
  const bool files = source->has_image_files() && !shards;
  const bool loose = files && folder_classes(path).empty();
  const int64_t count = std::min(source->size(), most.value_or(source->size()));
  if (count == 0) throw UserError(path + ": has no images");
  if (!loose && files && !most) check_names(path, network);
  LoaderOptions options{.batch_size = std::min(kBatch, count), .num_workers = thread_count(0)};
  options.resize_filter = network.resize_filter;
  options.on_bad_sample = on_bad_sample;
  const auto rows = most ? spread_rows(count, source->size()) : std::string();
  return {.loader = open_prepared_loader(source, preparation, rows, options),
          .samples = count,
          .labelled = !loose && (beton == nullptr || beton->has_classes()),
          .unnamed_classes = beton != nullptr || shards};
}

/// The problem without the recipe key datadir, in place of which the option stands.
std::string in_words_of_options(const std::string& problem) {
  const std::string key = "datadir: ";
  return problem.starts_with(key) ? problem.substr(key.size()) : problem;
}

}  // namespace

PreparedImages open_prepared(const ImageRequest& request, const TrainedNetwork& network) {
  try {
    return open_images(request, network);
  } catch (const UserError& error) {
    std::vector<std::string> problems;
    for (const auto& problem : error.problems())
      problems.push_back(request.option + ": " + in_words_of_options(problem));
    throw UserError(std::move(problems));
  }
}

}  // namespace composer
