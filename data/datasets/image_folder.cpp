#include "data/datasets/image_folder.h"

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

[[noreturn]] void no_classes(const fs::path& folder) {
  const bool loose = !images_below(folder).empty();
  throw UserError("datadir: '" + folder.string() + "' has no class folders" +
                  (loose ? ", only loose image files" : "") + "; expected " + kClassFolders);
}

std::string unreadable_images(const std::vector<std::string>& files) {
  return *std::ranges::min_element(files) + ": only " + kImageFormats + " images can be read" +
         (files.size() == 1 ? "" : "; there are " + std::to_string(files.size()) + " such files") +
         "; convert them, or leave them out with --on_bad_sample skip";
}

std::vector<std::string> checked_names(const std::string& datadir, std::vector<std::string> names) {
  for (const auto& name : names)
    if (find_invalid_utf8(name) != std::string::npos)
      throw UserError("datadir: '" + shown_path(datadir) + "' has the class folder '" +
                      shown_utf8(name) + "', whose name is not UTF-8; rename it");
  return names;
}

/// Warns where a class folder looks like the folder of the classes.
void warn_of_nested_classes(const FoundClasses& found) {
  const auto& classes = found.classes;
  std::map<std::string, std::set<std::string>> folders;  // folders in each class
  for (const auto file : found.images) {
    const size_t end = file.find('/'), next = file.find('/', end + 1);
    if (end != file.npos && next != file.npos)
      folders[std::string(file.substr(0, end))].emplace(file.substr(end + 1, next - end - 1));
  }
  for (const auto& [name, inside] : folders) {
    const std::vector<std::string> names(inside.begin(), inside.end());
    const bool again = names.size() + 1 >= classes.size() && are_among(names, classes);
    if (classes.size() > 1 && !again) continue;
    log::warn("datadir: '" + found.folder + "' has the class '" + name + "' with the folders " +
              first_few(names) + " in it, whose images are all of that class; " +
              (classes.size() == 1 ? "where these are the classes, or parts of the set, datadir is "
                                     "the folder '" +
                                         name + "'"
                                   : "is the set there once more?"));
  }
}

void warn_of_others(const fs::path& folder, const std::vector<ClassListing>& listings) {
  int64_t files = 0;
  std::string one;
  for (const auto& listing : listings) {
    files += listing.others;
    if (one.empty()) one = listing.an_other;
  }
  warn_of_other_files(folder.string(), files, one);
}

/// Throws the error of listings that make no table.
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
    log::warn("datadir: '" + folder + "' has " + quantity(images, "image") +
              " beside its class folders, which are left out: nothing tells their class");
}

void warn_of_other_files(const std::string& folder, int64_t files, const std::string& one) {
  if (files > 0)
    log::warn("datadir: '" + folder + "' has " + quantity(files, "file") +
              " in its class folders without an image's ending, left out, such as " + one);
}

void check_found(const FoundClasses& found, bool evaluation, OnBadSample on_bad_sample) {
  if (!evaluation) warn_of_nested_classes(found);
  std::vector<std::string> problems;
  for (const auto& name : found.unknown)
    problems.push_back(found.root + name + ": train/ has no class of this name");
  if (!evaluation || found.images.empty())
    for (const auto& name : found.empty)
      problems.push_back(found.root + name +
                         ": a class folder without images (.jpg, .jpeg, .png, .webp, .gif, .bmp, "
                         ".tif, .ppm)");
  else if (!found.empty.empty())
    log::warn("datadir: '" + found.folder + "' has class folders without images, " +
              first_few(found.empty) + ": nothing is evaluated of these classes");
  if (!found.unreadable.empty() && on_bad_sample == OnBadSample::error)
    problems.push_back(unreadable_images(found.unreadable));
  if (!problems.empty()) throw UserError(std::move(problems));
}

std::vector<std::string> folder_classes(const std::string& datadir, const RemoteOptions& remote) {
  if (datadir.empty()) return {};
  if (is_remote(datadir))
    return checked_names(datadir, remote_classes(list_files(RemotePath(datadir), remote)));
  const fs::path folder = datadir;
  for (const char* part : {"train", "val"})
    if (has_folder(folder / part)) return checked_names(datadir, class_folders(folder / part));
  return checked_names(datadir, class_folders(folder));
}

std::shared_ptr<Source> open_class_folders(const FolderParams& params, OnBadSample on_bad_sample,
                                           const std::string& index_dir,
                                           const std::vector<std::string>& class_names) {
  if (is_remote(params.datadir)) {
    const RemotePath path(params.datadir);
    const auto& remote = params.ffcv.remote;
    return open_remote_classes(open_store(path, remote), *CacheFolder::get(remote),
                               list_files(path, remote), params, on_bad_sample, class_names);
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
                                   warn_of_others(folder, listings);
                                   return class_table(present, listings);
                                 }});
  if (!table) throw_error(listings);
  listings.clear();
  auto labels = indices_of(present, names);
  FoundClasses found{.folder = folder.string(), .root = root, .classes = present};
  for (size_t i = 0; i < present.size(); ++i)
    if (labels[i] < 0) found.unknown.push_back(present[i]);
  found.empty = without_images(*table, present);
  for (uint64_t i = 0; i < table->containers(); ++i)
    found.images.push_back(table->container_text(i));
  for (int64_t i = 0; on_bad_sample == OnBadSample::error && i < table->size(); ++i)
    if (file_kind_of(table->name(i)) == FileKind::unreadable_image &&
        labels[static_cast<size_t>(table->label(i))] >= 0)
      found.unreadable.push_back(root + std::string(table->container(i)).append(table->name(i)));
  check_found(found, !params.is_train || !class_names.empty(), on_bad_sample);
  auto source = std::make_shared<FileSource>(table, root, 3);
  source->set_labels(std::move(labels));
  source->index_below(folder.string());
  return source;
}

std::optional<DataFacts> facts_of(const FolderParams& params, const std::string& location,
                                  const std::function<std::shared_ptr<Source>()>& original,
                                  LoaderOptions options) {
  const bool written = params.ffcv.is_read();
  if (is_remote(written ? params.ffcv.path() : location)) return {};
  options.makes_files = false;
  return facts_of(*(written ? params.ffcv.open(3, original, options) : original()), params.rows);
}

Transform folder_transform(const FolderParams& params, bool is_train,
                           const LoaderOptions& options) {
  const bool only_training_keys = !is_train && options.split;
  return {.kind = is_train ? Transform::Kind::random_resized_crop : Transform::Kind::center_crop,
          .resize_size = only_training_keys && params.resize_size < 0 ? params.crop_size * 256 / 224
                                                                      : params.resize_size,
          .size = {params.crop_size, params.crop_size}};
}

}  // namespace composer
