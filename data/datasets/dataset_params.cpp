#include "data/datasets/dataset_params.h"

#include <numeric>

#include "base/clock.h"
#include "base/log.h"
#include "base/remote/object_store.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "data/beton/source.h"
#include "data/beton/write.h"
#include "data/files/file_lock.h"
#include "data/index/index_location.h"
#include "data/pixels/augment.h"
#include "data/samples/list_file.h"
#include "data/samples/order.h"
#include "data/samples/remote_files.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

OrderKind order_of(const DatasetParams& params) {
  if (!params.shuffle) return OrderKind::sequential;
  if (params.order == "quasi_random") return OrderKind::quasi_random;
  if (params.order == "class_balanced") return OrderKind::class_balanced;
  return OrderKind::random;
}

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
      continue;  // training reports what is wrong with the image
    }
  std::ranges::sort(sides);
  return sides;
}

/// Logs progress every 15 seconds.
class Progress {
 public:
  void operator()(int64_t done, int64_t total) {
    const double now = steady_seconds();
    if (now - logged_ < 15) return;
    logged_ = now;
    const double left =
        (now - begin_) * static_cast<double>(total - done) / static_cast<double>(done);
    log::info(std::to_string(done) + " of " + std::to_string(total) + " images, " +
              std::to_string(static_cast<int64_t>(left) / 60 + 1) + " min left");
  }

 private:
  double begin_ = steady_seconds(), logged_ = begin_;
};

void write(const Source& source, const std::string& path, OnBadSample on_bad_sample,
           bool with_index) {
  const fs::path folder = fs::absolute(path).parent_path();
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw UserError("ffcv_dir: there is no folder '" + folder.string() + "' to write into");
  log::info("writing " + path);
  WriteOptions options;
  options.progress = Progress();
  options.on_bad_sample = on_bad_sample;
  // Files of images become JPEG, as small as Composer's own writing makes them; pixels stay pixels.
  const bool files = source.has_image_files();
  options.pack.mode = files ? WriteMode::jpg : WriteMode::keep;
  if (files) options.pack.max_resolution = 500;
  std::optional<IndexWriter> index;
  options.pack.index = with_index;
  if (with_index)
    options.index = [&](int64_t row, const std::vector<uint8_t>& bytes) {
      if (!index) index.emplace(index_file_of(path));
      index->add(static_cast<uint64_t>(row), bytes);
    };
  const auto report = write_beton(source, path, options);
  if (index) index->finish(stamp_of(path));
  for (const auto& [name, reason] : report.bad)
    log::warn((on_bad_sample == OnBadSample::skip ? "skipped: " : "replaced by another: ") + name +
              ": " + reason);
  log::info(path + ": " + std::to_string(report.rows) + " images, " +
            std::to_string(report.bytes / 1'000'000) + " MB");
}

/// Locks a file that one rank writes for all ranks. Writing reports a folder that is not writable.
class WritingLock {
 public:
  WritingLock(const fs::path& file, const std::string& does)
      : lock_(file.string() + ".lock", does) {
    if (lock_.no_locks())
      log::warn(file.parent_path().string() +
                ": its file system has no locks; several ranks would write there at once");
  }

 private:
  const FileLock lock_;
};

/// The augmentations of the parameters. size: of the images; lengths in pixels shrink with smaller
/// images.
std::vector<SampleTransform> augmentations(const TransformParams& params, ImageSize size) {
  std::vector<SampleTransform> all;
  if (params.brightness > 0) all.push_back(random_brightness(params.brightness));
  if (params.contrast > 0) all.push_back(random_contrast(params.contrast));
  if (params.saturation > 0) all.push_back(random_saturation(params.saturation));
  if (params.grayscale > 0) all.push_back(random_grayscale(params.grayscale));
  if (params.cutout > 0) all.push_back(random_cutout(params.cutout, {}, 1, size.width));
  if (params.random_erasing > 0) all.push_back(random_erasing({}, params.random_erasing));
  return all;
}

/// How to read a file of another set, for a message about a datadir that is no folder.
std::string how_to_read(const std::string& file) {
  if (is_list_file(file))
    return "; a list of images is read by --train_dataset image_list --train_dataset.image_list."
           "file " +
           file;
  if (!is_beton(file)) return "";
  return "; a .beton file is read by use_ffcv: true, with its folder as ffcv_dir and its name as "
         "ffcv_dest";
}

}  // namespace

std::string FfcvParams::path() const {
  if (is_remote(ffcv_dest)) return ffcv_dest;
  if (!is_remote(ffcv_dir)) return (fs::path(ffcv_dir) / ffcv_dest).string();
  return address_below(ffcv_dir, ffcv_dest);
}

bool FfcvParams::is_there() const {
  std::error_code error;
  if (!is_remote(path())) return fs::exists(path(), error);
  const RemotePath object(path());
  return open_store(object, remote)->stat(object.key()).has_value();
}

DataLocation FfcvParams::location(const std::string& rows) const {
  return use_ffcv ? DataLocation{path(), rows} : DataLocation{};
}

std::shared_ptr<Source> FfcvParams::open(int64_t channels,
                                         const std::function<std::shared_ptr<Source>()>& original,
                                         const LoaderOptions& options) const {
  if (!use_ffcv) return original();
  const bool with_index = options.crop_index != "off";
  std::error_code error;
  if (ffcv_dest.empty()) throw UserError("ffcv_dest: missing; it must name the .beton file");
  if (!is_there()) {
    if (!ffcv_write_dataset || is_remote(path()))
      throw UserError("ffcv_dest: there is no file '" + shown_path(path()) +
                      "'; make it with `composer data write`" +
                      (is_remote(path()) ? "" : ", or set ffcv_write_dataset: true"));
    if (!options.makes_files)
      throw UserError("ffcv_dest: " + shown_path(path()) + " is yet to be written by training");
    const WritingLock lock(path(), "writes " + path());
    if (!fs::exists(path(), error)) write(*original(), path(), options.on_bad_sample, with_index);
  } else if (ffcv_write_dataset) {
    log::info(shown_path(path()) +
              ": is there and read as it is; ffcv_write_dataset writes what is missing");
  }
  if (ffcv_local_dir.empty() || !options.makes_files)
    return std::make_shared<BetonSource>(file(), channels, targets);
  fs::create_directories(ffcv_local_dir, error);  // for the lock; the copy reports errors
  const fs::path name =
      is_remote(path()) ? fs::path(RemotePath(path()).name()) : fs::path(ffcv_dest).filename();
  const WritingLock lock(fs::path(ffcv_local_dir) / name,
                         "copies " + shown_path(path()) + " to " + ffcv_local_dir);
  return std::make_shared<BetonSource>(copy_to_folder(path(), ffcv_local_dir, with_index, remote),
                                       channels, targets);
}

std::vector<std::string> FfcvParams::value_names() const {
  if (targets.empty()) return {};
  return BetonSource(file(), 3, targets).value_names();
}

std::vector<std::string> FfcvParams::number_names() const {
  return use_ffcv && is_there() ? number_fields(*file()) : std::vector<std::string>();
}

std::unique_ptr<const BetonFile> FfcvParams::file() const {
  return std::make_unique<const BetonFile>(path(), remote);
}

bool FfcvParams::has_classes() const {
  std::error_code error;
  return targets.empty() && (is_remote(path()) ? is_there() : fs::is_regular_file(path(), error));
}

std::optional<int64_t> FfcvParams::num_labels() const {
  if (!has_classes()) return std::nullopt;
  return count_labels(BetonSource(file(), 3));
}

std::optional<int64_t> FfcvParams::num_classes() const {
  if (!has_classes()) return std::nullopt;
  const BetonSource source(file(), 3);
  int64_t largest = -1;
  for (int64_t i = 0; i < source.size(); ++i) {
    const int64_t label = label_of(source, i);
    if (label < 0)
      throw UserError("ffcv_dest: " + source.name(i) + ": has the class " + std::to_string(label) +
                      "; classes are numbered from 0");
    largest = std::max(largest, label);
  }
  return largest < 0 ? std::nullopt : std::optional(largest + 1);
}

DataFacts facts_of(const Source& source, const std::string& rows) {
  auto taken = parse_rows(rows, source.size(), "rows");
  if (taken.empty()) {
    taken.resize(static_cast<size_t>(source.size()));
    std::iota(taken.begin(), taken.end(), 0);
  }
  DataFacts facts;
  for (const int64_t row : taken) ++facts.samples[label_of(source, row)];
  const auto sides = shorter_sides(source);
  facts.looked_at = std::ssize(sides);
  if (!sides.empty()) facts.side = sides[sides.size() / 2];
  return facts;
}

Normalization imagenet_normalization() {
  return {{0.485 * 255, 0.456 * 255, 0.406 * 255}, {0.229 * 255, 0.224 * 255, 0.225 * 255}};
}

Transform padded_transform(const PaddedTransformParams& params, ImageSize size, bool is_train) {
  Transform transform{.size = size};
  if (!is_train) return transform;
  transform.kind = Transform::Kind::pad_and_crop;
  transform.padding = params.padding;
  transform.border.reflect = params.border == "reflect";
  for (size_t c = 0; c < 3; ++c) transform.border.fill[c] = static_cast<uint8_t>(params.fill[c]);
  return transform;
}

void warn_of_transforms(bool is_train, bool set) {
  if (set && !is_train) log::warn("transforms: have no effect with is_train: false");
}

void set_pixels(Transform& transform, const LoaderOptions& options, bool is_train) {
  const auto filter = resize_filter_words.find(options.resize_filter);
  if (filter == resize_filter_words.end())
    throw UserError("resize_filter: '" + options.resize_filter +
                    "' is none of triangle, bicubic and area");
  transform.filter = options.ffcv_exact ? ResizeFilter::area : filter->second;
  transform.dct = options.ffcv_exact ? Dct::fast : Dct::accurate;
  if (options.ffcv_exact && transform.center_share == 0)
    transform.center_share = transform.resize_size > 0
                                 ? static_cast<double>(transform.size.height) /
                                       static_cast<double>(transform.resize_size)
                                 : 1.0;
  transform.scaled_decode = is_train && !options.ffcv_exact;
}

ImageLoaderOptions image_loader_options(const Source& source, Transform transform,
                                        const TransformParams& transforms,
                                        Normalization normalization, const DatasetParams& params,
                                        const LoaderOptions& options) {
  if (params.is_train) transform.flip = transforms.flip;
  set_pixels(transform, options, params.is_train);
  const ImageSize size = transform.size;
  ImageLoaderOptions loader{.transform = std::move(transform),
                            .normalization = std::move(normalization),
                            .order = order_of(params),
                            .rows = params.rows,
                            .drop_last = params.drop_last,
                            .views = params.is_train ? params.views : 1,
                            .training = params.is_train};
  if (params.is_train) loader.augmentations = augmentations(transforms, size);
  if (source.paged_bytes() == 0 && loader.order == OrderKind::quasi_random)
    log::warn("order: quasi_random is random here: only .beton files and shards have pages");
  return loader;
}

Preparation fitted(int64_t channels, ImageSize size, Normalization normalization) {
  return {.channels = channels,
          .resize_size = std::max(size.height, size.width),
          .size = size,
          .normalization = std::move(normalization)};
}

std::string checked_datadir(const std::string& datadir, const std::string& expected) {
  if (datadir.empty())
    throw UserError("datadir: missing; it must name the folder with " + expected);
  if (is_remote(datadir))
    throw UserError("datadir: '" + datadir +
                    "' is remote, which this set cannot read; image_folder, imagenet, "
                    "webdataset and mds can, and all sets with use_ffcv");
  std::error_code error;
  if (!fs::exists(datadir, error))
    throw UserError(
        "datadir: there is no folder '" + datadir + "'" + slash_hint(datadir) + "; expected " +
        expected +
        "; if the data moved, datadir is to name their new place, for train_dataset and, where "
        "there is one, for val_dataset");
  if (!fs::is_directory(datadir, error))
    throw UserError("datadir: '" + datadir + "' is not a folder; expected a folder with " +
                    expected + how_to_read(datadir));
  return datadir;
}

UserError missing_part(const std::string& datadir, bool is_train, const std::string& expected) {
  const std::string wanted = is_train ? "train/" : "val/", other = is_train ? "val/" : "train/";
  return UserError("datadir: '" + datadir + "' has " + other + " but no " + wanted +
                   ", which is_train: " + (is_train ? "true" : "false") + " reads; expected " +
                   expected);
}

}  // namespace composer
