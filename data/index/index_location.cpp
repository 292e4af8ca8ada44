#include "data/index/index_location.h"

#include <cstdio>

#include "base/error.h"
#include "base/files/user_cache_folder.h"
#include "base/log.h"
#include "base/remote/remote_path.h"
#include "data/index/coefficient_store.h"

namespace composer {

namespace fs = std::filesystem;

fs::path cache_file_of(const fs::path& source, const std::string& index_dir,
                       const std::string& ending) {
  const fs::path folder = index_dir.empty() ? user_cache_folder() : fs::path(index_dir);
  if (folder.empty()) return {};
  std::error_code error;
  fs::path real = source;
  if (!is_remote(source.string())) {
    real = fs::canonical(source, error);
    if (error) real = fs::absolute(source);
  } else if (real.filename().empty()) {
    real = real.parent_path();  // a folder's name ends in a slash
  }
  char key[24];
  std::snprintf(key, sizeof key, "-%016llx",
                static_cast<unsigned long long>(key_of(real.string())));
  return folder / (real.filename().string() + key + ending);
}

fs::path index_file_of(const fs::path& source) {
  if (fs::is_directory(source)) return source / ".composer-index";
  return source.string() + ".index";
}

FileStamp index_stamp_of(const fs::path& source) {
  return fs::is_directory(source) ? FileStamp{} : stamp_of(source);
}

std::unique_ptr<IndexStore> open_index_store(const fs::path& source, const LoaderOptions& options,
                                             const std::optional<FileStamp>& remote) {
  const std::string& kind = options.crop_index;
  if (kind != "beside" && kind != "cache" && kind != "off")
    throw UserError("crop_index: must be beside, cache or off, not '" + kind + "'");
  if (!options.index_dir.empty() && kind != "cache")
    throw UserError("index_dir: needs crop_index: cache, not " + kind);
  if (kind == "off") return nullptr;
  if (remote && kind == "beside") {
    throw UserError("crop_index: beside needs a local file, and " + source.string() +
                    " is remote; cache keeps the index on this machine");
  }
  const FileStamp stamp = remote ? *remote : index_stamp_of(source);
  if (kind == "beside") return std::make_unique<IndexStore>(index_file_of(source), stamp);
  const fs::path file = cache_file_of(source, options.index_dir, ".index");
  if (!remote) return std::make_unique<IndexStore>(file, stamp, index_file_of(source));
  std::error_code told_by_the_writing;
  fs::create_directories(file.parent_path(), told_by_the_writing);
  return std::make_unique<IndexStore>(file, stamp);
}

std::unique_ptr<CoefficientStore> open_coefficient_store(const fs::path& source,
                                                         const LoaderOptions& options,
                                                         const std::optional<FileStamp>& remote) {
  if (options.coefficient_cache <= 0) return nullptr;
  if (options.crop_index == "off")
    throw UserError("coefficient_cache: needs a crop_index, beside or cache, not off");
  static constexpr char kEnding[] = ".coefficients";
  const bool beside = options.crop_index == "beside";
  const fs::path file = !beside ? cache_file_of(source, options.index_dir, kEnding)
                        : fs::is_directory(source) ? source / ".composer-coefficients"
                                                   : fs::path(source.string() + kEnding);
  if (file.empty()) {
    log::warn(
        "coefficient_cache: has no effect, for neither XDG_CACHE_HOME nor HOME names a folder");
    return nullptr;
  }
  return std::make_unique<CoefficientStore>(file, remote ? *remote : index_stamp_of(source),
                                            static_cast<uint64_t>(options.coefficient_cache * 1e9));
}

}  // namespace composer
