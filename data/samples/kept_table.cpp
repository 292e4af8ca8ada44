#include "data/samples/kept_table.h"

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/files/byte_reader.h"
#include "base/log.h"
#include "base/several_threads.h"
#include "data/files/file_lock.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

using Table = std::shared_ptr<const SampleTable>;

/// Null where there is none, or none that is whole.
Table read_table(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return nullptr;
  try {
    return std::make_shared<const SampleTable>(file);
  } catch (const FormatError& problem) {
    log::info(file.string() + ": " + problem.what() + "; it is made anew");
  } catch (const UserError& problem) {
    log::info(std::string(problem.what()) + "; it is made anew");
  }
  return nullptr;
}

bool has_classes(const SampleTable& table, const TableMaker& maker) {
  return maker.classes.empty() || table.class_names() == maker.classes;
}

/// Whether all that the table watches is as it was.
bool is_unchanged(const SampleTable& table, const std::string& root) {
  constexpr uint64_t at_once = 64;
  std::atomic<bool> same = true;
  in_several_threads((table.watched() + at_once - 1) / at_once, [&](uint64_t batch) {
    const uint64_t end = std::min(table.watched(), (batch + 1) * at_once);
    for (uint64_t i = batch * at_once; i < end && same; ++i) {
      const auto [path, stamp] = table.watched(i);
      if (!is_as_before((path.starts_with('/') ? "" : root) + std::string(path), stamp))
        same = false;
    }
  });
  return same;
}

Table own_table(std::vector<uint8_t> bytes, const TableMaker& maker, const std::string& why) {
  log::warn("each process " + maker.does + " by itself, at every start: " + why);
  return std::make_shared<const SampleTable>(std::move(bytes));
}

/// For nobody else.
Table own_table(const TableMaker& maker, const std::string& why) {
  auto bytes = maker.make();
  return bytes ? own_table(std::move(*bytes), maker, why) : nullptr;
}

}  // namespace

Table kept_table(const fs::path& file, const TableMaker& maker) {
  const auto usable = [&](const Table& table) {
    return table && has_classes(*table, maker) && is_unchanged(*table, maker.root);
  };
  if (file.empty())
    return own_table(maker, "neither XDG_CACHE_HOME nor HOME names a folder for it");
  if (const auto table = read_table(file); usable(table)) return table;

  const auto before = path_stamp_of(file.string());
  std::error_code told_by_the_lock;
  fs::create_directories(file.parent_path(), told_by_the_lock);
  const FileLock lock(file.string() + ".lock", maker.does);
  if (!lock.problem().empty()) return own_table(maker, file.string() + ".lock: " + lock.problem());
  if (!(path_stamp_of(file.string()) == before)) {
    const auto table = read_table(file);
    // What was made while this process waited is as new as what it would make.
    if (lock.waited() ? table && has_classes(*table, maker) : usable(table)) return table;
  }

  auto bytes = maker.make();
  if (!bytes) return nullptr;
  try {
    remove_partial_files(file.parent_path());
    AtomicFile out(file);
    out.write(*bytes);
    out.commit();
  } catch (const RunError& problem) {
    return own_table(std::move(*bytes), maker, problem.what());
  }
  bytes.reset();
  if (auto table = read_table(file)) return table;
  throw RunError(file.string() + ": cannot be read after it was written");
}

}  // namespace composer
