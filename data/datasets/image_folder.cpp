#include "data/datasets/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "base/files/system_files.h"
#include "base/log.h"
#include "base/params/utf8.h"
#include "base/text.h"
#include "data/beton/source.h"
#include "data/datasets/photo_dataset.h"
#include "data/datasets/remote_folder.h"
#include "data/formats/decode.h"
#include "data/index/index_location.h"
#include "data/samples/class_folders.h"
#include "data/samples/kept_table.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

bool has_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

struct FolderEntries {
  std::vector<std::string> classes{};  ///< sorted
  int64_t loose_images = 0;
};

FolderEntries entries_of(const fs::path& folder) {
  FolderEntries entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || is_system_file(name)) continue;
    if (entry.is_directory(error))
      entries.classes.push_back(name);
    else if (file_kind_of(name) != FileKind::other)
      ++entries.loose_images;
  }
  std::sort(entries.classes.begin(), entries.classes.end());
  return entries;
}

std::vector<std::string> class_folders(const fs::path& folder) {
  return entries_of(folder).classes;
}

}  // namespace

std::string FolderParams::check() const {
  FolderParams read = *this;
  read_beton_at_datadir(read);
  return DatasetParams::check() + read.ffcv.check();
}

bool FolderParams::has_evaluation() const {
  return !ffcv.use_ffcv && !datadir.empty() && !is_remote(datadir) &&
         has_folder(fs::path(datadir) / "val");
}

void read_beton_at_datadir(FolderParams& params) {
  auto& ffcv = params.ffcv;
  if (ffcv.use_ffcv || has_folder(params.datadir) || !is_beton(params.datadir)) return;
  const fs::path file = params.datadir;
  ffcv.use_ffcv = true;
  ffcv.ffcv_dir = is_remote(params.datadir) ? "" : file.parent_path().string();
  ffcv.ffcv_dest = is_remote(params.datadir) ? params.datadir : file.filename().string();
  params.datadir.clear();
}

bool has_image_name(const fs::path& file) {
  return file_kind_of(file.filename().string()) == FileKind::image;
}

bool is_meant_as_image(const fs::path& file) {
  return file_kind_of(file.filename().string()) != FileKind::other;
}

namespace {

[[noreturn]] void no_classes(const fs::path& folder) {
  const bool loose = !images_below(folder).empty();
  throw UserError("datadir: '" + folder.string() + "' has no class folders" +
                  (loose ? ", only loose image files" : "") + "; expected " + kClassFolders);
}

}  // namespace

std::string unreadable_images(const std::vector<std::string>& files) {
  return *std::ranges::min_element(files) + ": only " + kImageFormats + " images can be read" +
         (files.size() == 1 ? "" : "; there are " + std::to_string(files.size()) + " such files") +
         "; convert them, or leave them out with --on_bad_sample skip";
}

void check_no_parts(const std::string& folder, const std::vector<std::string>& classes,
                    const std::function<bool(const std::string&)>& has_folders) {
  static const std::set<std::string> parts{"train", "training",   "test", "testing",   "val",
                                           "valid", "validation", "dev",  "seg_train", "seg_test"};
  const auto is_part = [](const std::string& name) { return parts.contains(lower_case(name)); };
  if (classes.size() > 1 && std::ranges::all_of(classes, is_part) &&
      std::ranges::any_of(classes, has_folders))
    throw UserError("datadir: '" + folder + "' has the folders " + joined(classes) +
                    ", with folders in them: these look like parts of a set, not classes; rename "
                    "them train/ and val/, or name one of them as datadir");
}

void warn_of_loose_images(const std::string& folder, int64_t images) {
  if (images > 0)
    log::warn("datadir: '" + folder + "' has " + std::to_string(images) +
              (images == 1 ? " image" : " images") +
              " beside its class folders, which are left out: nothing tells their class");
}

void warn_of_other_files(const std::string& folder, int64_t files, const std::string& one) {
  if (files > 0)
    log::warn("datadir: '" + folder + "' has " + std::to_string(files) +
              (files == 1 ? " file" : " files") +
              " in its class folders without an image's ending, left out, such as " + one);
}

namespace {

std::vector<std::string> checked_names(const std::string& datadir, std::vector<std::string> names) {
  for (const auto& name : names)
    if (find_invalid_utf8(name) != std::string::npos)
      throw UserError("datadir: '" + shown_path(datadir) + "' has the class folder '" +
                      shown_utf8(name) + "', whose name is not UTF-8; rename it");
  return names;
}

}  // namespace

void warn_of_nested_classes(const std::string& folder, const std::vector<std::string>& classes,
                            const std::vector<std::string_view>& files) {
  std::map<std::string, std::set<std::string>> folders;  // of each class
  for (const auto file : files) {
    const size_t end = file.find('/'), next = file.find('/', end + 1);
    if (end != file.npos && next != file.npos)
      folders[std::string(file.substr(0, end))].emplace(file.substr(end + 1, next - end - 1));
  }
  for (const auto& [name, inside] : folders) {
    const std::vector<std::string> names(inside.begin(), inside.end());
    const bool again = names.size() + 1 >= classes.size() && are_among(names, classes);
    if (classes.size() > 1 && !again) continue;
    log::warn("datadir: '" + folder + "' has the class '" + name + "' with the folders " +
              first_few(names) + " in it, whose images are all of that class; " +
              (classes.size() == 1 ? "where these are the classes, or parts of the set, datadir is "
                                     "the folder '" +
                                         name + "'"
                                   : "is the set there once more?"));
  }
}

void warn_of_empty_classes(const std::string& folder, const std::vector<std::string>& classes) {
  if (!classes.empty())
    log::warn("datadir: '" + folder + "' has class folders without images, " + first_few(classes) +
              ": nothing is evaluated of these classes");
}

std::vector<int32_t> places_of(const std::vector<std::string>& classes,
                               const std::vector<std::string>& names) {
  std::unordered_map<std::string, int32_t> places;
  for (size_t i = 0; i < names.size(); ++i) places.emplace(names[i], static_cast<int32_t>(i));
  std::vector<int32_t> found;
  for (const auto& name : classes) {
    const auto place = places.find(name);
    found.push_back(place == places.end() ? -1 : place->second);
  }
  return found;
}

std::vector<std::string> folder_classes(const std::string& datadir) {
  if (datadir.empty()) return {};
  if (is_remote(datadir))
    return checked_names(datadir, remote_classes(list_files(RemotePath(datadir))));
  const fs::path folder = datadir;
  for (const char* part : {"train", "val"}) {
    if (has_folder(folder / part)) return checked_names(datadir, class_folders(folder / part));
  }
  return checked_names(datadir, class_folders(folder));
}

DataLocation folder_place(const FolderParams& params) {
  if (params.ffcv.use_ffcv) return params.ffcv.location(params.rows);
  if (is_remote(params.datadir))
    return {remote_part_folder(list_files(RemotePath(params.datadir)), params), params.rows};
  return {part_folder(params.datadir, params.is_train, kClassFolders).string(), params.rows};
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

namespace {

void check_written_classes(const FolderParams& params, OnBadSample on_bad_sample) {
  const auto& ffcv = params.ffcv;
  const auto written = ffcv.num_classes(), folders = folder_class_count(params.datadir);
  if (!written || !folders || *written == *folders) return;
  // val/ need not have the last classes, nor has the file those whose images are all bad.
  const bool may_lack_some = !params.is_train || on_bad_sample != OnBadSample::error;
  if (may_lack_some && *written < *folders) return;
  throw UserError("ffcv_dest: '" + shown_path(ffcv.path()) + "' is there, with " +
                  std::to_string(*written) + " classes, and datadir: '" + params.datadir +
                  "' has " + std::to_string(*folders) +
                  ": it holds other data; leave ffcv_write_dataset out to read it as it is, or "
                  "give another ffcv_dest to write one of this datadir");
}

/// Where the .beton file was written from other samples than the class folders have now; bad ones
/// that it may lack are not known.
void warn_of_other_samples(const FolderParams& params, const LoaderOptions& options) {
  const auto& ffcv = params.ffcv;
  if (!ffcv.targets.empty() || is_remote(ffcv.path()) || !ffcv.is_there() ||
      options.on_bad_sample != OnBadSample::error || !options.tells)
    return;
  std::string difference;
  try {
    const BetonSource written(ffcv.path(), 3);
    const auto now = open_class_folders(params, options.on_bad_sample, options.index_dir);
    if (written.size() != now->size())
      difference = std::to_string(written.size()) + " samples, and there are " +
                   std::to_string(now->size()) + " now";
    for (int64_t i = 0; difference.empty() && i < written.size(); ++i)
      if (label_of(written, i) != label_of(*now, i))
        difference = "other classes than there are now, first of its sample " + std::to_string(i);
  } catch (const std::exception&) {  // what it was written from need not be there any more
    return;
  }
  if (!difference.empty())
    log::warn("ffcv_dest: " + ffcv.path() + " has " + difference +
              ", and its samples count; unless it was made otherwise, delete it, so that it is "
              "written anew");
}

}  // namespace

void check_written_file(const FolderParams& params, const LoaderOptions& options) {
  const auto& ffcv = params.ffcv;
  if (!ffcv.use_ffcv || !ffcv.ffcv_write_dataset || is_remote(params.datadir)) return;
  check_written_classes(params, options.on_bad_sample);
  warn_of_other_samples(params, options);
}

namespace {

/// What keeps class folders from being a set.
class FolderProblems {
 public:
  explicit FolderProblems(const fs::path& folder) : folder_(folder), root_(with_slash(folder)) {}

  void has_unknown_class(const std::string& name) {
    problems_.push_back((folder_ / name).string() + ": train/ has no class of this name");
  }
  void has_no_images(const std::string& name) {
    problems_.push_back((folder_ / name).string() + kNoImages);
  }
  /// image: its path below the folder.
  void look_at(std::string_view path) {
    const auto name = path.substr(path.rfind('/') + 1);
    if (file_kind_of(name) == FileKind::unreadable_image)
      unreadable_.push_back(root_ + std::string(path));
  }

  /// Images of formats that cannot be read are bad samples, unless those are errors.
  void throw_any(OnBadSample on_bad_sample) {
    if (!unreadable_.empty() && on_bad_sample == OnBadSample::error)
      problems_.push_back(unreadable_images(unreadable_));
    if (!problems_.empty()) throw UserError(std::move(problems_));
  }

 private:
  const fs::path& folder_;
  const std::string root_;
  std::vector<std::string> problems_, unreadable_;
};

void tell_of_others(const fs::path& folder, const std::vector<ClassListing>& listings) {
  int64_t files = 0;
  std::string one;
  for (const auto& listing : listings) {
    files += listing.others;
    if (one.empty()) one = listing.an_other;
  }
  warn_of_other_files(folder.string(), files, one);
}

/// Of listings that make no table.
[[noreturn]] void throw_error(const std::vector<ClassListing>& listings) {
  for (const auto& listing : listings)
    if (listing.error) std::rethrow_exception(listing.error);
  throw std::logic_error("listings without an error make a table");
}

std::vector<std::string> without_images(const SampleTable& table,
                                        const std::vector<std::string>& classes) {
  std::vector<bool> has(classes.size());
  for (int64_t i = 0; i < table.size(); ++i) has[static_cast<size_t>(table.label(i))] = true;
  std::vector<std::string> names;
  for (size_t i = 0; i < classes.size(); ++i)
    if (!has[i]) names.push_back(classes[i]);
  return names;
}

}  // namespace

std::shared_ptr<Source> open_class_folders(const FolderParams& params, OnBadSample on_bad_sample,
                                           const std::string& index_dir,
                                           const std::vector<std::string>& class_names) {
  if (is_remote(params.datadir)) {
    const RemotePath path(params.datadir);
    return open_remote_classes(open_store(path), *CacheFolder::get(), list_files(path), params,
                               on_bad_sample, class_names);
  }
  const fs::path folder = part_folder(params.datadir, params.is_train, kClassFolders);
  const auto names = class_names.empty() ? folder_classes(params.datadir) : class_names;
  const FolderEntries entries = entries_of(folder);
  const auto& present = entries.classes;
  if (present.empty()) no_classes(folder);
  check_no_parts(folder.string(), present,
                 [&](const std::string& name) { return !class_folders(folder / name).empty(); });
  warn_of_loose_images(folder.string(), entries.loose_images);
  std::vector<ClassListing> listings;
  const std::string root = with_slash(folder);
  const auto table = kept_table(cache_file_of(folder, index_dir, ".table"),
                                {.does = "lists the files of " + folder.string(),
                                 .root = root,
                                 .classes = present,
                                 .make = [&] {
                                   listings = list_class_folders(folder, present);
                                   tell_of_others(folder, listings);
                                   return class_table(present, listings);
                                 }});
  if (!table) throw_error(listings);
  listings.clear();
  FolderProblems problems(folder);
  auto labels = places_of(present, names);
  for (size_t i = 0; i < present.size(); ++i)
    if (labels[i] < 0) problems.has_unknown_class(present[i]);
  const auto empty = without_images(*table, present);
  const bool evaluation = !params.is_train || !class_names.empty();
  std::vector<std::string_view> folders;
  for (uint64_t i = 0; i < table->containers(); ++i) folders.push_back(table->container_text(i));
  if (!evaluation) warn_of_nested_classes(folder.string(), present, folders);
  if (evaluation && table->size() > 0)
    warn_of_empty_classes(folder.string(), empty);
  else
    for (const auto& name : empty) problems.has_no_images(name);
  for (int64_t i = 0; on_bad_sample == OnBadSample::error && i < table->size(); ++i) {
    if (file_kind_of(table->name(i)) == FileKind::unreadable_image &&
        labels[static_cast<size_t>(table->label(i))] >= 0)
      problems.look_at(std::string(table->container(i)).append(table->name(i)));
  }
  problems.throw_any(on_bad_sample);
  auto source = std::make_shared<FileSource>(table, root, 3);
  source->set_labels(std::move(labels));
  source->index_below(folder.string());
  return source;
}

std::shared_ptr<Source> open_class_folders(const FolderParams& params, const FolderParams& part,
                                           const LoaderOptions& options) {
  return open_class_folders(part, options.on_bad_sample, options.index_dir,
                            params.is_train ? std::vector<std::string>() : options.class_names);
}

std::optional<DataFacts> facts_of(const FolderParams& params, const std::string& place,
                                  const std::function<std::shared_ptr<Source>()>& original,
                                  LoaderOptions options) {
  const bool written = params.ffcv.is_read();
  if (is_remote(written ? params.ffcv.path() : place)) return {};
  options.makes_files = false;
  return facts_of(*(written ? params.ffcv.open(3, original, options) : original()), params.rows);
}

std::optional<DataFacts> folder_facts(const FolderParams& params, const LoaderOptions& options) {
  auto facts = facts_of(
      params, params.datadir, [&] { return open_class_folders(params, params, options); }, options);
  if (facts) facts->has_evaluation = params.has_evaluation();
  return facts;
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
  check_written_file(part, options);
  const auto original = [&] { return open_class_folders(params_, part, options); };
  const auto source = params_.ffcv.use_ffcv ? params_.ffcv.open(3, original, options) : original();
  warn_of_transforms(part.is_train, params_.transforms != TransformParams{});
  return open_loader(source, folder_transform(params_, params_.is_train, options),
                     params_.transforms, imagenet_normalization(), params_, options);
}

}  // namespace composer
