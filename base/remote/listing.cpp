#include "base/remote/listing.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/log.h"
#include "base/remote/locks.h"
#include "base/several_threads.h"
#include "base/text.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr auto kFresh = std::chrono::minutes(1);
constexpr uint64_t kRequests = 64;    ///< requests at a time
constexpr double kMostWaiting = 600;  ///< seconds

/// Lists folders concurrently: the requests of one list, for 1,000 objects each, are sequential.
std::vector<ObjectInfo> list_all(ObjectStore& store, const std::string& prefix) {
  constexpr size_t kMostFolders = 16;  // folders that are split into their subfolders
  constexpr size_t kMostLoose = 256;   // objects beside subfolders
  std::vector<std::string> folders{prefix}, loose;
  for (int depth = 0; depth < 2 && folders.size() <= kMostFolders; ++depth) {
    std::vector<std::string> deeper;
    for (const auto& folder : folders)
      for (auto& name : store.list_folder(folder))
        (name.ends_with('/') ? deeper : loose).push_back(std::move(name));
    folders = std::move(deeper);
  }
  if (loose.size() > kMostLoose) return store.list(prefix);
  std::vector<std::vector<ObjectInfo>> parts(folders.size() + loose.size());
  const auto list_part = [&](uint64_t i) {
    if (i < folders.size()) {
      parts[i] = store.list(folders[i]);
    } else if (auto object = store.stat(loose[i - folders.size()])) {
      parts[i].push_back(std::move(*object));
    }
  };
  in_several_threads(parts.size(), list_part, kRequests);
  std::vector<ObjectInfo> all;
  for (auto& part : parts)
    all.insert(all.end(), std::move_iterator(part.begin()), std::move_iterator(part.end()));
  return all;
}

std::vector<ListedFile> files_below(ObjectStore& store, const RemotePath& folder) {
  std::string prefix = folder.key();
  if (!prefix.empty() && !prefix.ends_with('/')) prefix += '/';
  std::vector<ListedFile> files;
  for (auto& object : list_all(store, prefix)) {
    if (!object.key.starts_with(prefix) || object.key.ends_with('/')) continue;
    if (object.key.size() == prefix.size()) continue;
    std::string name = object.key.substr(prefix.size());
    files.push_back({std::move(name), std::move(object)});
  }
  return files;
}

/// Whether a query's signature is for one object only: Amazon's and Google's, CloudFront's without
/// a policy, Azure's for a blob, a snapshot or a version.
bool signs_one_object(const std::map<std::string, std::string>& query) {
  const auto has = [&](const char* name) { return query.contains(name); };
  if (has("x-amz-signature") || has("x-goog-signature")) return true;
  if (has("signature") && (has("awsaccesskeyid") || has("googleaccessid"))) return true;
  if (has("signature") && has("key-pair-id") && !has("policy")) return true;
  const auto resource = query.find("sr");
  return resource != query.end() &&
         (resource->second == "b" || resource->second == "bs" || resource->second == "bv");
}

/// The part of a manifest's query ("?...", or empty) that also applies to its files: not signatures
/// of one object, nor versions.
std::string query_of_files(const std::string& query) {
  std::map<std::string, std::string> values;  // in lower case
  std::string kept;
  for (size_t at = 1; at < query.size();) {
    const size_t end = std::min(query.find('&', at), query.size());
    const std::string parameter = query.substr(at, end - at);
    at = end + 1;
    const size_t mark = std::min(parameter.find('='), parameter.size());
    const std::string name = lower_case(parameter.substr(0, mark));
    values[name] = lower_case(parameter.substr(std::min(mark + 1, parameter.size())));
    if (name != "versionid" && name != "generation") kept += (kept.empty() ? "?" : "&") + parameter;
  }
  return signs_one_object(values) ? "" : kept;
}

RemotePath folder_of(const RemotePath& manifest) {
  const std::string& key = manifest.key();
  const size_t end = manifest.query_offset();
  const std::string folder = key.substr(0, key.rfind('/', end) + 1);
  return manifest.with_key(folder + query_of_files(key.substr(end)));
}

std::vector<ListedFile> files_of_manifest(ObjectStore& store, const RemotePath& path) {
  const auto info = store.stat(path.key());
  if (!info) throw UserError(path.text() + ": there is no such object");
  std::string text(info->bytes, '\0');
  store.read(*info, 0, {reinterpret_cast<uint8_t*>(text.data()), text.size()});
  const RemotePath folder = folder_of(path);
  std::vector<ListedFile> files;
  for (auto& name : names_in_manifest(text, path)) files.push_back({std::move(name), {}});
  std::atomic<size_t> done = 0;
  std::mutex told_lock;
  double told = steady_seconds();
  const auto find_file = [&](uint64_t i) {
    const RemotePath file = folder / files[i].name;
    auto object = store.stat(file.key());
    if (!object)
      throw UserError(file.text() + ": there is no such object; " + path.text() + " names it");
    files[i].object = std::move(*object);
    ++done;
    const std::lock_guard guard(told_lock);
    if (steady_seconds() - told < 15) return;
    told = steady_seconds();
    log::info(path.text() + ": " + std::to_string(done) + " of " + std::to_string(files.size()) +
              " files found");
  };
  in_several_threads(files.size(), find_file, kRequests);
  return files;
}

/// A record of a listing's file. The texts of name, key and ETag follow it.

struct Record {
  uint64_t bytes;
  uint32_t name, key, etag, nothing;  ///< the texts' lengths; 0
};

/// Leaves out the keys of a manifest's files: they have its signature, and follow from the names.
void save(const Listing& listing, const fs::path& path, bool manifest) {
  AtomicFile file(path);
  for (const auto& [name, object] : listing.files) {
    const std::string key = manifest ? "" : object.key;
    const Record record{object.bytes, static_cast<uint32_t>(name.size()),
                        static_cast<uint32_t>(key.size()),
                        static_cast<uint32_t>(object.etag.size()), 0};
    file.write({reinterpret_cast<const uint8_t*>(&record), sizeof record});
    file.write(name), file.write(key), file.write(object.etag);
  }
  file.commit();
}

/// The listing's files; nothing when the file is missing, older than kFresh or damaged.
std::optional<std::vector<ListedFile>> load(const fs::path& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  const auto now = fs::file_time_type::clock::now();
  if (error || time > now || now - time > kFresh) return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  std::vector<ListedFile> files;
  for (size_t at = 0; at < all.size();) {
    Record record;
    if (all.size() - at < sizeof record) return std::nullopt;
    std::memcpy(&record, all.data() + at, sizeof record);
    at += sizeof record;
    const auto text = [&](uint32_t length) {
      const size_t begin = std::min(at, all.size());
      at += length;
      return all.substr(begin, length);
    };
    ListedFile file{.name = text(record.name), .object = {}};
    file.object.key = text(record.key);
    file.object.bytes = record.bytes;
    file.object.etag = text(record.etag);
    if (at > all.size()) return std::nullopt;
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

bool is_manifest(const RemotePath& path) { return path.name().ends_with(".txt"); }

std::vector<std::string> names_in_manifest(const std::string& text, const RemotePath& path) {
  std::vector<std::string> names, problems;
  size_t line = 0;
  for (const auto written : separated(text, '\n')) {
    ++line;
    std::string name(written);
    while (!name.empty() && (name.back() == '\r' || name.back() == ' ')) name.pop_back();
    if (name.empty() || name.front() == '#') continue;
    if (name.front() == '/' || is_remote(name) || ("/" + name + "/").find("/../") != name.npos) {
      problems.push_back(path.text() + ", line " + std::to_string(line) + ": '" + name +
                         "' is no path below the manifest's folder");
      if (problems.size() == 10) break;
      continue;
    }
    names.push_back(std::move(name));
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  return names;
}

Listing list_files(const std::shared_ptr<ObjectStore>& store, const RemotePath& path,
                   const CacheFolder& cache) {
  const bool manifest = is_manifest(path);
  Listing listing{.folder = manifest ? folder_of(path).text() : path.text(), .files = {}};
  if (!listing.folder.ends_with('/')) listing.folder += '/';
  const fs::path kept = cache.path() / (cache_name(path.identity()) + ".listing");
  // One process of the machine asks the store; the others wait.
  const LockFile lock(kept.string() + ".lock", kMostWaiting);
  if (const auto problem = kept.string() + ".lock: " + lock.problem(); lock.error() == EWOULDBLOCK)
    log::warn(problem + "; " + path.text() + " is listed without it");
  else if (lock.error() != 0)
    throw UserError("remote.cache_dir: " + problem);
  if (auto files = load(kept)) {
    listing.files = std::move(*files);
    const RemotePath folder = folder_of(path);
    for (auto& [name, object] : listing.files)
      if (manifest) object.key = (folder / name).key();
    return listing;
  }
  if (!manifest && path.scheme() != RemotePath::Scheme::s3)
    throw UserError(path.text() +
                    ": folders of a web server cannot be listed; name a manifest there: a .txt "
                    "file with one path a line");
  listing.files = manifest ? files_of_manifest(*store, path) : files_below(*store, path);
  std::ranges::sort(listing.files, {}, &ListedFile::name);
  if (listing.files.empty()) throw UserError(path.text() + ": there are no files");
  try {
    save(listing, kept, manifest);
  } catch (const RunError& error) {
    log::warn("the list of files is not kept for other ranks: " + std::string(error.what()));
  }
  return listing;
}

Listing list_named(ObjectStore& store, const std::vector<std::string>& paths) {
  const RemotePath first(paths.at(0));
  Listing listing{.folder = first.with_key("").text(),
                  .files = std::vector<ListedFile>(paths.size())};
  std::mutex lock;
  std::vector<std::string> problems;
  const auto find_path = [&](uint64_t i) {
    const RemotePath path(paths[i]);
    const bool here = path == first.with_key(path.key());
    auto object = here ? store.stat(path.key()) : std::nullopt;
    if (object) {
      listing.files[i] = {path.text().substr(listing.folder.size()), std::move(*object)};
      return;
    }
    const std::lock_guard guard(lock);
    problems.push_back(path.text() + (here ? ": there is no such object"
                                           : ": lies elsewhere than " + first.text()));
  };
  in_several_threads(paths.size(), find_path, kRequests);
  std::ranges::sort(problems);
  if (!problems.empty()) throw UserError(std::move(problems));
  return listing;
}

Listing list_files(const RemotePath& path, const RemoteOptions& options) {
  return list_files(open_store(path, options), path, *CacheFolder::get(options));
}

}  // namespace composer
