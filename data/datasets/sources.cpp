#include "data/datasets/sources.h"

#include "base/error.h"
#include "base/files/system_files.h"
#include "base/remote/listing.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "data/beton/source.h"
#include "data/datasets/cifar10.h"
#include "data/datasets/image_folder.h"
#include "data/datasets/image_list.h"
#include "data/datasets/remote_folder.h"
#include "data/datasets/webdataset.h"
#include "data/samples/list_file.h"
#include "data/samples/remote_files.h"
#include "data/shards/mds.h"
#include "data/shards/shard_files.h"

namespace composer {

namespace {

namespace fs = std::filesystem;

/// Whether the link leads to a folder that contains it.
bool leads_back(const fs::path& link) {
  std::error_code error;
  const auto target = fs::canonical(link, error);
  const auto here = fs::canonical(link.parent_path(), error);
  return error || std::mismatch(target.begin(), target.end(), here.begin(), here.end()).first ==
                      target.end();
}

/// takes_hidden: whether to include a hidden file or folder.
template <class Predicate>
std::vector<std::string> walk(const fs::path& folder, const Predicate& takes_hidden) {
  std::vector<std::string> files;
  std::error_code error, unknown;
  const auto follow = fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator at(folder, follow, error), end; !error && at != end;
       at.increment(error)) {
    const auto type = at->status(unknown).type();
    const auto name = at->path().filename().string();
    const bool hidden = is_system_file(name) || (name.starts_with('.') && !takes_hidden(at, type));
    if (type == fs::file_type::directory) {
      if (hidden || (at->is_symlink(unknown) && leads_back(at->path())))
        at.disable_recursion_pending();
    } else if (!hidden && (type == fs::file_type::regular || type == fs::file_type::not_found)) {
      files.push_back(at->path().string());
    }
  }
  if (error) throw UserError(folder.string() + ": cannot be read: " + error.message());
  if (files.empty()) throw UserError(folder.string() + ": has no files");
  std::sort(files.begin(), files.end());
  return files;
}

fs::path part_at(const fs::path& folder, bool is_train) {
  const fs::path part = folder / (is_train ? "train" : "val");
  std::error_code error;
  return fs::is_directory(part, error) ? part : folder;
}

/// Whether the remote path names a file rather than a folder.
bool is_file(const RemotePath& path) {
  return is_manifest(path) || is_beton(address_of(path)) || has_image_name(path.name());
}

/// Whether an s3:// folder has tar files. Folders of web servers cannot be listed: false.
bool has_remote_tars(const std::string& path, bool is_train, const RemoteOptions& options) {
  const RemotePath remote(path);
  if (remote.scheme() != RemotePath::Scheme::s3 || is_file(remote)) return false;
  const RemotePath folder = RemotePath(remote_part(path, is_train, "", options)) / "";
  const auto names = open_store(folder, options)->list_folder(folder.key());
  return std::ranges::any_of(names, [](const auto& name) {
    return name.ends_with(".tar") && name[name.rfind('/') + 1] != '.';
  });
}

/// UserError when the folder has MosaicML's shards but no index.json.
void refuse_lone_shards(const fs::path& folder) {
  for (const char* ending : {".mds", ".mds.zstd", ".mds.zst", ".mds.gz", ".mds.br"})
    if (const auto files = shards_in(folder, ending); !files.names.empty())
      throw UserError(folder.string() + ": has MDS shards such as " + files.names[0] +
                      " and no index.json, which says what they hold; it is written with them");
}

/// open_shards() without checks of the columns.
OpenedSet shards_at(const std::string& path, bool is_train, const ShardColumns& columns,
                    const RemoteOptions& remote, const std::string& index_dir) {
  const auto open = [&](auto params) {
    params.label = columns.label, params.ffcv.targets = columns.targets;
    params.ffcv.remote = remote;
    return params.open(index_dir);
  };
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  if (!folder && is_list_file(is_remote(path) ? path.substr(0, path.find('?')) : path)) {
    ImageListParams list;
    list.file = path, list.path = columns.image, list.images_dir = columns.images_dir;
    return open(list);
  }
  if (!folder && names_tar_files(path)) {
    WebDatasetParams shards;
    shards.shards = path, shards.image = columns.image;
    return open(shards);
  }
  if (!folder && !is_remote(path)) return {};
  if (const auto mds = mds_at(path, is_train, columns, remote)) return mds->open(index_dir);
  const bool has_tars = folder ? !shards_in(part_at(path, is_train), ".tar").names.empty()
                               : has_remote_tars(path, is_train, remote);
  if (!has_tars) return {};
  WebDatasetParams tar;
  tar.datadir = path, tar.is_train = is_train, tar.image = columns.image;
  return open(tar);
}

}  // namespace

std::vector<std::string> files_below(const fs::path& folder) {
  return walk(folder, [](const auto&, auto) { return false; });
}

std::vector<std::string> remote_files_below(const std::string& path) {
  const RemotePath remote(path);
  std::vector<std::string> files;
  for (const auto& file : list_files(remote).files)
    if (("/" + file.name).find("/.") == std::string::npos && !is_in_system_folder(file.name))
      files.push_back(address_of(remote.with_key(file.object.key)));
  return files;
}

fs::path file_name_of(const std::string& path) {
  return is_remote(path) ? fs::path(RemotePath(path).name()) : fs::path(path).filename();
}

std::vector<std::string> files_of_training(const fs::path& folder) {
  std::error_code unknown;
  const bool parts =
      fs::is_directory(folder / "train", unknown) || fs::is_directory(folder / "val", unknown);
  const int classes = parts ? 1 : 0;  // depth of the class folders
  return walk(folder, [&](const auto& at, fs::file_type type) {
    return at.depth() > classes &&
           (type == fs::file_type::directory || is_meant_as_image(at->path()));
  });
}

std::shared_ptr<FileSource> open_folder_files(const std::string& folder) {
  auto files = files_below(folder);
  std::erase_if(files, [](const auto& file) { return !has_image_name(file); });
  if (files.empty()) throw UserError(folder + ": has no image files");
  const std::string root = (fs::path(folder) / "").string();
  SampleTableWriter writer;
  for (const auto& file : files) writer.add_file(file.substr(root.size()), 0);
  auto source =
      std::make_shared<FileSource>(std::make_shared<const SampleTable>(writer.bytes()), root, 3);
  source->index_below(folder);
  return source;
}

std::vector<std::string> image_files(const std::string& path) {
  if (is_remote(path))
    return has_image_name(RemotePath(path).name()) ? std::vector<std::string>{path}
                                                   : remote_files_below(path);
  if (fs::is_directory(path)) return files_below(path);
  if (!fs::exists(path)) throw UserError(path + ": no such file or folder" + slash_hint(path));
  return {path};
}

std::shared_ptr<const Source> open_files(const std::vector<std::string>& files) {
  if (!files.empty() && is_remote(files[0])) return open_remote_files(files, 3);
  return std::make_shared<FileSource>(table_of_files(files), "", 3);
}

std::shared_ptr<Source> open_folder_files_at(const std::string& path,
                                             const RemoteOptions& options) {
  if (!is_remote(path)) return open_folder_files(path);
  const RemotePath remote(path);
  return open_remote_images(open_store(remote, options), *CacheFolder::get(options),
                            list_files(remote, options));
}

bool names_tar_files(const std::string& path) {
  if (path.find('{') != std::string::npos) return true;
  return (is_remote(path) ? RemotePath(path).name() : path).ends_with(".tar");
}

std::optional<MdsParams> mds_at(const std::string& path, bool is_train, const ShardColumns& columns,
                                const RemoteOptions& remote) {
  if (names_tar_files(path)) return std::nullopt;
  if (is_remote(path)) {
    if (is_file(RemotePath(path))) return std::nullopt;
    const RemotePath index =
        RemotePath(remote_part(path, is_train, "index.json", remote)) / "index.json";
    if (!open_store(index, remote)->stat(index.key()) || !is_mds_index(address_of(index), remote))
      return std::nullopt;
  } else {
    std::error_code error;
    const fs::path folder = part_at(path, is_train), index = folder / "index.json";
    if (!fs::is_regular_file(index, error)) refuse_lone_shards(folder);
    if (!fs::is_regular_file(index, error) || !is_mds_index(index.string())) return std::nullopt;
  }
  MdsParams params;
  params.datadir = path, params.is_train = is_train;
  params.image = columns.image, params.label = columns.label;
  params.ffcv.targets = columns.targets, params.ffcv.remote = remote;
  return params;
}

OpenedSet open_shards(const std::string& path, bool is_train, const ShardColumns& columns,
                      const RemoteOptions& remote, const std::string& index_dir) {
  if (!columns.images_dir.empty() && !is_list_file(path))
    throw UserError("--images_dir: '" + shown_path(path) + "' is no list of images");
  auto set = shards_at(path, is_train, columns, remote, index_dir);
  if (set.source) return set;
  const std::string refused = ": '" + shown_path(path) + "' is neither shards nor a list of images";
  if (!columns.targets.empty()) throw UserError("--targets" + refused);
  if (columns.image != "auto") throw UserError("--image" + refused);
  if (columns.label != "auto") throw UserError("--label" + refused);
  return {};
}

std::shared_ptr<Source> open_beton(const std::string& path, const RemoteOptions& remote) {
  return std::make_shared<BetonSource>(std::make_unique<const BetonFile>(path, remote), 3,
                                       std::vector<std::string>(), BetonSource::Unlabelled::take);
}

bool has_small_images(const Source& source) {
  ReadScratch scratch;
  try {
    return source.size() > 0 && source.open(0, scratch).size == Cifar10Params::kSize;
  } catch (const RunError&) {
    return false;  // the loader reports it
  }
}

OpenedSet open_set(const std::string& path, bool is_train, OnBadSample on_bad_sample,
                   const std::vector<std::string>& class_names, const RemoteOptions& remote,
                   const std::string& index_dir) {
  const auto open_folder = [&]() -> OpenedSet {
    auto folders = folder_classes(path, remote);
    if (folders.empty()) return {open_folder_files_at(path, remote)};
    FolderParams params;
    params.datadir = path;
    params.is_train = is_train;
    params.ffcv.remote = remote;
    const bool known = are_among(folders, class_names);
    auto names = known ? class_names : std::vector<std::string>();
    auto source = open_class_folders(params, on_bad_sample, index_dir, names);
    return opened_set(std::move(source), known ? std::move(names) : std::move(folders));
  };
  if (is_remote(path)) {
    if (is_beton(path)) return {open_beton(path, remote)};
    if (auto shards = open_shards(path, is_train, {}, remote, index_dir); shards.source)
      return shards;
    if (has_image_name(RemotePath(path).name())) return {open_remote_files({path}, 3, remote)};
    return open_folder();
  }
  if (auto shards = open_shards(path, is_train, {}, remote, index_dir); shards.source)
    return shards;
  std::error_code error;
  if (!fs::exists(path, error))
    throw UserError(path + ": there is no such file or folder" + slash_hint(path));
  if (!fs::is_directory(path, error)) return {open_beton(path, remote)};
  for (const char* file : {"data_batch_1.bin", "cifar-10-batches-bin"})
    if (fs::exists(fs::path(path) / file, error))
      return {open_cifar10(path, is_train), 10, cifar10_class_names(path)};
  return open_folder();
}

std::shared_ptr<Source> open_source(const std::string& path, bool is_train,
                                    OnBadSample on_bad_sample,
                                    const std::vector<std::string>& class_names) {
  return open_set(path, is_train, on_bad_sample, class_names).source;
}

}  // namespace composer
