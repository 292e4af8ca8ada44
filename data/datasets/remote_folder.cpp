#include "data/datasets/remote_folder.h"

#include "base/error.h"
#include "base/files/system_files.h"
#include "base/remote/remote_path.h"
#include "data/samples/remote_files.h"

namespace composer {
namespace {

/// Whether the listing has the part: train/ or val/.
bool has_part(const Listing& listing, const std::string& part) {
  const auto first = std::ranges::lower_bound(listing.files, part + "/", {}, &ListedFile::name);
  return first != listing.files.end() && first->name.starts_with(part + "/");
}

/// The folder of the classes: "train/" or "val/" where the listing has the part, else empty.
std::string part_of(const Listing& listing, const FolderParams& params) {
  const std::string wanted = params.is_train ? "train" : "val";
  if (has_part(listing, wanted)) return wanted + "/";
  if (has_part(listing, params.is_train ? "val" : "train"))
    throw missing_part(shown_path(params.datadir), params.is_train, kClassFolders);
  return "";
}

/// The class folder of a file below the part; empty where the file is in no class folder, in a
/// hidden one, or in a system's folder.
std::string_view class_of(const std::string& name, const std::string& part) {
  if (!name.starts_with(part)) return {};
  const auto rest = std::string_view(name).substr(part.size());
  const size_t end = rest.find('/');
  if (end == rest.npos || rest.front() == '.') return {};
  return is_in_system_folder(rest.substr(0, rest.rfind('/'))) ? std::string_view()
                                                              : rest.substr(0, end);
}

/// Whether a file lies in the part itself, is not hidden, and is meant as an image.
bool is_loose_image(const std::string& name, const std::string& part) {
  return name.starts_with(part) && !name.substr(part.size()).starts_with('.') &&
         name.find('/', part.size()) == name.npos && is_meant_as_image(name);
}

/// The indices of each class's files below the part, in order of their names.
std::map<std::string, std::vector<size_t>> by_class(const Listing& listing,
                                                    const std::string& part) {
  std::map<std::string, std::vector<size_t>> classes;
  for (size_t i = 0; i < listing.files.size(); ++i)
    if (const auto name = class_of(listing.files[i].name, part); !name.empty())
      classes[std::string(name)].push_back(i);
  return classes;
}

}  // namespace

std::vector<std::string> remote_classes(const Listing& listing) {
  const std::string part = has_part(listing, "train") ? "train/"
                           : has_part(listing, "val") ? "val/"
                                                      : "";
  std::vector<std::string> names;
  for (const auto& [name, files] : by_class(listing, part)) names.push_back(name);
  return names;
}

std::string remote_part_folder(const Listing& listing, const FolderParams& params) {
  return listing.folder + part_of(listing, params);
}

std::shared_ptr<Source> open_remote_classes(std::shared_ptr<ObjectStore> store, CacheFolder& cache,
                                            const Listing& listing, const FolderParams& params,
                                            OnBadSample on_bad_sample,
                                            const std::vector<std::string>& class_names) {
  const std::string part = part_of(listing, params), folder = listing.folder + part;
  const auto names = class_names.empty() ? remote_classes(listing) : class_names;
  const auto present = by_class(listing, part);
  if (present.empty())
    throw UserError("datadir: '" + folder + "' has no class folders; expected " + kClassFolders);
  std::vector<std::string> folders;
  for (const auto& [name, files] : present) folders.push_back(name);
  check_no_parts(folder, folders, [&](const std::string& name) {
    return std::ranges::any_of(present.at(name), [&](size_t file) {
      return listing.files[file].name.find('/', part.size() + name.size() + 1) != std::string::npos;
    });
  });
  warn_of_loose_images(folder, std::ranges::count_if(listing.files, [&](const ListedFile& file) {
                         return is_loose_image(file.name, part);
                       }));
  FoundClasses found{.folder = folder, .root = folder, .classes = folders};
  std::vector<RemoteFileSource::Chosen> chosen;
  int64_t others = 0;
  std::string an_other;
  const auto labels = indices_of(folders, names);
  for (size_t i = 0; const auto& [name, files] : present) {
    const int32_t label = labels[i++];
    if (label < 0) {
      found.unknown.push_back(name);
      continue;
    }
    const size_t before = chosen.size();
    for (const size_t file : files) {
      const std::string& path = listing.files[file].name;
      if (!is_meant_as_image(path)) {
        const auto own = std::string_view(path).substr(path.rfind('/') + 1);
        if (!own.starts_with('.') && !is_system_file(own) && others++ == 0)
          an_other = path.substr(part.size());
        continue;
      }
      chosen.push_back({file, label});
      found.images.push_back(std::string_view(path).substr(part.size()));
      if (!has_image_name(path)) found.unreadable.push_back(listing.folder + path);
    }
    if (chosen.size() == before) found.empty.push_back(name);
  }
  warn_of_other_files(folder, others, an_other);
  check_found(found, !params.is_train || !class_names.empty(), on_bad_sample);
  return std::make_shared<RemoteFileSource>(std::move(store), cache, listing, chosen, folder, 3);
}

std::shared_ptr<Source> open_remote_images(std::shared_ptr<ObjectStore> store, CacheFolder& cache,
                                           const Listing& listing) {
  std::vector<RemoteFileSource::Chosen> chosen;
  for (size_t i = 0; i < listing.files.size(); ++i)
    if (has_image_name(listing.files[i].name) && !is_in_system_folder(listing.files[i].name))
      chosen.push_back({i, 0});
  if (chosen.empty()) throw UserError(listing.folder + ": has no image files");
  return std::make_shared<RemoteFileSource>(std::move(store), cache, listing, chosen,
                                            listing.folder, 3);
}

}  // namespace composer
