// Opens the samples at a path that a user gives.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/datasets/mds.h"
#include "data/samples/source.h"

namespace composer {

/// The columns of shards and lists; auto: the only column that can be it.
struct ShardColumns {
  std::string image = "auto";
  std::string label = "auto";
  std::vector<std::string> targets;  ///< see FfcvParams
  std::string images_dir;            ///< see ImageListParams
};

/// Opens a .beton file, with or without classes; class folders (in train/ or val/ if present) or
/// any folder of images, local or remote (listed by the store or a manifest); a folder with
/// CIFAR-10's binary files; or what open_shards() opens. on_bad_sample: error refuses files of
/// unknown formats in class folders; otherwise they are bad samples. class_names: if they contain
/// the names of all class folders, labels are indices into them. Throws UserError.
std::shared_ptr<Source> open_source(const std::string& path, bool is_train,
                                    OnBadSample on_bad_sample = OnBadSample::error,
                                    const std::vector<std::string>& class_names = {});

/// As open_source(), with the class names that the path gives: of class folders, lists, shards and
/// CIFAR-10. index_dir: see LoaderOptions; lists of files are kept there.
OpenedSet open_set(const std::string& path, bool is_train,
                   OnBadSample on_bad_sample = OnBadSample::error,
                   const std::vector<std::string>& class_names = {},
                   const RemoteOptions& remote = {}, const std::string& index_dir = {});

/// Whether the first image is of CIFAR-10's size: such sets are padded and cropped.
bool has_small_images(const Source& source);

/// Opens a .beton file, with or without classes. Throws UserError.
std::shared_ptr<Source> open_beton(const std::string& path, const RemoteOptions& remote = {});

/// Opens WebDataset's tar files (one, several by braces, or a folder of them), a folder of
/// MosaicML's shards, or a list of images (.csv, .tsv, .jsonl), with the class names that its files
/// give. The source is null for any other path. Throws UserError.
OpenedSet open_shards(const std::string& path, bool is_train, const ShardColumns& columns = {},
                      const RemoteOptions& remote = {}, const std::string& index_dir = {});

/// Whether the path names tar files, one or several by braces.
bool names_tar_files(const std::string& path);

/// The parameters to open a folder of MosaicML's shards, local or remote; empty for any other path.
std::optional<MdsParams> mds_at(const std::string& path, bool is_train,
                                const ShardColumns& columns = {}, const RemoteOptions& remote = {});

/// All files below the folder, sorted by path; links to folders are followed. Leaves out hidden
/// files, system files (base/files/system_files.h) and what is no regular file. Throws UserError
/// when there are none.
std::vector<std::string> files_below(const std::filesystem::path& folder);

/// The addresses of all files below a remote folder, or of those in a manifest. Addresses may hold
/// secrets.
std::vector<std::string> remote_files_below(const std::string& path);

/// The file name of a local path or an address, without the query of an address.
std::filesystem::path file_name_of(const std::string& path);

/// As files_below(), with the hidden images in class folders, which training reads too.
std::vector<std::string> files_of_training(const std::filesystem::path& folder);

/// The files at a path that is no .beton file: the path itself, or files_below() or
/// remote_files_below(). Throws UserError when there is none.
std::vector<std::string> image_files(const std::string& path);

/// A source of the bytes of files, which may be missing. All files are local or in one store.
std::shared_ptr<const Source> open_files(const std::vector<std::string>& files);

/// All files below a folder with the ending of an image, sorted, with class 0. Throws UserError
/// when there are none.
std::shared_ptr<FileSource> open_folder_files(const std::string& folder);

}  // namespace composer
