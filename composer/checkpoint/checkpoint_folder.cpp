#include "composer/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/files/atomic_file.h"
#include "base/log.h"
#include "base/params/foreign_json.h"
#include "composer/checkpoint/checkpoint_store.h"
#include "composer/checkpoint/dcp.h"
#include "composer/checkpoint/safetensors.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// Calls `receive` with the file's bytes, block by block.
template <class Receive>
void read_blocks(const fs::path& path, Receive&& receive) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  int error = file < 0 ? errno : 0;
  std::vector<uint8_t> block(1 << 20);
  while (error == 0) {
    const ssize_t bytes = ::read(file, block.data(), block.size());
    if (bytes == 0) break;
    if (bytes > 0)
      receive(std::span<const uint8_t>(block.data(), static_cast<size_t>(bytes)));
    else if (errno != EINTR)
      error = errno;
  }
  if (file >= 0) ::close(file);
  if (error == 0) return;
  if (error == ENOENT || error == ENOTDIR) throw DamagedCheckpoint(path.string() + ": is missing");
  throw UserError(path.string() + ": cannot be read: " + std::strerror(error));
}

Checksum checksum_of(const fs::path& path) {
  Checksum sum;
  read_blocks(path, [&](std::span<const uint8_t> bytes) { sum.add(bytes); });
  return sum;
}

using Lines = std::vector<std::string>;

Lines lines_in(const std::map<std::string, std::string>& metadata, const std::string& key,
               const std::filesystem::path& path) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return {};
  try {
    return ordered_json::parse(found->second).get<Lines>();
  } catch (const nlohmann::json::exception&) {
    throw UserError(path.string() + ": its metadata '" + key + "' is no list of strings");
  }
}

/// The damage of the checkpoint; empty if it is complete. UserError if that is unknown.
std::string damage_of(const fs::path& path) {
  try {
    verify_files(path, read_manifest(path));
    return "";
  } catch (const DamagedCheckpoint& damage) {
    return damage.what();
  }
}

/// The name of a folder while it is written or deleted.
fs::path hidden(const fs::path& path, std::string_view ending) {
  auto name = path.filename();
  name += ending;
  return path.parent_path() / fs::path(".").concat(name.native());
}

constexpr std::string_view set_aside = "damaged-", replaced = ".replaced";

/// The checkpoint folders in `folder` named `prefix` + a checkpoint's name, newest first. Empty if
/// `folder` does not exist; filesystem_error if it cannot be read.
std::vector<fs::path> checkpoint_folders(const fs::path& folder, std::string_view prefix = "") {
  std::vector<std::pair<std::pair<long, long>, fs::path>> found;
  if (!fs::exists(folder)) return {};
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(prefix) || entry.is_symlink()) continue;
    if (const auto place = batch_and_epoch(name.substr(prefix.size())))
      found.emplace_back(*place, entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> paths;
  for (auto& [place, path] : found) paths.push_back(std::move(path));
  return paths;
}

void put_aside(const fs::path& path, const std::string& damage) {
  const auto aside = path.parent_path() / fs::path(set_aside).concat(path.filename().native());
  fs::remove_all(aside);
  fs::rename(path, aside);
  log::warn(damage + "; set aside as " + aside.string());
}

/// Removes the folders of saves and deletions that a kill interrupted.
void remove_leftovers(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(".ep") && (name.ends_with(".tmp") || name.ends_with(".old")))
      fs::remove_all(entry.path());
  }
}

void point(const fs::path& link, const std::string& name) {
  const auto beside = hidden(link, "");
  fs::remove(beside);
  fs::create_directory_symlink(name, beside);
  fs::rename(beside, link);
  flush_folder(link.parent_path());
}

/// Replaces the folder `path` by `beside`: atomically if the file system can.
void replace_folder(const fs::path& beside, const fs::path& path) {
  if (renameat2(AT_FDCWD, beside.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) {
    const auto old = hidden(path, replaced);
    fs::rename(path, old);
    fs::rename(beside, path);
    fs::remove_all(old);
  }
  fs::remove_all(beside);
}

/// Restores a checkpoint after a kill between the two renames of replace_folder().
void bring_back(const fs::path& folder) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(".ep") || !name.ends_with(replaced)) continue;
    const auto path = folder / name.substr(1, name.size() - 1 - replaced.size());
    fs::exists(path) ? static_cast<void>(fs::remove_all(entry.path()))
                     : fs::rename(entry.path(), path);
  }
}

struct Found {
  std::optional<fs::path> newest;                           ///< the newest complete checkpoint
  std::vector<std::pair<fs::path, std::string>> damaged{};  ///< newer checkpoints, and their damage
};

/// Only reads files. UserError as newest_checkpoint().
Found find_checkpoint(const fs::path& folder) {
  constexpr const char* advice = "give another --run_name to start afresh";
  std::vector<std::pair<fs::path, std::string>> damaged;
  for (const auto& path : checkpoint_folders(folder)) {
    try {
      auto damage = damage_of(path);
      if (!damage.empty()) {
        damaged.emplace_back(path, std::move(damage));
        continue;
      }
    } catch (const UserError& problem) {
      throw UserError("autoresume: a checkpoint cannot be used, and was left as it is: " +
                      std::string(problem.what()) + "; mend that, or " + advice);
    }
    return {path, std::move(damaged)};
  }
  for (const auto& path : checkpoint_folders(folder, set_aside))
    damaged.emplace_back(path, path.string() + ": was set aside as damaged");
  if (damaged.empty()) return {};
  std::vector<std::string> problems{"autoresume: no checkpoint in " + folder.string() +
                                    " is whole; bring one back from a copy, or " + advice};
  for (auto& [path, damage] : damaged) problems.push_back(std::move(damage));
  throw UserError(problems);
}

/// Copies a checkpoint of the store to `folder`; false, with a warning, if it is damaged.
bool bring(CheckpointStore& store, const std::string& name, const fs::path& folder) {
  NewCheckpoint copy(folder, name);
  if (!copy.begin(/*replace=*/false)) return true;
  try {
    log::info("autoresume: " + store.text(name) + " is copied to " + folder.string());
    store.download(name, copy.path());
    if (const auto damage = damage_of(copy.path()); !damage.empty()) {
      log::warn("autoresume: " + store.text(name) + " is left out: " + damage);
      copy.abandon();
      return false;
    }
    copy.commit();
  } catch (...) {
    copy.abandon();
    throw;
  }
  return true;
}

}  // namespace

DamagedCheckpoint damaged_manifest(const fs::path& checkpoint) {
  return DamagedCheckpoint((checkpoint / "manifest.json").string() + ": is damaged");
}

ordered_json facts_of(const Checksum& file) {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", file.crc32());
  return {{"bytes", file.bytes()}, {"crc32", text}};
}

std::optional<fs::path> latest_below(const fs::path& folder) {
  for (const char* below : {"latest", "checkpoints/latest"}) {
    std::error_code error;
    if (const auto path = folder / below; fs::exists(path / "manifest.json", error)) return path;
  }
  return std::nullopt;
}

ordered_json read_manifest(const fs::path& checkpoint) {
  const auto path = checkpoint / "manifest.json";
  std::string text;
  try {
    read_blocks(path, [&](auto bytes) { text.append(bytes.begin(), bytes.end()); });
  } catch (const DamagedCheckpoint&) {
    const auto meant = latest_below(checkpoint);
    std::error_code error;
    throw DamagedCheckpoint(checkpoint.string() + ": is no checkpoint" +
                            (meant ? "; did you mean " + meant->string() + "?"
                             : fs::exists(checkpoint, error) ? ": it has no manifest.json"
                                                             : ": there is no such folder"));
  }
  auto manifest = parse_foreign<ordered_json>(text);
  if (!manifest.is_object() || !manifest.contains("format_version"))
    throw damaged_manifest(checkpoint);
  if (manifest["format_version"] != manifest_version)
    throw UserError(path.string() + ": format version " + shown_value(manifest["format_version"]) +
                    "; this program reads " + std::to_string(manifest_version));
  return manifest;
}

void verify_files(const fs::path& checkpoint, const ordered_json& manifest,
                  std::string_view beginning) try {
  if (!manifest.at("files").is_object()) throw damaged_manifest(checkpoint);
  for (const auto& [name, facts] : manifest.at("files").items()) {
    if (!name.starts_with(beginning)) continue;
    const auto found = facts_of(checksum_of(checkpoint / name));
    for (const char* key : {"bytes", "crc32"})
      if (found.at(key) != facts.at(key))
        throw DamagedCheckpoint((checkpoint / name).string() +
                                ": is damaged: its checksum differs from the manifest's");
  }
} catch (const nlohmann::json::exception&) {
  throw damaged_manifest(checkpoint);
}

Provenance provenance_in(const ordered_json& manifest) {
  return {manifest.value("recipe", ""), manifest.value("network", Lines{}),
          manifest.value("class_names", Lines{}), manifest.value("device", ""),
          manifest.value("precision", "")};
}

Provenance read_provenance(const std::filesystem::path& path) try {
  if (is_dcp_folder(path)) return {};
  if (std::filesystem::is_directory(path)) return provenance_in(read_manifest(path));
  if (path.extension() != ".safetensors") return {};
  const auto metadata = read_safetensors_metadata(path);
  const auto recipe = metadata.find("recipe");
  return {recipe == metadata.end() ? "" : recipe->second, lines_in(metadata, "network", path),
          lines_in(metadata, "class_names", path)};
} catch (const nlohmann::json::exception&) {
  throw damaged_manifest(path);
}

std::map<std::string, std::string> to_metadata(const Provenance& provenance) {
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  const auto put = [&](const char* key, const Lines& lines) {
    if (!lines.empty())
      metadata[key] =
          ordered_json(lines).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  };
  if (!provenance.recipe.empty()) metadata["recipe"] = provenance.recipe;
  put("network", provenance.network);
  put("class_names", provenance.class_names);
  return metadata;
}

NewCheckpoint::NewCheckpoint(fs::path folder, const std::string& name)
    : place_(std::move(folder) / name), hidden_(hidden(place_, ".tmp")) {}

bool NewCheckpoint::begin(bool replace) {
  const auto folder = place_.parent_path();
  fs::create_directories(folder);
  bring_back(folder);
  remove_leftovers(folder);
  const bool whole = fs::exists(place_) && damage_of(place_).empty();
  if (whole && !replace) return false;
  if (!whole) fs::remove_all(place_);
  fs::create_directory(hidden_);
  return true;
}

void NewCheckpoint::commit() {
  fs::exists(place_) ? replace_folder(hidden_, place_) : fs::rename(hidden_, place_);
  flush_folder(place_.parent_path());
}

/// Renames the folder first, so that no process can create a file in it.
void NewCheckpoint::abandon() noexcept {
  std::error_code ignored;
  const auto old = hidden(place_, ".old");
  fs::rename(hidden_, old, ignored);
  fs::remove_all(old, ignored);
}

void mark_latest_checkpoint(const fs::path& folder, const std::string& name) {
  point(folder / "latest", name);
}

void tidy_checkpoints(const fs::path& newest) {
  const auto folder = newest.parent_path();
  remove_leftovers(folder);
  std::error_code none;
  if (fs::read_symlink(folder / "latest", none) != newest.filename())
    mark_latest_checkpoint(folder, newest.filename());
}

void mark_best_checkpoint(const fs::path& folder, const std::string& name) try {
  point(folder / "best", name);
} catch (const fs::filesystem_error& failure) {
  throw RunError("the best checkpoint cannot be marked: " + std::string(failure.what()));
}

void keep_newest_checkpoints(const fs::path& folder, int64_t count) {
  if (count < 0) return;
  const auto paths = checkpoint_folders(folder);
  std::error_code none;
  const auto best = fs::read_symlink(folder / "best", none);
  for (size_t i = static_cast<size_t>(std::max<int64_t>(count, 1)); i < paths.size(); ++i) {
    if (paths[i].filename() == best) continue;
    const auto beside = hidden(paths[i], ".old");
    fs::rename(paths[i], beside);
    fs::remove_all(beside);
  }
}

bool is_checkpoint(const fs::path& path) { return fs::is_directory(path) && !is_dcp_folder(path); }

bool has_checkpoint(const fs::path& folder) try {
  return !checkpoint_folders(folder).empty();
} catch (const fs::filesystem_error& failure) {
  throw UserError("autoresume: " + folder.string() + ": " + failure.code().message());
}

std::optional<fs::path> newest_checkpoint(const fs::path& folder) try {
  bring_back(folder);
  auto found = find_checkpoint(folder);
  for (const auto& [other, damage] : found.damaged) put_aside(other, damage);
  return found.newest;
} catch (const fs::filesystem_error& failure) {
  throw UserError("autoresume: " + folder.string() + ": " + failure.code().message());
}

std::optional<fs::path> find_whole_checkpoint(const fs::path& folder) try {
  auto found = find_checkpoint(folder);
  for (const auto& [other, damage] : found.damaged) log::warn(damage + "; an older one is taken");
  return found.newest;
} catch (const fs::filesystem_error& failure) {
  throw UserError("autoresume: " + folder.string() + ": " + failure.code().message());
}

std::optional<fs::path> newest_checkpoint(const fs::path& folder, CheckpointStore& store) {
  std::optional<fs::path> newest;
  std::exception_ptr problem;
  try {
    newest = newest_checkpoint(folder);
  } catch (const UserError&) {
    problem = std::current_exception();
  }
  for (const auto& name : store.names()) {
    if (newest && !newer_checkpoint(name, newest->filename())) break;
    if (bring(store, name, folder)) return newest_checkpoint(folder);
  }
  if (problem) std::rethrow_exception(problem);
  return newest;
}

}  // namespace composer
