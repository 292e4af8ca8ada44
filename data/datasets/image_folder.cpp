#include "data/datasets/image_folder.h"

#include <algorithm>
#include <filesystem>

#include "composer/error.h"
#include "data/formats/decode.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

const std::string kExpected =
    "train/ and val/ with a folder of image files for each class, or these class folders "
    "themselves";

bool has_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::vector<std::string> class_folders(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.') && entry.is_directory(error)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

enum class FileKind { image, unreadable_image, other };

FileKind kind_of(const fs::path& file) {
  std::string ending = file.extension().string();
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const char* known :
       {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm"}) {
    if (ending == known) return FileKind::image;
  }
  for (const char* known : {".heic", ".heif", ".avif", ".jp2", ".jxl", ".psd", ".exr"}) {
    if (ending == known) return FileKind::unreadable_image;
  }
  return FileKind::other;
}

}  // namespace

bool has_image_name(const fs::path& file) { return kind_of(file) == FileKind::image; }

bool is_meant_as_image(const fs::path& file) { return kind_of(file) != FileKind::other; }

namespace {

/// The files of a class, deeper folders included.
class Collector {
 public:
  void collect(const fs::path& folder) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    if (error) throw UserError(folder.string() + ": cannot be read: " + error.message());
    if (std::find(above_.begin(), above_.end(), real) != above_.end())
      return;  // a link to a folder above
    above_.push_back(real);
    fs::directory_iterator entries(folder, error);
    if (error) throw UserError(folder.string() + ": cannot be read: " + error.message());
    for (const auto& entry : entries) {
      if (entry.is_directory(error)) {
        collect(entry.path());
        continue;
      }
      const FileKind kind = kind_of(entry.path());
      if (kind == FileKind::other) continue;
      images.push_back(entry.path().string());
      if (kind == FileKind::unreadable_image) unreadable.push_back(images.back());
    }
    above_.pop_back();
  }

  std::vector<std::string> images;
  std::vector<std::string> unreadable;  ///< of the images: of a format that cannot be read

 private:
  std::vector<fs::path> above_;
};

fs::path part_of(const FolderParams& params) {
  const fs::path folder = checked_datadir(params.datadir, kExpected);
  const char* wanted = params.is_train ? "train" : "val";
  const char* other = params.is_train ? "val" : "train";
  if (has_folder(folder / wanted)) return folder / wanted;
  if (has_folder(folder / other)) {
    throw UserError("datadir: '" + params.datadir + "' has " + other + "/ but no " + wanted +
                    "/, which is_train: " + (params.is_train ? "true" : "false") +
                    " reads; expected " + kExpected);
  }
  return folder;
}

[[noreturn]] void no_classes(const fs::path& folder) {
  Collector loose;
  loose.collect(folder);
  throw UserError("datadir: '" + folder.string() + "' has no class folders" +
                  (loose.images.empty() ? "" : ", only loose image files") + "; expected " +
                  kExpected);
}

}  // namespace

std::vector<std::string> folder_classes(const std::string& datadir) {
  if (datadir.empty()) return {};
  const fs::path folder = datadir;
  for (const char* part : {"train", "val"}) {
    if (has_folder(folder / part)) return class_folders(folder / part);
  }
  return class_folders(folder);
}

std::optional<int64_t> folder_class_count(const std::string& datadir) {
  const size_t count = folder_classes(datadir).size();
  return count > 0 ? std::optional(static_cast<int64_t>(count)) : std::nullopt;
}

std::optional<int64_t> class_count(const FolderParams& params) {
  if (!params.ffcv.use_ffcv) return folder_class_count(params.datadir);
  const auto count = params.ffcv.num_classes();
  // Where the file is yet to be written, the folders tell.
  return count || !params.ffcv.ffcv_write_dataset ? count : folder_class_count(params.datadir);
}

std::shared_ptr<Source> open_class_folders(const FolderParams& params, OnBadSample on_bad_sample) {
  const fs::path folder = part_of(params);
  const auto names = folder_classes(params.datadir);
  const auto present = class_folders(folder);
  if (present.empty()) no_classes(folder);
  auto source = std::make_shared<FileSource>(3);
  std::vector<std::string> problems, unreadable;
  for (const auto& name : present) {
    const auto place = std::lower_bound(names.begin(), names.end(), name);
    if (place == names.end() || *place != name) {
      problems.push_back((folder / name).string() + ": train/ has no class of this name");
      continue;
    }
    Collector files;
    files.collect(folder / name);
    std::sort(files.images.begin(), files.images.end());
    for (const auto& file : files.images) source->add(file, place - names.begin());
    unreadable.insert(unreadable.end(), files.unreadable.begin(), files.unreadable.end());
    if (files.images.empty()) {
      problems.push_back(
          (folder / name).string() +
          ": a class folder without images (.jpg, .jpeg, .png, .webp, .gif, .bmp, .tif, "
          ".ppm)");
    }
  }
  // Left in the set, they are bad samples.
  if (!unreadable.empty() && on_bad_sample == OnBadSample::error) {
    problems.push_back(*std::min_element(unreadable.begin(), unreadable.end()) + ": only " +
                       kImageFormats + " images can be read" +
                       (unreadable.size() == 1
                            ? ""
                            : "; there are " + std::to_string(unreadable.size()) + " such files") +
                       "; convert them, or leave them out with --on_bad_sample skip");
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  source->index_below(folder.string());
  return source;
}

Transform folder_transform(const FolderParams& params, bool is_train,
                           const LoaderOptions& options) {
  const bool only_training_keys = !is_train && options.split;
  return {.kind = is_train ? Transform::Kind::random_resized_crop : Transform::Kind::center_crop,
          .resize_size = only_training_keys && params.resize_size < 0 ? params.crop_size * 256 / 224
                                                                      : params.resize_size,
          .size = {params.crop_size, params.crop_size}};
}

Preparation folder_preparation(const FolderParams& params, const LoaderOptions& options) {
  const auto transform = folder_transform(params, false, options);
  return {.resize_size = transform.resize_size,
          .size = transform.size,
          .normalization = imagenet_normalization()};
}

std::unique_ptr<Loader> ImageFolderDataset::open(const LoaderOptions& options) const {
  const auto part = with_part_to_open(params_, options);
  const auto original = [&] { return open_class_folders(part, options.on_bad_sample); };
  const auto source = params_.ffcv.use_ffcv ? params_.ffcv.open(3, original, options) : original();
  warn_of_transforms(part.is_train, params_.transforms != TransformParams{});
  return open_loader(source, folder_transform(params_, params_.is_train, options),
                     params_.transforms, imagenet_normalization(), params_, options);
}

}  // namespace composer
