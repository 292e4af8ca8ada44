// What users tell commands about data: paths -> the samples there, and what to do about bad ones.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "composer/loop/loader.h"
#include "data/samples/source.h"

namespace CLI {
class App;
}

namespace composer {

struct MdsParams;
struct OpenedSet;

/// What of shards and lists is meant; auto: the one that can be it.
struct ShardColumns {
  std::string image = "auto";
  std::string label = "auto";
  std::vector<std::string> targets;  ///< as of FfcvParams
  std::string images_dir;            ///< as of ImageListParams
};

void add_shard_columns(CLI::App& app, ShardColumns& columns);

/// --num_workers, of work on every sample. threads: as for thread_count().
void add_threads(CLI::App& app, int& threads);

/// A .beton file, class folders (in train/ or val/ where there is one) or any folder of images,
/// local or remote (by a list of the store's, or a manifest), a folder with CIFAR-10's binary
/// files, or open_shards(). on_bad_sample: error refuses files in class folders whose format is not
/// read, which are bad samples otherwise. A .beton file without classes is taken for its images.
/// class_names: where the names of all class folders are among these, labels are places in them.
/// Throws UserError.
std::shared_ptr<Source> open_source(const std::string& path, bool is_train,
                                    OnBadSample on_bad_sample = OnBadSample::error,
                                    const std::vector<std::string>& class_names = {});

/// A .beton file, with or without classes. Throws UserError.
std::shared_ptr<Source> open_beton(const std::string& path);

/// WebDataset's tar files (one, several by braces, or a folder of them), a folder of MosaicML's
/// shards, or a list of images (.csv, .tsv, .jsonl), with the classes that its files tell; its
/// source is null for another path, which has no columns. Throws UserError.
OpenedSet open_shards(const std::string& path, bool is_train, const ShardColumns& columns = {});

/// Whether the path is of tar files, one or several by braces, rather than of a folder.
bool names_tar_files(const std::string& path);

/// Where the path, which may be remote, is a folder of MosaicML's shards.
std::optional<MdsParams> mds_at(const std::string& path, bool is_train,
                                const ShardColumns& columns = {});

/// All files below the folder in the order of their paths; links to folders are followed. Hidden
/// ones (such as an index of ours) are left out, those of systems (base/files/system_files.h), and
/// what is no file (a pipe). Throws UserError when there are none.
std::vector<std::string> files_below(const std::filesystem::path& folder);

/// The same of a remote folder, or those that a manifest names: addresses, which may hold secrets.
std::vector<std::string> remote_files_below(const std::string& path);

/// What a local path, or an address, calls its file: without an address's query.
std::filesystem::path file_name_of(const std::string& path);

/// Of a local folder, with the hidden images in class folders, which training takes as it takes
/// others.
std::vector<std::string> files_of_training(const std::filesystem::path& folder);

/// The files that a path means which is no .beton file: itself, or those of files_below() or
/// remote_files_below(). Throws UserError when there is none.
std::vector<std::string> image_files(const std::string& path);

/// Gives the bytes of files that may be missing. All of them are local, or of one store.
std::shared_ptr<const Source> open_files(const std::vector<std::string>& files);

/// All files below a folder that have an image's name, in sorted order, with class 0. Throws
/// UserError when there are none.
std::shared_ptr<FileSource> open_folder_files(const std::string& folder);

}  // namespace composer
