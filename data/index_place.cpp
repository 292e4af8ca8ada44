#include "data/index_place.h"

#include <cstdio>
#include <cstdlib>

#include "composer/error.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

/// Empty when the environment names none.
fs::path cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return fs::path(cache) / "composer";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return fs::path(home) / ".cache/composer";
  return {};
}

/// The same for every way to name the same data.
fs::path file_in_cache(const fs::path& source, const std::string& index_dir) {
  const fs::path folder = index_dir.empty() ? cache_folder() : fs::path(index_dir);
  if (folder.empty()) return {};
  std::error_code error;
  fs::path real = fs::canonical(source, error);
  if (error) real = fs::absolute(source);
  char key[24];
  std::snprintf(key, sizeof key, "-%016llx",
                static_cast<unsigned long long>(key_of(real.string())));
  return folder / (real.filename().string() + key + ".index");
}

}  // namespace

fs::path index_file_of(const fs::path& source) {
  if (fs::is_directory(source)) return source / ".composer-index";
  return source.string() + ".index";
}

FileStamp index_stamp_of(const fs::path& source) {
  return fs::is_directory(source) ? FileStamp{} : stamp_of(source);
}

std::unique_ptr<IndexStore> open_index_store(const fs::path& source, const LoaderOptions& options) {
  const std::string& kind = options.crop_index;
  if (kind != "beside" && kind != "cache" && kind != "off") {
    throw UserError("crop_index: must be beside, cache or off, not '" + kind + "'");
  }
  if (!options.index_dir.empty() && kind != "cache") {
    throw UserError("index_dir: needs crop_index: cache, not " + kind);
  }
  if (kind == "off") return nullptr;
  const FileStamp stamp = index_stamp_of(source);
  if (kind == "beside") return std::make_unique<IndexStore>(index_file_of(source), stamp);
  return std::make_unique<IndexStore>(file_in_cache(source, options.index_dir), stamp,
                                      index_file_of(source));
}

}  // namespace composer
