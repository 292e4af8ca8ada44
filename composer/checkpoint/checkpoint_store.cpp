#include "composer/checkpoint/checkpoint_store.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files/atomic_file.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kBest = "best";

/// {batch, epoch}; nothing where it is no checkpoint's name.
std::optional<std::pair<long, long>> place_of(const std::string& name) {
  long epoch = 0, batch = 0;
  int length = 0;
  if (std::sscanf(name.c_str(), "ep%ld-ba%ld%n", &epoch, &batch, &length) != 2 ||
      length != static_cast<int>(name.size()))
    return std::nullopt;
  return std::pair{batch, epoch};
}

}  // namespace

bool newer_checkpoint(const std::string& name, const std::string& other) {
  return place_of(name) > place_of(other);
}

CheckpointStore::CheckpointStore(const std::string& save_remote, const std::string& run_name,
                                 const RemoteOptions& remote, bool outlasts_signal)
    : folder_(save_remote) {
  if (folder_.scheme() != RemotePath::Scheme::s3)
    throw UserError("save_remote: must be s3://bucket/prefix, not " + folder_.text());
  folder_ = folder_ / run_name / "checkpoints" / "";
  store_ = open_store(folder_, remote, outlasts_signal);
}

std::string CheckpointStore::text(const std::string& name) const {
  return (name.empty() ? folder_ : folder_ / name).text();
}

std::vector<std::string> CheckpointStore::names() {
  std::vector<std::string> names;
  for (const auto& object : store_->list(folder_.key())) {
    const std::string below = object.key.substr(folder_.key().size());
    const size_t slash = below.find('/');
    if (slash == below.npos || below.substr(slash + 1) != kManifest) continue;
    if (place_of(below.substr(0, slash))) names.push_back(below.substr(0, slash));
  }
  std::sort(names.begin(), names.end(), newer_checkpoint);
  return names;
}

void CheckpointStore::upload(const fs::path& folder, const std::string& name) {
  const RemotePath to = folder_ / name;
  store_->remove((to / kManifest).key());
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename() != kManifest)
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) store_->write((to / file.filename().string()).key(), file);
  store_->write((to / kManifest).key(), folder / kManifest);
}

void CheckpointStore::download(const std::string& name, const fs::path& folder) {
  const RemotePath from = folder_ / name / "";
  for (const auto& object : store_->list(from.key())) {
    const std::string file = object.key.substr(from.key().size());
    if (file.empty() || file.find('/') != file.npos || file == "." || file == "..") continue;
    AtomicFile out(folder / file);
    composer::download(*store_, object, out);
    out.commit();
  }
}

void CheckpointStore::remove(const std::string& name) {
  const RemotePath folder = folder_ / name / "";
  store_->remove((folder / kManifest).key());
  for (const auto& object : store_->list(folder.key())) store_->remove(object.key);
}

void CheckpointStore::keep_newest(int64_t count) {
  if (count < 0) return;
  const auto whole = names();
  if (whole.empty()) return;
  std::string best;
  if (const auto object = store_->stat((folder_ / kBest).key()); object && object->bytes < 256) {
    std::vector<uint8_t> bytes(object->bytes);
    store_->read(*object, 0, bytes);
    best.assign(bytes.begin(), bytes.end());
  }
  std::set<std::string> kept{best};
  for (size_t i = 0; i < whole.size() && i < static_cast<size_t>(std::max<int64_t>(count, 1)); ++i)
    kept.insert(whole[i]);
  for (std::string key : store_->list_folder(folder_.key())) {
    if (!key.ends_with('/')) continue;
    key.pop_back();
    const std::string name = key.substr(folder_.key().size());
    if (newer_checkpoint(whole.front(), name) && place_of(name) && !kept.contains(name))
      remove(name);
  }
}

void CheckpointStore::mark_best(const std::string& name) {
  store_->write((folder_ / kBest).key(),
                std::span(reinterpret_cast<const uint8_t*>(name.data()), name.size()));
}

}  // namespace composer
