#include "data/index/index_store.h"

#include "base/error.h"
#include "base/log.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

/// Logs that a file has no entry for this version of the data.
void tell_of_another_version(const fs::path& file, const IndexTable& table, const char* what) {
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  if (error || bytes == 0 || !table.empty()) return;
  log::info(file.string() + ": is of another version of the data, or damaged; " + what);
}

}  // namespace

IndexStore::IndexStore(fs::path file, const FileStamp& source, const fs::path& also_read,
                       IndexStoreOptions options)
    : file_(std::move(file)),
      source_(source),
      options_(std::move(options)),
      also_read_(also_read.empty() ? nullptr
                                   : std::make_unique<const IndexTable>(also_read, source)),
      table_(std::make_shared<const IndexTable>(file_, source)) {
  tell_of_another_version(file_, *table_, "it is made anew");
  if (also_read_) tell_of_another_version(also_read, *also_read_, "it is not used");
}

IndexStore::~IndexStore() {
  {
    const std::lock_guard guard(lock_);
    stopping_ = true;
  }
  wanted_changed_.notify_all();
  if (writer_.joinable()) writer_.join();
}

StoredIndex IndexStore::find(uint64_t key, const FileStamp& stamp) const {
  std::shared_ptr<const IndexTable> table;
  {
    const std::lock_guard guard(lock_);
    for (const IndexEntries* entries : {&recorded_, leaving_.get()}) {
      if (entries == nullptr) continue;
      const auto found = entries->find(key);
      if (found != entries->end() && found->second.stamp == stamp) return found->second.index;
    }
    table = table_;
  }
  if (auto index = table->find(key, stamp)) return index;
  return also_read_ ? also_read_->find(key, stamp) : nullptr;
}

void IndexStore::record(uint64_t key, std::span<const uint8_t> index, const FileStamp& stamp) {
  auto copy = std::make_shared<const std::vector<uint8_t>>(index.begin(), index.end());
  const std::lock_guard guard(lock_);
  recorded_bytes_ += index.size();
  recorded_.insert_or_assign(key, IndexEntry{stamp, std::move(copy)});
  if (recorded_bytes_ >= options_.segment_bytes && failure_.empty()) wake();
}

void IndexStore::look_again() {
  std::shared_ptr<const IndexTable> known;
  {
    const std::lock_guard guard(lock_);
    known = table_;
  }
  std::error_code error;
  const auto bytes = fs::file_size(file_, error);
  if (error || bytes == known->end()) return;
  auto table = std::make_shared<const IndexTable>(file_, source_);
  const std::lock_guard guard(lock_);
  if (table_ == known) table_ = std::move(table);
}

void IndexStore::save() {
  const std::lock_guard guard(lock_);
  if (!recorded_.empty()) wake();
}

void IndexStore::flush() {
  std::unique_lock guard(lock_);
  waited_for_ = true;
  if (!recorded_.empty()) wake();
  written_.wait(guard, [&] { return !wanted_ && !leaving_; });
  waited_for_ = false;
  if (!failure_.empty()) throw RunError(failure_);
}

/// Needs the lock.
void IndexStore::wake() {
  wanted_ = true;
  if (!writer_.joinable()) writer_ = std::thread([this] { write_in_background(); });
  wanted_changed_.notify_all();
}

void IndexStore::write_in_background() {
  std::unique_lock guard(lock_);
  while (true) {
    wanted_changed_.wait(guard, [&] { return wanted_ || stopping_; });
    if (!std::exchange(wanted_, false)) return;
    leaving_ = std::make_shared<const IndexEntries>(std::exchange(recorded_, {}));
    recorded_bytes_ = 0;
    const auto entries = leaving_;
    guard.unlock();
    std::shared_ptr<const IndexTable> table;
    const std::string failure = add_to_file(*entries, table);
    guard.lock();
    failure_ = failure;
    if (failure.empty()) {
      table_ = std::move(table);
    } else {
      recorded_.insert(entries->begin(),
                       entries->end());  // indices recorded meanwhile take precedence
      // A caller that waits in flush() gets an exception instead.
      if (!waited_for_) warn_once(options_.what + " stays in memory: " + failure);
    }
    leaving_.reset();
    written_.notify_all();
  }
}

/// table: gets the file's new state. Returns the reason for a failure, since no exception may leave
/// the thread.
std::string IndexStore::add_to_file(const IndexEntries& entries,
                                    std::shared_ptr<const IndexTable>& table) {
  if (file_.empty()) return "neither XDG_CACHE_HOME nor HOME names a folder for it";
  try {
    if (also_read_ && file_.has_parent_path()) {
      std::error_code told_by_the_writing;
      fs::create_directories(file_.parent_path(), told_by_the_writing);
    }
    const auto open = [&] { return std::make_shared<const IndexTable>(file_, source_); };
    if (!entries.empty()) append_indices(file_, source_, entries);
    table = open();
    if (table->wasteful() && compact()) table = open();
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

bool IndexStore::compact() {
  try {
    compact_index(file_, source_);
    return true;
  } catch (const RunError& error) {
    warn_once(options_.what + " takes more room than it needs: " + error.what());
    return false;
  }
}

/// Called on the writing thread.
void IndexStore::warn_once(const std::string& message) {
  if (!std::exchange(warned_, true)) log::warn(message);
}

}  // namespace composer
