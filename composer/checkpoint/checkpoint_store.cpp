#include "composer/checkpoint/checkpoint_store.h"

#include <algorithm>
#include <cstdio>
#include <exception>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/remote/leaving.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kBest = "best";
constexpr const char* kEnding = ".upload";

/// A folder of hard links to the checkpoint's files, or of copies if the file system has no hard
/// links; the checkpoint's own folder if neither can be made. number: distinguishes uploads of the
/// same checkpoint.
fs::path linked(const fs::path& checkpoint, int64_t number) {
  const fs::path beside = checkpoint.parent_path() / ("." + checkpoint.filename().string() + "-" +
                                                      std::to_string(number) + kEnding);
  std::error_code error;
  fs::remove_all(beside, error);
  fs::create_directory(beside, error);
  if (error) return checkpoint;
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    const auto other = beside / entry.path().filename();
    fs::create_hard_link(entry.path(), other, error);
    if (error) fs::copy_file(entry.path(), other, error);
    if (!error) continue;
    fs::remove_all(beside, error);
    return checkpoint;
  }
  return beside;
}

void remove_links(const fs::path& files) {
  std::error_code ignored;
  if (files.extension() == kEnding) fs::remove_all(files, ignored);
}

}  // namespace

std::optional<std::pair<long, long>> batch_and_epoch(const std::string& name) {
  long epoch = 0, batch = 0;
  int length = 0;
  if (std::sscanf(name.c_str(), "ep%ld-ba%ld%n", &epoch, &batch, &length) != 2 ||
      length != static_cast<int>(name.size()))
    return std::nullopt;
  return std::pair{batch, epoch};
}

bool newer_checkpoint(const std::string& name, const std::string& other) {
  return batch_and_epoch(name) > batch_and_epoch(other);
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
    if (batch_and_epoch(below.substr(0, slash))) names.push_back(below.substr(0, slash));
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
    if (newer_checkpoint(whole.front(), name) && batch_and_epoch(name) && !kept.contains(name))
      remove(name);
  }
}

void CheckpointStore::mark_best(const std::string& name) {
  store_->write((folder_ / kBest).key(),
                std::span(reinterpret_cast<const uint8_t*>(name.data()), name.size()));
}

CheckpointUploads::CheckpointUploads(CheckpointStore store, fs::path folder, int64_t newest_to_keep)
    : store_(std::move(store)), folder_(std::move(folder)), newest_to_keep_(newest_to_keep) {
  // Removes links that a killed process left.
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored))
    if (entry.path().filename().string().starts_with(".ep")) remove_links(entry.path());
  thread_ = std::jthread([this] { work(); });
}

CheckpointUploads::~CheckpointUploads() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
}

void CheckpointUploads::add(const std::string& name, bool best, bool unless_there) {
  Job job{name, linked(folder_ / name, ++added_), best, unless_there};
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    drop_outdated();
  }
  changed_.notify_all();
}

/// Drops queued uploads of checkpoints that keep_newest() would delete at once.
void CheckpointUploads::drop_outdated() {
  if (newest_to_keep_ < 0) return;
  int64_t newer = 0;
  for (size_t i = jobs_.size(); i-- > 0;) {
    if (jobs_[i].files.empty()) continue;
    if (newer++ < std::max<int64_t>(newest_to_keep_, 1) || jobs_[i].best) continue;
    remove_links(jobs_[i].files);
    lost_.insert(jobs_[i].name);
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void CheckpointUploads::mark_best(const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    const auto waits = [&](const Job& job) { return job.name == name && !job.files.empty(); };
    if (const auto job = std::find_if(jobs_.rbegin(), jobs_.rend(), waits); job != jobs_.rend())
      job->best = true;
    else
      jobs_.push_back({name, {}, true, false});
  }
  changed_.notify_all();
}

void CheckpointUploads::set_lost(const std::string& name, bool lost) {
  const std::lock_guard lock(mutex_);
  if (lost)
    lost_.insert(name);
  else
    lost_.erase(name);
}

std::optional<std::string> CheckpointUploads::problem() {
  const std::lock_guard lock(mutex_);
  return std::exchange(problem_, std::nullopt);
}

void CheckpointUploads::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty() && !busy_; });
}

bool CheckpointUploads::finish(std::chrono::milliseconds within) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, within, [&] { return jobs_.empty() && !busy_; });
}

void CheckpointUploads::give_up() {
  leaving_ = true;
  finish();
}

void CheckpointUploads::work() {
  const LeaveWhen here(leaving_);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !jobs_.empty() || ending_; });
    if (jobs_.empty()) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    const bool marks_lost = job.files.empty() && lost_.contains(job.name);
    busy_ = true;
    lock.unlock();
    std::optional<std::string> problem;
    try {
      if (!marks_lost) run(job);
    } catch (const std::exception& error) {
      problem = "the checkpoint " + job.name + " is not in " + store_.text() + ": " + error.what();
    }
    remove_links(job.files);
    lock.lock();
    busy_ = false;
    if (problem) problem_ = problem_ ? *problem_ + "; " + *problem : *problem;
    changed_.notify_all();
  }
}

void CheckpointUploads::run(const Job& job) {
  const auto is_there = [&] {
    const auto names = store_.names();
    return std::find(names.begin(), names.end(), job.name) != names.end();
  };
  if (!job.files.empty()) {
    set_lost(job.name, true);
    if (!(job.unless_there && is_there())) store_.upload(job.files, job.name);
    set_lost(job.name, false);
  }
  if (job.best) store_.mark_best(job.name);
  store_.keep_newest(newest_to_keep_);
}

}  // namespace composer
