#include "base/remote/fetched.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/files/user_cache_folder.h"
#include "base/log.h"
#include "base/remote/locks.h"
#include "base/remote/object_store.h"
#include "base/remote/remote_path.h"
#include "base/remote/shared_disk.h"
#include "base/remote/signature.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostKept = 8;
constexpr uint64_t kMostManifestBytes = 64 << 20;
constexpr const char* kManifestName = "manifest.json";
/// The files that `composer export` writes.
constexpr const char* kExported[] = {"model.safetensors", "network.json"};

/// The objects to fetch: one, or those of a folder.
struct Wanted {
  RemotePath path;
  bool is_folder = false;
  std::vector<ObjectInfo> objects;

  std::string identity() const {
    std::string text = path.identity();
    for (const auto& object : objects)
      text += "\n" + object.key.substr(0, object.key.find('?')) + " " + object.etag + " " +
              std::to_string(object.bytes);
    return payload_hash({reinterpret_cast<const uint8_t*>(text.data()), text.size()}).substr(0, 32);
  }
};

fs::path cache_folder(const RemoteOptions& options) {
  const fs::path cache = options.cache_dir.empty() ? user_cache_folder() : options.cache_dir;
  if (cache.empty())
    throw UserError("remote.cache_dir: missing: neither XDG_CACHE_HOME nor HOME names a folder");
  return cache / "fetched";
}

/// The files that a checkpoint's manifest names, and the manifest at the end; empty without a
/// manifest.
std::vector<ObjectInfo> checkpoint_files(ObjectStore& store, const RemotePath& folder) {
  const auto manifest = store.stat((folder / kManifestName).key());
  if (!manifest) return {};
  if (manifest->bytes > kMostManifestBytes)
    throw UserError((folder / kManifestName).text() + ": is too large for a manifest");
  std::vector<uint8_t> bytes(manifest->bytes);
  store.read(*manifest, 0, bytes);
  const auto json = nlohmann::json::parse(bytes, nullptr, false);
  const auto files = json.is_object() ? json.find("files") : json.end();
  if (!json.is_object() || files == json.end() || !files->is_object())
    throw UserError((folder / kManifestName).text() + ": is no manifest of a checkpoint");
  std::vector<ObjectInfo> objects;
  for (const auto& [name, facts] : files->items()) {
    if (name.empty() || name.find('/') != name.npos || name == "." || name == "..")
      throw UserError((folder / kManifestName).text() + ": names the file '" + name + "'");
    const auto object = store.stat((folder / name).key());
    if (!object)
      throw UserError((folder / name).text() + ": is missing, though the manifest names it");
    objects.push_back(*object);
  }
  objects.push_back(*manifest);
  return objects;
}

std::vector<ObjectInfo> exported_files(ObjectStore& store, const RemotePath& folder) {
  std::vector<ObjectInfo> objects;
  for (const char* name : kExported)
    if (const auto object = store.stat((folder / name).key())) objects.push_back(*object);
  return objects;
}

/// Some objects below a path of s3://, for a message that it is neither file nor checkpoint.
std::string found_below(ObjectStore& store, const RemotePath& folder) {
  if (folder.scheme() != RemotePath::Scheme::s3) return "";
  const auto names = store.list_folder((folder / "").key());
  if (names.empty()) return "";
  constexpr size_t kShown = 3;
  std::string text = "; below it are";
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += (i == 0 ? " " : ", ") + folder.with_key(names[i]).text();
  return text + (names.size() > kShown ? " and others" : "");
}

Wanted find(ObjectStore& store, const RemotePath& path) {
  if (!path.is_folder())
    if (const auto object = store.stat(path.key())) return {path, false, {*object}};
  auto objects = checkpoint_files(store, path);
  if (objects.empty()) objects = exported_files(store, path);
  if (objects.empty())
    throw UserError(path.text() + ": there is no such object, and no folder of a checkpoint" +
                    found_below(store, path));
  return {path, true, std::move(objects)};
}

void touch(const fs::path& entry) {
  std::error_code ignored;
  fs::last_write_time(entry, fs::file_time_type::clock::now(), ignored);
}

/// Removes the longest unused entries beyond kMostKept.
void remove_old(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> entries;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.is_directory(ignored) && entry.path().extension() != ".partial")
      entries.emplace_back(entry.last_write_time(ignored), entry.path());
  std::sort(entries.rbegin(), entries.rend());
  for (size_t i = kMostKept; i < entries.size(); ++i) fs::remove_all(entries[i].second, ignored);
}

fs::path fetch(const RemotePath& path, const RemoteOptions& options) {
  const auto store = open_store(path, options);
  const Wanted wanted = find(*store, path);
  const fs::path folder = cache_folder(options);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw UserError(folder.string() + ": cannot be made (remote.cache_dir): " + error.message());
  refuse_folder_of_others(folder);
  const fs::path entry = folder / wanted.identity();
  const auto result = [&] {
    touch(entry);
    return wanted.is_folder ? entry : entry / path.name();
  };
  if (fs::exists(entry)) return result();
  const fs::path lock_file = fs::path(entry).concat(".lock");
  const LockFile lock(lock_file, std::numeric_limits<double>::infinity());
  if (lock.error() != 0)
    throw UserError(lock_file.string() +
                    ": cannot be written (remote.cache_dir): " + std::strerror(lock.error()));
  if (fs::exists(entry)) return result();
  uint64_t bytes = 0;
  for (const auto& object : wanted.objects) bytes += object.bytes;
  log::info(path.text() + ": " + std::to_string((bytes + (1 << 20) - 1) >> 20) +
            " MiB are copied to " + entry.string());
  const fs::path partial = fs::path(entry).concat(".partial");
  fs::remove_all(partial);
  if (!fs::create_directory(partial)) throw RunError(partial.string() + ": is in the way");
  for (const auto& object : wanted.objects) {
    AtomicFile file(partial / path.with_key(object.key).name());
    download(*store, object, file);
    file.commit();
  }
  fs::rename(partial, entry);
  touch(entry);
  remove_old(folder);
  return result();
}

/// The folder of a link to a folder beside it, such as checkpoints/latest, so that all files are of
/// one checkpoint even if the link changes while they are read; any other path as it is.
fs::path followed(const std::string& text) {
  fs::path path = text;
  if (!path.has_filename()) path = path.parent_path();  // after a slash
  std::error_code none;
  const auto target = fs::read_symlink(path, none);
  if (none || target.has_parent_path() || !fs::is_directory(path, none)) return text;
  return path.parent_path() / target;
}

}  // namespace

fs::path fetched(const std::string& path, const RemoteOptions& options) {
  if (!is_remote(path)) return followed(path);
  static std::mutex mutex;
  static std::map<std::string, fs::path> known;  // this process uses one version as long as it runs
  const std::lock_guard lock(mutex);
  auto& copy = known[path];
  if (copy.empty() || !fs::exists(copy)) try {
      copy = fetch(RemotePath(path), options);
    } catch (const fs::filesystem_error& error) {
      throw RunError(RemotePath(path).text() + ": cannot be copied: " + error.what());
    }
  return copy;
}

}  // namespace composer
