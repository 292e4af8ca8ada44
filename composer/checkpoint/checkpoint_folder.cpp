#include "composer/checkpoint/checkpoint_folder.h"

#include <fcntl.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/log.h"
#include "composer/checkpoint/checkpoint_store.h"
#include "composer/checkpoint/dcp.h"
#include "composer/checkpoint/manifest.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

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
